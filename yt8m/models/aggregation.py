"""Models that pool frames before a classifier: the mean frame, the deep bag of frames, and clusters of frames.

Models of the last kind (bags of words, the VLAD family) softly assign each frame to clusters, which then describe the
video as one vector.
"""

from __future__ import annotations

import abc
import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from yt8m.lazy import tf
from yt8m.models import frames, layers
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


def assign(net: Net, inputs: tf.Tensor, mask: tf.Tensor, clusters: int, *, batch_norm: bool = True) -> tf.Tensor:
    """a_i = softmax(BN(W x_i)), [B, T, clusters]; zeros if the mask [B, T] is 0.

    Args:
      inputs: float32 [B, T, D].
      batch_norm: whether to use batch normalisation; otherwise biases.
    """
    scores = net.normalised_product(inputs, clusters, "cluster", mask, batch_norm=batch_norm)
    return tf.nn.softmax(scores) * mask[:, :, tf.newaxis]


def anchors(net: Net, name: str, clusters: int, features: int, mean: float = 0.0) -> tf.Tensor:
    """A learned matrix [clusters, features]: the centres c_k, or the gates or spreads of clusters."""
    initializer = tf.random_normal_initializer(mean=mean, stddev=1 / math.sqrt(features))
    return net.variable(name, [clusters, features], initializer)


