"""Models that assign frames to clusters: bags of words and the VLAD family.

Each frame is softly assigned to clusters; the clusters then describe the video as one vector.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from yt8m.lazy import tf
from yt8m.models import frames, layers
from yt8m.models.base import ClassifiedModel, NormalisedModel, register
from yt8m.models.layers import Net
from yt8m.numerics import precision
from yt8m.options import option
from yt8m.types import ModelOutput


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


def side_by_side(described: tf.Tensor) -> tf.Tensor:
    """Maps [B, K, D] to [B, K * D], each cluster scaled to length 1."""
    clusters = tf.nn.l2_normalize(described, -1)
    return tf.reshape(clusters, [-1, described.shape[1] * described.shape[2]])


def flatten(described: tf.Tensor) -> tf.Tensor:
    """[B, K, D] to [B, K * D]: each cluster scaled to length 1, then the whole vector (Arandjelovic et al. 2016)."""
    return tf.nn.l2_normalize(side_by_side(described), -1)


def residuals(net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """V_k = sum_i a_ik (x_i - c_k), [B, K, D] (Arandjelovic et al. 2016, equation 4)."""
    centres = anchors(net, "centres", shares.shape[-1], inputs.shape[-1])
    return weighted_sums(shares, inputs) - masses(shares) * centres


class Sizes(NamedTuple):
    """The number of clusters and of hidden units, and whether both are batch-normalised."""

    clusters: int
    hidden: int
    batch_norm: bool


@dataclass(frozen=True)
class AggregatedModel(NormalisedModel, ClassifiedModel, abc.ABC):
    """Pools frames (a sample in training, all in evaluation) to a vector; then a hidden layer and a classifier.

    Attributes:
      family: prefix of the fields for its sizes, as in the published flags.
    """

    family: ClassVar[str]

    iterations: int = option(300, "frames sampled from a video in training", minimum=1)
    sample_random_frames: bool = option(True, "sample single frames rather than consecutive ones")
    l2_penalty: float = option(1e-6, "weight of the classifier's squared weights", minimum=0)
    gating: bool = option(True, "context gating of the hidden layer")
    gating_remove_diag: bool = option(False, "leave each feature out of the input of its own gate")

    @abc.abstractmethod
    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The pooled vector, [B, F], of inputs [B, T, D] with mask [B, T]."""

    def sizes(self) -> Sizes:
        """The sizes, from the fields that begin with `family`."""
        names = ("cluster_size", "hidden_size", "add_batch_norm")
        return Sizes(*(getattr(self, f"{self.family}_{name}") for name in names))

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        valid = frames.count(inputs, num_frames) > 0
        inputs, mask = frames.in_training(net, inputs, num_frames, self.iterations, scattered=self.sample_random_frames)
        _, units, batch_norm = self.sizes()
        hidden = net.dense(self.pool(net, inputs, mask), units, "hidden1", bias=not batch_norm)
        if batch_norm:
            hidden = net.batch_norm(hidden, "hidden1_bn", valid)
        if self.gating:
            hidden = layers.context(net, hidden, valid=valid, remove_diagonal=self.gating_remove_diag)
        return self.classify(net, hidden, vocab_size)


@register
@dataclass(frozen=True)
class SoftDbowModel(AggregatedModel):
    """Soft bag of words: z = l2(sum_i a_i), with l2(max_i a_i) appended on request."""

    family: ClassVar[str] = "dbof"

    dbof_cluster_size: int = option(4096, "number of words (clusters)", minimum=1)
    dbof_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    dbof_add_batch_norm: bool = option(True, "batch normalisation rather than biases")
    softdbof_maxpool: bool = option(
        False, "describe a video by the largest assignment to each word too, besides the sum"
    )
    gating: bool = option(False, "context gating of the hidden layer")

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The pooled vector, [B, K] or [B, 2 K] with the maxima."""
        shares = self.shares(net, inputs, mask)
        bags = [tf.reduce_sum(shares, 1)]
        if self.softdbof_maxpool:
            bags.append(tf.reduce_max(shares, 1))
        return tf.concat([tf.nn.l2_normalize(bag, -1) for bag in bags], -1)

    def shares(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The assignments a_i, [B, T, K]."""
        return assign(net, inputs, mask, self.dbof_cluster_size, batch_norm=self.dbof_add_batch_norm)


@register
@dataclass(frozen=True)
class GatedDbofModel(SoftDbowModel):
    """z = l2(sum_i a_i * sigmoid(BN(W2 (D l2(max_i a_i))))); D maps to as many units as there are features."""

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The pooled vector, [B, K]."""
        shares = self.shares(net, inputs, mask)
        peaks = tf.nn.l2_normalize(tf.reduce_max(shares, 1), -1)
        narrow = net.dense(peaks, int(inputs.shape[-1]), "gate_down", bias=False)
        scores = net.dense(narrow, self.dbof_cluster_size, "gate_up", bias=False)
        gates = tf.sigmoid(net.batch_norm(scores, "gate_bn", tf.reduce_any(mask > 0.0, 1)))
        return tf.nn.l2_normalize(tf.reduce_sum(shares, 1) * gates, -1)


@dataclass(frozen=True)
class StreamModel(AggregatedModel, abc.ABC):
    """Describes rgb and audio separately; every stream after the first has half the clusters."""

    feature_sizes: tuple[int, ...] = option((), "sizes of the features, to pool them separately; if empty, as one")

    @abc.abstractmethod
    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """The description, [B, F], of one stream [B, T, D] and its assignments [B, T, K]."""

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The descriptions of the streams, concatenated."""
        size, _, batch_norm = self.sizes()

        def described(stream: tf.Tensor, index: int) -> tf.Tensor:
            count = max(size // 2, 1) if index else size
            shares = assign(net, stream, mask, count, batch_norm=batch_norm)
            return self.describe(net, shares, stream)

        return frames.each_stream(inputs, self.feature_sizes, described)


@register
@dataclass(frozen=True)
class NetVladModel(StreamModel):
    """V_k = sum_i a_ik (x_i - c_k) (Arandjelovic et al. 2016, section 3.1; Miech et al. 2017)."""

    family: ClassVar[str] = "netvlad"

    netvlad_cluster_size: int = option(
        256, "number of clusters of the first feature; the others have half as many", minimum=1
    )
    netvlad_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    netvlad_add_batch_norm: bool = option(True, "batch normalisation rather than biases")

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

    fv_cluster_size: int = option(
        128, "number of clusters of the first feature; the others have half as many", minimum=1
    )
    fv_hidden_size: int = option(1024, "units of the hidden layer after the pooling", minimum=1)
    fv_add_batch_norm: bool = option(True, "batch normalisation rather than biases")

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
        return tf.concat([flatten(of_means), flatten(of_variances)], -1)
