"""Frame-level models that are a classifier on a simple pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.models.base import BaseModel
from yt8m.models.names import register
from yt8m.options import option
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    from yt8m.models.layers import Net


@register
@dataclass(frozen=True)
class FrameLevelLogisticModel(BaseModel):
    """The mean of the real frames, then p = sigmoid(W x + b)."""

    level: ClassVar[str] = "frame"
    takes_mean: ClassVar[bool] = True

    l2_penalty: float = option(1e-8, "weight of the squared weights in the regularisation loss", minimum=0)

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, T, D] -> [B, vocab_size]."""
        logits = net.dense(frames.mean(inputs, num_frames), vocab_size, l2_penalty=self.l2_penalty)
        return ModelOutput(predictions=tf.sigmoid(logits), logits=logits)
