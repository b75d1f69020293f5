"""Bags of words and the VLAD family: frames are assigned to clusters, the clusters make the video."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from yt8m.lazy import tf
from yt8m.models import aggregation, frames, gating, sampling
from yt8m.models.classifier import ClassifiedModel
from yt8m.models.names import register
from yt8m.models.normalised import NormalisedModel
from yt8m.options import option
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    from yt8m.models.layers import Net


class Sizes(NamedTuple):
    """Clusters, units of the hidden layer, and whether both are batch-normalised."""

    clusters: int
    hidden: int
    batch_norm: bool


@dataclass(frozen=True)
class AggregatedModel(NormalisedModel, ClassifiedModel, abc.ABC):
    """Frames sampled in training, all real frames in evaluation; pooled, a hidden layer, classified.

    Attributes:
      family: what the fields of its sizes begin with, as the published flags do.
    """

    family: ClassVar[str]

    iterations: int = option(300, "frames sampled from a video in training", minimum=1)
    sample_random_frames: bool = option(True, "frames one by one; else a run of neighbours")
    l2_penalty: float = option(1e-6, "weight of the classifier's squared weights", minimum=0)
    gating: bool = option(True, "context gating of the hidden layer")
    gating_remove_diag: bool = option(False, "no feature has a say in its own gate")

    @abc.abstractmethod
    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """[B, F] of inputs [B, T, D] with mask [B, T]."""

    def sizes(self) -> Sizes:
        """The sizes, whatever they are called in the family."""
        names = ("cluster_size", "hidden_size", "add_batch_norm")
        return Sizes(*(getattr(self, f"{self.family}_{name}") for name in names))

    def forward(
        self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None
    ) -> ModelOutput:
        """inputs [B, T, D] -> [B, vocab_size]."""
        valid = frames.count(inputs, num_frames) > 0
        inputs, mask = sampling.in_training(
            net, inputs, num_frames, self.iterations, scattered=self.sample_random_frames
        )
        _, units, batch_norm = self.sizes()
        hidden = net.dense(self.pool(net, inputs, mask), units, "hidden1", bias=not batch_norm)
        if batch_norm:
            hidden = net.batch_norm(hidden, "hidden1_bn", valid)
        if self.gating:
            hidden = gating.context(net, hidden, valid=valid, remove_diagonal=self.gating_remove_diag)
        return self.classify(net, hidden, vocab_size)


@register
@dataclass(frozen=True)
class SoftDbowModel(AggregatedModel):
    """Soft bag of words: z = l2(sum_i a_i), with l2(max_i a_i) beside it on request."""

    family: ClassVar[str] = "dbof"

    dbof_cluster_size: int = option(4096, "words", minimum=1)
    dbof_hidden_size: int = option(1024, "units of the layer on the bag", minimum=1)
    dbof_add_batch_norm: bool = option(True, "batch normalisation; else biases")
    softdbof_maxpool: bool = option(False, "the largest assignment to each word beside the sum")
    gating: bool = option(False, "context gating of the hidden layer")

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """[B, K], or [B, 2 K] with the largest."""
        shares = self.shares(net, inputs, mask)
        bags = [tf.reduce_sum(shares, 1)]
        if self.softdbof_maxpool:
            bags.append(tf.reduce_max(shares, 1))
        return tf.concat([tf.nn.l2_normalize(bag, -1) for bag in bags], -1)

    def shares(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """a_i, [B, T, K]."""
        return aggregation.assign(
            net, inputs, mask, self.dbof_cluster_size, batch_norm=self.dbof_add_batch_norm
        )


@register
@dataclass(frozen=True)
class GatedDbofModel(SoftDbowModel):
    """z = l2(sum_i a_i * sigmoid(BN(W2 (D l2(max_i a_i))))); D to as many units as features."""

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """[B, K]."""
        shares = self.shares(net, inputs, mask)
        peaks = tf.nn.l2_normalize(tf.reduce_max(shares, 1), -1)
        narrow = net.dense(peaks, int(inputs.shape[-1]), "gate_down", bias=False)
        scores = net.dense(narrow, self.dbof_cluster_size, "gate_up", bias=False)
        gates = tf.sigmoid(net.batch_norm(scores, "gate_bn", tf.reduce_any(mask > 0.0, 1)))
        return tf.nn.l2_normalize(tf.reduce_sum(shares, 1) * gates, -1)


@dataclass(frozen=True)
class StreamModel(AggregatedModel, abc.ABC):
    """rgb and audio described apart, with half the clusters for every stream after the first."""

    feature_sizes: tuple[int, ...] = option((), "sizes of the features, described apart; none: together")

    @abc.abstractmethod
    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """[B, F] of one stream [B, T, D] and its assignments [B, T, K]."""

    def pool(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The streams' descriptions side by side."""
        size, _, batch_norm = self.sizes()

        def described(stream: tf.Tensor, index: int) -> tf.Tensor:
            count = max(size // 2, 1) if index else size
            shares = aggregation.assign(net, stream, mask, count, batch_norm=batch_norm)
            return self.describe(net, shares, stream)

        return frames.each_stream(inputs, self.feature_sizes, described)


@register
@dataclass(frozen=True)
class NetVladModel(StreamModel):
    """V_k = sum_i a_ik (x_i - c_k) (Arandjelovic et al. 2016; Miech et al. 2017)."""

    family: ClassVar[str] = "netvlad"

    netvlad_cluster_size: int = option(256, "clusters of the first feature; the others take half", minimum=1)
    netvlad_hidden_size: int = option(1024, "units of the layer on the description", minimum=1)
    netvlad_add_batch_norm: bool = option(True, "batch normalisation; else biases")

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """As the class says."""
        return aggregation.vlad(net, shares, inputs)


@register
@dataclass(frozen=True)
class NetRvladModel(NetVladModel):
    """NetVLAD without the centres."""

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """As the class says."""
        return aggregation.rvlad(shares, inputs)


@register
@dataclass(frozen=True)
class NetVlagdModel(NetVladModel):
    """NetVLAD with a learned gate in place of the residual."""

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """As the class says."""
        return aggregation.vlagd(net, shares, inputs)


@register
@dataclass(frozen=True)
class NetFvModel(StreamModel):
    """Fisher vectors with learned, uncoupled centres and spreads (Miech et al. 2017)."""

    family: ClassVar[str] = "fv"

    fv_cluster_size: int = option(128, "clusters of the first feature; the others take half", minimum=1)
    fv_hidden_size: int = option(1024, "units of the layer on the description", minimum=1)
    fv_add_batch_norm: bool = option(True, "batch normalisation; else biases")

    def describe(self, net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """As the class says."""
        return aggregation.fisher(net, shares, inputs)
