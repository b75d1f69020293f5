"""The types that readers, models and the graph exchange, and the base class of objects that are closed after use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from yt8m.lazy import tf


class Batch(NamedTuple):
    """A batch of examples from a reader: B examples, C classes, T the largest number of frames.

    Attributes:
      video_ids: string [B], the ids of the videos; from `EverySegmentReader` `video:start`, with the start in seconds.
      features: one tensor per feature name, which `readers.join_features` concatenates. At video level float32
        [B, size]. At frame level [B, T, size], 0 past `num_frames`: uint8 if the records hold bytes of YouTube-8M's
        range, -2..2; float32 if they hold floats, or bytes of another range, which are dequantised already.
      num_frames: int32 [B], the true number of frames (at most T); 1 at video level.
      labels: bool [B, C]; float32 [B, C] scores in 0..1 for rated segments.
      label_weights: float32 [B, C], 1 if the pair (example, class) was rated, else 0; None if every label counts.
      video_labels: bool [B, C], the labels of the video that a rated segment is part of; None if the
        examples are videos.
      film_means: one tensor per feature name, float32 [B, size], dequantised: the mean of the frames of the video that
        a segment is part of; None without --film_mean, or if the examples are videos.
      label_lists: the labels as class numbers, int64 [B, K], in a batch on its way to another device, whose `labels`
        are None; see `readers.listed_labels`. Otherwise None.
    """

    video_ids: tf.Tensor
    features: tuple[tf.Tensor, ...]
    num_frames: tf.Tensor
    labels: tf.Tensor
    label_weights: tf.Tensor | None = None
    video_labels: tf.Tensor | None = None
    film_means: tuple[tf.Tensor, ...] | None = None
    label_lists: tf.Tensor | None = None


class SideOutput(NamedTuple):
    """A further output layer (head) of a model, which is trained too; its loss is added to that of the first head.

    Attributes:
      name: name of the summary of this head's loss.
      logits: float32 [B, C].
      weight: factor of this head's loss in the total loss.
      target: float32 [B, C], the probabilities that this head learns; None if it learns the labels.
      loss: name of the loss of this head, as in --label_loss; None for the loss that --label_loss names.
    """

    name: str
    logits: tf.Tensor
    weight: float = 1.0
    target: tf.Tensor | None = None
    loss: str | None = None


class HiddenRows(NamedTuple):
    """The last hidden layer of a model that has several parts, or several rows for each video. No op joins them.

    Attributes:
      parts: float32 [B * R, F] each; the rows of a video are consecutive.
      rows_per_video: R.
    """

    parts: tuple[tf.Tensor, ...]
    rows_per_video: int = 1


@dataclass(frozen=True)
class ModelOutput:
    """The result of a model or, with `loss`, of a modeler (`graph.protocols.Modeler`), which adds the loss to a model.

    Attributes:
      predictions: float32 [B, C] probabilities.
      logits: float32 [B, C] with predictions = sigmoid(logits); None if the model has none.
      regularization_loss: scalar, before any penalty factor; None if there is none.
      update_ops: ops to run once in each training step (for moving averages).
      side_outputs: further heads; empty if there are none.
      loss: scalar, the mean over the part of the batch of this tower (the copy of the model on one device); None if it
        is not computed. In this project the modeler computes it; other models may set their own.
      loss_gradients: pairs (tensor, d loss / d tensor) that replace the gradient of `loss`, if a modeler knows it in
        closed form. Together they must be the whole gradient.
      extras: further values that the model or the modeler returns, by name. `hidden` is the last hidden layer, from
        which the classes are computed: float32 [B, F], or `HiddenRows`.
    """

    predictions: tf.Tensor
    logits: tf.Tensor | None = None
    regularization_loss: tf.Tensor | None = None
    update_ops: tuple[tf.Operation, ...] = ()
    side_outputs: tuple[SideOutput, ...] = ()
    loss: tf.Tensor | None = None
    loss_gradients: tuple[tuple[tf.Tensor, tf.Tensor], ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)

    def hidden(self) -> tf.Tensor | None:
        """The last hidden layer of each video, float32 [B, F]; None if the model has none.

        It has the parts of the layer beside one another, and is the mean of the rows of a video.
        """
        hidden = self.hidden_rows()
        if hidden is None:
            return None
        rows = tf.concat(hidden.parts, -1)
        return tf.reduce_mean(tf.reshape(rows, [-1, hidden.rows_per_video, rows.shape[-1]]), 1)

    def hidden_rows(self) -> HiddenRows | None:
        """The last hidden layer, as the model returned it; None if it has none."""
        hidden = self.extras.get("hidden")
        return hidden if hidden is None or isinstance(hidden, HiddenRows) else HiddenRows((hidden,))

    @classmethod
    def of_returned(cls, output: ModelOutput | Mapping[str, Any]) -> ModelOutput:
        """The output of a model, which may be a dict, as YouTube-8M models return it; unknown keys go to `extras`.

        Raises:
          ValueError: there are no `predictions`.
        """
        if isinstance(output, ModelOutput):
            return output
        if "predictions" not in output:
            raise ValueError(f"a model must return predictions; it returned the keys {sorted(output)}")
        field_names = {name for name in cls.__dataclass_fields__ if name != "extras"}
        values = {key: value for key, value in output.items() if key in field_names}
        for name in ("update_ops", "side_outputs", "loss_gradients"):
            if name in values:
                values[name] = tuple(values[name] or ())
        return cls(**values, extras={key: value for key, value in output.items() if key not in field_names})


class Closing:
    """The base class of objects with a method `close`, which is called at the end of a `with` block."""

    def close(self) -> None:
        """Releases the files, processes or sessions of the object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()
