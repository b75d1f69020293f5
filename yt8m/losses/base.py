"""What a label loss is."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from yt8m import options
from yt8m.lazy import tf


@dataclass(frozen=True)
class BaseLoss(abc.ABC):
    """A label loss: a sum over classes, the mean over the rows of a batch.

    Labels are bool or float [B, C]; label weights, [B, C] or [B, 1], multiply the terms and leave the
    number of rows as it is. The fields of a loss are its hyper-parameters.
    """

    def __post_init__(self) -> None:
        options.check(self)

    @abc.abstractmethod
    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """float32 [B, C], the unweighted terms on predictions as a model gives them."""

    @abc.abstractmethod
    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """float32 [B, C], the unweighted terms on logits."""

    @abc.abstractmethod
    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """float32 [B, C], d (weighted sum of a row's terms) / d logits."""

    def calculate_loss(
        self, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The scalar loss of predictions [B, C]."""
        return _mean(self.terms(predictions, tf.cast(labels, tf.float32)), label_weights)

    def calculate_loss_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The scalar loss of logits [B, C], where predictions are sigmoid(logits)."""
        return _mean(self.terms_from_logits(logits, tf.cast(labels, tf.float32)), label_weights)

    def gradient_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """d calculate_loss_from_logits / d logits, [B, C], in closed form: no loss has to be computed."""
        weights = None if label_weights is None else tf.cast(label_weights, tf.float32)
        slopes = self.slopes(logits, tf.cast(labels, tf.float32), weights)
        return slopes / tf.cast(tf.shape(logits)[0], tf.float32)


def weighted(terms: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """terms [B, C] times weights [B, C] or [B, 1]."""
    return terms if weights is None else terms * weights


def _mean(terms: tf.Tensor, label_weights: tf.Tensor | None) -> tf.Tensor:
    weights = None if label_weights is None else tf.cast(label_weights, tf.float32)
    return tf.reduce_mean(tf.reduce_sum(weighted(terms, weights), 1))
