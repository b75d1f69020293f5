"""Combines and clips the gradients of the towers and applies them, after each batch or after several.

The moving averages of the weights are updated by the same op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from yt8m import deploy
from yt8m.config.train_config import OptimizerConfig
from yt8m.graph.inputs import RowShare
from yt8m.graph.optimizers import Columns
from yt8m.graph.towers import Towers
from yt8m.lazy import tf
from yt8m.types import ModelOutput

Pairs = Sequence[tuple[Any, Any]]

_SUMS, _EXAMPLES = "GradientSum", "examples_of_gradient_sums"


class Gradients(NamedTuple):
    """The gradients of a step.

    Attributes:
      together: (gradient, variable) pairs, combined over the towers.
      norms: float32 [V], the norm of each combined gradient.
      bad_tower: int64 scalar, the first tower with a gradient that is not finite; -1 if there is none. Always -1 if
        the towers depend on each other, since a NaN in one tower then reaches all.
    """

    together: list[tuple[Any, Any]]
    norms: tf.Tensor
    bad_tower: tf.Tensor


def tower_gradients(
    towers: Towers,
    optimizer: tf.train.Optimizer,
    config: OptimizerConfig,
    all_reduce: deploy.AllReduce | None = None,
    columns: Columns | None = None,
) -> Gradients:
    """The towers' gradients, each weighted by the tower's share of the batch, or by 1 (--combine_gradients=sum).

    With `all_reduce` the gradients are summed over all replicas; `bad_tower` is then a tower of this replica or -1.
    With `columns` only the variables named there have gradients, which are 0 in the columns that do not learn.
    """
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
        variables=None if columns is None else [v for v in tf.trainable_variables() if v.op.name in columns],
        of_clones=of_towers,
        jointly=towers.depend_on_each_other,
    )
    together = [(gradient, variable) for gradient, variable in gradients if gradient is not None]
    if columns is not None:
        together = [
            (tf.where_v2(columns[variable.op.name], tf.convert_to_tensor(gradient), 0.0), variable)
            for gradient, variable in together
        ]
    if all_reduce is not None:
        together = all_reduce.sum_gradients(together, config.combine_gradients)
    norms = deploy.gradient_norms([gradient for gradient, _ in together])
    if towers.depend_on_each_other:
        return Gradients(together, norms, tf.constant(-1, tf.int64))
    return Gradients(together, norms, _first_bad(of_towers, norms, is_alone=all_reduce is None))


def _first_bad(of_towers: Sequence[Sequence[tuple[Any, Any]]], norms: tf.Tensor, is_alone: bool) -> tf.Tensor:
    """The first tower with a gradient that is not finite. Towers are checked only if a combined norm is not finite."""
    none = tf.constant(-1, tf.int64)

    def look() -> tf.Tensor:
        if len(of_towers) == 1 and is_alone:
            return tf.zeros([], tf.int64)
        bad = tf.stack([_has_bad(pairs) for pairs in of_towers])
        # If only the sum overflowed, no single tower is bad.
        return tf.where_v2(tf.reduce_any(bad), tf.argmax(tf.cast(bad, tf.int32)), none)

    return tf.cond(tf.reduce_all(tf.is_finite(norms)), lambda: none, look)


def _has_bad(pairs: Sequence[tuple[Any, Any]]) -> tf.Tensor:
    norms = deploy.gradient_norms([gradient for gradient, _ in pairs if gradient is not None])
    return tf.logical_not(tf.reduce_all(tf.is_finite(norms)))


def _weights(shares: Sequence[RowShare], combine: str) -> tuple[list[Any], Any]:
    """The weight of each tower's gradient, and the factor of the loss terms that all towers share."""
    if len(shares) == 1:
        return [1.0], 1.0  # a number, so that a closed-form gradient is used as it is
    if combine == "mean":
        return [share.weight for share in shares], 1.0
    has_rows = [tf.cast(share.rows > 0, tf.float32) for share in shares]
    return has_rows, tf.add_n(has_rows)


def _objective(output: ModelOutput, penalty: float) -> deploy.Objective:
    term = output.regularization_loss
    return deploy.Objective(
        loss=output.loss,
        regularization=None if term is None or penalty == 0 else term * penalty,
        roots=output.loss_gradients,
    )


