"""The base class of models, models by name, and two base classes for kinds of models.

A model has typed hyper-parameters, an input transform, and `create_model`. A `NormalisedModel` has batch
normalisation; a `ClassifiedModel` ends in a video-level model of the user's choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from yt8m import options
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models.layers import BATCH_NORM_DECAY, Net
from yt8m.numerics import whole_blocks
from yt8m.options import option
from yt8m.registry import Catalogue, refuse_two_meanings
from yt8m.types import HiddenRows, ModelOutput

_models = Catalogue(
    "model",
    passed=("feature_sizes",),  # the program passes the sizes of the features that it reads
    modules=[f"yt8m.models.{name}" for name in ("video_level", "aggregation", "attention", "nextvlad", "recurrent")],
    group="yt8m.models",
)

register = _models.register
get = _models.get
names = _models.names
built_in_names = _models.built_in_names
names_and_packages = _models.names_and_packages
is_plug_in = _models.is_plug_in
create = _models.create
hyper_parameters = _models.hyper_parameters

INPUT_TRANSFORMS = ("l2_normalize", "standardize", "normal_scores", "raw", "reverse_whitening")


@dataclass(frozen=True)
class BaseModel:
    """The base class of models. The fields of a class are its hyper-parameters, with the names of the flags.

    A model either defines `forward`, with the layers of a `Net`, or `create_model` as a whole.

    Attributes:
      level: "video" if the input of the model is float32 [B, D], "frame" if it is [B, T, D] with `num_frames`.
      input_transform: how the dequantised input is transformed before it is given to the model, see
        `yt8m.video.transforms`. A subclass changes the default by a class attribute.
      takes_mean: whether the model uses only the mean of its frames, so that it may get the mean as a single
        frame, which is cheaper to compute. A subclass that overrides `forward` must declare it again.
    """

    level: ClassVar[str] = "video"
    takes_mean: ClassVar[bool] = False

    _: KW_ONLY
    input_transform: str = option(
        "l2_normalize",
        "how features are transformed first; reverse_whitening needs the rgb features of YouTube-8M",
        choices=INPUT_TRANSFORMS,
    )

    def __post_init__(self) -> None:
        # The attribute of a subclass without an annotation does not change the default of the dataclass's field.
        default = type(self).__dataclass_fields__["input_transform"].default
        if self.input_transform == default != type(self).input_transform:
            object.__setattr__(self, "input_transform", type(self).input_transform)
        options.check(self)
        self.validate()

    @property
    def picked_frames(self) -> int:
        """How many frames of a video a training step reads, by `frames.pick`; 0 if it reads all.

        Models that sample frames have the size of a sample in the field `iterations` or `sequence_frames`.
        """
        return int(getattr(self, "iterations", 0) or getattr(self, "sequence_frames", 0) or 0)

    def validate(self) -> None:
        """Refuses impossible combinations of fields.

        Raises:
          UsageError: a combination is impossible; the message names the fields and the allowed values.
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
        """Builds the model for the part of a batch that one tower gets; makes or reuses variables in the current scope.

        Args:
          model_input: float32 [B, D], or [B, T, D] with zeros past num_frames.
          vocab_size: number of classes, C.
          num_frames: int [B], 0..T; None if every frame counts.
          is_training: whether to use batch statistics, random samples and dropout.
          labels: float32 [B, C], for models that compute a loss of their own; no model of this project does.
          unused: further arguments, which are ignored.
        """
        net = self.new_net(is_training)
        net.labels = labels
        return net.finish(self.forward(net, model_input, vocab_size, num_frames))

    @classmethod
    def is_base(cls) -> bool:
        """Whether the class defines no network: neither `forward` nor `create_model`."""
        return cls.forward is BaseModel.forward and cls.create_model is BaseModel.create_model

    def new_net(self, is_training: bool) -> Net:
        """The net that is passed to `forward`."""
        return Net(is_training)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Computes predictions (and logits, side outputs) from `inputs` with the layers of `net`.

        Args:
          net: makes the layers.
          inputs: `model_input` of `create_model`.
          vocab_size: number of classes, C.
          num_frames: as in `create_model`.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither forward nor create_model")


@dataclass(frozen=True)
class NormalisedModel(BaseModel):
    """A model with batch normalisation, whose decay can be lowered for short runs.

    The moving averages start at mean 0 and variance 1. With the published decay, 0.999, these initial values still
    have the weight 0.999^n after n steps, and a variance of 1 is a thousand times that of scores of length-normalised
    frames. So an evaluation is only useful after some ten thousand steps of training, or with a smaller decay.
    """

    batch_norm_decay: float = option(
        BATCH_NORM_DECAY,
        "decay of the moving averages of batch normalisation; 0.9 to 0.99 for short runs",
        minimum=0,
        maximum=0.999999,
    )

    def new_net(self, is_training: bool) -> Net:
        """A net with the decay `batch_norm_decay`."""
        return Net(is_training, self.batch_norm_decay)


