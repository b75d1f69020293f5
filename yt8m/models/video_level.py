"""Models of one vector a video; also the classifiers at the end of frame-level models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from yt8m.lazy import tf
from yt8m.models.base import BaseModel
from yt8m.models.mixtures import log_odds
from yt8m.models.names import register
from yt8m.options import option
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    from yt8m.models.layers import Net


@register
@dataclass(frozen=True)
class LogisticModel(BaseModel):
    """p = sigmoid(W x + b), one classifier a class."""

    l2_penalty: float = option(1e-8, "weight of the squared weights in the regularisation loss", minimum=0)

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, D] -> [B, vocab_size]."""
        logits = net.dense(inputs, vocab_size, l2_penalty=self.l2_penalty)
        return ModelOutput(predictions=tf.sigmoid(logits), logits=logits)


@register
@dataclass(frozen=True)
class MoeModel(BaseModel):
    """A mixture of logistic experts for each class (Jordan and Jacobs 1994; Abu-El-Haija et al. 2016).

    g = softmax over E + 1 gates of (W_g x), p_c = sum over the E experts of g_ce sigmoid(W_ce x + b_ce);
    the last gate leads to a dummy expert that always says 0.
    """

    moe_num_mixtures: int = option(2, "experts of each class, beside the dummy one", minimum=1)
    l2_penalty: float = option(1e-8, "weight of the squared weights in the regularisation loss", minimum=0)

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, D] -> [B, vocab_size]."""
        experts = self.moe_num_mixtures
        gates = net.dense(inputs, vocab_size * (experts + 1), "gates", bias=False, l2_penalty=self.l2_penalty)
        votes = net.dense(inputs, vocab_size * experts, "experts", l2_penalty=self.l2_penalty)
        logits = log_odds(
            tf.reshape(gates, [-1, vocab_size, experts + 1]), tf.reshape(votes, [-1, vocab_size, experts])
        )
        return ModelOutput(predictions=tf.sigmoid(logits), logits=logits)
