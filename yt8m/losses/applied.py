"""The loss of a whole batch, [B, C], and its gradient; those of this project in one pass over memory.

What a loss of one's own does is not known, nor whether it can be compiled: it is called as it is. So is one
that is not static: it would be compiled anew for every batch.

The loss of single (example, class) pairs, where the others weigh nothing.
"""

from __future__ import annotations

from typing import Any

from yt8m.lazy import tf
from yt8m.losses.basic import CrossEntropyLoss, HingeLoss
from yt8m.losses.cross_entropy import FocalLoss, WeightedCrossEntropyLoss
from yt8m.numerics.compiled import fused


def loss_of_predictions(
    loss: Any, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
) -> tf.Tensor:
    """`loss.calculate_loss`."""
    return _mean(loss, "row_losses", "calculate_loss", predictions, labels, label_weights)


def loss_of_logits(
    loss: Any, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
) -> tf.Tensor:
    """`loss.calculate_loss_from_logits`."""
    return _mean(loss, "row_losses_from_logits", "calculate_loss_from_logits", logits, labels, label_weights)


def gradient_of_logits(
    loss: Any, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
) -> tf.Tensor:
    """`loss.gradient_from_logits`."""
    if not _is_compiled(loss):
        return loss.gradient_from_logits(logits, labels, label_weights=label_weights)
    return fused(loss.gradient_from_logits, logits, labels, label_weights)


def _mean(loss: Any, of_rows: str, of_batch: str, scores: Any, labels: Any, weights: Any) -> tf.Tensor:
    if not _is_compiled(loss):
        return getattr(loss, of_batch)(scores, labels, label_weights=weights)
    # The mean stays outside: compiled, it becomes one sum over all pairs, in float32 good for four digits.
    return tf.reduce_mean(fused(getattr(loss, of_rows), scores, labels, weights))


def _is_compiled(loss: Any) -> bool:
    is_ours = type(loss).__module__.rpartition(".")[0] == __package__
    return is_ours and loss.is_static


# Each of their terms is of its own pair alone; of a subclass that need not be so.
_APART = (CrossEntropyLoss, WeightedCrossEntropyLoss, FocalLoss, HingeLoss)


def is_of_pairs(loss: Any) -> bool:
    """Whether `loss` can be taken of the weighted pairs alone."""
    return type(loss) in _APART


def loss_of_pairs(
    loss: Any, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, rows: tf.Tensor
) -> tf.Tensor:
    """What `loss.calculate_loss` gives for dense predictions whose other pairs have weight 0.

    Args:
      loss: one that `is_of_pairs`.
      predictions: float32 [P], the scores of the weighted pairs.
      labels: float32 [P], their labels.
      weights: float32 [P], their weights.
      rows: int scalar, how many examples they come from.
    """
    return tf.reduce_sum(loss.terms(predictions, labels) * weights) / tf.cast(rows, tf.float32)
