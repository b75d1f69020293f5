"""Input transforms whose numbers come from the training data, as variables: checkpoints and exports have them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from yt8m.lazy import tf
from yt8m.readers.base import zero_padding
from yt8m.records import normal_scores
from yt8m.records.input_statistics import InputStatistics, Moments
from yt8m.records.normal_scores import DrawnRows, NormalScores

STANDARDIZE, NORMAL_SCORES = "standardize", "normal_scores"
Statistics = InputStatistics | NormalScores


def apply(name: str, raw: tf.Tensor, num_frames: tf.Tensor | None, statistics: Statistics | None) -> tf.Tensor:
    """float32 [..., D]: the transformed features; 0 past num_frames. The variables are in the scope `name`.

    Args:
      raw: float32 [..., D].
      statistics: the initial values of the variables; None if they are read from a checkpoint.
    """
    unchanged, function = _TRANSFORMS[name]
    initial = unchanged(int(raw.shape[-1])) if statistics is None else statistics
    with tf.variable_scope(name, auxiliary_name_scope=False):
        variables = [
            tf.get_variable(
                *(field, value.shape, tf.float32, tf.constant_initializer(value)), trainable=False, use_resource=True
            )
            for field, value in zip(initial._fields, initial, strict=True)
        ]
    values = function(raw, *variables)
    return values if num_frames is None else zero_padding(values, num_frames)


def _standardized(raw: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor) -> tf.Tensor:
    """(x - mean) / deviation of each value; 0 for values that are constant."""
    varies = deviation > 0  # the deviation of a constant value is 0
    return (raw - mean) * tf.where_v2(varies, 1 / tf.where_v2(varies, deviation, 1.0), 0.0)


def _normal_scores(raw: tf.Tensor, knots: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """The score of each value, by straight lines between its knots; beyond the last ones, the score is theirs.

    The line between two knots is added over what of it lies below the value. So a pass over the values has ops that
    every format of exports knows, and no tensor is larger than the values.
    """
    # float32 [KNOTS, D]
    knots, scores = (tf.transpose(tf.reshape(variable, [-1, normal_scores.KNOTS])) for variable in (knots, scores))
    slopes = tf.math.divide_no_nan(scores[1:] - scores[:-1], knots[1:] - knots[:-1])
    total = scores[0]
    for lower, upper, slope in zip(*map(tf.unstack, (knots[:-1], knots[1:], slopes)), strict=True):
        total += (tf.minimum(tf.maximum(raw, lower), upper) - lower) * slope
    return total


def new_fit(name: str) -> Moments | DrawnRows:
    """What collects, vector by vector, the numbers that a transform takes from the training data."""
    return Moments() if name == STANDARDIZE else DrawnRows()


def _no_statistics(size: int) -> InputStatistics:
    return InputStatistics(np.zeros(size, np.float32), np.ones(size, np.float32))


def _no_scores(size: int) -> NormalScores:
    zeros = np.zeros(size * normal_scores.KNOTS, np.float32)
    return NormalScores(zeros, zeros)


_TRANSFORMS: dict[str, tuple[Callable[[int], Statistics], Callable[..., tf.Tensor]]] = {
    STANDARDIZE: (_no_statistics, _standardized),
    NORMAL_SCORES: (_no_scores, _normal_scores),
}
NAMES = tuple(_TRANSFORMS)
