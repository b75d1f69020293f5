"""Models whose input is one vector per video. They also serve as classifiers at the end of frame-level models.

Logistic regression, mixtures of experts, gated mixtures, chains of mixtures and residual blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models.base import BaseModel, ClassifiedModel, NormalisedModel, register
from yt8m.models.layers import Net, scaled
from yt8m.numerics import precision, whole_blocks
from yt8m.numerics.compiled import custom_gradient
from yt8m.options import option
from yt8m.types import ModelOutput, SideOutput

_GATE_RATE = 4.0  # how much faster than a weight the gate of an input learns
_LOWER_BOUND = 1e-30  # of F and A in `log_odds`, so that their logarithms are finite


def log_odds(gates: tf.Tensor, votes: tf.Tensor) -> tf.Tensor:
    """The log-odds of the prediction of a mixture of experts: log F - log A.

    F = sum_e g_e sigmoid(v_e) is the prediction, A = sum_e g_e sigmoid(-v_e) + g_dummy is 1 - F; g is the softmax of
    the gates, and v are the votes. A is summed, not computed as 1 - F, which would be mostly rounding error if F is
    near 1.

    Args:
      gates: float32 [B, C, E + 1] before their softmax; the last one belongs to the dummy expert.
      votes: float32 [B, C, E] before their sigmoid.

    Returns:
      float32 [B, C].
    """
    shape = tf.shape(votes)[:-1]
    # `_log_odds` computes the experts one by one, because kernels are slow along an axis of length two or three.
    rows = (tf.reshape(x, [-1, x.shape[-1]]) for x in (gates, votes))
    odds = whole_blocks.apply_to_rows(custom_gradient(_log_odds), *rows)
    return tf.ensure_shape(tf.reshape(odds, shape), votes.shape[:-1])


def _log_odds(gates: tf.Tensor, votes: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """`log_odds` [N] of gates [N, E + 1] and votes [N, E], and the function that computes the gradient of both."""
    *expert_gates, dummy_gate = _exponentials(tf.unstack(gates, axis=-1))
    yes = [tf.sigmoid(vote) for vote in tf.unstack(votes, axis=-1)]
    no = [tf.sigmoid(-vote) for vote in tf.unstack(votes, axis=-1)]
    votes_for = [gate * vote for gate, vote in zip(expert_gates, yes, strict=True)]
    votes_against = [gate * vote for gate, vote in zip(expert_gates, no, strict=True)]
    total_for = tf.maximum(tf.add_n(votes_for), _LOWER_BOUND)
    total_against = tf.maximum(tf.add_n([*votes_against, dummy_gate]), _LOWER_BOUND)

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        of_for, of_against = upstream / total_for, upstream / total_against
        of_gates = [a * of_for - b * of_against for a, b in zip(votes_for, votes_against, strict=True)]
        of_votes = [a * vote * (of_for + of_against) for a, vote in zip(votes_for, no, strict=True)]
        return _join_columns([*of_gates, -dummy_gate * of_against]), _join_columns(of_votes)

    return tf.math.log(total_for / total_against), gradient


def _exponentials(gates: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """exp(gate - largest gate) of each gate: its softmax but for the division, which cancels in the log-odds."""
    largest = gates[0]
    for gate in gates[1:]:
        largest = tf.maximum(largest, gate)
    return [tf.exp(gate - largest) for gate in gates]


def _join_columns(columns: Sequence[tf.Tensor]) -> tf.Tensor:
    """Joins E columns [N] to [N, E]; this transposition is twice as fast as stacking along the last axis."""
    return tf.transpose(tf.stack(columns))


@register
@dataclass(frozen=True)
class LogisticModel(BaseModel):
    """p = sigmoid(W x + b), one classifier per class."""

    l2_penalty: float = option(1e-8, "weight of the squared weights in the regularisation loss", minimum=0)
    l2_biases: bool = option(False, "regularise the biases too, as in the published NeXtVLAD")

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, D] to predictions [B, vocab_size]."""
        logits = net.dense(inputs, vocab_size, l2_penalty=self.l2_penalty, l2_biases=self.l2_biases)
        return ModelOutput(predictions=whole_blocks.sigmoid(logits), logits=logits)


