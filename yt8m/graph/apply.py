"""From the gradients of a batch to new weights: clipped and applied, at once or once for several batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yt8m import deploy
from yt8m.config import OptimizerConfig
from yt8m.graph.averages import create_averages
from yt8m.lazy import tf

Pairs = Sequence[tuple[Any, Any]]

_SUMS, _EXAMPLES = "GradientSum", "examples_of_gradient_sums"


def apply_gradients(
    gradients: Pairs,
    norms: tf.Tensor,
    optimizer: tf.train.Optimizer,
    config: OptimizerConfig,
    global_step: tf.Variable,
    examples: tf.Tensor,
) -> tuple[tuple[tuple[str, str], ...], tf.Operation]:
    """Clips, applies, counts the step, moves the averages.

    Args:
      gradients: of this batch, with their variables.
      norms: float32 [V], their norms.
      optimizer: applies them.
      config: clipping, accumulation, averages.
      global_step: counted up by every batch.
      examples: int64 scalar, rows of this batch, its weight among those that are accumulated.

    Returns:
      (names of the averages, the op that does it all), as `create_averages` does.
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
    """Adds the batch to the sums; the last batch of a group steps by their mean and clears them.

    The sums are variables of the checkpoint: a run that is stopped within a group goes on within it.
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
        published = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
        before = len(published)
        step_op = optimizer.apply_gradients(_clipped(pairs, config))
        del published[before:]  # an op within a branch: no meta-graph can name it
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
    """The variable that holds the gradients of `variable`, times examples, of the group so far."""
    name, dtype = f"{variable.op.name}/{_SUMS}", variable.dtype.base_dtype
    return tf.get_variable(name, variable.shape, dtype, tf.zeros_initializer(), trainable=False)
