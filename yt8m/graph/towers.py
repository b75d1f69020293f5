"""Runs the modeler once per tower, with shared variables, and collects the outputs and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from yt8m import deploy
from yt8m.config.train_config import DeviceConfig
from yt8m.graph.inputs import RowShare, reduce_reports, reduce_values
from yt8m.graph.protocols import Modeler, Reduction, Report
from yt8m.lazy import tf
from yt8m.numerics import across_towers, precision, random_keys
from yt8m.types import ModelOutput


@dataclass(frozen=True)
class Towers:
    """The towers of a step and their outputs.

    Attributes:
      clones: the clones in order; the `outputs` of each are (ModelOutput, reports).
      shares: the share of the batch of each clone.
      outputs: the modeler's output on each tower, including the regularisation terms that only this tower added
        to the graph's collection.
      shared_terms: all other terms of that collection (a user's own model, `get_variable(regularizer=)`),
        which count once for all towers.
      depend_on_each_other: whether towers exchange values, so that one gradient of their sum is computed.
    """

    clones: Sequence[deploy.Clone]
    shares: Sequence[RowShare]
    outputs: Sequence[ModelOutput]
    shared_terms: Sequence[tf.Tensor]
    depend_on_each_other: bool = False

    def reports(self) -> dict[str, tf.Tensor]:
        """The towers' reports, reduced as declared."""
        return reduce_reports([clone.outputs[1] for clone in self.clones], self.shares)

    def predictions(self) -> tf.Tensor:
        """The predictions of all towers, in the order of the batch."""
        return reduce_values([output.predictions for output in self.outputs], self.shares, Reduction.ROWS)

    def mean(self, field: str) -> tf.Tensor:
        """A scalar field of the outputs, averaged over the towers by their examples; None counts as 0."""
        values = [getattr(output, field) for output in self.outputs]
        weights = [share.weight for share in self.shares]
        return tf.add_n([tf.zeros([])] + [v * w for v, w in zip(values, weights, strict=True) if v is not None])

    def single_losses(self) -> dict[str, tf.Tensor]:
        """The losses that the modeler put into tf.GraphKeys.LOSSES, averaged by examples.

        The keys are the names of the ops without the tower's prefix.
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
) -> Towers:
    """Runs `modeler.build` and `modeler.reports` on every tower's share.

    Training uses the precision and the batch norm that `devices` names, the other modes float32. With
    `sync_batch_norm` the towers exchange statistics through `across_towers`.
    """
    todo = iter(enumerate(shares))
    devices = devices if devices and mode == "train" else DeviceConfig()
    is_exchanging = devices.sync_batch_norm and len(shares) > 1
    exchange = across_towers.Exchange(len(shares)) if is_exchanging else None

    def model_fn() -> tuple[ModelOutput, Mapping[str, Report]]:
        index, share = next(todo)
        with (
            random_keys.scope(seed, step, deployment.replica_id * deployment.num_clones + index),
            precision.scope(devices.precision),
            exchange.tower(index, share.rows) if exchange else nullcontext(),
        ):
            output = modeler.build(share.batch, is_training=mode == "train")
        return output, modeler.reports(share.batch, output, mode)

    with tf.variable_scope(
        tf.get_variable_scope(), caching_device=deployment.caching_device(), auxiliary_name_scope=False
    ):
        clones = deploy.create_clones(deployment, model_fn)
    shared, own_terms = deploy.regularization_terms(clones)
    outputs = [_with_collected(clone, terms) for clone, terms in zip(clones, own_terms, strict=True)]
    return Towers(clones, shares, outputs, shared, exchange is not None and exchange.connect())


def _with_collected(clone: deploy.Clone, terms: Sequence[tf.Tensor]) -> ModelOutput:
    """The tower's output, plus the update ops and terms that its model added to collections, as slim's layers do."""
    output = clone.outputs[0]
    updates = clone.collected(tf.GraphKeys.UPDATE_OPS)
    output = replace(output, update_ops=(*output.update_ops, *updates))
    if not terms:
        return output
    own_loss = [] if output.regularization_loss is None else [output.regularization_loss]
    with tf.name_scope(clone.scope), tf.device(clone.device):
        return replace(output, regularization_loss=tf.add_n([*own_loss, *terms]))
