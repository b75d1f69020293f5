"""Class-balanced sampling: videos of rare classes are read several times in an epoch, others may be left out.

The weight of a class with n training videos is n^-power, and the weight of a video is the mean of those of its labels.
PSLA (Gong et al. 2021, arXiv 2102.01243) samples with power 1 and the sum of the weights. Here each video is repeated
in the stream of the epoch instead, before the shuffle buffer: a video with weight w becomes floor(w + u) copies, u
being uniform in 0..1. So the expected number of copies is w, and a video keeps its place in the order of the data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from yt8m.lazy import tf

MOST_COPIES = 16  # of a video in an epoch; more would only be learned by heart
_BLOCK = 64  # number of records whose labels are parsed together
_KEY, _BLOCKS = 1 << 33, 1 << 32  # no other draw of the input has such a key; no epoch has as many blocks


def class_weights(counts: NDArray[np.int64], power: float) -> NDArray[np.float32]:
    """float32 [C]: n^-power of each class, scaled so that the mean over all labels of the training data is 1.

    So an epoch has about as many examples as without weights: in expectation exactly as many, if all videos have the
    same number of labels and none reaches the limit on copies. A class without a video counts as one with one.

    Args:
      counts: int64 [C], the number of training videos of each class; not all 0.
      power: 0 leaves the data as they are; with 1, all classes have about the same number of labels.
    """
    numbers = np.maximum(counts, 1).astype(float)
    weights = numbers**-power
    return (weights * counts.sum() / (counts * weights).sum()).astype(np.float32)


def video_weights(labels: tf.Tensor, weights: NDArray[np.float32]) -> tf.Tensor:
    """float32 [N]: the mean weight of the labels [N, C] of each video; 1 for a video without labels."""
    labels = tf.cast(labels > 0 if labels.dtype != tf.bool else labels, tf.float32)
    number = tf.reduce_sum(labels, axis=1)
    mean = tf.math.divide_no_nan(tf.linalg.matvec(labels, tf.constant(weights)), number)
    return tf.where_v2(number > 0.0, mean, 1.0)


def resampled(
    records: tf.data.Dataset, weigh: Callable[[tf.Tensor], tf.Tensor], seed: int, epoch: tf.Tensor
) -> tf.data.Dataset:
    """The records of an epoch, each as often as its weight says; the draws depend only on seed, epoch and order.

    Args:
      records: pairs of a record and the number of its shard.
      weigh: maps records [N] to their weights, float32 [N].
      seed: the seed of the run.
      epoch: int64 scalar.
    """

    def repeat(block: tf.Tensor, pairs: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        values, numbers = pairs
        weights = tf.minimum(weigh(values), float(MOST_COPIES))
        fits = tf.debugging.Assert(
            tf.equal(tf.size(weights), tf.size(numbers)),
            ["--balance needs a reader that makes one example of each record"],
        )
        with tf.control_dependencies([fits]):
            copies = tf.cast(tf.floor(weights + _uniform(tf.size(numbers), seed, epoch, block)), tf.int32)
        return tf.repeat(values, copies), tf.repeat(numbers, copies)

    return records.batch(_BLOCK).enumerate().map(repeat).unbatch()


def _uniform(count: tf.Tensor, seed: int, epoch: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
    return tf.random.stateless_uniform([count], tf.stack([tf.constant(_KEY + seed, tf.int64), epoch * _BLOCKS + block]))
