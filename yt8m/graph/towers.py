"""Builds the model once per tower, with shared variables, and collects the outputs and reports of the towers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from yt8m import deploy
from yt8m.config.train_config import DeviceConfig
from yt8m.graph.inputs import RowShare, reduce_reports, reduce_values
from yt8m.graph.protocols import Modeler, Reduction, Report
from yt8m.lazy import tf
from yt8m.numerics import across_towers, expected_rows, precision, random_keys
from yt8m.types import ModelOutput


@dataclass(frozen=True)
class Towers:
    """The towers of a step and their outputs.

    Attributes:
      shares: the share of the batch of each tower.
      outputs: the modeler's output on each tower. Its regularisation loss includes the terms that every tower adds to
        tf.GraphKeys.REGULARIZATION_LOSSES for itself.
      shared_terms: all other terms of that collection, which belong to no single tower, such as those of
        `get_variable(regularizer=...)`.
    """

    clones: Sequence[deploy.Clone]
    shares: Sequence[RowShare]
    outputs: Sequence[ModelOutput]
    shared_terms: Sequence[tf.Tensor]
    depend_on_each_other: bool = False

    def reports(self) -> dict[str, tf.Tensor]:
        """{name: the towers' reports of this name, reduced to one tensor as the report declares}."""
        return reduce_reports([clone.outputs[1] for clone in self.clones], self.shares)

    def predictions(self) -> tf.Tensor:
        """The predictions of all towers, in the order of the batch."""
        return reduce_values([output.predictions for output in self.outputs], self.shares, Reduction.ROWS)

    def mean(self, field: str) -> tf.Tensor:
        """The mean of a scalar over the towers, weighted by their shares of the examples; None counts as 0.

        Args:
          field: a field of `ModelOutput`, such as `loss`.
        """
        values = [getattr(output, field) for output in self.outputs]
        weights = [share.weight for share in self.shares]
        return tf.add_n([tf.zeros([])] + [v * w for v, w in zip(values, weights, strict=True) if v is not None])

    def single_losses(self) -> dict[str, tf.Tensor]:
        """The losses that the modeler put into tf.GraphKeys.LOSSES, averaged over the towers by their examples.

        Returns:
          {name of the loss's op without the tower's scope: mean}, for losses that all towers have.
        """
        losses_of_clones = [
            {loss.op.name.removeprefix(clone.scope): loss for loss in clone.collected(tf.GraphKeys.LOSSES)}
            for clone in self.clones
        ]
        return {
            name: reduce_values([losses[name] for losses in losses_of_clones], self.shares, Reduction.MEAN)
            for name in losses_of_clones[0]
            if all(name in losses for losses in losses_of_clones)
        }

    def examples(self) -> tf.Tensor:
        """int64 scalar: number of examples of the step."""
        return tf.add_n([share.rows for share in self.shares])


def build_towers(
    modeler: Modeler,
    deployment: deploy.DeploymentConfig,
    shares: Sequence[RowShare],
    *,
    mode: str,
    seed: int,
    step: tf.Tensor,
    devices: DeviceConfig | None = None,
    rows: int = 0,
) -> Towers:
    """Calls `modeler.build` and `modeler.reports` once for every tower, with the tower's share of the batch.

    Args:
      shares: the share of the batch of each tower.
      step: int64 scalar, the global step, on which random numbers depend too.
      devices: the precision and the batch norm of the towers in mode train; with `sync_batch_norm` the towers exchange
        statistics through `across_towers`. None, and the other modes: float32, and batch norm per tower.
      rows: number of examples that a tower gets in nearly every step; 0: not known.
    """
    indexed_shares = iter(enumerate(shares))
    devices = devices if devices and mode == "train" else DeviceConfig()
    is_exchanging = devices.sync_batch_norm and len(shares) > 1
    exchange = across_towers.Exchange(len(shares)) if is_exchanging else None

    def model_fn() -> tuple[ModelOutput, Mapping[str, Report]]:
        index, share = next(indexed_shares)
        batch = modeler.unpacked(share.batch)
        with (
            random_keys.scope(seed, step, deployment.replica_id * deployment.num_clones + index),
            precision.scope(devices.precision),
            expected_rows.scope(rows),
            exchange.tower(index, share.rows) if exchange else nullcontext(),
        ):
            output = modeler.build(batch, is_training=mode == "train")
        return output, modeler.reports(batch, output, mode)

    with tf.variable_scope(
        tf.get_variable_scope(), caching_device=deployment.caching_device(), auxiliary_name_scope=False
    ):
        clones = deploy.create_clones(deployment, model_fn)
    shared, own_terms = deploy.regularization_terms(clones)
    outputs = [_complete_output(clone, terms) for clone, terms in zip(clones, own_terms, strict=True)]
    return Towers(clones, shares, outputs, shared, exchange is not None and exchange.connect())


def _complete_output(clone: deploy.Clone, terms: Sequence[tf.Tensor]) -> ModelOutput:
    """The output of a tower's model, completed by what the model put into graph collections, as slim's layers do."""
    output = clone.outputs[0]
    updates = clone.collected(tf.GraphKeys.UPDATE_OPS)
    output = replace(output, update_ops=(*output.update_ops, *updates))
    if not terms:
        return output
    own_loss = [] if output.regularization_loss is None else [output.regularization_loss]
    with tf.name_scope(clone.scope), tf.device(clone.device):
        return replace(output, regularization_loss=tf.add_n([*own_loss, *terms]))
