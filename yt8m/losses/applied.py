"""A loss on a whole batch, [B, C], its gradient, and the loss on single (example, class) pairs.

Static losses of this project are compiled into one pass over memory. A loss of the user's own, or one that is not
static, is called as it is: the first may not compile, the second would compile anew for every batch.
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
    # The mean is not compiled: it would become one float32 sum over all pairs, exact to four digits only.
    return tf.reduce_mean(fused(getattr(loss, of_rows), scores, labels, weights))


def _is_compiled(loss: Any) -> bool:
    is_ours = type(loss).__module__.rpartition(".")[0] == __package__
    return is_ours and loss.is_static


# In these losses a term depends only on its own pair. A subclass may break this.
_PAIRWISE_TERMS = (CrossEntropyLoss, WeightedCrossEntropyLoss, FocalLoss, HingeLoss)


def is_of_pairs(loss: Any) -> bool:
    """Whether `loss` can be computed from only the pairs with a weight."""
    return type(loss) in _PAIRWISE_TERMS


def loss_of_pairs(
    loss: Any, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, rows: tf.Tensor
) -> tf.Tensor:
    """`loss.calculate_loss` on dense predictions whose other pairs have weight 0.

    Args:
      loss: one that `is_of_pairs`.
      predictions: float32 [P], the scores of the weighted pairs.
      labels: float32 [P], their labels.
      weights: float32 [P], their weights.
      rows: int scalar, the number of examples they come from.
    """
    return tf.reduce_sum(loss.terms(predictions, labels) * weights) / tf.cast(rows, tf.float32)
