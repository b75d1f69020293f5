"""The rated pairs of segments: a few of all (example, class) pairs, and all that an evaluation is about."""

from __future__ import annotations

from typing import Any, NamedTuple

from yt8m import losses
from yt8m.graph.narrowed import paired
from yt8m.graph.ops import Reduction, Report
from yt8m.lazy import tf
from yt8m.types import Batch


class RatedPairs(NamedTuple):
    """The P pairs of label weight above 0, by example and class.

    Attributes:
      places: int64 [P, 2], example and class.
      predictions, labels, weights: float32 [P].
      num_examples: int64 scalar.
    """

    places: tf.Tensor
    predictions: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor
    num_examples: tf.Tensor

    @classmethod
    def of(cls, predictions: tf.Tensor, batch: Batch) -> RatedPairs:
        """Those of a batch with label weights; no other prediction is computed where that can be."""
        weights = tf.convert_to_tensor(batch.label_weights)
        places = tf.where(weights > 0)
        return cls(
            places,
            paired(predictions, places),
            tf.gather_nd(tf.cast(batch.labels, tf.float32), places),
            tf.gather_nd(weights, places),
            tf.shape(weights, out_type=tf.int64)[0],
        )

    def loss(self, label_loss: Any) -> tf.Tensor:
        """`label_loss` of these pairs: the loss of the batch, since the others weigh 0."""
        return losses.loss_of_pairs(
            label_loss, self.predictions, self.labels, self.weights, self.num_examples
        )

    def reports(self) -> dict[str, Report]:
        """The fields of `eval_util.rated_columns.Pairs`, with `pair_` before their names."""
        examples, classes = tf.unstack(self.places, axis=1)
        return {
            "pair_counts": Report(tf.math.bincount(examples, minlength=self.num_examples, dtype=tf.int64)),
            "pair_classes": Report(classes, Reduction.LIST),
            "pair_scores": Report(self.predictions, Reduction.LIST),
            "pair_hits": Report(self.labels > 0, Reduction.LIST),
        }