@register
@dataclass(frozen=True)
class MoeModel(NormalisedModel):
    """A mixture of logistic experts for each class (Jordan and Jacobs 1994; Abu-El-Haija et al. 2016).

    g = softmax over E + 1 gates of (W_g x), p_c = sum over the E experts of g_ce sigmoid(W_ce x + b_ce);
    the last gate belongs to a dummy expert that always predicts 0. With `moe_prob_gating`
    p' = p * sigmoid(BN(W p)): classes gate each other (Miech et al. 2017, section 3.3).
    """

    moe_num_mixtures: int = option(2, "number of experts per class, besides the dummy that predicts 0", minimum=1)
    l2_penalty: float = option(1e-8, "weight of the squared weights in the regularisation loss", minimum=0)
    moe_low_rank_gating: int = option(
        -1, "rank of the matrix W_g that chooses among the experts, as published; -1 or 0: full rank", minimum=-1
    )
    moe_prob_gating: bool = option(False, "multiply each prediction by a gate in 0..1")
    moe_prob_gating_input: str = option(
        "prob", "input of the gates of the predictions: the predictions, or the features", choices=("prob", "input")
    )
    prob_gating_rank: int = option(0, "rank of the matrix of the gates of the predictions; 0: full rank", minimum=0)
    gating_remove_diag: bool = option(False, "leave each class out of the input of its own gate")

    def validate(self) -> None:
        """Refuses `gating_remove_diag` for gates whose matrix has no diagonal.

        Raises:
          UsageError: gating_remove_diag is set, but the gates are computed from the input.
        """
        if self.moe_prob_gating and self.gating_remove_diag and self.moe_prob_gating_input == "input":
            raise UsageError(
                f"{type(self).__name__}: gating_remove_diag must be False if moe_prob_gating_input is "
                "input; only gates that see the classes have a diagonal"
            )

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, D] to predictions [B, vocab_size]; logits are their log-odds."""
        experts = self.moe_num_mixtures
        gates = self._gates(net, inputs, vocab_size * (experts + 1))
        votes = net.dense(inputs, vocab_size * experts, "experts", l2_penalty=self.l2_penalty)
        logits = log_odds(
            tf.reshape(gates, [-1, vocab_size, experts + 1]), tf.reshape(votes, [-1, vocab_size, experts])
        )
        mixed = ModelOutput(predictions=whole_blocks.sigmoid(logits), logits=logits)
        return self._gate_predictions(net, inputs, mixed) if self.moe_prob_gating else mixed

    def _gates(self, net: Net, inputs: tf.Tensor, units: int) -> tf.Tensor:
        """W_g x, [B, units], for inputs x [B, D]; W_g is a product of two matrices if a low rank is set."""
        if self.moe_low_rank_gating < 1:
            return net.dense(inputs, units, "gates", bias=False, l2_penalty=self.l2_penalty)
        narrow = net.dense(inputs, self.moe_low_rank_gating, "gates1", bias=False, l2_penalty=self.l2_penalty)
        return net.dense(narrow, units, "gates2", bias=False, l2_penalty=self.l2_penalty)

    def _gate_predictions(self, net: Net, inputs: tf.Tensor, mixed: ModelOutput) -> ModelOutput:
        """Multiplies the predictions by their gates; the new logits are the log-odds of the products.

        Args:
          net: makes the layers.
          inputs: float32 [B, D].
          mixed: the predictions [B, C] of the mixture, and their logits.
        """
        seen = mixed.predictions if self.moe_prob_gating_input == "prob" else inputs
        with tf.variable_scope("prob_gating"):
            gates = net.batch_norm(self._gate_scores(net, seen, int(mixed.predictions.shape[-1])), "bn")
        # The odds of p = sigmoid(z) sigmoid(g) are p / (1 - p) = 1 / (e^-z + e^-g + e^-(z + g)).
        against = tf.negative(tf.stack([mixed.logits, gates, mixed.logits + gates]))
        return ModelOutput(predictions=mixed.predictions * tf.sigmoid(gates), logits=-tf.reduce_logsumexp(against, 0))

    def _gate_scores(self, net: Net, seen: tf.Tensor, classes: int) -> tf.Tensor:
        """The gates before batch normalisation and sigmoid: W x, [B, classes], for their input x, `seen` [B, F]."""
        features, rank = int(seen.shape[-1]), self.prob_gating_rank
        if rank < 1:
            weights = net.normal_weights("weights", features, classes)
            if self.gating_remove_diag:
                weights = tf.linalg.set_diag(weights, tf.zeros([classes]))
            return precision.product(seen, weights)
        down, up = net.normal_weights("down", features, rank), net.normal_weights("up", rank, classes)
        scores = precision.product(precision.product(seen, down), up)
        if self.gating_remove_diag:
            scores -= tf.reduce_sum(down * tf.transpose(up), 1) * seen
        return scores


@register
@dataclass(frozen=True)
class GatedMoeModel(MoeModel):
    """A MoeModel whose classes gate each other: p' = p * sigmoid(BN(W p)) (Miech et al. 2017, section 3.3)."""

    moe_prob_gating: bool = option(True, "multiply each prediction by a gate in 0..1")


