"""The base classes of label losses, losses by name, and losses applied to a batch.

A batch is [B, C], or single (example, class) pairs of it. Static losses of this project are compiled into one pass over
memory. A custom loss is not compiled, since that may fail; nor is one that is not static, since it
would be compiled again for every batch.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

from yt8m import options
from yt8m.lazy import tf
from yt8m.numerics.compiled import fused
from yt8m.options import Catalogue

_losses = Catalogue("loss")

register = _losses.register
get = _losses.get
names = _losses.names
create = _losses.create
hyper_parameters = _losses.hyper_parameters


@dataclass(frozen=True)
class BaseLoss(abc.ABC):
    """A label loss: a value for each row, their mean over the batch.

    Labels are bool or float [B, C], label weights [B, C] or [B, 1]. A row of weight 0 has the loss 0,
    but still counts in the mean. The fields of a loss are its hyper-parameters.

    Attributes:
      is_static: whether no size and no index depends on values, so that one compilation serves all batches
        of a shape.
    """

    is_static: ClassVar[bool] = True

    def __post_init__(self) -> None:
        options.check(self)

    @abc.abstractmethod
    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The losses, float32 [B], from predictions, float labels and float weights."""

    @abc.abstractmethod
    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The losses, float32 [B], from logits."""

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """float32 [B, C], d (sum of rows_from_logits) / d logits; by automatic differentiation unless overridden."""
        return tf.gradients(self.rows_from_logits(logits, labels, weights), logits)[0]

    def row_losses(
        self, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The losses, float32 [B], from predictions [B, C]; labels and weights may have any numeric type."""
        return self.rows(predictions, *_floats(labels, label_weights))

    def row_losses_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The losses, float32 [B], from logits [B, C], where predictions are sigmoid(logits)."""
        return self.rows_from_logits(logits, *_floats(labels, label_weights))

    def calculate_loss(
        self, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The scalar loss of predictions [B, C]: the mean of `row_losses`."""
        return tf.reduce_mean(self.row_losses(predictions, labels, label_weights))

    def calculate_loss_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The scalar loss of logits [B, C]: the mean of `row_losses_from_logits`."""
        return tf.reduce_mean(self.row_losses_from_logits(logits, labels, label_weights))

    def gradient_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """d calculate_loss_from_logits / d logits, [B, C]; if `slopes` has a closed form, the loss is not computed."""
        slopes = self.slopes(logits, *_floats(labels, label_weights))
        return slopes / tf.cast(tf.shape(logits)[0], tf.float32)


@dataclass(frozen=True)
class ClassLoss(BaseLoss, abc.ABC):
    """A loss that is a weighted sum of terms, one for each class.

    Attributes:
      pairwise_terms: whether a term depends on nothing but its own pair. Each subclass must declare it again, because
        its overridden methods may break this.
    """

    pairwise_terms: ClassVar[bool] = False

    @abc.abstractmethod
    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The unweighted terms, float32 [B, C], on a model's predictions."""

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The unweighted terms, float32 [B, C], on logits; by the same formula as on predictions unless overridden."""
        return self.terms(logits, labels)

    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The weighted sum over classes."""
        return tf.reduce_sum(weighted(self.terms(predictions, labels), weights), 1)

    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The weighted sum over classes."""
        return tf.reduce_sum(weighted(self.terms_from_logits(logits, labels), weights), 1)


def weighted(terms: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """terms [B, C] times weights [B, C] or [B, 1]."""
    return terms if weights is None else terms * weights


def _floats(labels: tf.Tensor, weights: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor | None]:
    return tf.cast(labels, tf.float32), None if weights is None else tf.cast(weights, tf.float32)


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


def is_of_pairs(loss: Any) -> bool:
    """Whether `loss` can be computed from only the pairs with a weight: its class itself declares `pairwise_terms`."""
    return bool(vars(type(loss)).get("pairwise_terms", False))


def loss_of_pairs(
    loss: Any, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, rows: tf.Tensor
) -> tf.Tensor:
    """`loss.calculate_loss` on dense predictions whose other pairs have weight 0.

    Args:
      loss: a loss for which `is_of_pairs` is true.
      predictions: float32 [P], the scores of the weighted pairs.
      labels: float32 [P], their labels.
      weights: float32 [P], their weights.
      rows: int scalar, the number of examples of these pairs.
    """
    return tf.reduce_sum(loss.terms(predictions, labels) * weights) / tf.cast(rows, tf.float32)
