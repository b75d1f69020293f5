"""Checks of what stands in the records, made inside the graph; a failure says what and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from yt8m.lazy import tf


def require(good: tf.Tensor, describe: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Fails with InvalidArgumentError where some entry of `good` is False.

    Args:
      good: bool [N].
      describe: from the int64 index of the first bad entry to a string scalar; its ops run on failure only.

    Returns:
      bool scalar to hang other ops on (`gate`).
    """

    def fail() -> tf.Tensor:
        message = describe(tf.argmin(tf.cast(good, tf.int32)))
        wrong = tf.constant(False)
        with tf.control_dependencies([tf.raw_ops.Assert(condition=wrong, data=[message])]):
            return tf.identity(wrong)

    return tf.cond(tf.reduce_all(good), lambda: tf.constant(True), fail)


def say(*parts: str | tf.Tensor) -> tf.Tensor:
    """A string scalar of words and scalar tensors (strings, whole numbers, floats)."""
    words = [
        part
        if isinstance(part, str) or part.dtype == tf.string
        else tf.as_string(part, shortest=part.dtype.is_floating)
        for part in parts
    ]
    return tf.strings.join(words)


def gate(value: tf.Tensor, checks: Sequence[tf.Tensor]) -> tf.Tensor:
    """`value`, only once all `checks` have passed."""
    with tf.control_dependencies(checks):
        return tf.identity(value)
