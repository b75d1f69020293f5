"""Selects the scores of a batch that metrics need: the best of each video, or those of some pairs or classes.

If the model ends in a logistic layer, the scores of a few classes or pairs are computed without the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from yt8m.errors import RunError
from yt8m.eval_util.top_k import perr_of_rows, take_columns
from yt8m.graph.protocols import Reduction, Report
from yt8m.lazy import tf
from yt8m.types import Batch

DIVERGED = (
    "the model's predictions hold NaN or infinity: its training diverged, and its weights are useless. Take an earlier "
    "checkpoint (--checkpoint), or train with a lower learning rate."
)

# With up to so many pairs per example, the score of each pair is computed by itself, which copies two vectors of the
# input's size. With more pairs, the whole product of the matrices is faster.
_MOST_SINGLE_PAIRS = 8


def refuse_nan(scores: np.ndarray) -> None:
    """Raises `RunError` if a score is NaN or infinite, which no probability is."""
    highest = scores.max(initial=-np.inf)
    if np.isnan(highest) or highest == np.inf:  # the maximum is NaN if any score is NaN
        raise RunError(DIVERGED)


def select_classes(predictions: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Selects the columns `classes` of `predictions`.

    If `predictions` is sigmoid(x W + b), columns of W and b are selected instead of columns of the product: with 1000
    of 3862 classes, this is a quarter of the work of a logistic layer. The whole product is not computed, because
    nothing fetches it. The first step of a session selects the columns, and later steps reuse them, so the weights must
    not change.

    Args:
      predictions: float32 [B, C].
      classes: int [S].

    Returns:
      float32 [B, S].
    """
    layer = _logistic_layer(predictions)
    if layer is None:
        return tf.gather(predictions, classes, axis=1)
    inputs, weights, biases = layer
    # The values of a column are scattered in memory, so selecting columns takes as long as the product. So they are
    # selected only once.
    shape = [weights.shape[0], classes.shape[0]]
    selected_weights = _cached("selected_weights", shape, lambda: tf.gather(weights, classes, axis=1))
    return tf.sigmoid(tf.matmul(inputs, selected_weights) + tf.gather(biases, classes))


def select_pairs(predictions: tf.Tensor, pairs: tf.Tensor) -> tf.Tensor:
    """Selects predictions[b, c] for the `pairs` (b, c).

    If `predictions` is sigmoid(x W + b) and there are few pairs, each is computed as a product of two vectors, and the
    product of the matrices is not computed. As in `select_classes`, the weights must not change.

    Args:
      predictions: float32 [B, C].
      pairs: int64 [P, 2].

    Returns:
      float32 [P].
    """
    layer = _logistic_layer(predictions)
    if layer is None:
        return tf.gather_nd(predictions, pairs)
    inputs, weights, biases = layer
    rows, classes = tf.unstack(pairs, axis=1)
    # In W the weights of a class are scattered in memory; in its transpose they are contiguous.
    weights_by_class = _cached("transposed_weights", weights.shape[::-1], lambda: tf.transpose(weights))
    products = tf.cond(
        tf.size(rows) <= _MOST_SINGLE_PAIRS * tf.shape(inputs)[0],
        lambda: tf.reduce_sum(tf.gather(inputs, rows) * tf.gather(weights_by_class, classes), axis=1),
        lambda: tf.gather_nd(tf.matmul(inputs, weights), pairs),
    )
    return tf.sigmoid(products + tf.gather(biases, classes))


def _cached(name: str, shape: Any, compute: Callable[[], tf.Tensor]) -> tf.Tensor:
    """The result of `compute`, which only the first step of a session runs; later steps read it from a local variable.

    Args:
      shape: shape of the result.
    """
    cached = _local_variable(tf.zeros(shape), name)
    is_cached = _local_variable(tf.constant(False), f"is_{name}_cached")

    def compute_and_cache() -> tf.Tensor:
        value = compute()
        with tf.control_dependencies([cached.assign(value).op, is_cached.assign(True).op]):
            return tf.identity(value)

    return tf.cond(is_cached.read_value(), cached.read_value, compute_and_cache)


def _local_variable(value: tf.Tensor, name: str) -> tf.Variable:
    keys = [tf.GraphKeys.LOCAL_VARIABLES]
    return tf.Variable(value, trainable=False, collections=keys, name=name, use_resource=True)


def _logistic_layer(predictions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor] | None:
    """(x, W, b) if `predictions` is sigmoid(x W + b); else None."""
    sigmoid = _producer(predictions)
    addition = _producer(sigmoid.inputs[0]) if sigmoid.type == "Sigmoid" else None
    if addition is None or addition.type not in ("BiasAdd", "AddV2", "Add") or addition.inputs[1].shape.rank != 1:
        return None
    product = _producer(addition.inputs[0])
    if product.type != "MatMul" or product.get_attr("transpose_b"):
        return None
    # A product of few rows transposes x twice; see yt8m.numerics.precision.
    x = tf.transpose(product.inputs[0]) if product.get_attr("transpose_a") else product.inputs[0]
    return x, product.inputs[1], addition.inputs[1]


