"""Models that weight frames by attention. Padding, which has no frame, gets the weight 0 if the video has a frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from yt8m.lazy import tf
from yt8m.models import frames, layers, recurrent
from yt8m.models.base import BaseModel, ClassifiedModel, reduce_rows, register
from yt8m.models.layers import Net
from yt8m.models.pieces import Compute, by_pieces
from yt8m.numerics import precision, whole_blocks
from yt8m.options import option
from yt8m.types import ModelOutput

# Added to the scores of padding before a softmax: its share is then exactly 0 in float32, if the video has a frame.
_PADDING_SCORE = -1e9
_DECODER_EPSILON = 1e-5  # epsilon of the layer normalisations of the decoder, as published


def softmax_over_time(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the real frames.

    Args:
      scores: float32 [B, T, A], A scores of each frame.
      mask: float32 [B, T], 1 at real frames.

    Returns:
      float32 [B, T, A]; zeros for padding, and for a video without a real frame.
    """
    real = mask[:, :, tf.newaxis]
    return tf.nn.softmax(scores + (1.0 - real) * _PADDING_SCORE, 1) * real


def attend(
    net: Net,
    inputs: tf.Tensor,
    mask: tf.Tensor,
    units: int,
    *,
    also_seen: tf.Tensor | None = None,
    l2_penalty: float = 0.0,
) -> tf.Tensor:
    """Attention units over the frames x_i: v_k = sum_i a_ki x_i with a_k = softmax_i(w_k x_i).

    There is no bias, because it would add the same to the score of every frame and cancel out.

    Args:
      net: makes the layers.
      inputs: x, float32 [B, T, D].
      mask: float32 [B, T], 1 at real frames.
      units: number of attention units.
      also_seen: y, [B, T, F], further inputs of the scores: a_k = softmax_i(w_k [y_i, x_i]). None for none.
      l2_penalty: weight of the squared weights w_k.

    Returns:
      v, float32 [B, units, D].
    """
    seen = inputs if also_seen is None else tf.concat([also_seen, inputs], 2)
    shares = softmax_over_time(net.dense(seen, units, "attention", bias=False, l2_penalty=l2_penalty), mask)
    return precision.matmul(shares, inputs, transpose_a=True)


