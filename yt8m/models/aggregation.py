"""Models that pool frames before a classifier: the mean frame, the deep bag of frames, and clusters of frames.

Models with clusters (bags of words, the VLAD family) assign shares of each frame to clusters. Sums over the frames of
each cluster then describe the video, as one vector. In the formulas x_i is frame i, a_ik its share in cluster k, BN is
batch normalisation, and l2 scales a vector to length 1.
"""

from __future__ import annotations

import abc
import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from yt8m.lazy import tf
from yt8m.models import frames, layers
from yt8m.models.base import BaseModel, ClassifiedModel, NormalisedModel, reduce_rows, register
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

    u_i = act(BN(W BN(x_i))) for each sampled frame, z = the u_i pooled over i, h = act(BN(W_h z)); h is classified. act
    is `dbof_activation`.
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
        return self.classify_sample(net, sampled, frames.count(inputs, num_frames) > 0, vocab_size)

    def classify_sample(self, net: Net, sampled: tf.Tensor, valid: tf.Tensor, vocab_size: int) -> ModelOutput:
        """Maps sampled frames to predictions [B, vocab_size].

        Args:
          net: makes the layers.
          sampled: float32 [B, S, D], S being `iterations`.
          valid: bool [B], False for a video without a frame, which is left out of the batch statistics.
          vocab_size: number of classes.
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
        output = self.classify(net, self._activate(hidden), vocab_size, self.iterations if classifies_frames else 1)
        return reduce_rows(output, self.iterations, tf.reduce_mean) if classifies_frames else output

    def _activate(self, scores: tf.Tensor) -> tf.Tensor:
        """Applies the activation `dbof_activation` to scores of any shape."""
        return getattr(tf.nn, self.dbof_activation)(scores)

    def _pool(self, net: Net, scores: tf.Tensor) -> tf.Tensor:
        """Applies the activation to scores [B, S, K] and pools the frames: [B, K], or [B * S, K] without pooling."""
        if self.dbof_pooling_method == "max":
            # The activations are monotonic, so it is enough to apply them to the largest scores. `max_pool2d` has a
            # faster gradient than `reduce_max`; if a frame was drawn twice, it gives the gradient to the first one.
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


def assign(net: Net, inputs: tf.Tensor, mask: tf.Tensor, clusters: int, *, batch_norm: bool = True) -> tf.Tensor:
    """Assigns shares of each frame to clusters: a_i = softmax(BN(W x_i)).

    Args:
      net: makes the layers.
      inputs: x, float32 [B, T, D].
      mask: float32 [B, T], 1 at real frames.
      clusters: number of clusters, K.
      batch_norm: whether to use batch normalisation; otherwise biases.

    Returns:
      float32 [B, T, K]; zeros for padding.
    """
    scores = net.normalised_product(inputs, clusters, "cluster", mask, batch_norm=batch_norm)
    return tf.nn.softmax(scores) * mask[:, :, tf.newaxis]


def anchors(net: Net, name: str, clusters: int, features: int, mean: float = 0.0) -> tf.Tensor:
    """A learned matrix [clusters, features], such as the centres c_k.

    Args:
      net: makes the variable.
      name: name of the variable: `centres`, `gates` or `spreads`.
      clusters: number of clusters.
      features: number of features of a frame.
      mean: mean of the initial values.
    """
    initializer = tf.random_normal_initializer(mean=mean, stddev=1 / math.sqrt(features))
    return net.variable(name, [clusters, features], initializer)


def weighted_sums(shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """The weighted sum of the frames in each cluster: sum_i a_ik x_i, [B, K, D], from [B, T, K] and [B, T, D]."""
    return precision.matmul(shares, inputs, transpose_a=True)


def masses(shares: tf.Tensor) -> tf.Tensor:
    """The sum of the shares [B, T, K] in each cluster: A_k = sum_i a_ik, [B, K, 1]."""
    return tf.reduce_sum(shares, 1)[:, :, tf.newaxis]


def side_by_side(clusters: tf.Tensor) -> tf.Tensor:
    """Scales the vector of each of K clusters, [B, K, D], to length 1 (intra-normalisation); joins them: [B, K * D]."""
    return _join_clusters(tf.nn.l2_normalize(clusters, -1))


def _join_clusters(clusters: tf.Tensor) -> tf.Tensor:
    """Maps [B, K, D] to [B, K * D]."""
    return tf.reshape(clusters, [-1, clusters.shape[1] * clusters.shape[2]])


def flatten(clusters: tf.Tensor) -> tf.Tensor:
    """`side_by_side` of [B, K, D], then scaled to length 1: [B, K * D] (Arandjelovic et al. 2016)."""
    return tf.nn.l2_normalize(side_by_side(clusters), -1)


def residuals(
    net: Net, shares: tf.Tensor, inputs: tf.Tensor, make_initializers: layers.MakeInitializers | None = None
) -> tf.Tensor:
    """V_k = sum_i a_ik (x_i - c_k), [B, K, D] (Arandjelovic et al. 2016, equation 4).

    Args:
      net: makes the centres c_k.
      shares: a, float32 [B, T, K].
      inputs: x, float32 [B, T, D].
      make_initializers: the first one that it makes initialises the centres; None for that of `anchors`.
    """
    sizes = [int(shares.shape[-1]), int(inputs.shape[-1])]
    if make_initializers is None:
        centres = anchors(net, "centres", *sizes)
    else:
        centres = net.variable("centres", sizes, make_initializers()[0])
    return weighted_sums(shares, inputs) - masses(shares) * centres


def size_in_stream(size: int, index: int, divisor: int = 2) -> int:
    """The number of clusters or groups of feature `index`: `size` for the first, a fraction of it for the others.

    Args:
      size: the number for the first feature.
      index: index of the feature, from 0.
      divisor: the others have `size` / `divisor`, rounded down, but at least 1.
    """
    return max(size // divisor, 1) if index else size


def cluster_size_option(default: int) -> Any:
    """Declares an option `*_cluster_size` of a model that pools each feature separately; see `size_in_stream`."""
    return option(default, "number of clusters of the first feature; the others have half as many", minimum=1)


def relu_option() -> Any:
    """Declares an option `*_relu`, which several models have."""
    return option(
        None,
        "hidden layer as published: batch norm and relu6; false: biases instead of both; not given: only batch norm",
    )


@dataclass(frozen=True)
class AggregatedModel(NormalisedModel, ClassifiedModel, abc.ABC):
    """Pools the frames (a sample in training, all in evaluation) to one vector; then a hidden layer and a classifier.

    Attributes:
      family: prefix of the names of the model's own fields, as in the published flags.
    """

    family: ClassVar[str]

    iterations: int = option(300, "frames sampled from a video in training", minimum=1)
    sample_random_frames: bool = option(True, "sample single frames rather than consecutive ones")
    l2_penalty: float = option(1e-6, "weight of the classifier's squared weights", minimum=0)
    gating: bool = option(True, "context gating of the hidden layer")
    gating_remove_diag: bool = option(False, "leave each feature (or class) out of the input of its own gate")
    input_batch_norm: bool = option(False, "batch normalisation of the frames before they are pooled, as published")

    @abc.abstractmethod
    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Pools inputs [B, T, D] with mask [B, T] to one vector for each video, [B, F]."""

    def family_option(self, name: str) -> Any:
        """The value of the field `<family>_<name>`, such as `netvlad_cluster_size` for `cluster_size`."""
        return getattr(self, f"{self.family}_{name}")

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        valid = frames.count(inputs, num_frames) > 0
        inputs, mask = frames.in_training(net, inputs, num_frames, self.iterations, scattered=self.sample_random_frames)
        if self.input_batch_norm:
            inputs = net.batch_norm(inputs, "input_bn", mask)
        hidden = self._hidden_layer(net, self.pool(net, inputs, mask), valid)
        if self.gating:
            hidden = layers.context_gating(net, hidden, valid=valid, remove_diagonal=self.gating_remove_diag)
        return self.classify(net, hidden, vocab_size)

    def _hidden_layer(self, net: Net, pooled: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """The hidden layer, [B, units], on pooled vectors [B, F]; `valid`, bool [B], is False without a frame.

        With an option `*_relu` that is not None, the weights are initialised as in the published code.
        """
        relu = self.family_option("relu")
        batch_norm = self.family_option("add_batch_norm") and relu is not False
        initializers = (
            layers.xavier if relu is None else layers.normal(1 / math.sqrt(self.family_option("cluster_size")))
        )
        units = self.family_option("hidden_size")
        hidden = net.dense(pooled, units, "hidden1", bias=not batch_norm, make_initializers=initializers)
        if batch_norm:
            hidden = net.batch_norm(hidden, "hidden1_bn", valid)
        return tf.nn.relu6(hidden) if relu else hidden


@register
@dataclass(frozen=True)
class SoftDbowModel(AggregatedModel):
    """Soft bag of words: z = l2(sum_i a_i); with `softdbof_maxpool`, l2(max_i a_i) is appended.

    a_i [K] are the shares of frame i in the K words, and l2 scales a vector to length 1.
    """

    family: ClassVar[str] = "dbof"

    dbof_cluster_size: int = option(4096, "number of words (clusters)", minimum=1)
    dbof_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    dbof_add_batch_norm: bool = option(True, "batch normalisation rather than biases")
    dbof_relu: bool | None = relu_option()
    dbof_late_fusion: bool = option(
        False, "pool each feature by itself, as published; all but the first get an eighth of the clusters"
    )
    softdbof_maxpool: bool = option(
        False, "describe a video by the largest assignment to each word too, besides the sum"
    )
    gating: bool = option(False, "context gating of the hidden layer")
    feature_sizes: tuple[int, ...] = option((), "sizes of the features, for dbof_late_fusion; if empty, as one")

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Pools the frames to [B, K], or [B, 2 K] with the maxima; with `dbof_late_fusion`, feature by feature."""
        words = self.dbof_cluster_size
        if not self.dbof_late_fusion:
            return self.bag(net, self.shares(net, inputs, mask, words), int(inputs.shape[-1]), 0)

        def describe_stream(stream: tf.Tensor, index: int) -> tf.Tensor:
            shares = self.shares(net, stream, mask, size_in_stream(words, index, 8))
            return self.bag(net, shares, int(stream.shape[-1]), index)

        return frames.each_stream(inputs, self.feature_sizes, describe_stream)

    def shares(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor, words: int) -> tf.Tensor:
        """The shares a_i of the frames [B, T, D] in the words: [B, T, words]."""
        return assign(net, inputs, mask, words, batch_norm=self.dbof_add_batch_norm)

    def bag(self, net: Net, shares: tf.Tensor, features: int, index: int) -> tf.Tensor:
        """Pools shares of frames to one vector for each video, [B, K] or [B, 2 K].

        Args:
          net: makes the layers.
          shares: float32 [B, T, K].
          features: number of columns of the frames that were assigned.
          index: index of the feature (rgb, audio) to which these columns belong; 0 without `dbof_late_fusion`.
        """
        bags = [tf.reduce_sum(shares, 1)]
        if self.softdbof_maxpool:
            bags.append(tf.reduce_max(shares, 1))
        return tf.concat([tf.nn.l2_normalize(bag, -1) for bag in bags], -1)


@register
@dataclass(frozen=True)
class GatedDbofModel(SoftDbowModel):
    """A soft bag of words with gates: z = l2(sum_i a_i * sigmoid(BN(W2 W1 l2(max_i a_i)))).

    a_i [K] are the shares of frame i in the K words, l2 scales a vector to length 1, and BN is batch normalisation. W1
    maps the K maxima to as many units as a frame has columns, W2 maps these back to K. With `dbof_late_fusion` only the
    first feature (such as rgb) has gates, as in the published code. `softdbof_maxpool` only applies to the features
    without gates.
    """

    def bag(self, net: Net, shares: tf.Tensor, features: int, index: int) -> tf.Tensor:
        """Pools shares with gates, [B, K]; the arguments are those of `SoftDbowModel.bag`."""
        if index:
            return super().bag(net, shares, features, index)
        initializers = layers.normal(1 / math.sqrt(features)) if self.dbof_late_fusion else layers.xavier
        valid = tf.reduce_any(shares > 0.0, [1, 2])
        peaks = tf.nn.l2_normalize(tf.reduce_max(shares, 1), -1)
        narrow = net.dense(peaks, features, "gate_down", bias=False, make_initializers=initializers)
        words = int(shares.shape[-1])
        scores = net.dense(narrow, words, "gate_up", bias=False, make_initializers=initializers)
        gates = tf.sigmoid(net.batch_norm(scores, "gate_bn", valid))
        return tf.nn.l2_normalize(tf.reduce_sum(shares, 1) * gates, -1)


@dataclass(frozen=True)
class StreamModel(AggregatedModel, abc.ABC):
    """Pools each feature (rgb, audio) separately; every feature after the first has half as many clusters."""

    feature_sizes: tuple[int, ...] = option((), "sizes of the features, to pool them separately; if empty, as one")

    @abc.abstractmethod
    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """Pools one feature to one vector for each video, [B, F].

        Args:
          net: makes the layers.
          shares: float32 [B, T, K], the shares of its frames in the clusters.
          inputs: float32 [B, T, D], the frames of the feature.
        """

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Pools each feature separately, and joins their vectors: [B, sum of their lengths]."""

        def describe_stream(stream: tf.Tensor, index: int) -> tf.Tensor:
            count = size_in_stream(self.family_option("cluster_size"), index)
            shares = assign(net, stream, mask, count, batch_norm=self.family_option("add_batch_norm"))
            return self.describe(net, shares, stream)

        return frames.each_stream(inputs, self.feature_sizes, describe_stream)


@register
@dataclass(frozen=True)
class NetVladModel(StreamModel):
    """V_k = sum_i a_ik (x_i - c_k) (Arandjelovic et al. 2016, section 3.1; Miech et al. 2017).

    x_i is frame i, a_ik is its share in cluster k, and c_k is the learned centre of this cluster.
    """

    family: ClassVar[str] = "netvlad"

    netvlad_cluster_size: int = cluster_size_option(256)
    netvlad_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    netvlad_add_batch_norm: bool = option(True, "batch normalisation rather than biases")
    netvlad_relu: bool | None = relu_option()

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """The residuals V_k, normalised and flattened."""
        return flatten(residuals(net, shares, inputs))


@register
@dataclass(frozen=True)
class NetRvladModel(NetVladModel):
    """V_k = sum_i a_ik x_i: NetVLAD without the centres (Miech et al. 2017, section 3)."""

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """The sums V_k, normalised and flattened."""
        return flatten(weighted_sums(shares, inputs))


@register
@dataclass(frozen=True)
class NetVlagdModel(NetVladModel):
    """V_k = sigmoid(G_k) sum_i a_ik x_i: NetVLAD with a learned gate in place of the residual."""

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """The gated sums V_k, normalised and flattened."""
        gates = tf.sigmoid(anchors(net, "gates", shares.shape[-1], inputs.shape[-1]))
        return flatten(weighted_sums(shares, inputs) * gates)


@register
@dataclass(frozen=True)
class NetFvModel(StreamModel):
    """Fisher vectors: sum_i a_ik (x_i - c_k) / s_k and sum_i a_ik ((x_i - c_k)^2 / s_k^2 - 1) of each cluster k.

    x_i is frame i, and a_ik is its share in cluster k (Miech et al. 2017, equations 4 and 5). The centres c_k and the
    spreads s_k are learned by themselves; they are not derived from the weights that assign frames to clusters.
    """

    family: ClassVar[str] = "fv"

    fv_cluster_size: int = cluster_size_option(128)
    fv_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    fv_add_batch_norm: bool = option(True, "batch normalisation rather than biases")
    fv_relu: bool | None = relu_option()
    fv_variances_as_whole: bool = option(
        False, "scale the second-order part as a whole to length 1, as published, not cluster by cluster first"
    )

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """The statistics of first and of second order (means and variances) of each cluster, joined: [B, 2 K D]."""
        sizes = shares.shape[-1], inputs.shape[-1]
        centres = anchors(net, "centres", *sizes)
        sigma = tf.square(anchors(net, "spreads", *sizes, mean=1.0)) + 1e-6
        mass, first = masses(shares), weighted_sums(shares, inputs)
        second = weighted_sums(shares, tf.square(inputs))
        of_means = (first - mass * centres) / sigma
        centred = second - 2.0 * centres * first + mass * tf.square(centres)
        of_variances = centred / tf.square(sigma) - mass
        if self.fv_variances_as_whole:
            flat_variances = tf.nn.l2_normalize(_join_clusters(of_variances), -1)
        else:
            flat_variances = flatten(of_variances)
        return tf.concat([flatten(of_means), flat_variances], -1)
