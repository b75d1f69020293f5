"""Variants of cross-entropy: smoothed, focused, weighted."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from yt8m.lazy import tf
from yt8m.losses.base import BaseLoss, ClassLoss, register, weighted
from yt8m.losses.basic import EPSILON, CrossEntropyLoss
from yt8m.numerics.compiled import softplus
from yt8m.options import option
from yt8m.records import vocabulary


@register
@dataclass(frozen=True)
class LabelSmoothingLoss(CrossEntropyLoss):
    """Cross-entropy with y (1 - e) + e |y| / C for y: a share e of a row's labels goes to all classes."""

    label_smoothing: float = option(
        0.1, "e, the share of the labels that is spread", shapes="graph", minimum=0, maximum=1
    )

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The terms of cross-entropy on the smoothed labels."""
        return super().terms(predictions, self._smooth(labels))

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The terms of cross-entropy on the smoothed labels."""
        return super().terms_from_logits(logits, self._smooth(labels))

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """sigmoid(z) - smoothed y."""
        return super().slopes(logits, self._smooth(labels), weights)

    def _smooth(self, labels: tf.Tensor) -> tf.Tensor:
        mean = tf.reduce_mean(labels, 1, keepdims=True)
        return labels * (1.0 - self.label_smoothing) + self.label_smoothing * mean


@register
@dataclass(frozen=True)
class WeightedCrossEntropyLoss(ClassLoss):
    """-w y log p - (1 - y) log(1 - p): a missed label costs w times a false one."""

    pairwise_terms: ClassVar[bool] = True

    positive_weight: float = option(2.0, "w, what a label weighs", shapes="graph", minimum=0)

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """With 1e-5 inside the logarithms."""
        hits = labels * tf.math.log(predictions + EPSILON)
        return -self.positive_weight * hits - (1.0 - labels) * tf.math.log(1.0 - predictions + EPSILON)

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Exact for every logit."""
        missed, wrong = softplus(-logits), softplus(logits)
        return self.positive_weight * labels * missed + (1.0 - labels) * wrong

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """(1 - y) sigmoid(z) - w y sigmoid(-z)."""
        hits = self.positive_weight * labels * tf.sigmoid(-logits)
        return weighted((1.0 - labels) * tf.sigmoid(logits) - hits, weights)


@register
@dataclass(frozen=True)
class FocalLoss(ClassLoss):
    """-(1 - p_t)^gamma log p_t, p_t = p for a label and 1 - p otherwise (Lin et al. 2017, equation 4)."""

    pairwise_terms: ClassVar[bool] = True

    focal_gamma: float = option(
        2.0, "how much less a class counts the better it is predicted", shapes="graph", minimum=0
    )

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """With 1e-5 inside the logarithms."""
        hits = tf.pow(1.0 - predictions, self.focal_gamma) * tf.math.log(predictions + EPSILON)
        passes = tf.pow(predictions, self.focal_gamma) * tf.math.log(1.0 - predictions + EPSILON)
        return -labels * hits - (1.0 - labels) * passes

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Exact for every logit; p^gamma is computed as exp(gamma log p)."""
        missed, wrong = softplus(-logits), softplus(logits)  # -log p, -log(1 - p)
        hits = tf.exp(-self.focal_gamma * wrong) * missed
        passes = tf.exp(-self.focal_gamma * missed) * wrong
        return labels * hits + (1.0 - labels) * passes

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """(1 - p)^g (g p log p - (1 - p)) for a label, p^g (p - g (1 - p) log(1 - p)) otherwise."""
        missed, wrong = softplus(-logits), softplus(logits)
        p, q = tf.sigmoid(logits), tf.sigmoid(-logits)
        hits = tf.exp(-self.focal_gamma * wrong) * (self.focal_gamma * p * missed + q)
        passes = tf.exp(-self.focal_gamma * missed) * (self.focal_gamma * q * wrong + p)
        return weighted((1.0 - labels) * passes - labels * hits, weights)


@dataclass(frozen=True)
class ReweightedLoss(BaseLoss, abc.ABC):
    """Cross-entropy with weights that the loss computes and holds constant."""

    @abc.abstractmethod
    def reweighted(self, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """float32 [B, C]; `scores` rank the pairs, predictions or logits."""

    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The reweighted sum over classes."""
        made = tf.stop_gradient(self.reweighted(predictions, labels, weights))
        return CrossEntropyLoss().rows(predictions, labels, made)

    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The reweighted sum over classes."""
        made = tf.stop_gradient(self.reweighted(logits, labels, weights))
        return CrossEntropyLoss().rows_from_logits(logits, labels, made)

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """sigmoid(z) - y, reweighted."""
        return CrossEntropyLoss().slopes(logits, labels, self.reweighted(logits, labels, weights))


@register
@dataclass(frozen=True)
class BatchAgreementLoss(ReweightedLoss):
    """Cross-entropy that weighs pairs on the wrong side more.

    A label scored below the batch's highest non-label weighs 1 + a, and so does a non-label scored above
    the batch's lowest label: those are the pairs that a ranking over the whole batch (GAP) gets wrong.
    The batch is that of a tower, without the pairs of label weight 0.
    """

    agreement_weight: float = option(0.1, "a, what a pair on the wrong side weighs more", shapes="graph", minimum=0)

    def reweighted(self, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The weights, times 1 + a for pairs on the wrong side."""
        counted = tf.ones_like(labels) if weights is None else weights * tf.ones_like(labels)
        label, other = labels > 0.5, labels <= 0.5
        highest = tf.reduce_max(tf.where(other & (counted > 0.0), scores, tf.fill(tf.shape(scores), -1e30)))
        lowest = tf.reduce_min(tf.where(label & (counted > 0.0), scores, tf.fill(tf.shape(scores), 1e30)))
        wrong = (label & (scores < highest)) | (other & (scores > lowest))
        return counted * (1.0 + self.agreement_weight * tf.cast(wrong, tf.float32))


@register
@dataclass(frozen=True)
class SegmentFineTuningLoss(ReweightedLoss):
    """Cross-entropy on the rated classes + alpha times the mean cross-entropy of absent classes with label 0.

    The label weights say which classes of a segment were rated; without them all are. A class is
    absent if segments are rated for it, but it is no label of the segment's video. A label of the video that
    nobody rated for this segment may be right, so it costs nothing; `weights_of` marks these labels.
    """

    unrated_weight: float = option(0.1, "alpha, what the absent classes together weigh", shapes="graph", minimum=0)
    segment_classes: tuple[int, ...] = option(
        (), "classes that segments are rated for; none: the published 1000, those that there are", shapes="graph"
    )

    def weights_of(self, label_weights: tf.Tensor | None, video_labels: tf.Tensor | None) -> tf.Tensor | None:
        """The label weights [B, C], set to -1 at unrated labels of the video (`video_labels`, bool [B, C])."""
        if label_weights is None or video_labels is None:
            return label_weights
        return tf.where(video_labels & tf.equal(label_weights, 0.0), -tf.ones_like(label_weights), label_weights)

    def reweighted(self, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """Rated: the weight. Absent: alpha / (number of absent classes). Unknown: 0."""
        if weights is None:
            return tf.ones_like(labels)
        weights = weights * tf.ones_like(labels)
        classes = self.segment_classes or vocabulary.segment_classes()
        ratable = np.isin(np.arange(int(labels.shape[1])), classes)
        absent = tf.cast(tf.equal(weights, 0.0) & ratable, tf.float32)
        count = tf.maximum(tf.reduce_sum(absent, 1, keepdims=True), 1.0)
        return tf.nn.relu(weights) + self.unrated_weight * absent / count
