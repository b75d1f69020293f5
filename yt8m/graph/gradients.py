"""The towers' gradients as one: weighted by examples, or summed as the published code does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yt8m import deploy
from yt8m.config import OptimizerConfig
from yt8m.graph.clones import Towers
from yt8m.graph.towers import Share
from yt8m.lazy import tf
from yt8m.types import ModelOutput


def tower_gradients(
    towers: Towers, optimizer: tf.train.Optimizer, config: OptimizerConfig
) -> list[tuple[Any, Any]]:
    """(gradient, variable) of the towers together, each weighted by its share (or 1, as published)."""
    shares, penalty = towers.shares, config.regularization_penalty
    weights, repeats = _weights(shares, config.combine_gradients)
    shared = [term * penalty * repeats for term in towers.shared_terms]
    _, gradients = deploy.optimize_clones(
        towers.clones,
        optimizer,
        regularization_losses=shared,
        weights=weights,
        objectives=[_objective(output, penalty) for output in towers.outputs],
        barrier=towers.outputs[0].update_ops,
    )
    return [(gradient, variable) for gradient, variable in gradients if gradient is not None]


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
