"""Moving averages of the weights."""

from __future__ import annotations

from yt8m.lazy import tf


def create_averages(
    decay: float, global_step: tf.Variable | tf.Tensor, step_op: tf.Operation
) -> tuple[tuple[tuple[str, str], ...], tf.Operation]:
    """Averages of all trainable variables, moved after `step_op`.

    The decay is min(decay, (1 + step) / (10 + step)), so that early averages follow quickly.

    Args:
      decay: above 0 for averages.
      global_step: how often the optimizer has stepped, `step_op` included; a variable is read behind it.
      step_op: moves the weights.

    Returns:
      (variable's name, its average's name in a checkpoint) pairs, and the op that does step and averages;
      no pair and `step_op` itself where `decay` is 0.
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
    """Where each variable of the current graph is read from: its own name, or its average's.

    With `decay` above 0 trainable variables are read from their averages.
    """
    trainable = {v.op.name for v in tf.trainable_variables()} if decay > 0 else set()
    average = tf.train.ExponentialMovingAverage(decay or 0.5)
    return {
        (average.average_name(v) if v.op.name in trainable else v.op.name): v for v in tf.global_variables()
    }
