"""Frame-level models with simple pooling before a classifier: the mean frame, and the deep bag of frames."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.models.base import BaseModel, ClassifiedModel, NormalisedModel, reduce_parts, register
from yt8m.models.layers import Net
from yt8m.numerics import precision, whole_blocks
from yt8m.options import option
from yt8m.types import ModelOutput


@register
@dataclass(frozen=True)
class FrameLevelLogisticModel(BaseModel):
    """The mean of the real frames, then p = sigmoid(W x + b)."""

    level: ClassVar[str] = "frame"
    takes_mean: ClassVar[bool] = True

    l2_penalty: float = option(1e-8, "weight of the squared weights in the regularisation loss", minimum=0)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        logits = net.dense(frames.mean(inputs, num_frames), vocab_size, l2_penalty=self.l2_penalty)
        return ModelOutput(predictions=whole_blocks.sigmoid(logits), logits=logits)


@register
@dataclass(frozen=True)
class DbofModel(NormalisedModel, ClassifiedModel):
    """Deep bag of frames (Abu-El-Haija et al. 2016, section 4.1.2).

    u_i = act(BN(W BN(x_i))) over sampled frames, z = pool over i, h = act(BN(W_h z)), classifier on h.
    """

    iterations: int = option(30, "frames sampled from a video", minimum=1)
    sample_random_frames: bool = option(True, "sample single frames rather than consecutive ones")
    dbof_add_batch_norm: bool = option(True, "batch normalisation rather than biases")
    dbof_cluster_size: int = option(8192, "units of the layer on each frame", minimum=1)
    dbof_hidden_size: int = option(1024, "units of the layer on the pooled frames", minimum=1)
    dbof_pooling_method: str = option(
        "max",
        "how frames are pooled; none: each frame is classified, and the log-odds are averaged",
        choices=("max", "average", "attention", "none"),
    )
    dbof_activation: str = option("sigmoid", "activation of both layers", choices=("sigmoid", "relu", "relu6", "tanh"))

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        sampled = frames.sample(
            inputs, num_frames, self.iterations, scattered=self.sample_random_frames, is_training=net.is_training
        )
        return self.of_sample(net, sampled, frames.count(inputs, num_frames) > 0, vocab_size)

    def of_sample(self, net: Net, sampled: tf.Tensor, valid: tf.Tensor, vocab_size: int) -> ModelOutput:
        """The model on sampled frames.

        Args:
          sampled: float32 [B, S, D].
          valid: bool [B], False for a video without a frame, which is left out of the batch statistics.
        """
        mask = tf.repeat(valid, tf.shape(sampled)[1])
        rows = tf.reshape(sampled, [-1, sampled.shape[-1]])
        if self.dbof_add_batch_norm:
            rows = net.batch_norm(rows, "input_bn", mask)
        layer = functools.partial(net.normalised_product, batch_norm=self.dbof_add_batch_norm, bias_stddev=0.01)
        scores = layer(rows, self.dbof_cluster_size, "cluster", mask)
        pooled = self._pool(net, tf.reshape(scores, [-1, self.iterations, self.dbof_cluster_size]))
        classifies_frames = self.dbof_pooling_method == "none"
        hidden = layer(pooled, self.dbof_hidden_size, "hidden1", mask if classifies_frames else valid)
        output = self.classify(net, self._activate(hidden), vocab_size)
        return reduce_parts(output, self.iterations, tf.reduce_mean) if classifies_frames else output

    def _activate(self, scores: tf.Tensor) -> tf.Tensor:
        return getattr(tf.nn, self.dbof_activation)(scores)

    def _pool(self, net: Net, scores: tf.Tensor) -> tf.Tensor:
        """Scores [B, S, K] before their activation -> units [B, K]; [B * S, K] without pooling."""
        if self.dbof_pooling_method == "max":
            # Activations are monotonic, so they are applied to the largest scores only. `max_pool2d` has a faster
            # gradient than `reduce_max`. If a frame is drawn twice, the gradient goes to the first of the two.
            picture = tf.reshape(scores, [-1, scores.shape[1], 1, scores.shape[2]])
            best = tf.nn.max_pool2d(picture, [scores.shape[1], 1], 1, "VALID")
            return self._activate(tf.squeeze(best, [1, 2]))
        units = self._activate(scores)
        if self.dbof_pooling_method == "average":
            return tf.reduce_mean(units, 1)
        if self.dbof_pooling_method == "attention":
            shares = tf.nn.softmax(net.dense(units, 1, "attention", bias=False), 1)
            return tf.squeeze(precision.matmul(shares, units, transpose_a=True), 1)
        return tf.reshape(units, [-1, self.dbof_cluster_size])