def apply_gradients(
    gradients: Pairs,
    norms: tf.Tensor,
    optimizer: tf.train.Optimizer,
    config: OptimizerConfig,
    global_step: tf.Variable,
    examples: tf.Tensor,
) -> tuple[tuple[tuple[str, str], ...], tf.Operation]:
    """Clips and applies the gradients, increments the global step, and updates the moving averages.

    Args:
      gradients: (gradient, variable) pairs of this batch.
      norms: float32 [V], the norms of the gradients.
      optimizer: applies the gradients.
      config: the settings of clipping, accumulation and averages.
      global_step: incremented by every batch.
      examples: int64 scalar, the number of rows of this batch, which is its weight among accumulated batches.

    Returns:
      ((variable's name, its average's name) pairs, the op of the whole step), as from `create_averages`.
    """
    if config.accumulate_steps > 1:
        return _accumulate(gradients, optimizer, config, global_step, examples)
    step_op = optimizer.apply_gradients(_clipped(gradients, config, norms), global_step=global_step)
    return create_averages(config.moving_average_decay, global_step, step_op)


def _clipped(gradients: Pairs, config: OptimizerConfig, norms: tf.Tensor | None = None) -> Pairs:
    if config.clip_gradient_norm <= 0:
        return gradients
    clip = deploy.clip_by_global_norm if config.clip_by == "global" else deploy.clip_gradient_norms
    return clip(gradients, config.clip_gradient_norm, norms=norms)


def _accumulate(
    gradients: Pairs,
    optimizer: tf.train.Optimizer,
    config: OptimizerConfig,
    global_step: tf.Variable,
    examples: tf.Tensor,
) -> tuple[tuple[tuple[str, str], ...], tf.Operation]:
    """Adds the batch to the sums; after the last batch of a group, applies their mean and resets them.

    The sums are saved in the checkpoint, so a run that stops in the middle of a group continues there.
    """
    count = tf.get_variable(_EXAMPLES, [], tf.float32, tf.zeros_initializer(), trainable=False)
    sums = [_sum_of(variable) for _, variable in gradients]
    weight = tf.cast(examples, tf.float32)
    added = [count.assign_add(weight)]
    for total, (gradient, _) in zip(sums, gradients, strict=True):
        added.append(total.assign_add(tf.convert_to_tensor(gradient) * tf.cast(weight, gradient.dtype)))
    with tf.control_dependencies(added):
        counted = global_step.assign_add(1)
    averages: list[tuple[str, str]] = []

    def step() -> tf.Operation:
        mean = [total.read_value() / count.read_value() for total in sums]
        pairs = [(gradient, variable) for gradient, (_, variable) in zip(mean, gradients, strict=True)]
        step_op = optimizer.apply_gradients(_clipped(pairs, config))
        updates = tf.cast(counted, tf.int64) // config.accumulate_steps
        names, moved = create_averages(config.moving_average_decay, updates, step_op)
        averages.extend(names)
        with tf.control_dependencies([moved]):
            cleared = [total.assign(tf.zeros_like(total)) for total in [count, *sums]]
        with tf.control_dependencies(cleared):
            return tf.constant(True)

    is_last = tf.equal(counted % config.accumulate_steps, 0)
    stepped = tf.cond(is_last, step, lambda: tf.constant(False))
    return tuple(averages), stepped.op


def _sum_of(variable: Any) -> Any:
    """The variable that accumulates (gradient of `variable`) * (examples of the batch) over the group."""
    name, dtype = f"{variable.op.name}/{_SUMS}", variable.dtype.base_dtype
    return tf.get_variable(name, variable.shape, dtype, tf.zeros_initializer(), trainable=False)


def create_averages(
    decay: float, global_step: tf.Variable | tf.Tensor, step_op: tf.Operation
) -> tuple[tuple[tuple[str, str], ...], tf.Operation]:
    """Creates moving averages of all trainable variables, updated after `step_op`.

    The decay is min(decay, (1 + step) / (10 + step)), so that early averages follow the weights quickly.

    Args:
      decay: decay of the averages; 0 for no averages.
      global_step: number of optimizer steps, including `step_op`. A variable is read after `step_op` has run.
      step_op: the op that changes the weights.

    Returns:
      (variable's name, its average's name in a checkpoint) pairs, and the op that does the step and the averages;
      no pair and `step_op` itself if `decay` is 0.
    """
    if decay <= 0:
        return (), step_op
    with tf.control_dependencies([step_op]):
        count = global_step if tf.is_tensor(global_step) else global_step.read_value()
        average = tf.train.ExponentialMovingAverage(decay, num_updates=count)
        moved = average.apply(tf.trainable_variables())
    pairs = tuple((v.op.name, average.average_name(v)) for v in tf.trainable_variables())
    return pairs, moved


def names_in_checkpoint(decay: float) -> dict[str, tf.Variable]:
    """The variables of the current graph, keyed by checkpoint name: the name of the variable or of its average.

    With `decay` above 0 trainable variables are read from their averages.
    """
    trainable = {v.op.name for v in tf.trainable_variables()} if decay > 0 else set()
    average = tf.train.ExponentialMovingAverage(decay or 0.5)
    return {(average.average_name(v) if v.op.name in trainable else v.op.name): v for v in tf.global_variables()}
