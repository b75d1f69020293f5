"""A loss that compares labels with other classes in two directions: within a video, and within a class."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m.lazy import tf
from yt8m.losses.base import BaseLoss, option, register
from yt8m.losses.label_losses import EPSILON

# Stands for log(0), the logarithm of the weight of a pair that does not count; -inf would make gradients NaN.
_LOG_OF_NO_WEIGHT = -1e30


@register
@dataclass(frozen=True)
class TwoWayLoss(BaseLoss):
    """The mean over videos plus the mean over classes of softplus(N + P).

    N = S log sum exp(z / S) is a soft maximum of z over the pairs without a label, z being their logits. P = T log sum
    exp(-z / T) is a soft maximum of -z over the pairs with a label. For a video the sums run over its classes, for a
    class over the videos of the batch. So each label should rank above the other classes of its video, and above the
    other videos of its class. Videos and classes without a label are left out. Source: Kobayashi, Two-way Multi-Label
    Loss (CVPR 2023).

    Label weights multiply the exponentials; a video whose weights are all 0 is left out. Each tower (one per GPU)
    compares the videos of its own part of the batch. The loss only depends on differences of logits, so predictions
    rank classes and videos but are no probabilities. From predictions, logits are computed as log-odds, with `EPSILON`
    added inside the logarithms.
    """

    two_way_positive_temperature: float = option(
        4.0, "T: the lower, the more the label with the lowest score counts", minimum=0.01
    )
    two_way_negative_temperature: float = option(
        1.0, "S: the lower, the more the other class with the highest score counts", minimum=0.01
    )

    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The loss of each row, float32 [B], from the log-odds of predictions."""
        logits = tf.math.log(predictions + EPSILON) - tf.math.log(1.0 - predictions + EPSILON)
        return self.rows_from_logits(logits, labels, weights)

    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        """The loss of each row, float32 [B]; the mean of the rows is the loss of the batch.

        It is the part of its video plus, if one of its weights is above 0, an equal share of the part of the classes.
        """
        weights = tf.ones_like(labels) if weights is None else weights * tf.ones_like(labels)
        is_rated = tf.cast(tf.reduce_any(weights > 0.0, axis=1), tf.float32)
        of_videos, videos = self._compare_pairs(logits, labels, weights, axis=1)
        of_classes, classes = self._compare_pairs(logits, labels, weights, axis=0)
        rows = tf.cast(tf.shape(logits)[0], tf.float32)
        class_mean = tf.reduce_sum(of_classes) / classes
        return rows * (of_videos / videos + is_rated * class_mean / tf.maximum(tf.reduce_sum(is_rated), 1.0))

    def _compare_pairs(
        self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, axis: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Compares the labels with the other pairs, for each video or for each class.

        Args:
          logits, labels, weights: float32 [B, C] each.

        Returns:
          softplus(N + P) of each video [B] or class [C], 0 without labels of positive weight; and the
          number of videos or classes with such labels, but at least 1.
        """
        positive, negative = weights * labels, weights * (1.0 - labels)
        highest = _soft_maximum(logits, negative, self.two_way_negative_temperature, axis)
        lowest = _soft_maximum(-logits, positive, self.two_way_positive_temperature, axis)
        has_label = tf.cast(tf.reduce_any(positive > 0.0, axis=axis), tf.float32)
        return has_label * tf.math.softplus(highest + lowest), tf.maximum(tf.reduce_sum(has_label), 1.0)


def _soft_maximum(values: tf.Tensor, weights: tf.Tensor, temperature: float, axis: int) -> tf.Tensor:
    """temperature * log(sum(weights * exp(values / temperature))) along an axis.

    If no pair on the axis has a weight above 0, the result is about temperature * _LOG_OF_NO_WEIGHT.

    Args:
      values: float32 [B, C].
      weights: float32 [B, C], 0 or more.
    """
    counts = weights > 0.0
    logs = tf.math.log(tf.where_v2(counts, weights, 1.0))
    scaled = tf.where_v2(counts, values / temperature + logs, _LOG_OF_NO_WEIGHT)
    return temperature * tf.reduce_logsumexp(scaled, axis=axis)