def _producer(tensor: tf.Tensor) -> tf.Operation:
    """The op that computes the tensor; Identity ops are skipped."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor.op


class RatedPairScores(NamedTuple):
    """The P (example, class) pairs of a batch with a label weight above 0, ordered by example and class.

    Attributes:
      places: int64 [P, 2], example and class of each pair.
      predictions: float32 [P], the score of each pair.
      labels: float32 [P], the label of each pair.
      weights: float32 [P], the label weight of each pair.
      counts: int64 [B], the number of pairs of each example of the batch.
    """

    places: tf.Tensor
    predictions: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor
    counts: tf.Tensor

    @classmethod
    def of_batch(cls, predictions: tf.Tensor, batch: Batch) -> RatedPairScores:
        """The rated pairs of a batch with label weights; `select_pairs` says when no other score is computed."""
        weights = tf.convert_to_tensor(batch.label_weights)
        is_rated = weights > 0
        places = tf.where(is_rated)
        return cls(
            places,
            select_pairs(predictions, places),
            tf.gather_nd(tf.cast(batch.labels, tf.float32), places),
            tf.gather_nd(weights, places),
            tf.reduce_sum(tf.cast(is_rated, tf.int64), axis=1),
        )

    def loss(self, label_loss: Any) -> tf.Tensor:
        """The mean over the examples of the weighted terms of `label_loss`, for which `losses.is_of_pairs` is True."""
        weighted_terms = label_loss.terms(self.predictions, self.labels) * self.weights
        return tf.reduce_sum(weighted_terms) / tf.cast(tf.size(self.counts), tf.float32)

    def reports(self) -> dict[str, Report]:
        """The fields of `eval_util.segments.Pairs`, each under its name with `pair_` before it, as in `pair_scores`."""
        return {
            "pair_counts": Report(self.counts),
            "pair_classes": Report(self.places[:, 1], Reduction.LIST),
            "pair_scores": Report(self.predictions, Reduction.LIST),
            "pair_hits": Report(self.labels > 0, Reduction.LIST),
        }


def scored_columns(scores: tf.Tensor, labels: tf.Tensor, top_k: int) -> dict[str, Report]:
    """What each step reports for the metrics: ids, best scores and labels, for `EvaluationMetrics.accumulate_top_k`.

    Args:
      scores: float32 [B, C].
      labels: float32 [B, C], 0 or 1.
      top_k: number of best scores that are kept of each example, at most C.
    """
    num_labels = tf.reduce_sum(labels, axis=1)
    # Selection takes most of the time, so the scores to keep and those for PERR are selected together.
    depth = tf.maximum(tf.cast(tf.reduce_max(num_labels), tf.int32), top_k)
    top = tf.nn.top_k(scores, depth)
    hits = tf.gather(labels, top.indices, batch_dims=1)
    return {
        "scores": Report(top.values[:, :top_k]),
        "classes": Report(top.indices[:, :top_k]),
        "hits": Report(hits[:, :top_k]),
        "num_labels": Report(num_labels),
        "label_counts": Report(tf.reduce_sum(labels, axis=0), Reduction.SUM),
        "perr": Report(_equal_recall_precision(top.values, hits, num_labels)),
    }


_EPSILON = 1e-5  # is added before a logarithm, so that the loss is finite, as in the published cross-entropy


def reports_of_videos(batch: Batch, scores: tf.Tensor, positives: tf.Tensor) -> dict[str, Report]:
    """The reports of single videos for the page of an evaluation; see `VideoSample.add`.

    Args:
      scores: float32 [B, C]; -inf for a pair that was not rated.
      positives: bool [B, C].
    """
    probabilities = tf.where_v2(positives, scores, 1 - scores)  # of the right answer
    losses = tf.where_v2(scores > float("-inf"), -tf.math.log(probabilities + _EPSILON), tf.zeros_like(scores))
    return {
        "video_ids": Report(batch.video_ids),
        "labels": Report(positives),
        "label_scores": Report(tf.boolean_mask(scores, positives), Reduction.LIST),
        "losses": Report(tf.reduce_sum(losses, axis=1)),
        "num_frames": Report(batch.num_frames),
    }


def _equal_recall_precision(values: tf.Tensor, hits: tf.Tensor, num_labels: tf.Tensor) -> tf.Tensor:
    """float32 [B]: the precision of as many best predictions as the row has labels (PERR); 0 for a row without labels.

    Scores of 0 or less do not count as predictions.

    Args:
      values: float32 [B, K], the best scores, best first; K is at least the largest number of labels.
      hits: float32 [B, K], 1 if the class is a label.
      num_labels: float32 [B].
    """
    counts_for_perr = tf.sequence_mask(tf.cast(num_labels, tf.int32), tf.shape(hits)[1], tf.float32)
    num_right = tf.reduce_sum(hits * counts_for_perr * tf.cast(values > 0, tf.float32), axis=1)
    return tf.div_no_nan(num_right, num_labels)


def columns_on_host(scores: Any, positives: Any, top_k: int) -> dict[str, Any]:
    """The values of the reports of `scored_columns`, computed by NumPy in a third of the time on a CPU.

    Args:
      scores: float32 [B, C].
      positives: bool [B, C].
      top_k: number of best scores that are kept of each example, at most C.
    """
    columns = take_columns(scores, positives, top_k)
    return {**columns._asdict(), "perr": perr_of_rows(scores, positives, columns)}
