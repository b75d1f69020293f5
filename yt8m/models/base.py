"""What a model is: typed hyper-parameters, the input it wants, and `create_model`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from yt8m import options
from yt8m.models.layers import Net
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf


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

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """Predictions (and logits, side outputs) out of `inputs`, with the layers of `net`."""
        raise NotImplementedError(f"{type(self).__name__} writes neither forward nor create_model")
