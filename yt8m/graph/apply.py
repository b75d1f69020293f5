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

Pairs = Sequence[tuple[Any, Any]]  # (gradient, variable) pairs

# Names of the variables that --accumulate_steps adds to a checkpoint: w/GradientSum for each trained variable w, and
# one variable that counts examples.
_SUMS, _EXAMPLES = "GradientSum", "examples_of_gradient_sums"


class Gradients(NamedTuple):
    """The gradients of a step.

    Attributes:
      norms: float32 [V], the norm of each combined gradient, in the order of `combined`.
      bad_tower: int64 scalar, the first tower with a gradient that is not finite; -1 if there is none, or if only the
        sum over the towers is not finite. Always -1 if the towers depend on each other, since a NaN in one tower then
        reaches all.
    """

    combined: list[tuple[Any, Any]]
    norms: tf.Tensor
    bad_tower: tf.Tensor


def tower_gradients(
    towers: Towers,
    optimizer: tf.train.Optimizer,
    config: OptimizerConfig,
    all_reduce: deploy.AllReduce | None = None,
    columns: Columns | None = None,
) -> Gradients:
    """Combines the gradients of the towers, weighted by shares of the batch; with --combine_gradients=sum, adds them.

    Of several towers, one without examples does not count.

    Args:
      all_reduce: combines the gradients of all replicas; `bad_tower` is then a tower of this replica, or -1. None on
        one machine and with parameter servers.
      columns: {name of a variable: which of its columns learn}. Other variables get no gradient, and gradients are 0 in
        the other columns. None: everything learns.
    """
    shares, penalty = towers.shares, config.regularization_penalty
    weights, shared_factor = _tower_weights(shares, config.combine_gradients)
    shared = [term * penalty * shared_factor for term in towers.shared_terms]
    pairs_of_towers: list[list[tuple[Any, Any]]] = []
    _, gradients = deploy.optimize_clones(
        towers.clones,
        optimizer,
        regularization_losses=shared,
        weights=weights,
        objectives=[_objective(*each, penalty) for each in zip(towers.clones, towers.outputs, strict=True)],
        variables=None if columns is None else [v for v in tf.trainable_variables() if v.op.name in columns],
        of_clones=pairs_of_towers,
        jointly=towers.depend_on_each_other,
    )
    combined = [(gradient, variable) for gradient, variable in gradients if gradient is not None]
    if columns is not None:
        combined = [
            (tf.where_v2(columns[variable.op.name], tf.convert_to_tensor(gradient), 0.0), variable)
            for gradient, variable in combined
        ]
    if all_reduce is not None:
        combined = all_reduce.sum_gradients(combined, config.combine_gradients)
    norms = deploy.gradient_norms([gradient for gradient, _ in combined])
    if towers.depend_on_each_other:
        return Gradients(combined, norms, tf.constant(-1, tf.int64))
    return Gradients(combined, norms, _find_bad_tower(pairs_of_towers, norms, is_alone=all_reduce is None))


def _find_bad_tower(
    pairs_of_towers: Sequence[Sequence[tuple[Any, Any]]], norms: tf.Tensor, is_alone: bool
) -> tf.Tensor:
    """int64 scalar, `Gradients.bad_tower`: the first tower with a gradient that is not finite, or -1.

    Args:
      norms: float32 [V], the norms of the combined gradients.
    """
    none = tf.constant(-1, tf.int64)

    def check_towers() -> tf.Tensor:
        if len(pairs_of_towers) == 1 and is_alone:
            return tf.zeros([], tf.int64)
        is_bad = tf.stack([_has_bad_gradient(pairs) for pairs in pairs_of_towers])
        # If the gradients of every tower are finite and only their sum overflowed, no tower is named.
        return tf.where_v2(tf.reduce_any(is_bad), tf.argmax(tf.cast(is_bad, tf.int32)), none)

    return tf.cond(tf.reduce_all(tf.is_finite(norms)), lambda: none, check_towers)


def _has_bad_gradient(pairs: Sequence[tuple[Any, Any]]) -> tf.Tensor:
    """Bool scalar: whether a gradient in the (gradient, variable) pairs has a NaN or an infinite value."""
    norms = deploy.gradient_norms([gradient for gradient, _ in pairs if gradient is not None])
    return tf.logical_not(tf.reduce_all(tf.is_finite(norms)))


def _tower_weights(shares: Sequence[RowShare], combine: str) -> tuple[list[Any], Any]:
    """The weight of each tower's gradient, and the factor of the loss terms that all towers share.

    Args:
      shares: each tower's share of the batch.
      combine: `mean` for weights that are shares of the batch, `sum` for the weight 1 of every tower with examples.
    """
    if len(shares) == 1:
        # With a number, not a tensor, `optimize_clones` need not multiply a closed-form gradient.
        return [1.0], 1.0
    if combine == "mean":
        return [share.weight for share in shares], 1.0
    has_rows = [tf.cast(share.rows > 0, tf.float32) for share in shares]
    return has_rows, tf.add_n(has_rows)


def _objective(clone: deploy.Clone, output: ModelOutput, penalty: float) -> deploy.Objective:
    """What a tower with this output minimises; its regularisation is multiplied by `penalty`."""
    term = output.regularization_loss
    with tf.device(clone.device):
        regularization = None if term is None or penalty == 0 else term * penalty
    return deploy.Objective(output.loss, regularization, output.loss_gradients)


