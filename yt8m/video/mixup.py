"""Mixup: each video of a batch is mixed with another one, its features, its labels and its label weights.

Source: Zhang et al., mixup: Beyond Empirical Risk Minimization (2018, arXiv 1710.09412). As in PSLA (Gong et al. 2021,
arXiv 2102.01243) the features of whole recordings are mixed, frame by frame. The first video always has the larger
share, so that a mixture keeps its id, and that of labels seen in the log is mostly right.
"""

from __future__ import annotations

from typing import NamedTuple

from yt8m.lazy import tf
from yt8m.numerics import random_keys
from yt8m.readers import join_features
from yt8m.types import Batch


class Mixture(NamedTuple):
    """How the rows of a batch are mixed.

    Attributes:
      shares: float32 [B], 0.5 to 1: the share of the row itself; its partner has the rest.
      partners: int32 [B], the number of the other row; a permutation.
    """

    shares: tf.Tensor
    partners: tf.Tensor

    def mix(self, rows: tf.Tensor) -> tf.Tensor:
        """The mean of each row of `rows` [B, ...] and its partner, weighted by their shares; float32."""
        rows = tf.cast(rows, tf.float32)
        shares = tf.reshape(self.shares, [-1] + [1] * (rows.shape.rank - 1))
        return shares * rows + (1.0 - shares) * tf.gather(rows, self.partners)

    def mix_batch(self, batch: Batch) -> Batch:
        """`batch` with mixed features (dequantised and joined), labels and label weights.

        Frames are mixed with the frames of the same number; where one video has ended, its frames count as 0. The
        mixture has as many frames as the longer video. If pairs are weighted, the mixed label is the mean weighted by
        shares times weights, so that a class that is rated in one of the videos only has the label that it has there.
        """
        labels, weights, video_labels = tf.cast(batch.labels, tf.float32), batch.label_weights, batch.video_labels
        if weights is None:
            labels = self.mix(labels)
        else:
            rated, weights = self.mix(labels * weights), self.mix(weights)
            labels = tf.math.divide_no_nan(rated, weights)
        if video_labels is not None:
            video_labels |= tf.gather(video_labels, self.partners)
        return batch._replace(
            features=(self.mix(join_features(batch)),),
            num_frames=tf.maximum(batch.num_frames, tf.gather(batch.num_frames, self.partners)),
            labels=labels,
            label_weights=weights,
            video_labels=video_labels,
            film_means=None if batch.film_means is None else tuple(map(self.mix, batch.film_means)),
        )


def draw(rows: tf.Tensor, alpha: float) -> Mixture:
    """A mixture of `rows` rows (an int32 scalar): for each a share of Beta(alpha, alpha), or 1 minus it if larger."""
    # A share of Beta(a, a) is X / (X + Y) with X and Y of Gamma(a). For a small a both would be 0 in float32, so their
    # logarithms are drawn: X has the distribution of Z U^(1 / a) with Z of Gamma(a + 1) and U uniform.
    gammas = tf.random.stateless_gamma([2, rows], random_keys.next_seed(), alpha + 1.0)
    uniform = 1.0 - tf.random.stateless_uniform([2, rows], random_keys.next_seed())  # above 0
    logs = tf.math.log(gammas) + tf.math.log(uniform) / alpha
    shares = tf.sigmoid(tf.abs(logs[0] - logs[1]))
    partners = tf.random.experimental.stateless_shuffle(tf.range(rows), random_keys.next_seed())
    return Mixture(shares, partners)
