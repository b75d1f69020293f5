"""A video-level model as the last part of another model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models import names
from yt8m.models.base import BaseModel
from yt8m.options import option
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    from yt8m.models.layers import Net


@dataclass(frozen=True)
class ClassifiedModel(BaseModel):
    """A model that ends in a video-level model of the user's choice.

    Where the model has an `l2_penalty`, `moe_num_mixtures` or `batch_norm_decay` of its own, the classifier
    takes the same, unless `classifier_hyper_parameters` say otherwise.
    """

    level: ClassVar[str] = "frame"
    shared: ClassVar[tuple[str, ...]] = ("l2_penalty", "moe_num_mixtures", "batch_norm_decay")

    video_level_classifier_model: str = option("MoeModel", "video-level model that ends this one")
    classifier_hyper_parameters: Mapping[str, Any] = option({}, "hyper-parameters of that model")

    @classmethod
    def arrange(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Hands hyper-parameters that are the classifier's, and not the model's, to the classifier."""
        own = {field.name for field in dataclasses.fields(cls)}
        default = cls.__dataclass_fields__["video_level_classifier_model"].default
        classifier = names.get(values.get("video_level_classifier_model", default))
        theirs = names.hyper_parameters(classifier).keys() - own
        handed = {name: value for name, value in values.items() if name in theirs}
        kept = {name: value for name, value in values.items() if name not in theirs}
        if handed:
            kept["classifier_hyper_parameters"] = {**kept.get("classifier_hyper_parameters", {}), **handed}
        return kept

    def validate(self) -> None:
        """Refuses a classifier that is none.

        Raises:
          UsageError: it is not a video-level model, or does not take its hyper-parameters.
        """
        level = getattr(self.classifier(), "level", "video")
        if level != "video":
            raise UsageError(
                f"{type(self).__name__}: video_level_classifier_model must be a video-level model; "
                f"{self.video_level_classifier_model} is a {level}-level one"
            )

    def classifier(self) -> Any:
        """The model that `video_level_classifier_model` names."""
        given = dict(self.classifier_hyper_parameters)
        cls = names.get(self.video_level_classifier_model)
        for name in self.shared:
            if hasattr(self, name) and name in names.hyper_parameters(cls):
                given.setdefault(name, getattr(self, name))
        return names.create(self.video_level_classifier_model, given)

    def classify(self, net: Net, inputs: tf.Tensor, vocab_size: int) -> ModelOutput:
        """inputs [B, F] -> the classifier's output [B, vocab_size]."""
        given = self.classifier().create_model(
            inputs, vocab_size=vocab_size, num_frames=None, is_training=net.is_training, labels=None
        )
        return net.absorb(ModelOutput.of(given))


def of_videos(output: ModelOutput, parts: int, reduce: Callable[[tf.Tensor, int], tf.Tensor]) -> ModelOutput:
    """What a classifier says of `parts` parts of each video, [B * parts, C], as one output on videos.

    Args:
      output: its further heads are reduced in the same way.
      parts: rows of a video, one behind the other.
      reduce: tf.reduce_mean or tf.reduce_max, of the log-odds, or of the probabilities where there are none.
    """

    def merged(values: tf.Tensor) -> tf.Tensor:
        return reduce(tf.reshape(values, [-1, parts, values.shape[-1]]), 1)

    sides = tuple(
        side._replace(logits=merged(side.logits), target=None if side.target is None else merged(side.target))
        for side in output.side_outputs
    )
    if output.logits is None:
        return dataclasses.replace(output, predictions=merged(output.predictions), side_outputs=sides)
    logits = merged(output.logits)
    return dataclasses.replace(output, predictions=tf.sigmoid(logits), logits=logits, side_outputs=sides)