def multi_head(net: Net, inputs: tf.Tensor, mask: tf.Tensor, heads: int) -> tf.Tensor:
    """Self-attention among frames (Vaswani et al. 2017, section 3.2.2): float32 [B, T, D], without meaning at padding.

    Args:
      net: makes the layers.
      inputs: float32 [B, T, D].
      mask: float32 [B, T], 1 at real frames.
      heads: number of heads; each has D / heads features.
    """
    size = int(inputs.shape[-1])
    query, key, value = (
        _split_heads(net.dense(inputs, size, name, bias=False), heads) for name in ("query", "key", "value")
    )
    scores = precision.matmul(query, key, transpose_b=True) / math.sqrt(size // heads)
    shares = tf.nn.softmax(scores + (1.0 - mask[:, tf.newaxis, tf.newaxis, :]) * _PADDING_SCORE)
    mixed = tf.transpose(precision.matmul(shares, value), [0, 2, 1, 3])
    return net.dense(tf.reshape(mixed, tf.shape(inputs)), size, "output")


def _split_heads(values: tf.Tensor, heads: int) -> tf.Tensor:
    """Maps [B, T, D] to [B, heads, T, D / heads]."""
    batch, time = tf.shape(values)[0], tf.shape(values)[1]
    return tf.transpose(tf.reshape(values, [batch, time, heads, values.shape[-1] // heads]), [0, 2, 1, 3])


def positions(time: tf.Tensor, size: int) -> tf.Tensor:
    """Encodes the numbers of the frames by sines and cosines (Vaswani et al. 2017, section 3.5): float32 [T, size].

    Args:
      time: int32 scalar, number of frames, T.
      size: number of values for each frame.
    """
    rates = np.power(10_000.0, -2.0 * np.arange((size + 1) // 2) / size).astype(np.float32)
    angles = tf.cast(tf.range(time), tf.float32)[:, tf.newaxis] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], 1)[:, :size]


@dataclass(frozen=True)
class DeepAttentionModel(ClassifiedModel):
    """Attention on each feature, then the dense layers `hidden_sizes`, then a classifier.

    The dense layers and the dropout are those of PaddlePaddle/models (release/1.4, PaddleCV/video/models).

    Attributes:
      activation: activation function of all dense layers but the last, whose activation is tanh.
    """

    activation: ClassVar[str] = "tanh"

    video_level_classifier_model: str = option("LogisticModel", "video-level model that is the classifier at the end")
    hidden_sizes: tuple[int, ...] = option(
        (), "units of the dense layers before the classifier; if empty, no layer", minimum=1
    )
    drop_rate: float = option(
        0.0, "dropout rate in training; the model drops before or after the attention", minimum=0, maximum=0.99
    )
    feature_sizes: tuple[int, ...] = option((), "sizes of the features, to read them separately; if empty, as one")

    def classify_deep(self, net: Net, pooled: tf.Tensor, vocab_size: int) -> ModelOutput:
        """Maps pooled vectors [B, F] by the dense layers and the classifier to its output, [B, vocab_size]."""
        for index, units in enumerate(self.hidden_sizes):
            is_last = index == len(self.hidden_sizes) - 1
            pooled = net.dense(
                pooled, units, f"hidden{index + 1}", make_initializers=layers.scaled(int(pooled.shape[-1]))
            )
            pooled = getattr(tf.nn, "tanh" if is_last else self.activation)(pooled)
        return self.classify(net, pooled, vocab_size)


@register
@dataclass(frozen=True)
class AttentionLstmModel(DeepAttentionModel):
    """A bidirectional LSTM on each feature; attention sums its outputs over time, and the sums are classified."""

    activation: ClassVar[str] = "relu"

    lstm_cells: int = option(512, "cells of each direction", minimum=1)
    lstm_layers: int = option(1, "number of layers", minimum=1)
    embedding_size: int = option(0, "units of a tanh layer on each frame before the LSTM; 0: no layer", minimum=0)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        mask = frames.mask(inputs, num_frames)

        def read(stream: tf.Tensor, _: int) -> tf.Tensor:
            if self.embedding_size:
                stream = tf.nn.tanh(net.dense(stream, self.embedding_size, "embedding"))
            outputs, _finals = recurrent.bidirectional(
                recurrent.lstm, net, stream, mask, self.lstm_cells, self.lstm_layers, "rnn"
            )
            return tf.squeeze(attend(net, net.dropout(outputs, self.drop_rate), mask, 1), 1)

        return self.classify_deep(net, frames.each_stream(inputs, self.feature_sizes, read), vocab_size)


@register
@dataclass(frozen=True)
class AttentionClusterModel(DeepAttentionModel):
    """K parallel attention units on each feature, whose outputs are scaled and shifted (Long et al. 2018, equation 7).

    a_k = softmax_i(w_k x_i), v_k = sum_i a_ki x_i, u_k = alpha_k v_k + beta_k; u_k / (sqrt(K) |u_k|) is classified.
    """

    iterations: int = option(100, "frames sampled from a video in training", minimum=1)
    sample_random_frames: bool = option(True, "sample single frames rather than consecutive ones")
    attention_cluster_size: int = option(32, "number of attention units on each feature", minimum=1)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        inputs, mask = frames.in_training(net, inputs, num_frames, self.iterations, scattered=self.sample_random_frames)
        clusters = frames.each_stream(
            inputs, self.feature_sizes, lambda stream, _: self._scale_and_shift(net, stream, mask)
        )
        return self.classify_deep(net, net.dropout(clusters, self.drop_rate), vocab_size)

    def _scale_and_shift(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The outputs of the attention units on inputs [B, T, D], scaled and shifted: [B, K * D]."""
        units = self.attention_cluster_size
        scale = net.variable("alpha", [units, 1], tf.ones_initializer())
        shift = net.variable("beta", [units, 1], tf.zeros_initializer())
        shifted = tf.nn.l2_normalize(scale * attend(net, inputs, mask, units) + shift, -1)
        return tf.reshape(shifted / math.sqrt(units), [-1, units * inputs.shape[-1]])


@register
@dataclass(frozen=True)
class LstmAttentionMaxModel(ClassifiedModel):
    """Several attentions over the outputs of an LSTM, a classifier on each, and the maximum of their log-odds."""

    lstm_cells: int = option(1024, "cells of each layer", minimum=1)
    lstm_layers: int = option(1, "number of layers", minimum=1)
    lstm_attentions: int = option(8, "number of attention units over the LSTM's outputs", minimum=1)
    moe_num_mixtures: int = option(8, "experts of each class, if the classifier has some", minimum=1)
    attention_on_input: bool = option(False, "attention on the LSTM's input besides its output, as published")
    l2_penalty: float = option(
        1e-8, "weight of the classifier's squared weights; with attention_on_input, of the attention's too", minimum=0
    )

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        mask = frames.mask(inputs, num_frames)
        outputs, _ = recurrent.stack(recurrent.lstm, net, inputs, mask, self.lstm_cells, self.lstm_layers)
        settings = {"also_seen": inputs, "l2_penalty": self.l2_penalty} if self.attention_on_input else {}
        seen = attend(net, outputs, mask, self.lstm_attentions, **settings)
        output = self.classify(net, tf.reshape(seen, [-1, self.lstm_cells]), vocab_size, self.lstm_attentions)
        return reduce_rows(output, self.lstm_attentions, tf.reduce_max)


@register
@dataclass(frozen=True)
class AttentionPoolingModel(ClassifiedModel):
    """Attention by learned queries, z_q = sum_i softmax_i(q K x_i / sqrt d) V x_i, then a classifier on all z_q."""

    attention_queries: int = option(8, "number of attention queries", minimum=1)
    attention_size: int = option(512, "number of features of a key and of a value", minimum=1)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        mask, queries, size = frames.mask(inputs, num_frames), self.attention_queries, self.attention_size
        vectors = net.variable("queries", [size, queries], tf.random_normal_initializer())
        keys = net.dense(inputs, size, "keys", bias=False)
        shares = softmax_over_time(precision.product(keys, vectors) / math.sqrt(size), mask)
        pooled = precision.matmul(shares, net.dense(inputs, size, "values", bias=False), transpose_a=True)
        return self.classify(net, tf.reshape(pooled, [-1, queries * size]), vocab_size)


class Decoder(NamedTuple):
    """The settings of a transformer decoder in place of a classifier; each query serves a group of classes.

    Source: Ridnik et al., ML-Decoder: Scalable and Versatile Classification Head (2021, arXiv 2111.12933), with the
    layers of the authors' code (Alibaba-MIIL/ML_Decoder): queries do not attend to each other. Each of G queries
    attends over the frames, and the logit of a class is a linear function of the output of its group's query. The
    largest tensor has heads x frames x G attention weights for each video, whatever the number of classes.

    Attributes:
      queries: number of queries, G.
      size: number of features of a query, E.
      heads: number of attention heads; divides `size`.
      feed_forward: units of the feed-forward part.
      learns_queries: whether the queries are trained; as published they keep their random initial values.
      drop_rate: share of the outputs of attention and feed-forward part that training drops.
    """

    queries: int
    size: int
    heads: int
    feed_forward: int
    learns_queries: bool
    drop_rate: float

    def logits(
        self, net: Net, inputs: tf.Tensor, mask: tf.Tensor, vocab_size: int, l2_penalty: float = 0.0
    ) -> tf.Tensor:
        """Maps frames to logits, [B, vocab_size].

        Args:
          net: makes the layers.
          inputs: float32 [B, T, D].
          mask: float32 [B, T], 1 at real frames.
          vocab_size: number of classes.
          l2_penalty: factor of the L2 loss of the weights that map the outputs of the queries to logits.
        """
        with tf.variable_scope("decoder"):
            memory = tf.nn.relu(net.dense(inputs, self.size, "embedding"))
            queries = net.variable(
                "queries", [self.queries, self.size], tf.random_normal_initializer(), trainable=self.learns_queries
            )
            # As published, the queries are added to themselves (in training, to a dropout of themselves).
            targets = net.layer_norm(2.0 * queries, "query_ln", epsilon=_DECODER_EPSILON)
            seen = self._attend(net, targets, memory, mask)
            targets = net.layer_norm(
                targets + net.dropout(seen, self.drop_rate), "attention_ln", epsilon=_DECODER_EPSILON
            )
            units = tf.nn.relu(net.dense(targets, self.feed_forward, "feed_in"))
            fed = net.dense(net.dropout(units, self.drop_rate), self.size, "feed_out")
            targets = net.layer_norm(targets + net.dropout(fed, self.drop_rate), "feed_ln", epsilon=_DECODER_EPSILON)
            return _class_logits(net, targets, vocab_size, l2_penalty)

    def _attend(self, net: Net, targets: tf.Tensor, memory: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Multi-head attention of the queries over the frames: [B, G, E].

        The queries are the same for all videos. So they are multiplied by the weights of the keys first, and no keys
        of frames are stored. The keys have no bias: it would add the same to all scores of a query, and cancel out.

        Args:
          net: makes the layers.
          targets: float32 [G, E], the queries.
          memory: float32 [B, T, E], the embedded frames.
          mask: float32 [B, T], 1 at real frames.
        """
        heads, depth = self.heads, self.size // self.heads
        of_heads = tf.reshape(net.dense(targets, self.size, "query"), [self.queries, heads, depth])
        with tf.variable_scope("key"):
            weights = net.variable("weights", [self.size, self.size], tf.glorot_uniform_initializer())
        keys = tf.reshape(weights, [self.size, heads, depth])
        folded = precision.matmul(tf.transpose(of_heads, [1, 0, 2]), tf.transpose(keys, [1, 2, 0]))
        folded = tf.reshape(folded / math.sqrt(depth), [1, heads * self.queries, self.size])
        scores = precision.matmul(folded, memory, transpose_b=True) + ((1.0 - mask) * _PADDING_SCORE)[:, tf.newaxis, :]
        shares = tf.nn.softmax(scores)
        rows, time = tf.shape(memory)[0], tf.shape(memory)[1]
        values = tf.reshape(net.dense(memory, self.size, "value"), [rows, time, heads, depth])
        shares = tf.reshape(shares, [rows, heads, self.queries, time])
        mixed = tf.transpose(precision.matmul(shares, tf.transpose(values, [0, 2, 1, 3])), [0, 2, 1, 3])
        # In a video without frames the shares are those of its padding, so its result is set to 0.
        mixed *= tf.reshape(tf.reduce_max(mask, axis=1), [-1, 1, 1, 1])
        return net.dense(tf.reshape(mixed, [rows, self.queries, self.size]), self.size, "output")


def _class_logits(net: Net, outputs: tf.Tensor, vocab_size: int, l2_penalty: float) -> tf.Tensor:
    """The logit w_c h_g(c) + b_c of each class c, [B, C], h_g(c) being the output of the query of its group.

    The group g(c) of class c is stored in a variable, so that a class keeps its query if classes are added, removed or
    reordered (`graph.restore.ClassMap`); initially consecutive classes share a group, as published. Weights are sorted
    by group and multiplied group by group, so that no tensor [B, C, E] with an output for each class is stored.

    Args:
      net: makes the variables.
      outputs: h, float32 [B, G, E], of the G queries.
      vocab_size: number of classes, C.
      l2_penalty: factor of the L2 loss of the weights w.
    """
    queries, size = int(outputs.shape[1]), int(outputs.shape[2])
    weights = net.variable("weights", [size, vocab_size], tf.glorot_normal_initializer(), l2_penalty=l2_penalty)
    in_order = tf.constant_initializer([float(c // math.ceil(vocab_size / queries)) for c in range(vocab_size)])
    groups = tf.cast(net.variable("groups", [vocab_size], in_order, trainable=False), tf.int32)
    members = tf.one_hot(groups, queries, dtype=tf.int32)
    places = tf.reduce_sum(tf.cumsum(members, exclusive=True) * members, 1)  # index of each class within its group
    width = whole_blocks.extended(tf.reduce_max(tf.reduce_sum(members, 0)))
    slots = groups * width + places
    by_slot = tf.scatter_nd(slots[:, tf.newaxis], tf.transpose(weights), [queries * width, size])
    of_groups = tf.reshape(by_slot, [queries, width, size])
    products = precision.matmul(tf.transpose(outputs, [1, 0, 2]), of_groups, transpose_b=True)  # [G, B, width]
    logits = tf.gather(tf.reshape(tf.transpose(products, [1, 0, 2]), [-1, queries * width]), slots, axis=1)
    logits = tf.ensure_shape(logits, [None, vocab_size])
    return logits + net.variable("biases", [vocab_size], tf.zeros_initializer())


@dataclass(frozen=True)
class DecoderOptions:
    """The options of models that may end in a decoder with grouped queries."""

    decoder_queries: int = option(
        0, "queries of a decoder at the end, which groups of classes share; 0: none", minimum=0, maximum=100_000
    )
    decoder_learns_queries: bool = option(
        False, "train the decoder's queries; as published they keep their random initial values"
    )
    decoder_videos_at_once: int = option(
        8,
        "with decoder_queries: videos of a batch that training computes at a time, and again for their gradient, to "
        "need less memory; 0: all at once",
        minimum=0,
    )

    def decoder(self, size: int, heads: int, feed_forward: int, drop_rate: float) -> Decoder:
        """A decoder with these options; the arguments are the other attributes of `Decoder`."""
        return Decoder(self.decoder_queries, size, heads, feed_forward, self.decoder_learns_queries, drop_rate)

    def compute_output(
        self, logits: Compute, net: Net, inputs: tf.Tensor, mask: tf.Tensor, vocab_size: int
    ) -> ModelOutput:
        """Computes the logits, in training for `decoder_videos_at_once` videos at a time, and the predictions.

        Args:
          logits: maps (net, inputs, mask) to logits [B, vocab_size].
          net: makes the layers.
          inputs: float32 [B, T, D].
          mask: float32 [B, T], 1 at real frames.
          vocab_size: number of classes.
        """
        if net.is_training and self.decoder_videos_at_once:
            values = by_pieces(logits, net, inputs, mask, self.decoder_videos_at_once)
            values = tf.ensure_shape(values, [None, vocab_size])  # TensorFlow cannot infer the shape after a loop
        else:
            values = logits(net, inputs, mask)
        return ModelOutput(predictions=whole_blocks.sigmoid(values), logits=values)


@register
@dataclass(frozen=True)
class AttentiveProbeModel(DecoderOptions, BaseModel):
    """A learned query for each class: z_c = sum_i softmax_i(q_c K x_i / sqrt d) V x_i, p_c = sigmoid(w_c z_c + b_c).

    Each frame x_i is layer-normalised. Each head has its own part, d features wide, of q, K, V and w. The attentive
    probe of frozen features (Bardes et al. 2024, V-JEPA, arXiv 2404.08471) is such an attention over layer-normalised
    tokens, but with one query for all classes, and with a residual MLP between attention and classifier. A query for
    each class comes from Liu et al. 2021, Query2Label, arXiv 2107.10834, whose queries pass through a transformer
    decoder. Here there is neither MLP nor decoder.

    Memory: a few tensors of heads x frames x classes values for each video. With `decoder_queries` the model is instead
    a `Decoder` on the layer-normalised frames, in which a group of classes shares a query.
    """

    level: ClassVar[str] = "frame"

    probe_size: int = option(512, "number of features of a key and of a value", minimum=1)
    probe_heads: int = option(8, "attention heads; must divide probe_size", minimum=1, divides="probe_size")
    l2_penalty: float = option(1e-8, "weight of the squared weights w_c", minimum=0)
    decoder_feed_forward: int = option(2048, "with decoder_queries: units of the feed-forward part", minimum=1)
    drop_rate: float = option(
        0.1, "with decoder_queries: share of each part's output that training drops", minimum=0, maximum=0.99
    )

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        mask = frames.mask(inputs, num_frames)
        if self.decoder_queries:
            decoder = self.decoder(self.probe_size, self.probe_heads, self.decoder_feed_forward, self.drop_rate)

            def decode(net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
                return decoder.logits(net, net.layer_norm(inputs, "input_ln"), mask, vocab_size, self.l2_penalty)

            return self.compute_output(decode, net, inputs, mask, vocab_size)
        states = net.layer_norm(inputs, "input_ln")
        projected = (net.dense(states, self.probe_size, name, bias=False) for name in ("keys", "values"))
        queries = net.variable("queries", [self.probe_size, vocab_size], tf.random_normal_initializer())
        weights = net.variable(
            "weights", [self.probe_size, vocab_size], tf.glorot_uniform_initializer(), l2_penalty=self.l2_penalty
        )
        of_frames = (tf.split(states, self.probe_heads, -1) for states in projected)
        extended = map(whole_blocks.extend_columns, (queries, weights))
        of_classes = (tf.split(matrix, self.probe_heads, 0) for matrix in extended)
        heads = zip(*of_frames, *of_classes, strict=True)
        logits = tf.add_n([self._head_logits(mask, *head) for head in heads])[:, :vocab_size]
        logits += net.variable("biases", [vocab_size], tf.zeros_initializer())
        return ModelOutput(predictions=whole_blocks.sigmoid(logits), logits=logits)

    def _head_logits(
        self, mask: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, queries: tf.Tensor, weights: tf.Tensor
    ) -> tf.Tensor:
        """The part of the logits that comes from one head, [B, C].

        Values and weights are multiplied before the sum over the frames. The result is the same as afterwards, and the
        vectors z_c of all classes, [B, C, d], are never stored.

        Args:
          mask: float32 [B, T], 1 at real frames.
          keys, values: [B, T, d], those of the head.
          queries, weights: [d, C], those of the head.
        """
        scale = math.sqrt(self.probe_size // self.probe_heads)
        shares = softmax_over_time(precision.product(keys, queries) / scale, mask)
        return tf.reduce_sum(shares * precision.product(values, weights), 1)


@register
@dataclass(frozen=True)
class TransformerModel(DecoderOptions, ClassifiedModel):
    """Pre-norm transformer layers (Vaswani et al. 2017; Xiong et al. 2020), then a classifier on the mean frame.

    With `decoder_queries` a `Decoder` on all frames takes the place of the classifier.
    """

    transformer_layers: int = option(2, "number of layers", minimum=1)
    transformer_size: int = option(512, "number of features of a frame inside the transformer", minimum=1)
    transformer_heads: int = option(
        8, "attention heads; must divide transformer_size", minimum=1, divides="transformer_size"
    )
    transformer_feed_forward: int = option(2048, "units of the feed-forward part", minimum=1)
    transformer_positions: bool = option(True, "add an encoding of each frame's position in time")
    drop_rate: float = option(0.1, "share of each part's output that training drops", minimum=0, maximum=0.99)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        mask = frames.mask(inputs, num_frames)
        if self.decoder_queries:
            sizes = self.transformer_size, self.transformer_heads, self.transformer_feed_forward
            decoder = self.decoder(*sizes, self.drop_rate)

            def decode(net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
                return decoder.logits(net, self._states(net, inputs, mask), mask, vocab_size)

            return self.compute_output(decode, net, inputs, mask, vocab_size)
        return self.classify(net, frames.mean(self._states(net, inputs, mask), num_frames), vocab_size)

    def _states(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The outputs of the layers for frames [B, T, D] with mask [B, T]: [B, T, transformer_size]."""
        states = net.dense(inputs, self.transformer_size, "embedding")
        if self.transformer_positions:
            states += positions(tf.shape(inputs)[1], self.transformer_size)
        states = net.dropout(states, self.drop_rate)
        for index in range(self.transformer_layers):
            with tf.variable_scope(f"layer_{index}"):
                states = self._layer(net, states, mask)
        return net.layer_norm(states, "final_ln")

    def _layer(self, net: Net, states: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """One layer, self-attention and feed-forward part, on states [B, T, transformer_size]; the same shape."""
        seen = multi_head(net, net.layer_norm(states, "attention_ln"), mask, self.transformer_heads)
        states += net.dropout(seen, self.drop_rate)
        units = net.dense(net.layer_norm(states, "feed_ln"), self.transformer_feed_forward, "feed_in")
        fed = net.dense(tf.nn.relu(units), self.transformer_size, "feed_out")
        return states + net.dropout(fed, self.drop_rate)