@register
@dataclass(frozen=True)
class DeepCombineChainModel(BaseModel):
    """A chain of mixtures of experts; each gets the input and the predictions of those before it (Wang et al. 2017).

    s_1 is the input. For l = 1..n, n being `deep_chain_layers`: q_l = MoE(s_l), r_l = l2(relu(FC(q_l))), s_l+1 = [s_l,
    r_l]; p = MoE(s_n+1). l2 scales a vector to length 1. With the loss L on the labels and w = `support_loss_percent`,
    the whole loss is L(p) + w / (1 - w) sum_l L(q_l), which is 1 / (1 - w) times the published (1 - w) L(p) + w sum_l
    L(q_l).
    """

    deep_chain_layers: int = option(8, "number of mixtures of experts before the last one", minimum=1)
    deep_chain_relu_cells: int = option(128, "units that a mixture's predictions are reduced to", minimum=1)
    support_loss_percent: float = option(
        0.025, "weight of the losses of all mixtures but the last", minimum=0, maximum=0.99
    )
    moe_num_mixtures: int = option(2, "number of experts per class, besides the dummy that predicts 0", minimum=1)
    l2_penalty: float = option(1e-8, "weight of the squared weights in the regularisation loss", minimum=0)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, D] to predictions [B, vocab_size], with a side output for each mixture but the last."""
        weight = self.support_loss_percent / (1.0 - self.support_loss_percent)
        sides = []
        for index in range(self.deep_chain_layers):
            with tf.variable_scope(f"chain_{index}"):
                mixed = self._mixture(net, inputs, vocab_size)
                units = net.dense(mixed.predictions, self.deep_chain_relu_cells, l2_penalty=self.l2_penalty)
                inputs = tf.concat([inputs, tf.nn.l2_normalize(tf.nn.relu(units), -1)], -1)
            sides.append(SideOutput(f"chain_{index}", mixed.logits, weight))
        last = self._mixture(net, inputs, vocab_size)
        return ModelOutput(last.predictions, last.logits, side_outputs=tuple(sides), extras={"hidden": inputs})

    def _mixture(self, net: Net, inputs: tf.Tensor, vocab_size: int) -> ModelOutput:
        """The output of a new mixture of experts on inputs [B, F]."""
        mixture = MoeModel(moe_num_mixtures=self.moe_num_mixtures, l2_penalty=self.l2_penalty)
        return mixture.forward(net, inputs, vocab_size, None)


@register
@dataclass(frozen=True)
class ResidualMlpModel(NormalisedModel, ClassifiedModel):
    """h = relu(BN(W x)), then blocks h + W2 dropout(relu(BN(W1 h))) (after He et al. 2016), then a classifier."""

    level: ClassVar[str] = "video"

    mlp_hidden_size: int = option(1024, "units of every layer", minimum=1)
    mlp_blocks: int = option(2, "residual blocks", minimum=0)
    drop_rate: float = option(0.1, "share of a block's units that training drops", minimum=0, maximum=0.99)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, D] to predictions [B, vocab_size]."""
        hidden = self._layer(net, inputs, "first")
        for index in range(self.mlp_blocks):
            with tf.variable_scope(f"block_{index}"):
                inner = net.dropout(self._layer(net, hidden, "first"), self.drop_rate)
                hidden += net.dense(inner, self.mlp_hidden_size, "second")
        return self.classify(net, hidden, vocab_size)

    def _layer(self, net: Net, inputs: tf.Tensor, name: str) -> tf.Tensor:
        """relu(BN(W x)), [B, mlp_hidden_size], for inputs x [B, F]."""
        units = net.dense(inputs, self.mlp_hidden_size, name, bias=False)
        return tf.nn.relu(net.batch_norm(units, f"{name}_bn"))