def weighted_sums(shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """The frames x_i summed with their shares in each cluster k: sum_i a_ik x_i, [B, K, D]."""
    return precision.matmul(shares, inputs, transpose_a=True)


def masses(shares: tf.Tensor) -> tf.Tensor:
    """The total share of each cluster: A_k = sum_i a_ik, [B, K, 1]."""
    return tf.reduce_sum(shares, 1)[:, :, tf.newaxis]


def side_by_side(clusters: tf.Tensor) -> tf.Tensor:
    """Maps the vectors of K clusters, [B, K, D], to [B, K * D], each vector scaled to length 1."""
    return _joined(tf.nn.l2_normalize(clusters, -1))


def _joined(clusters: tf.Tensor) -> tf.Tensor:
    return tf.reshape(clusters, [-1, clusters.shape[1] * clusters.shape[2]])


def flatten(clusters: tf.Tensor) -> tf.Tensor:
    """`side_by_side`, then the whole vector scaled to length 1 (Arandjelovic et al. 2016)."""
    return tf.nn.l2_normalize(side_by_side(clusters), -1)


def residuals(net: Net, shares: tf.Tensor, inputs: tf.Tensor, start: layers.Start | None = None) -> tf.Tensor:
    """V_k = sum_i a_ik (x_i - c_k), [B, K, D] (Arandjelovic et al. 2016, equation 4); `start` as in `Net.dense`."""
    sizes = [int(shares.shape[-1]), int(inputs.shape[-1])]
    centres = anchors(net, "centres", *sizes) if start is None else net.variable("centres", sizes, start()[0])
    return weighted_sums(shares, inputs) - masses(shares) * centres


def of_stream(size: int, index: int, part: int = 2) -> int:
    """A number of clusters or groups in stream `index`: `size` in the first, 1 / `part` of it in the others."""
    return max(size // part, 1) if index else size


def clusters_of_streams(default: int) -> Any:
    """The declaration of an option `*_cluster_size` of models that pool each feature separately; see `of_stream`."""
    return option(default, "number of clusters of the first feature; the others have half as many", minimum=1)


def form_of_hidden_layer() -> Any:
    """The declaration of an option `*_relu`, which several models have."""
    return option(
        None,
        "hidden layer as published: batch norm and relu6; false: biases instead of both; not given: only batch norm",
    )


@dataclass(frozen=True)
class AggregatedModel(NormalisedModel, ClassifiedModel, abc.ABC):
    """Pools frames (a sample in training, all in evaluation) to a vector; then a hidden layer and a classifier.

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
        """The pooled vector, [B, F], of inputs [B, T, D] with mask [B, T]."""

    def own(self, name: str) -> Any:
        """The value of the field `<family>_<name>`, such as `netvlad_cluster_size` for `cluster_size`."""
        return getattr(self, f"{self.family}_{name}")

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        valid = frames.count(inputs, num_frames) > 0
        inputs, mask = frames.in_training(net, inputs, num_frames, self.iterations, scattered=self.sample_random_frames)
        if self.input_batch_norm:
            inputs = net.batch_norm(inputs, "input_bn", mask)
        hidden = self._hidden(net, self.pool(net, inputs, mask), valid)
        if self.gating:
            hidden = layers.context(net, hidden, valid=valid, remove_diagonal=self.gating_remove_diag)
        return self.classify(net, hidden, vocab_size)

    def _hidden(self, net: Net, pooled: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """The hidden layer [B, units]; if `*_relu` is given, its initial values are the published ones too."""
        relu = self.own("relu")
        batch_norm = self.own("add_batch_norm") and relu is not False
        start = None if relu is None else layers.normal(1 / math.sqrt(self.own("cluster_size")))
        hidden = net.dense(pooled, self.own("hidden_size"), "hidden1", bias=not batch_norm, start=start)
        if batch_norm:
            hidden = net.batch_norm(hidden, "hidden1_bn", valid)
        return tf.nn.relu6(hidden) if relu else hidden


@register
@dataclass(frozen=True)
class SoftDbowModel(AggregatedModel):
    """Soft bag of words: z = l2(sum_i a_i), with l2(max_i a_i) appended on request."""

    family: ClassVar[str] = "dbof"

    dbof_cluster_size: int = option(4096, "number of words (clusters)", minimum=1)
    dbof_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    dbof_add_batch_norm: bool = option(True, "batch normalisation rather than biases")
    dbof_relu: bool | None = form_of_hidden_layer()
    dbof_late_fusion: bool = option(
        False, "pool each feature by itself, as published; all but the first get an eighth of the clusters"
    )
    softdbof_maxpool: bool = option(
        False, "describe a video by the largest assignment to each word too, besides the sum"
    )
    gating: bool = option(False, "context gating of the hidden layer")
    feature_sizes: tuple[int, ...] = option((), "sizes of the features, for dbof_late_fusion; if empty, as one")

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The pooled vector, [B, K], or [B, 2 K] with the maxima; with late fusion, one for each feature, joined."""
        words = self.dbof_cluster_size
        if not self.dbof_late_fusion:
            return self.bag(net, self.shares(net, inputs, mask, words), int(inputs.shape[-1]), 0)

        def describe_stream(stream: tf.Tensor, index: int) -> tf.Tensor:
            shares = self.shares(net, stream, mask, of_stream(words, index, 8))
            return self.bag(net, shares, int(stream.shape[-1]), index)

        return frames.each_stream(inputs, self.feature_sizes, describe_stream)

    def shares(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor, words: int) -> tf.Tensor:
        """The assignments a_i, [B, T, words]."""
        return assign(net, inputs, mask, words, batch_norm=self.dbof_add_batch_norm)

    def bag(self, net: Net, shares: tf.Tensor, features: int, index: int) -> tf.Tensor:
        """The pooled vector of the assignments [B, T, K].

        Args:
          features: how many features the frames have.
          index: number of the feature, counted from 0; 0 if there is no late fusion.
        """
        bags = [tf.reduce_sum(shares, 1)]
        if self.softdbof_maxpool:
            bags.append(tf.reduce_max(shares, 1))
        return tf.concat([tf.nn.l2_normalize(bag, -1) for bag in bags], -1)


@register
@dataclass(frozen=True)
class GatedDbofModel(SoftDbowModel):
    """z = l2(sum_i a_i * sigmoid(BN(W2 (D l2(max_i a_i))))); D maps to as many units as there are features.

    With late fusion only the first feature is gated, as in the published code.
    """

    def bag(self, net: Net, shares: tf.Tensor, features: int, index: int) -> tf.Tensor:
        """The pooled vector, [B, K]."""
        if index:
            return super().bag(net, shares, features, index)
        start = layers.normal(1 / math.sqrt(features)) if self.dbof_late_fusion else None
        valid = tf.reduce_any(shares > 0.0, [1, 2])
        peaks = tf.nn.l2_normalize(tf.reduce_max(shares, 1), -1)
        narrow = net.dense(peaks, features, "gate_down", bias=False, start=start)
        scores = net.dense(narrow, int(shares.shape[-1]), "gate_up", bias=False, start=start)
        gates = tf.sigmoid(net.batch_norm(scores, "gate_bn", valid))
        return tf.nn.l2_normalize(tf.reduce_sum(shares, 1) * gates, -1)


@dataclass(frozen=True)
class StreamModel(AggregatedModel, abc.ABC):
    """Pools each feature (rgb, audio) separately; every feature after the first has half the clusters."""

    feature_sizes: tuple[int, ...] = option((), "sizes of the features, to pool them separately; if empty, as one")

    @abc.abstractmethod
    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """The pooled vector, [B, F], of one feature [B, T, D], given its assignments [B, T, K]."""

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The pooled vectors of the features, concatenated."""

        def describe_stream(stream: tf.Tensor, index: int) -> tf.Tensor:
            count = of_stream(self.own("cluster_size"), index)
            shares = assign(net, stream, mask, count, batch_norm=self.own("add_batch_norm"))
            return self.describe(net, shares, stream)

        return frames.each_stream(inputs, self.feature_sizes, describe_stream)


@register
@dataclass(frozen=True)
class NetVladModel(StreamModel):
    """V_k = sum_i a_ik (x_i - c_k) (Arandjelovic et al. 2016, section 3.1; Miech et al. 2017)."""

    family: ClassVar[str] = "netvlad"

    netvlad_cluster_size: int = clusters_of_streams(256)
    netvlad_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    netvlad_add_batch_norm: bool = option(True, "batch normalisation rather than biases")
    netvlad_relu: bool | None = form_of_hidden_layer()

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
    """Fisher vectors with learned, uncoupled centres and spreads (Miech et al. 2017, equations 4 and 5)."""

    family: ClassVar[str] = "fv"

    fv_cluster_size: int = clusters_of_streams(128)
    fv_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    fv_add_batch_norm: bool = option(True, "batch normalisation rather than biases")
    fv_relu: bool | None = form_of_hidden_layer()
    fv_variances_as_whole: bool = option(
        False, "scale the second-order part as a whole to length 1, as published, not cluster by cluster first"
    )

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """First and second order statistics, concatenated."""
        sizes = shares.shape[-1], inputs.shape[-1]
        centres = anchors(net, "centres", *sizes)
        sigma = tf.square(anchors(net, "spreads", *sizes, mean=1.0)) + 1e-6
        mass, first = masses(shares), weighted_sums(shares, inputs)
        second = weighted_sums(shares, tf.square(inputs))
        of_means = (first - mass * centres) / sigma
        centred = second - 2.0 * centres * first + mass * tf.square(centres)
        of_variances = centred / tf.square(sigma) - mass
        as_whole = self.fv_variances_as_whole
        flat_variances = tf.nn.l2_normalize(_joined(of_variances), -1) if as_whole else flatten(of_variances)
        return tf.concat([flatten(of_means), flat_variances], -1)
