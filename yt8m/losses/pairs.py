"""The loss of single (example, class) pairs, where the others weigh nothing."""

from __future__ import annotations

from typing import Any

from yt8m.lazy import tf
from yt8m.losses.basic import CrossEntropyLoss, HingeLoss
from yt8m.losses.cross_entropy import FocalLoss, WeightedCrossEntropyLoss

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
      predictions, labels, weights: float32 [P], of the weighted pairs.
      rows: int scalar, the examples that they are of.
    """
    return tf.reduce_sum(loss.terms(predictions, labels) * weights) / tf.cast(rows, tf.float32)