def apply_gradients(
    gradients: Pairs,
    norms: tf.Tensor,
    optimizer: tf.train.Optimizer,
    config: OptimizerConfig,
    global_step: tf.Variable,
    examples: tf.Tensor,
) -> tuple[tuple[tuple[str, str], ...], tf.Operation]:
    """Builds the op that clips and applies the gradients, increments the global step, and updates the moving averages.

    With --accumulate_steps the op applies the mean gradient of several batches, once after the last of them.

    Args:
      norms: float32 [V], the norms of the gradients.
      examples: int64 scalar, the number of rows of this batch, which is its weight among accumulated batches.
    """
    if config.accumulate_steps > 1:
        return _accumulate(gradients, optimizer, config, global_step, examples)
    step_op = optimizer.apply_gradients(_clip(gradients, config, norms), global_step=global_step)
    return create_averages(config.moving_average_decay, global_step, step_op)


def _clip(gradients: Pairs, config: OptimizerConfig, norms: tf.Tensor | None = None) -> Pairs:
    """The pairs with clipped gradients, if --clip_gradient_norm is above 0; `norms` saves computing the norms again."""
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
    """`apply_gradients` for groups of --accumulate_steps batches.

    Every batch adds its gradients, times its number of examples, to sums. After the last batch of a group, the mean
    over the examples of the group is applied and the sums are set to 0. The sums are saved in the checkpoint, so a run
    that stops in the middle of a group continues there.
    """
    example_sum = tf.get_variable(_EXAMPLES, [], tf.float32, tf.zeros_initializer(), trainable=False)
    gradient_sums = [_create_gradient_sum(variable) for _, variable in gradients]
    weight = tf.cast(examples, tf.float32)
    additions = [example_sum.assign_add(weight)]
    for gradient_sum, (gradient, _) in zip(gradient_sums, gradients, strict=True):
        additions.append(gradient_sum.assign_add(tf.convert_to_tensor(gradient) * tf.cast(weight, gradient.dtype)))
    with tf.control_dependencies(additions):
        next_step = global_step.assign_add(1)
    averages: list[tuple[str, str]] = []

    def apply_mean() -> tf.Operation:
        means = [gradient_sum.read_value() / example_sum.read_value() for gradient_sum in gradient_sums]
        pairs = [(mean, variable) for mean, (_, variable) in zip(means, gradients, strict=True)]
        step_op = optimizer.apply_gradients(_clip(pairs, config))
        updates = tf.cast(next_step, tf.int64) // config.accumulate_steps
        names, step_and_averages_op = create_averages(config.moving_average_decay, updates, step_op)
        averages.extend(names)
        with tf.control_dependencies([step_and_averages_op]):
            resets = [variable.assign(tf.zeros_like(variable)) for variable in [example_sum, *gradient_sums]]
        with tf.control_dependencies(resets):
            return tf.constant(True)

    is_last_of_group = tf.equal(next_step % config.accumulate_steps, 0)
    is_applied = tf.cond(is_last_of_group, apply_mean, lambda: tf.constant(False))
    return tuple(averages), is_applied.op


def _create_gradient_sum(variable: Any) -> Any:
    """Creates the variable that sums (gradient of `variable`) * (examples of the batch) over a group of batches."""
    name, dtype = f"{variable.op.name}/{_SUMS}", variable.dtype.base_dtype
    return tf.get_variable(name, variable.shape, dtype, tf.zeros_initializer(), trainable=False)


def create_averages(
    decay: float, global_step: tf.Variable | tf.Tensor, step_op: tf.Operation
) -> tuple[tuple[tuple[str, str], ...], tf.Operation]:
    """Creates moving averages of all trainable variables, and an op that updates them after `step_op`.

    The decay is min(decay, (1 + step) / (10 + step)), so that early averages follow the weights quickly.

    Args:
      decay: decay of the averages; 0 for no averages.
      global_step: number of optimizer steps, including `step_op`. If it is a variable, it is read after `step_op` has
        run.
      step_op: the op that changes the weights.

    Returns:
      A pair for each average: (name of the variable, name of its average in a checkpoint); and the op that runs
      `step_op` and updates the averages. If `decay` is 0, there is no pair, and the op is `step_op` itself.
    """
    if decay <= 0:
        return (), step_op
    with tf.control_dependencies([step_op]):
        count = global_step if tf.is_tensor(global_step) else global_step.read_value()
        average = tf.train.ExponentialMovingAverage(decay, num_updates=count)
        step_and_averages_op = average.apply(tf.trainable_variables())
    pairs = tuple((v.op.name, average.average_name(v)) for v in tf.trainable_variables())
    return pairs, step_and_averages_op


def variables_by_saved_name(decay: float) -> dict[str, tf.Variable]:
    """The variables of the current graph, by the names of the values that evaluation reads from a checkpoint.

    Args:
      decay: decay of the moving averages. If it is above 0, a trainable variable is read from its average.

    Returns:
      {name of the variable, or of its average: variable}.
    """
    trainable = {v.op.name for v in tf.trainable_variables()} if decay > 0 else set()
    average = tf.train.ExponentialMovingAverage(decay or 0.5)
    return {(average.average_name(v) if v.op.name in trainable else v.op.name): v for v in tf.global_variables()}
