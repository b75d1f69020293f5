"""Cross-entropy, hinge, softmax, and the hinge on pairs of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from yt8m.lazy import tf
from yt8m.losses.base import BaseLoss, ClassLoss, register, weighted
from yt8m.numerics.compiled import softplus
from yt8m.options import option

# Inside the logarithms of the probability form, as published: its loss for a fully confident error is 11.5.
EPSILON = 1e-5


@register
@dataclass(frozen=True)
class CrossEntropyLoss(ClassLoss):
    """-y log p - (1 - y) log(1 - p), each class a decision of its own."""

    pairwise_terms: ClassVar[bool] = True

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """With 1e-5 inside the logarithms."""
        hits = labels * tf.math.log(predictions + EPSILON)
        return -hits - (1.0 - labels) * tf.math.log(1.0 - predictions + EPSILON)

    def row_losses(
        self, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """float32 [B].

        For bool labels one of the two terms is 0, and its logarithm is not computed. This halves the work and gives
        the same result bit for bit.
        """
        labels = tf.convert_to_tensor(labels)
        if not self._has_one_term(labels):
            return super().row_losses(predictions, labels, label_weights)
        right = tf.where(labels, predictions, 1.0 - predictions)
        return -_summed(tf.math.log(right + EPSILON), label_weights)

    def row_losses_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """float32 [B]; for bool labels only -log p or -log(1 - p) is computed."""
        labels = tf.convert_to_tensor(labels)
        if not self._has_one_term(labels):
            return super().row_losses_from_logits(logits, labels, label_weights)
        return _summed(softplus(tf.where(labels, -logits, logits)), label_weights)

    def _has_one_term(self, labels: tf.Tensor) -> bool:
        return labels.dtype == tf.bool and type(self) is CrossEntropyLoss

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """max(z, 0) - y z + log(1 + exp(-|z|)): exact for every logit, in value and in gradient."""
        is_up, none = logits >= 0.0, tf.zeros_like(logits)
        return tf.where(is_up, logits, none) - labels * logits + softplus(tf.where(is_up, -logits, logits))

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """sigmoid(z) - y."""
        return weighted(tf.sigmoid(logits) - labels, weights)


def _summed(terms: tf.Tensor, label_weights: tf.Tensor | None) -> tf.Tensor:
    weights = None if label_weights is None else tf.cast(label_weights, tf.float32)
    return tf.reduce_sum(weighted(terms, weights), 1)


@register
@dataclass(frozen=True)
class HingeLoss(ClassLoss):
    """max(0, margin - (2y - 1) x), on predictions or on logits."""

    pairwise_terms: ClassVar[bool] = True

    hinge_margin: float = option(1.0, "by how much a score has to be on its side of 0", shapes="graph", minimum=0)

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Predictions and logits have the same formula."""
        return tf.nn.relu(self.hinge_margin - (2.0 * labels - 1.0) * predictions)

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """-(2y - 1) within the margin, else 0."""
        signs = 2.0 * labels - 1.0
        return weighted(tf.where(signs * logits < self.hinge_margin, -signs, tf.zeros_like(signs)), weights)


@register
@dataclass(frozen=True)
class SoftmaxLoss(ClassLoss):
    """-t log softmax(x), t the labels divided by their number; a row without labels costs nothing."""

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Predictions and logits have the same formula."""
        return -_shares(labels) * tf.nn.log_softmax(predictions)

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """softmax(z) sum(t) - t, with the weights inside t."""
        targets = weighted(_shares(labels), weights)
        return tf.nn.softmax(logits) * tf.reduce_sum(targets, 1, keepdims=True) - targets


def _shares(labels: tf.Tensor) -> tf.Tensor:
    return labels / tf.maximum(tf.reduce_sum(labels, 1, keepdims=True), EPSILON)


@register
@dataclass(frozen=True)
class PairwiseHingeLoss(BaseLoss):
    """The mean of max(0, margin - p_l + p_o) over the pairs of a label l and another class o of a row.

    The weight of a pair is the product of its two label weights. A row without pairs costs nothing. Takes memory
    for B x (most labels of a row) x C values. Probabilities are compared, from logits too.
    """

    is_static: ClassVar[bool] = False  # one dimension is the largest number of labels of a row

    pairwise_margin: float = option(0.2, "by how much a label should lead", shapes="graph", minimum=0)

    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """float32 [B] of predictions in 0..1."""
        is_label = tf.cast(labels > 0.5, tf.float32)
        ones = tf.ones_like(labels)
        counted = ones if weights is None else weights * ones
        number = tf.reduce_sum(is_label, 1)
        chosen = tf.nn.top_k(is_label, tf.maximum(tf.cast(tf.reduce_max(number), tf.int32), 1)).indices

        def of_labels(values: tf.Tensor) -> tf.Tensor:
            return tf.gather(values, chosen, batch_dims=1)[:, :, tf.newaxis]

        leads = of_labels(predictions) - predictions[:, tf.newaxis, :]
        pair_weights = of_labels(is_label * counted) * ((1.0 - is_label) * counted)[:, tf.newaxis, :]
        costs = tf.reduce_sum(tf.nn.relu(self.pairwise_margin - leads) * pair_weights, [1, 2])
        others = tf.cast(tf.shape(labels)[1], tf.float32) - number
        return costs / tf.maximum(number * others, 1.0)

    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """float32 [B], computed from sigmoid(logits)."""
        return self.rows(tf.sigmoid(logits), labels, weights)
