"""The label losses: cross-entropy, its variants (some for rare classes), hinge, hinge on pairs of classes, softmax.

In the formulas y is the label (0 or 1) of a class, p its prediction and z its logit.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.losses.base import BaseLoss, ClassLoss, option, register, weighted
from yt8m.numerics.compiled import softplus
from yt8m.records import vocabulary

# Added to a probability before its logarithm is taken, as in the published code. A prediction of 0 for a label then
# costs -log(1e-5) = 11.5 rather than infinity.
EPSILON = 1e-5


@register
@dataclass(frozen=True)
class CrossEntropyLoss(ClassLoss):
    """Binary cross-entropy of each class: -y log p - (1 - y) log(1 - p)."""

    pairwise_terms: ClassVar[bool] = True

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The cross-entropy of each pair, with `EPSILON` added inside the logarithms."""
        hits = labels * tf.math.log(predictions + EPSILON)
        return -hits - (1.0 - labels) * tf.math.log(1.0 - predictions + EPSILON)

    def row_losses(
        self, predictions: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The loss of each row, float32 [B].

        For bool labels one of the two terms of the formula is 0, so its logarithm is not computed. This halves the
        work, and the result is the same bit for bit.
        """
        labels = tf.convert_to_tensor(labels)
        if not self._has_one_term(labels):
            return super().row_losses(predictions, labels, label_weights)
        right = tf.where(labels, predictions, 1.0 - predictions)
        return -_sum_over_classes(tf.math.log(right + EPSILON), label_weights)

    def row_losses_from_logits(
        self, logits: tf.Tensor, labels: tf.Tensor, label_weights: tf.Tensor | None = None
    ) -> tf.Tensor:
        """The loss of each row, float32 [B]; for bool labels only one of -log p and -log(1 - p) is computed."""
        labels = tf.convert_to_tensor(labels)
        if not self._has_one_term(labels):
            return super().row_losses_from_logits(logits, labels, label_weights)
        return _sum_over_classes(softplus(tf.where(labels, -logits, logits)), label_weights)

    def _has_one_term(self, labels: tf.Tensor) -> bool:
        """Whether one of the two terms of the formula is 0 for each pair: for bool labels, except in a subclass."""
        # A subclass may change the labels, as label smoothing does; then both terms are needed.
        return labels.dtype == tf.bool and type(self) is CrossEntropyLoss

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """max(z, 0) - y z + log(1 + exp(-|z|)), which never overflows; value and gradient are exact."""
        is_positive, zeros = logits >= 0.0, tf.zeros_like(logits)
        return tf.where(is_positive, logits, zeros) - labels * logits + softplus(tf.where(is_positive, -logits, logits))

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives of the terms with respect to z: (sigmoid(z) - y) * weight."""
        return weighted(tf.sigmoid(logits) - labels, weights)


def _sum_over_classes(terms: tf.Tensor, label_weights: tf.Tensor | None) -> tf.Tensor:
    """The weighted sum of the terms [B, C] over the classes, [B]; the weights may have any numeric type."""
    weights = None if label_weights is None else tf.cast(label_weights, tf.float32)
    return tf.reduce_sum(weighted(terms, weights), 1)


@register
@dataclass(frozen=True)
class HingeLoss(ClassLoss):
    """max(0, margin - (2y - 1) x) of each class; x is the prediction or the logit."""

    pairwise_terms: ClassVar[bool] = True

    hinge_margin: float = option(1.0, "labels should score at least this, other classes at most minus this", minimum=0)

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The hinge of each pair; the formula is the same for predictions and for logits."""
        return tf.nn.relu(self.hinge_margin - (2.0 * labels - 1.0) * predictions)

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivative with respect to the logit z: -(2y - 1) * weight if (2y - 1) z is below the margin, else 0."""
        signs = 2.0 * labels - 1.0
        return weighted(tf.where(signs * logits < self.hinge_margin, -signs, tf.zeros_like(signs)), weights)


@register
@dataclass(frozen=True)
class SoftmaxLoss(ClassLoss):
    """-t log softmax(x) of each class; t is y / (number of labels of the row), x the prediction or the logit.

    The loss of a row without labels is 0.
    """

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The term of each pair; the formula is the same for predictions and for logits."""
        return -_shares(labels) * tf.nn.log_softmax(predictions)

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives with respect to z: softmax(z) * sum(t) - t, in which t already includes the weights."""
        targets = weighted(_shares(labels), weights)
        return tf.nn.softmax(logits) * tf.reduce_sum(targets, 1, keepdims=True) - targets


def _shares(labels: tf.Tensor) -> tf.Tensor:
    """Each label [B, C], divided by the number of labels of its row; 0 for a row without labels."""
    return labels / tf.maximum(tf.reduce_sum(labels, 1, keepdims=True), EPSILON)


@register
@dataclass(frozen=True)
class PairwiseHingeLoss(BaseLoss):
    """The mean of max(0, margin - p_l + p_o) over all pairs of a label l of the row and a class o that is not a label.

    The weight of a pair is the product of the label weights of l and o. The loss of a row without pairs is 0. Logits
    are converted to probabilities first. Memory: B x (largest number of labels in a row) x C values.
    """

    is_static: ClassVar[bool] = False  # the size of one dimension is the largest number of labels of a row

    pairwise_margin: float = option(
        0.2, "by how much a label's prediction should exceed that of any other class", minimum=0
    )

    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The loss of each row, float32 [B], from predictions in 0..1."""
        is_label = tf.cast(labels > 0.5, tf.float32)
        ones = tf.ones_like(labels)
        full_weights = ones if weights is None else weights * ones
        number = tf.reduce_sum(is_label, 1)
        # The labels of each row as class indexes, [B, largest number of labels]. A row with fewer labels is filled up
        # with other classes, whose pairs get the weight 0 below.
        label_classes = tf.nn.top_k(is_label, tf.maximum(tf.cast(tf.reduce_max(number), tf.int32), 1)).indices

        def gather_labels(values: tf.Tensor) -> tf.Tensor:
            return tf.gather(values, label_classes, batch_dims=1)[:, :, tf.newaxis]

        leads = gather_labels(predictions) - predictions[:, tf.newaxis, :]
        pair_weights = gather_labels(is_label * full_weights) * ((1.0 - is_label) * full_weights)[:, tf.newaxis, :]
        costs = tf.reduce_sum(tf.nn.relu(self.pairwise_margin - leads) * pair_weights, [1, 2])
        others = tf.cast(tf.shape(labels)[1], tf.float32) - number
        return costs / tf.maximum(number * others, 1.0)

    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The loss of each row, float32 [B], computed from sigmoid(logits)."""
        return self.rows(tf.sigmoid(logits), labels, weights)


@register
@dataclass(frozen=True)
class LabelSmoothingLoss(CrossEntropyLoss):
    """Cross-entropy with smoothed labels: the share e of a row's labels is spread evenly over all C classes.

    Each y becomes (1 - e) y + e n / C, if the row has n labels.
    """

    label_smoothing: float = option(
        0.1, "share of a video's labels that is spread evenly over all classes", minimum=0, maximum=1
    )

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The cross-entropy of each pair with its smoothed label."""
        return super().terms(predictions, self._smooth(labels))

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The cross-entropy of each pair with its smoothed label."""
        return super().terms_from_logits(logits, self._smooth(labels))

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives of the terms with respect to z: (sigmoid(z) - smoothed y) * weight."""
        return super().slopes(logits, self._smooth(labels), weights)

    def _smooth(self, labels: tf.Tensor) -> tf.Tensor:
        """The smoothed labels, float32 [B, C]."""
        mean = tf.reduce_mean(labels, 1, keepdims=True)
        return labels * (1.0 - self.label_smoothing) + self.label_smoothing * mean


@register
@dataclass(frozen=True)
class WeightedCrossEntropyLoss(ClassLoss):
    """-w y log p - (1 - y) log(1 - p): a missed label costs w times as much as a wrongly predicted class."""

    pairwise_terms: ClassVar[bool] = True

    positive_weight: float = option(2.0, "cost of missing a label; predicting a wrong one costs 1", minimum=0)

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The term of each pair, with `EPSILON` added inside the logarithms."""
        hits = labels * tf.math.log(predictions + EPSILON)
        return -self.positive_weight * hits - (1.0 - labels) * tf.math.log(1.0 - predictions + EPSILON)

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The same terms from logits, without `EPSILON`: softplus(-z) = -log p cannot overflow."""
        missed, wrong = softplus(-logits), softplus(logits)
        return self.positive_weight * labels * missed + (1.0 - labels) * wrong

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives of the terms with respect to z: ((1 - y) sigmoid(z) - w y sigmoid(-z)) * weight."""
        hits = self.positive_weight * labels * tf.sigmoid(-logits)
        return weighted((1.0 - labels) * tf.sigmoid(logits) - hits, weights)


def power(base: tf.Tensor, exponent: float) -> tf.Tensor:
    """max(base, EPSILON)^exponent: at base 0 and an exponent below 1 the derivative would be infinite or NaN."""
    return tf.pow(tf.maximum(base, EPSILON), exponent)


# A shift of log-odds counts as one of at most this size: exp of a larger one, or its gradient, would overflow.
_LARGEST_SHIFT = 60.0


def shifted(predictions: tf.Tensor, shifts: np.ndarray | float) -> tf.Tensor:
    """sigmoid(z + shift), computed from sigmoid(z) = p: p w / (p w + (1 - p)) with w = exp(shift).

    1 - p is computed first. In p w + 1 - p a small w would be lost, because p w + 1 is rounded; at p = 1 the
    quotient would be 0 / 0.
    """
    raised = predictions * np.exp(np.clip(shifts, -_LARGEST_SHIFT, _LARGEST_SHIFT)).astype(np.float32)
    return raised / (raised + (1.0 - predictions))


@register
@dataclass(frozen=True)
class FocalLoss(ClassLoss):
    """-(1 - q)^gamma log q of each class, with q = p for a label and q = 1 - p otherwise.

    Source: Lin et al., Focal Loss for Dense Object Detection (2017), equation 4, which writes p_t for q.
    """

    pairwise_terms: ClassVar[bool] = True

    focal_gamma: float = option(2.0, "the higher, the less a well-predicted class counts; 0: cross-entropy", minimum=0)

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The term of each pair, with `EPSILON` added inside the logarithms."""
        hits = power(1.0 - predictions, self.focal_gamma) * tf.math.log(predictions + EPSILON)
        passes = power(predictions, self.focal_gamma) * tf.math.log(1.0 - predictions + EPSILON)
        return -labels * hits - (1.0 - labels) * passes

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The same terms from logits, without `EPSILON`; p^gamma is computed as exp(gamma log p)."""
        missed, wrong = softplus(-logits), softplus(logits)  # -log p, -log(1 - p)
        hits = tf.exp(-self.focal_gamma * wrong) * missed
        passes = tf.exp(-self.focal_gamma * missed) * wrong
        return labels * hits + (1.0 - labels) * passes

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives with p = sigmoid(z) and g = gamma, times the weight.

        For a label (1 - p)^g * (g p log p - (1 - p)), otherwise p^g * (p - g (1 - p) log(1 - p)).
        """
        missed, wrong = softplus(-logits), softplus(logits)
        p, q = tf.sigmoid(logits), tf.sigmoid(-logits)
        hits = tf.exp(-self.focal_gamma * wrong) * (self.focal_gamma * p * missed + q)
        passes = tf.exp(-self.focal_gamma * missed) * (self.focal_gamma * q * wrong + p)
        return weighted((1.0 - labels) * passes - labels * hits, weights)


@register
@dataclass(frozen=True)
class AsymmetricLoss(ClassLoss):
    """-(1 - p)^g log p for a label; otherwise -r^h log(1 - r) with r = max(p - m, 0).

    A class that is no label counts the less the lower its prediction is, and not at all below the margin m. Source:
    Ben-Baruch et al., Asymmetric Loss For Multi-Label Classification (2020, arXiv 2009.14119), equations 4 to 7.
    """

    pairwise_terms: ClassVar[bool] = True

    asymmetric_positive_gamma: float = option(0.0, "g: the higher, the less a well-predicted label counts", minimum=0)
    asymmetric_negative_gamma: float = option(
        4.0, "h: the higher, the less a class counts that is no label and has a low prediction", minimum=0
    )
    asymmetric_margin: float = option(
        0.05, "m: a class that is no label counts only if its prediction exceeds this", minimum=0, maximum=1
    )

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The term of each pair, with `EPSILON` added inside the logarithms."""
        hits = power(1.0 - predictions, self.asymmetric_positive_gamma) * tf.math.log(predictions + EPSILON)
        costs = -tf.math.log(1.0 - tf.nn.relu(predictions - self.asymmetric_margin) + EPSILON)
        return -labels * hits + (1.0 - labels) * self._focused(predictions, costs)

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The same terms from logits, without `EPSILON`."""
        hits = tf.exp(-self.asymmetric_positive_gamma * softplus(logits)) * softplus(-logits)
        passes = self._focused(tf.sigmoid(logits), self._log_miss(logits))
        return labels * hits + (1.0 - labels) * passes

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives with p = sigmoid(z), times the weight.

        For a label (1 - p)^g * (g p log p - (1 - p)). Otherwise p (1 - p) (r^h / (1 - r) - h r^(h - 1) log(1 - r)) if p
        is above the margin, else 0.
        """
        gamma, p, q = self.asymmetric_positive_gamma, tf.sigmoid(logits), tf.sigmoid(-logits)
        hits = tf.exp(-gamma * softplus(logits)) * (gamma * p * softplus(-logits) + q)
        exponent, is_above = self.asymmetric_negative_gamma, p > self.asymmetric_margin
        above = tf.maximum(p - self.asymmetric_margin, EPSILON)
        # p (1 - p) / (1 - r). If the margin is 0, this is p; it is not divided, because 1 - p may be rounded to 0.
        share = p * q / (q + self.asymmetric_margin) if self.asymmetric_margin else p
        slope_of_power = exponent * tf.pow(above, exponent - 1.0) * p * q
        passes = tf.pow(above, exponent) * share + slope_of_power * self._log_miss(logits)
        passes = tf.where(is_above, passes, tf.zeros_like(p))
        return weighted((1.0 - labels) * passes - labels * hits, weights)

    def _focused(self, predictions: tf.Tensor, costs: tf.Tensor) -> tf.Tensor:
        """r^h times `costs` [B, C] for predictions above the margin, else 0."""
        powers = power(predictions - self.asymmetric_margin, self.asymmetric_negative_gamma)
        return tf.where(predictions > self.asymmetric_margin, powers * costs, tf.zeros_like(costs))

    def _log_miss(self, logits: tf.Tensor) -> tf.Tensor:
        """-log(1 - r), which does not overflow for large logits."""
        if not self.asymmetric_margin:
            return softplus(logits)
        return -tf.math.log(tf.minimum(tf.sigmoid(-logits) + self.asymmetric_margin, 1.0))


@register
@dataclass(frozen=True)
class LogitAdjustmentLoss(ClassLoss):
    """Cross-entropy of adjusted logits z + t log(f / (1 - f)), f being the frequency of the class.

    Only the loss adjusts the logits; the predictions are sigmoid(z). So z does not need to learn the frequency of its
    class, and rare classes rank higher. Source: Menon et al., Long-Tail Learning via Logit Adjustment (2020,
    arXiv 2007.07314), equation 10, applied to the two outcomes of each class, present and absent.

    f is the share of the class among all labels, because the counts do not tell the number of videos. The share among
    videos would add nearly the same further constant to all logits, which the biases of a model make up for. Without
    counts nothing is adjusted.
    """

    adjustment_strength: float = option(
        1.0, "t: 0 is cross-entropy; the higher, the higher rare classes rise", minimum=0, maximum=4
    )
    class_counts: tuple[int, ...] = option(
        (), "number of training videos of each class; if not given, those of the vocabulary or of the data's manifest"
    )

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The cross-entropy of each pair, from the prediction whose logit is z plus the adjustment of its class."""
        return CrossEntropyLoss().terms(shifted(predictions, self._adjustments(predictions)), labels)

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The cross-entropy of each pair, from its adjusted logit."""
        return CrossEntropyLoss().terms_from_logits(logits + self._adjustments(logits), labels)

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives of the terms with respect to z: (sigmoid(adjusted z) - y) * weight."""
        return CrossEntropyLoss().slopes(logits + self._adjustments(logits), labels, weights)

    def _adjustments(self, scores: tf.Tensor) -> np.ndarray:
        """The adjustment of each class, t log(f / (1 - f)), float32 [C]; all 0 if no counts are given.

        A class without a video counts as if it had one.

        Args:
          scores: [B, C], from whose shape C is taken.
        """
        classes = int(scores.shape[1])
        if not self.class_counts:
            return np.zeros(classes, np.float32)
        if len(self.class_counts) != classes:
            raise UsageError(
                f"{type(self).__name__}: class_counts has {len(self.class_counts)} entries, but there are {classes} "
                "classes; give one number for each class"
            )
        if min(self.class_counts) < 0 or not any(self.class_counts):
            raise UsageError(
                f"{type(self).__name__}: class_counts must be numbers of videos, none below 0 and at least one above 0"
            )
        counts = np.maximum(np.array(self.class_counts, float), 1.0)
        odds = counts / np.maximum(counts.sum() - counts, 1.0)
        return (self.adjustment_strength * np.log(odds)).astype(np.float32)


@dataclass(frozen=True)
class ReweightedLoss(BaseLoss, abc.ABC):
    """Cross-entropy with label weights that `reweighted` computes; no gradient flows through these weights."""

    @abc.abstractmethod
    def reweighted(self, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The new weights, float32 [B, C].

        Args:
          scores: float32 [B, C], predictions or logits; a subclass may use their order, which is the same for both.
          labels: float32 [B, C].
          weights: the given label weights, float32 [B, C] or [B, 1]; None if there are none.
        """

    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The cross-entropy of each row, float32 [B], with the weights of `reweighted`."""
        new_weights = tf.stop_gradient(self.reweighted(predictions, labels, weights))
        return CrossEntropyLoss().rows(predictions, labels, new_weights)

    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The cross-entropy of each row, float32 [B], with the weights of `reweighted`."""
        new_weights = tf.stop_gradient(self.reweighted(logits, labels, weights))
        return CrossEntropyLoss().rows_from_logits(logits, labels, new_weights)

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives of the loss with respect to z: (sigmoid(z) - y) times the weights of `reweighted`."""
        return CrossEntropyLoss().slopes(logits, labels, self.reweighted(logits, labels, weights))


@register
@dataclass(frozen=True)
class BatchAgreementLoss(ReweightedLoss):
    """Cross-entropy with a higher weight for pairs that are ranked wrongly.

    The weight of a label that scores below the batch's best non-label is multiplied by 1 + a, a being
    `agreement_weight`; so is that of a non-label that scores above the batch's lowest label. These are the pairs that a
    ranking over the whole batch, as in GAP, gets wrong. Each tower (one per GPU) ranks its own part of the batch.
    Pairs with label weight 0 are ignored.
    """

    agreement_weight: float = option(
        0.1, "extra weight of a (video, class) pair that is ranked wrongly in its batch", minimum=0
    )

    def reweighted(self, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The given weights, or 1 if there are none; those of wrongly ranked pairs are multiplied by 1 + a."""
        full_weights = tf.ones_like(labels) if weights is None else weights * tf.ones_like(labels)
        is_label, is_other, is_counted = labels > 0.5, labels <= 0.5, full_weights > 0.0
        highest = tf.reduce_max(tf.where(is_other & is_counted, scores, tf.fill(tf.shape(scores), -1e30)))
        lowest = tf.reduce_min(tf.where(is_label & is_counted, scores, tf.fill(tf.shape(scores), 1e30)))
        wrong = (is_label & (scores < highest)) | (is_other & (scores > lowest))
        return full_weights * (1.0 + self.agreement_weight * tf.cast(wrong, tf.float32))


@register
@dataclass(frozen=True)
class SegmentFineTuningLoss(ReweightedLoss):
    """Cross-entropy of the rated classes + a times the mean cross-entropy of the absent classes, with label 0.

    a is `unrated_weight`. The label weights say which classes of a segment were rated; without label weights, all were.
    A class is absent if it is one of `segment_classes`, was not rated for this segment, and is not a label of the
    segment's video. A class that is a label of the video but was not rated for this segment may be right, so it adds no
    loss; `weights_of` marks such classes.
    """

    unrated_weight: float = option(
        0.1, "weight of the mean loss of a segment's absent classes, taken as wrong", minimum=0
    )
    segment_classes: tuple[int, ...] = option(
        (), "classes that segments are rated for; if not given, the published 1000"
    )

    def weights_of(self, label_weights: tf.Tensor | None, video_labels: tf.Tensor | None) -> tf.Tensor | None:
        """Marks the labels of the video that were not rated for the segment: sets their weights to -1.

        Args:
          label_weights: float [B, C], 0 for a class that was not rated for the segment; None if there are none.
          video_labels: bool [B, C], the labels of the video of each segment; None if they are not known.

        Returns:
          The new label weights; `label_weights` itself if one of the two is None.
        """
        if label_weights is None or video_labels is None:
            return label_weights
        return tf.where(video_labels & tf.equal(label_weights, 0.0), -tf.ones_like(label_weights), label_weights)

    def reweighted(self, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The new weights: for a rated class its weight, for an absent one a / (absent classes of the row), else 0."""
        if weights is None:
            return tf.ones_like(labels)
        weights = weights * tf.ones_like(labels)
        classes = self.segment_classes or vocabulary.segment_classes()
        is_segment_class = np.isin(np.arange(int(labels.shape[1])), classes)
        absent = tf.cast(tf.equal(weights, 0.0) & is_segment_class, tf.float32)
        count = tf.maximum(tf.reduce_sum(absent, 1, keepdims=True), 1.0)
        return tf.nn.relu(weights) + self.unrated_weight * absent / count
