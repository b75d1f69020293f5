"""What metrics need of dense scores: the best columns with their labels, and what no column shows."""

from __future__ import annotations

from typing import Any

from yt8m.eval_util.columns import take_columns
from yt8m.eval_util.perr import perr_of_rows
from yt8m.graph.ops import Reduction, Report
from yt8m.lazy import tf


def scored_columns(scores: tf.Tensor, labels: tf.Tensor, top_k: int) -> dict[str, Report]:
    """The reports that `EvaluationMetrics.accumulate_top_k` takes.

    Args:
      scores: float32 [B, C].
      labels: float32 [B, C], 0 or 1.
      top_k: columns kept, at most C.
    """
    num_labels = tf.reduce_sum(labels, axis=1)
    # Selecting is the dearest part: columns to keep and columns for PERR are taken in one go.
    deepest = tf.maximum(tf.cast(tf.reduce_max(num_labels), tf.int32), top_k)
    top = tf.nn.top_k(scores, deepest)
    hits = tf.gather(labels, top.indices, batch_dims=1)
    return {
        "scores": Report(top.values[:, :top_k]),
        "classes": Report(top.indices[:, :top_k]),
        "hits": Report(hits[:, :top_k]),
        "num_labels": Report(num_labels),
        "label_counts": Report(tf.reduce_sum(labels, axis=0), Reduction.SUM),
        "perr": Report(_equal_recall_precision(top.values, hits, num_labels)),
    }


def _equal_recall_precision(values: tf.Tensor, hits: tf.Tensor, num_labels: tf.Tensor) -> tf.Tensor:
    """float32 [B]: precision among as many predictions as the row has labels; 0 where it has none.

    Exact for any number of labels; scores of 0 or less are no predictions.
    """
    within = tf.sequence_mask(tf.cast(num_labels, tf.int32), tf.shape(hits)[1], tf.float32)
    found = tf.reduce_sum(hits * within * tf.cast(values > 0, tf.float32), axis=1)
    return tf.div_no_nan(found, num_labels)


def columns_on_host(scores: Any, positives: Any, top_k: int) -> dict[str, Any]:
    """The values of `scored_columns`' reports by NumPy, on a CPU a third of the work.

    Args:
      scores: float32 [B, C].
      positives: bool [B, C].
      top_k: columns kept, at most C.
    """
    taken = take_columns(scores, positives, top_k)
    return {**taken._asdict(), "perr": perr_of_rows(scores, positives, taken)}
