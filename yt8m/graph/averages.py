"""Moving averages of the weights, and the savers that read them back."""

from __future__ import annotations

from yt8m.lazy import tf


def create_averages(
    decay: float, global_step: tf.Variable, step_op: tf.Operation
) -> tuple[tuple[tuple[str, str], ...], tf.Operation]:
    """Averages of all trainable variables, moved after `step_op`.

    The decay is min(decay, (1 + step) / (10 + step)), so that early averages follow quickly.

    Returns:
      (variable's name, its average's name in a checkpoint) pairs, and the op that does step and averages;
      no pair and `step_op` itself where `decay` is 0.
    """
    if decay <= 0:
        return (), step_op
    with tf.control_dependencies([step_op]):
        average = tf.train.ExponentialMovingAverage(decay, num_updates=global_step.read_value())
        moved = average.apply(tf.trainable_variables())
    pairs = tuple((v.op.name, average.average_name(v)) for v in tf.trainable_variables())
    return pairs, moved


def eval_saver(decay: float) -> tf.train.Saver:
    """A saver for evaluation: reads each trainable variable's average under the variable's own place.

    Call it when the graph is complete. With `decay` 0 it reads the variables themselves.
    """
    if decay <= 0:
        return tf.train.Saver(max_to_keep=None)
    average = tf.train.ExponentialMovingAverage(decay)
    trainable = {v.op.name for v in tf.trainable_variables()}
    names = {
        (average.average_name(v) if v.op.name in trainable else v.op.name): v for v in tf.global_variables()
    }
    return tf.train.Saver(names, max_to_keep=None)
