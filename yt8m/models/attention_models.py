"""Models that choose frames by attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models import attention, frames, recurrent, sampling
from yt8m.models.classifier import ClassifiedModel, of_videos
from yt8m.models.names import register
from yt8m.options import option
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    from yt8m.models.layers import Net


@register
@dataclass(frozen=True)
class AttentionLstmModel(ClassifiedModel):
    """A bidirectional LSTM on each feature, its outputs weighed over time, a classifier on their sums."""

    video_level_classifier_model: str = option("LogisticModel", "video-level model that ends this one")
    lstm_cells: int = option(512, "cells of each direction", minimum=1)
    lstm_layers: int = option(1, "layers", minimum=1)
    feature_sizes: tuple[int, ...] = option((), "sizes of the features, read apart; none: together")

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, T, D] -> [B, vocab_size]."""
        mask = frames.mask(inputs, num_frames)

        def read(stream: tf.Tensor, _: int) -> tf.Tensor:
            outputs, _finals = recurrent.both_ways(
                recurrent.lstm, net, stream, mask, self.lstm_cells, self.lstm_layers, "rnn"
            )
            return tf.squeeze(attention.weigh(net, outputs, mask, 1), 1)

        return self.classify(net, frames.each_stream(inputs, self.feature_sizes, read), vocab_size)


@register
@dataclass(frozen=True)
class AttentionClusterModel(ClassifiedModel):
    """Attention units side by side on each feature, shifted (Long et al. 2018, equation 7).

    a_k = softmax_i(w_k x_i), v_k = sum_i a_ki x_i, shifted to (alpha_k v_k + beta_k) / (sqrt(K) norm).
    """

    video_level_classifier_model: str = option("LogisticModel", "video-level model that ends this one")
    iterations: int = option(100, "frames sampled from a video in training", minimum=1)
    sample_random_frames: bool = option(True, "frames one by one; else a run of neighbours")
    attention_cluster_size: int = option(32, "attention units on each feature", minimum=1)
    feature_sizes: tuple[int, ...] = option((), "sizes of the features, read apart; none: together")

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, T, D] -> [B, vocab_size]."""
        inputs, mask = sampling.in_training(
            net, inputs, num_frames, self.iterations, scattered=self.sample_random_frames
        )
        clusters = frames.each_stream(
            inputs, self.feature_sizes, lambda stream, _: self._shifted(net, stream, mask)
        )
        return self.classify(net, clusters, vocab_size)

    def _shifted(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """[B, K * D] of inputs [B, T, D]."""
        units = self.attention_cluster_size
        scale = net.variable("alpha", [units, 1], tf.ones_initializer())
        shift = net.variable("beta", [units, 1], tf.zeros_initializer())
        shifted = tf.nn.l2_normalize(scale * attention.weigh(net, inputs, mask, units) + shift, -1)
        return tf.reshape(shifted / math.sqrt(units), [-1, units * inputs.shape[-1]])


@register
@dataclass(frozen=True)
class LstmAttentionMaxModel(ClassifiedModel):
    """Attentions over the outputs of an LSTM; one classifier on each, the largest log-odds of a class win."""

    lstm_cells: int = option(1024, "cells of each layer", minimum=1)
    lstm_layers: int = option(1, "layers", minimum=1)
    lstm_attentions: int = option(8, "attentions over the outputs", minimum=1)
    moe_num_mixtures: int = option(8, "experts of each class, where the classifier has some", minimum=1)

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, T, D] -> [B, vocab_size]."""
        mask = frames.mask(inputs, num_frames)
        outputs, _ = recurrent.stack(recurrent.lstm, net, inputs, mask, self.lstm_cells, self.lstm_layers)
        seen = attention.weigh(net, outputs, mask, self.lstm_attentions)
        views = self.classify(net, tf.reshape(seen, [-1, self.lstm_cells]), vocab_size)
        return of_videos(views, self.lstm_attentions, tf.reduce_max)


@register
@dataclass(frozen=True)
class AttentionPoolingModel(ClassifiedModel):
    """Learned queries that each gather what they look for: z_q = sum_i softmax_i(q K x_i / sqrt d) V x_i."""

    attention_queries: int = option(8, "queries", minimum=1)
    attention_size: int = option(512, "d, features of a key and of a value", minimum=1)

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, T, D] -> [B, vocab_size]."""
        mask = frames.mask(inputs, num_frames)
        found = attention.ask(net, inputs, mask, self.attention_queries, self.attention_size)
        flat = tf.reshape(found, [-1, self.attention_queries * self.attention_size])
        return self.classify(net, flat, vocab_size)


@register
@dataclass(frozen=True)
class TransformerModel(ClassifiedModel):
    """Pre-norm transformer layers (Vaswani et al. 2017; Xiong et al. 2020), the mean frame classified."""

    transformer_layers: int = option(2, "layers", minimum=1)
    transformer_size: int = option(512, "features of a frame inside", minimum=1)
    transformer_heads: int = option(8, "attention heads; must divide transformer_size", minimum=1)
    transformer_feed_forward: int = option(2048, "units of the feed-forward part", minimum=1)
    transformer_positions: bool = option(True, "frames know their place in time")
    drop_rate: float = option(0.1, "share of each part's output that training drops", minimum=0, maximum=0.99)

    def validate(self) -> None:
        """Refuses heads that do not divide.

        Raises:
          UsageError: names the sizes.
        """
        super().validate()
        if self.transformer_size % self.transformer_heads:
            raise UsageError(
                f"{type(self).__name__}: transformer_heads must divide transformer_size "
                f"{self.transformer_size}; it is {self.transformer_heads}"
            )

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, T, D] -> [B, vocab_size]."""
        mask = frames.mask(inputs, num_frames)
        states = net.dense(inputs, self.transformer_size, "embedding")
        if self.transformer_positions:
            states += attention.positions(tf.shape(inputs)[1], self.transformer_size)
        states = net.dropout(states, self.drop_rate)
        for index in range(self.transformer_layers):
            with tf.variable_scope(f"layer_{index}"):
                states = self._layer(net, states, mask)
        states = net.layer_norm(states, "final_ln")
        return self.classify(net, frames.mean(states, num_frames), vocab_size)

    def _layer(self, net: Net, states: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        seen = attention.multi_head(net, net.layer_norm(states, "attention_ln"), mask, self.transformer_heads)
        states += net.dropout(seen, self.drop_rate)
        units = net.dense(net.layer_norm(states, "feed_ln"), self.transformer_feed_forward, "feed_in")
        fed = net.dense(tf.nn.relu(units), self.transformer_size, "feed_out")
        return states + net.dropout(fed, self.drop_rate)
