"""NeXtVLAD, alone and as a mixture of three."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models import aggregation, frames, layers
from yt8m.models.base import INPUT_TRANSFORMS, ClassifiedModel, NormalisedModel, register
from yt8m.models.layers import Net
from yt8m.numerics import precision, whole_blocks
from yt8m.options import option
from yt8m.types import HiddenRows, ModelOutput, SideOutput


@register
@dataclass(frozen=True)
class NeXtVladModel(NormalisedModel, ClassifiedModel):
    """NeXtVLAD (Lin et al. 2018, section 3): VLAD over groups of each expanded frame, weighted by attention."""

    # Whether the published gate averages biased variances (see `Net.batch_norm`), as the other published layers do.
    biased_gate: ClassVar[bool] = True

    video_level_classifier_model: str = option("LogisticModel", "video-level model that is the classifier at the end")
    input_transform: str = option(
        "reverse_whitening",
        "how features are transformed first; reverse_whitening needs the rgb features of YouTube-8M",
        choices=INPUT_TRANSFORMS,
    )
    nextvlad_cluster_size: int = aggregation.cluster_size_option(128)
    nextvlad_hidden_size: int = option(2048, "units of the hidden layer after the pooling", minimum=1)
    groups: int = option(8, "number of groups of the first feature; the others have half as many", minimum=1)
    expansion: int = option(2, "factor by which the number of a frame's features is expanded", minimum=1)
    gating_reduction: int = option(
        8, "factor by which the gate's inner layer is smaller than the hidden layer", minimum=1
    )
    drop_rate: float = option(0.5, "dropout rate in training", minimum=0, maximum=0.99)
    l2_penalty: float = option(1e-5, "weight of the squared weights of the hidden layer and the classifier", minimum=0)
    as_published: bool = option(
        False, "details of the published code: no bias in the gate, no L2 on the hidden layer, its initial values"
    )
    feature_sizes: tuple[int, ...] = option((), "sizes of the features, to pool them separately; if empty, as one")

    def validate(self) -> None:
        """Refuses a number of groups that does not divide the expanded features.

        Raises:
          UsageError: the groups do not divide the features; the message names both sizes.
        """
        super().validate()
        for index, size in enumerate(self.feature_sizes):
            self._width(index, size)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size]."""
        return self.classify(net, self.describe(net, inputs, num_frames), vocab_size)

    def describe(self, net: Net, inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tf.Tensor:
        """Pools frames [B, T, D] to the gated hidden layer, [B, nextvlad_hidden_size]."""
        mask, valid = frames.mask(inputs, num_frames), frames.count(inputs, num_frames) > 0

        def describe_stream(stream: tf.Tensor, index: int) -> tf.Tensor:
            vlad = self._vlad(net, stream, mask, index)
            return net.batch_norm(vlad, "vlad_bn", valid, biased=self.as_published)

        dropped = net.dropout(frames.each_stream(inputs, self.feature_sizes, describe_stream), self.drop_rate)
        hidden = net.dense(
            dropped,
            self.nextvlad_hidden_size,
            "hidden1",
            bias=False,
            l2_penalty=0.0 if self.as_published else self.l2_penalty,
            make_initializers=self._initializers(int(dropped.shape[-1])),
        )
        hidden = net.batch_norm(hidden, "hidden1_bn", valid, biased=self.as_published)
        return layers.squeeze_excite(
            net,
            hidden,
            self.gating_reduction,
            valid=valid,
            bias=not self.as_published,
            biased=self.as_published and self.biased_gate,
        )

    def _initializers(self, fan_in: int) -> layers.MakeInitializers:
        """Makes the initialisers of a layer with `fan_in` inputs."""
        return layers.scaled(fan_in) if self.as_published else layers.xavier

    def _vlad(self, net: Net, inputs: tf.Tensor, mask: tf.Tensor, index: int) -> tf.Tensor:
        """The VLAD of one feature: y_k = sum over frames i and groups g of m_i a_ig a_igk (x_ig - c_k).

        x_ig is group g of the expanded frame i, a_ig its attention, a_igk its share in cluster k, and c_k the centre.

        Each y_k is scaled to length 1, but the joined vector is not: batch normalisation follows, whose epsilon would
        exceed the variance of smaller values.

        Args:
          net: makes the layers.
          inputs: float32 [B, T, D], the frames of the feature.
          mask: m, float32 [B, T], 1 at real frames.
          index: index of the feature.

        Returns:
          The y_k of the K clusters, joined: [B, K * features of a group].
        """
        clusters, groups = (
            aggregation.size_in_stream(size, index) for size in (self.nextvlad_cluster_size, self.groups)
        )
        width = self._width(index, int(inputs.shape[-1]))
        wide = groups * width
        expanded = net.dense(inputs, wide, "expansion", make_initializers=self._initializers(int(inputs.shape[-1])))
        scores = net.dense(expanded, groups, "group_attention", make_initializers=self._initializers(wide))
        attention = tf.sigmoid(scores) * mask[:, :, tf.newaxis]
        weights = net.variable("cluster_weights", [wide, groups * clusters], self._initializers(wide)()[0])
        scores = net.batch_norm(precision.product(expanded, weights), "cluster_bn", mask, biased=self.as_published)
        pieces = tf.shape(inputs)[1] * groups
        shares = tf.nn.softmax(tf.reshape(scores, [-1, pieces, clusters]))
        shares *= tf.reshape(attention, [-1, pieces, 1])
        groupwise = tf.reshape(expanded, [-1, pieces, width])
        initializers = layers.scaled(width) if self.as_published else None
        return aggregation.side_by_side(aggregation.residuals(net, shares, groupwise, initializers))

    def _width(self, index: int, size: int) -> int:
        """The number of columns in one group of feature `index`, which has `size` columns before its expansion.

        Raises:
          UsageError: the groups do not divide the expanded columns.
        """
        groups = aggregation.size_in_stream(self.groups, index)
        if size * self.expansion % groups:
            raise UsageError(
                f"{type(self).__name__}: groups must divide expansion x features; feature {index} has "
                f"{size} x {self.expansion} for {groups} groups (every feature but the first has half as many groups)"
            )
        return size * self.expansion // groups


@register
@dataclass(frozen=True)
class MixNeXtVladModel(NeXtVladModel):
    """Several NeXtVLADs (branches), whose logits are mixed with the weights softmax(FC(BN(mean x))).

    The branches learn from the mixture, by distillation (Lin et al. 2018, section 3.3, after Lan et al. 2018). The loss
    is L(mixture) + sum_e L(branch e) + lambda T^2 sum_e KL(softmax(z_e / T) to softmax(z_mixture / T)). L is the loss
    on the labels, z_e are the logits of branch e, lambda is `cl_lambda`, and T is `cl_temperature`. Through the last
    term no gradient flows into the mixture, and it is computed without its constant, the entropy of the mixture. With
    `cl_both_sides` the last term is that of the published code, lambda sum_e KL(softmax(z_mixture / T) to softmax(z_e /
    T)): without T^2, and with a gradient for the mixture too.
    """

    biased_gate: ClassVar[bool] = False

    mix_number: int = option(3, "number of NeXtVLAD branches that are mixed", minimum=2)
    cl_temperature: float = option(3.0, "temperature T at which each branch is compared with the mixture", minimum=1e-3)
    cl_lambda: float = option(1.0, "weight of the branches' divergence from the mixture, times T^2", minimum=0)
    cl_both_sides: bool = option(
        False, "as published: the divergence lacks the factor T^2, and the mixture learns from it too"
    )

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, T, D] to predictions [B, vocab_size], with two side outputs for each branch."""
        branches = []
        for index in range(self.mix_number):
            with tf.variable_scope(f"branch_{index}"):
                branches.append(self._branch(net, inputs, vocab_size, num_frames))
        shares = self._shares(net, inputs, num_frames)
        logits = tf.add_n([shares[:, e : e + 1] * branch.logits for e, branch in enumerate(branches)])
        if self.cl_both_sides:
            net.penalties.append(self.cl_lambda * self._divergence([branch.logits for branch in branches], logits))
        hidden = HiddenRows(tuple(part for branch in branches for part in branch.extras["hidden"].parts))
        return ModelOutput(
            whole_blocks.sigmoid(logits),
            logits,
            side_outputs=self._side_outputs(branches, logits),
            extras={"hidden": hidden},
        )

    def _branch(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """The output of one branch, with the side outputs of its classifier.

        Raises:
          UsageError: the classifier gives no logits.
        """
        output = super().forward(net, inputs, vocab_size, num_frames)
        if output.logits is None:
            raise UsageError(
                f"{type(self).__name__}: {self.video_level_classifier_model} gives no logits, which a mixture needs; "
                "name another video_level_classifier_model, such as LogisticModel"
            )
        return output

    def _shares(self, net: Net, inputs: tf.Tensor, num_frames: tf.Tensor | None) -> tf.Tensor:
        """The weights of the branches in the mixture, [B, mix_number]."""
        valid = frames.count(inputs, num_frames) > 0
        mean = net.batch_norm(frames.mean(inputs, num_frames), "mixture_bn", valid, biased=self.as_published)
        return tf.nn.softmax(
            net.dense(mean, self.mix_number, "mixture", make_initializers=self._initializers(int(mean.shape[-1])))
        )

    def _divergence(self, branches: list[tf.Tensor], mixture: tf.Tensor) -> tf.Tensor:
        """The mean over the rows of sum_e KL(softmax(z_mixture / T) to softmax(z_e / T)), a scalar.

        Args:
          branches: z_e, [B, C] each.
          mixture: z_mixture, [B, C].
        """
        target, epsilon = tf.nn.softmax(mixture / self.cl_temperature), 1e-8  # the epsilon of the published code
        of_branches = [tf.nn.softmax(z / self.cl_temperature) for z in branches]
        ratios = [tf.math.log(target + epsilon) - tf.math.log(p + epsilon) for p in of_branches]
        return tf.reduce_mean(tf.reduce_sum(target * tf.add_n(ratios), -1))

    def _side_outputs(self, branches: list[ModelOutput], mixture: tf.Tensor) -> tuple[SideOutput, ...]:
        """The side outputs of the branches: logits with the labels as targets, logits with the mixture as target.

        Args:
          branches: their logits are [B, C]; the side outputs of their classifiers are kept.
          mixture: the logits of the mixture, [B, C].
        """
        temperature, sides = self.cl_temperature, []
        target = tf.stop_gradient(tf.nn.softmax(mixture / temperature))
        for e, branch in enumerate(branches):
            logits: Any = branch.logits
            sides.append(SideOutput(f"branch_{e}", logits))
            if not self.cl_both_sides:
                weight = self.cl_lambda * temperature**2
                sides.append(SideOutput(f"distilled_{e}", logits / temperature, weight, target, "SoftmaxLoss"))
            sides += [side._replace(name=f"branch_{e}_{side.name}") for side in branch.side_outputs]
        return tuple(sides)
