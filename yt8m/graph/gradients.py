"""The towers' gradients as one: weighted by examples, or summed as the published code does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from yt8m import deploy
from yt8m.config import OptimizerConfig
from yt8m.graph.clones import Towers
from yt8m.graph.towers import Share
from yt8m.lazy import tf
from yt8m.types import ModelOutput


class Gradients(NamedTuple):
    """The gradients of a step.

    Attributes:
      together: (gradient, variable) of the towers together.
      norms: float32 [V], of each of them.
      bad_tower: int64 scalar, the first tower with a gradient that is not finite; -1 for none, and always
        if the towers depend on each other: what is not finite in one of them then reaches all.
    """

    together: list[tuple[Any, Any]]
    norms: tf.Tensor
    bad_tower: tf.Tensor


def tower_gradients(towers: Towers, optimizer: tf.train.Optimizer, config: OptimizerConfig) -> Gradients:
    """The towers' gradients, each weighted by its share (or 1, as published)."""
    shares, penalty = towers.shares, config.regularization_penalty
    weights, repeats = _weights(shares, config.combine_gradients)
    shared = [term * penalty * repeats for term in towers.shared_terms]
    of_towers: list[list[tuple[Any, Any]]] = []
    _, gradients = deploy.optimize_clones(
        towers.clones,
        optimizer,
        regularization_losses=shared,
        weights=weights,
        objectives=[_objective(output, penalty) for output in towers.outputs],
        of_clones=of_towers,
        jointly=towers.depend_on_each_other,
    )
    together = [(gradient, variable) for gradient, variable in gradients if gradient is not None]
    norms = deploy.gradient_norms([gradient for gradient, _ in together])
    unknown = tf.constant(-1, tf.int64)
    return Gradients(
        together, norms, unknown if towers.depend_on_each_other else _first_bad(of_towers, norms)
    )


def _first_bad(of_towers: Sequence[Sequence[tuple[Any, Any]]], norms: tf.Tensor) -> tf.Tensor:
    """Looks at the towers one by one only where a norm of all together is not finite."""

    none = tf.constant(-1, tf.int64)

    def look() -> tf.Tensor:
        if len(of_towers) == 1:
            return tf.zeros([], tf.int64)
        bad = tf.stack([_has_bad(pairs) for pairs in of_towers])
        # None of them, where only their sum is too large.
        return tf.where_v2(tf.reduce_any(bad), tf.argmax(tf.cast(bad, tf.int32)), none)

    return tf.cond(tf.reduce_all(tf.is_finite(norms)), lambda: none, look)


def _has_bad(pairs: Sequence[tuple[Any, Any]]) -> tf.Tensor:
    norms = deploy.gradient_norms([gradient for gradient, _ in pairs if gradient is not None])
    return tf.logical_not(tf.reduce_all(tf.is_finite(norms)))


def _weights(shares: Sequence[Share], combine: str) -> tuple[list[Any], Any]:
    """What each tower's gradient counts, and how often the towers together count a shared term."""
    if len(shares) == 1:
        return [1.0], 1.0  # a number, so that a closed-form gradient is used as it is
    if combine == "mean":
        return [share.weight for share in shares], 1.0
    there = [tf.cast(share.rows > 0, tf.float32) for share in shares]
    return there, tf.add_n(there)


def _objective(output: ModelOutput, penalty: float) -> deploy.Objective:
    term = output.regularization_loss
    return deploy.Objective(
        loss=output.loss,
        regularization=None if term is None or penalty == 0 else term * penalty,
        roots=output.loss_gradients,
    )
