"""Models by name.

What a model is: typed hyper-parameters, the input it wants, and `create_model`.

What models with batch normalisation have in common.

A video-level model as the last part of another model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from yt8m import options
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models.layers import BATCH_NORM_DECAY, Net
from yt8m.options import Catalogue, option
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf

    from yt8m.models.layers import Net

_models = Catalogue("model")

register = _models.register
get = _models.get
names = _models.names
create = _models.create
hyper_parameters = _models.hyper_parameters


@dataclass(frozen=True)
class BaseModel:
    """The hyper-parameters are the fields of the class, under the names of the flags.

    A model either writes `forward`, with the layers of a `Net`, or `create_model` as a whole.

    Attributes:
      level: "video" takes float32 [B, D], "frame" takes [B, T, D] and `num_frames`.
      input_transform: what is done to the dequantised input before the model sees it:
        "l2_normalize" (over the last axis), "reverse_whitening" or "raw".
      takes_mean: whether the model looks at nothing but the mean of its frames, so that it may be given that
        as the only one, which is cheaper to make. It belongs beside `forward` and counts for no class that
        writes another.
    """

    level: ClassVar[str] = "video"
    input_transform: ClassVar[str] = "l2_normalize"
    takes_mean: ClassVar[bool] = False

    def __post_init__(self) -> None:
        options.check(self)
        self.validate()

    def validate(self) -> None:
        """Refuses combinations of fields that cannot be.

        Raises:
          UsageError: names the fields and the allowed values.
        """

    def create_model(
        self,
        model_input: tf.Tensor,
        vocab_size: int,
        num_frames: tf.Tensor | None = None,
        is_training: bool = True,
        labels: tf.Tensor | None = None,
        **unused: Any,
    ) -> ModelOutput:
        """The model on one share of a batch; its variables are made or reused in the current scope.

        Args:
          model_input: float32 [B, D], or [B, T, D] with zeros past num_frames.
          vocab_size: C, the number of classes.
          num_frames: int [B], 0..T; None where every frame counts.
          is_training: batch statistics, random samples and dropout only where True.
          labels: [B, C], for models that look at them; none of this project does.
        """
        net = self.new_net(is_training)
        return net.finish(self.forward(net, model_input, vocab_size, num_frames))

    def new_net(self, is_training: bool) -> Net:
        """The net that `forward` is given."""
        return Net(is_training)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Predictions (and logits, side outputs) out of `inputs`, with the layers of `net`."""
        raise NotImplementedError(f"{type(self).__name__} writes neither forward nor create_model")


@dataclass(frozen=True)
class NormalisedModel(BaseModel):
    """A model whose moving averages can be made to follow a run of some hundred steps.

    They start at mean 0 and variance 1. With the published decay, 0.999, that start still weighs 0.999^n
    after n steps, and a variance of 1 is a thousand times that of scores of length-normalised frames: what
    evaluation reads makes sense after some ten thousand steps, in shorter runs only with a smaller decay.
    """

    batch_norm_decay: float = option(
        BATCH_NORM_DECAY,
        "decay of the moving averages of batch normalisation; 0.9 to 0.99 for short runs",
        minimum=0,
        maximum=0.999999,
    )

    def new_net(self, is_training: bool) -> Net:
        """With that decay."""
        return Net(is_training, self.batch_norm_decay)


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
        classifier = get(values.get("video_level_classifier_model", default))
        theirs = hyper_parameters(classifier).keys() - own
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
        cls = get(self.video_level_classifier_model)
        for name in self.shared:
            if hasattr(self, name) and name in hyper_parameters(cls):
                given.setdefault(name, getattr(self, name))
        return create(self.video_level_classifier_model, given)

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