@register
@dataclass(frozen=True)
class GatedMlpModel(BaseModel):
    """A gate for each input, layers of ReLU units, then logistic regression: for features of which few matter.

    x'_d = g_d s(x_d), where g_d is a learned number that begins at 1, and s(x) = x / sqrt(1 + (x / limit)^2) bounds
    outliers. The penalty holds the squared gates beside the squared weights. A gate and the weights after it then
    shrink together, which sets useless inputs to 0, like the penalty of the lasso (Hoff 2017, arXiv 1611.00824).
    """

    mlp_hidden_size: int = option(256, "units of every layer", minimum=1)
    mlp_layers: int = option(2, "layers before the last one", minimum=1)
    input_limit: float = option(4.0, "bound of an input after its transform, which outliers approach", minimum=0.01)
    drop_rate: float = option(0.0, "share of a layer's units that training drops", minimum=0, maximum=0.99)
    l2_penalty: float = option(1e-3, "weight of the squared weights and gates in the regularisation loss", minimum=0)

    def forward(self, net: Net, inputs: tf.Tensor, vocab_size: int, num_frames: tf.Tensor | None) -> ModelOutput:
        """Maps inputs [B, D] to predictions [B, vocab_size]."""
        hidden = self._gated(net, inputs)
        for index in range(self.mlp_layers):
            initializers = scaled(int(hidden.shape[-1]))
            units = self.mlp_hidden_size
            layer = net.dense(
                hidden, units, f"layer_{index}", l2_penalty=self.l2_penalty, make_initializers=initializers
            )
            hidden = net.dropout(tf.nn.relu(layer), self.drop_rate)
        logits = net.dense(hidden, vocab_size, l2_penalty=self.l2_penalty)
        return ModelOutput(predictions=whole_blocks.sigmoid(logits), logits=logits, extras={"hidden": hidden})

    def _gated(self, net: Net, inputs: tf.Tensor) -> tf.Tensor:
        """g s(x), [B, D]. A gate is `_GATE_RATE` times a variable, so that it learns faster than a weight."""
        initial = tf.constant_initializer(1 / _GATE_RATE)
        gates = _GATE_RATE * net.variable("gates", [int(inputs.shape[-1])], initial)
        if self.l2_penalty:
            net.penalties.append(2 * self.l2_penalty * tf.nn.l2_loss(gates))
        bounded = inputs * tf.math.rsqrt(1.0 + tf.square(inputs / self.input_limit))
        return bounded * gates