@dataclass(frozen=True)
class ClassifiedModel(BaseModel):
    """A model that ends in a video-level model of the user's choice.

    Attributes:
      shared: names of hyper-parameters. If both the model and the classifier have one of them, the classifier gets the
        value of the model, unless `classifier_hyper_parameters` has another one.
    """

    level: ClassVar[str] = "frame"
    shared: ClassVar[tuple[str, ...]] = (
        *("l2_penalty", "moe_num_mixtures", "batch_norm_decay", "gating_remove_diag"),
        "input_transform",
    )

    video_level_classifier_model: str = option("MoeModel", "video-level model that is the classifier at the end")
    classifier_hyper_parameters: Mapping[str, Any] = option({}, "hyper-parameters of the classifier")

    @classmethod
    def arrange(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Divides the hyper-parameters that the user set into those of the model and those of its classifier.

        Args:
          values: {name: value}.

        Returns:
          `values`, in which those that only the classifier has as hyper-parameters are moved into
          `classifier_hyper_parameters`.

        Raises:
          UsageError: no model has the name that `video_level_classifier_model` gives.
        """
        field_names = {field.name for field in dataclasses.fields(cls)}
        default = cls.__dataclass_fields__["video_level_classifier_model"].default
        classifier = get(values.get("video_level_classifier_model", default))
        classifier_only = hyper_parameters(classifier).keys() - field_names
        moved = {name: value for name, value in values.items() if name in classifier_only}
        arranged = {name: value for name, value in values.items() if name not in classifier_only}
        if moved:
            arranged["classifier_hyper_parameters"] = {**arranged.get("classifier_hyper_parameters", {}), **moved}
        return arranged

    def validate(self) -> None:
        """Checks the classifier.

        Raises:
          UsageError: the classifier does not exist or is not a video-level model; it lacks a hyper-parameter in
            `classifier_hyper_parameters`, or refuses its value; or it declares a field of the model with another
            meaning.
        """
        classifier = self.classifier()
        refuse_two_meanings({type(self).__name__: type(self), type(classifier).__name__: type(classifier)}, self.shared)
        level = getattr(classifier, "level", "video")
        if level != "video":
            raise UsageError(
                f"{type(self).__name__}: video_level_classifier_model must be a video-level model, such as MoeModel; "
                f"{self.video_level_classifier_model} is a {level}-level one"
            )

    def classifier(self) -> Any:
        """Makes the model that `video_level_classifier_model` names, with its hyper-parameters.

        Raises:
          UsageError: there is no such model or hyper-parameter, or a value is not allowed.
        """
        settings = dict(self.classifier_hyper_parameters)
        cls = get(self.video_level_classifier_model)
        for name in self.shared:
            if hasattr(self, name) and name in hyper_parameters(cls):
                settings.setdefault(name, getattr(self, name))
        return create(self.video_level_classifier_model, settings)

    def classify(self, net: Net, inputs: tf.Tensor, vocab_size: int, rows_per_video: int = 1) -> ModelOutput:
        """Maps inputs [B * R, F] to the output of the classifier, whose penalties and update ops move to `net`.

        Args:
          net: the net of this model.
          inputs: float32 [B * R, F].
          vocab_size: number of classes, C.
          rows_per_video: R; the rows of a video are consecutive.

        Returns:
          The output, with predictions [B * R, C]; its hidden layer is `inputs`, unless the classifier has one.
        """
        labels = net.labels
        if labels is not None and rows_per_video > 1:
            labels = tf.repeat(labels, rows_per_video, axis=0)
        output = self.classifier().create_model(
            inputs, vocab_size=vocab_size, num_frames=None, is_training=net.is_training, labels=labels
        )
        output = net.absorb(ModelOutput.of_returned(output))
        own_layer = output.hidden_rows()
        hidden = HiddenRows(own_layer.parts if own_layer else (inputs,), rows_per_video)
        return dataclasses.replace(output, extras={**output.extras, "hidden": hidden})


def reduce_rows(output: ModelOutput, rows_per_video: int, reduce: Callable[[tf.Tensor, int], tf.Tensor]) -> ModelOutput:
    """Reduces an output with R rows per video, [B * R, C], to one row per video, [B, C].

    Args:
      output: the output to reduce; its side outputs are reduced in the same way.
      rows_per_video: R; the rows of a video are consecutive.
      reduce: tf.reduce_mean or tf.reduce_max, applied to the logits, or to the predictions of an output without logits.
    """

    def reduced(values: tf.Tensor) -> tf.Tensor:
        return reduce(tf.reshape(values, [-1, rows_per_video, values.shape[-1]]), 1)

    sides = tuple(
        side._replace(logits=reduced(side.logits), target=None if side.target is None else reduced(side.target))
        for side in output.side_outputs
    )
    if output.logits is None:
        return dataclasses.replace(output, predictions=reduced(output.predictions), side_outputs=sides)
    logits = reduced(output.logits)
    return dataclasses.replace(output, predictions=whole_blocks.sigmoid(logits), logits=logits, side_outputs=sides)
