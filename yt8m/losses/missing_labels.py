"""Losses for data in which videos lack some of their labels: a video may show a class although it lacks the label.

Source: Zhang et al., Simple and Robust Loss Design for Multi-Label Learning with Missing Labels (2021, arXiv
2112.07368). Both losses subtract a margin m from the logit z of a label, so that labels must score higher. In the
formulas p = sigmoid(z), and P = sigmoid(z - m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from yt8m.lazy import tf
from yt8m.losses.base import ClassLoss, option, register, weighted
from yt8m.losses.label_losses import EPSILON, power, shifted
from yt8m.numerics import random_keys
from yt8m.numerics.compiled import softplus


@register
@dataclass(frozen=True)
class HillLoss(ClassLoss):
    """-(1 - P)^g log P for a label; otherwise (l - p) p^2.

    If the model predicts a class without a label with high confidence, the label is perhaps only missing. So the
    gradient of (l - p) p^2 with respect to the logit, which rises with p at first, falls again for high predictions.
    """

    pairwise_terms: ClassVar[bool] = True

    hill_lambda: float = option(
        1.5, "l: the loss of a class without a label is highest where its prediction is 2 l / 3", minimum=1
    )
    hill_margin: float = option(1.0, "m: what is subtracted from the logit of a label")
    hill_gamma: float = option(2.0, "g: the higher, the less a well-predicted label counts", minimum=0)

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The term of each pair, with `EPSILON` added inside the logarithm."""
        hits = _focal(shifted(predictions, -self.hill_margin), self.hill_gamma)
        return labels * hits + (1.0 - labels) * (self.hill_lambda - predictions) * tf.square(predictions)

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The same terms from logits, without `EPSILON`."""
        p = tf.sigmoid(logits)
        hits = _focal_from_logits(logits - self.hill_margin, self.hill_gamma)
        return labels * hits + (1.0 - labels) * (self.hill_lambda - p) * tf.square(p)

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives of the terms with respect to z, times the weights.

        For a class without a label the derivative is p^2 (1 - p) (2 l - 3 p).
        """
        p, q = tf.sigmoid(logits), tf.sigmoid(-logits)
        hits = _focal_derivative(logits - self.hill_margin, self.hill_gamma)
        passes = tf.square(p) * q * (2.0 * self.hill_lambda - 3.0 * p)
        return weighted(labels * hits + (1.0 - labels) * passes, weights)


@register
@dataclass(frozen=True)
class SPLCLoss(ClassLoss):
    """-(1 - P)^g log P for a label; otherwise -p^g log(1 - p), or -(1 - p)^g log p if p exceeds the threshold t.

    So a class without a label whose prediction exceeds t is treated as a missing label. This is the paper's self-paced
    loss correction (SPLC) with its focal margin loss. Before training step `splc_start_step`, when predictions cannot
    be trusted yet, no class is treated so; the paper starts after the first epoch. In evaluation the step counts as 0.
    """

    pairwise_terms: ClassVar[bool] = True

    splc_threshold: float = option(0.6, "t: a class with a higher prediction counts as a label", minimum=0, maximum=1)
    splc_margin: float = option(1.0, "m: what is subtracted from the logit of a label")
    splc_gamma: float = option(2.0, "g: the higher, the less a well-predicted pair counts", minimum=0)
    splc_start_step: int = option(
        0, "the step from which on labels are added; the paper starts after one epoch", minimum=0
    )

    def terms(self, predictions: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The term of each pair, with `EPSILON` added inside the logarithms."""
        hits = _focal(shifted(predictions, -self.splc_margin), self.splc_gamma)
        as_labels, as_others = _focal(predictions, self.splc_gamma), _focal(1.0 - predictions, self.splc_gamma)
        return labels * hits + (1.0 - labels) * tf.where_v2(self._is_added(predictions), as_labels, as_others)

    def terms_from_logits(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The same terms from logits, without `EPSILON`."""
        hits = _focal_from_logits(logits - self.splc_margin, self.splc_gamma)
        others = _focal_from_logits(self._signs(tf.sigmoid(logits)) * logits, self.splc_gamma)
        return labels * hits + (1.0 - labels) * others

    def slopes(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The derivatives of the terms with respect to z, times the weights.

        They are computed as if z did not decide which classes count as labels.
        """
        hits = _focal_derivative(logits - self.splc_margin, self.splc_gamma)
        signs = self._signs(tf.sigmoid(logits))
        others = signs * _focal_derivative(signs * logits, self.splc_gamma)
        return weighted(labels * hits + (1.0 - labels) * others, weights)

    def _signs(self, predictions: tf.Tensor) -> tf.Tensor:
        """The sign s of each class, [B, C]: 1 if it counts as a label, else -1.

        The loss of a class without a label is that of a label with the logit s z and no margin.
        """
        return tf.where_v2(self._is_added(predictions), 1.0, -1.0)

    def _is_added(self, predictions: tf.Tensor) -> tf.Tensor:
        """bool [B, C]: whether a class without a label counts as a label; of no meaning for a class with a label."""
        has_started = random_keys.current_step() >= self.splc_start_step
        return (predictions > self.splc_threshold) & has_started


def _focal(predictions: tf.Tensor, gamma: float) -> tf.Tensor:
    """-(1 - p)^gamma log p for predictions p, with `EPSILON` added inside the logarithm."""
    return -power(1.0 - predictions, gamma) * tf.math.log(predictions + EPSILON)


def _focal_from_logits(logits: tf.Tensor, gamma: float) -> tf.Tensor:
    """-(1 - p)^gamma log p for p = sigmoid(z)."""
    return tf.exp(-gamma * softplus(logits)) * softplus(-logits)


def _focal_derivative(logits: tf.Tensor, gamma: float) -> tf.Tensor:
    """The derivative of `_focal_from_logits` with respect to z: (1 - p)^gamma (gamma p log p - (1 - p))."""
    p, q = tf.sigmoid(logits), tf.sigmoid(-logits)
    return -tf.exp(-gamma * softplus(logits)) * (gamma * p * softplus(-logits) + q)
