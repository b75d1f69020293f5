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
    return tf.strings.join([part if isinstance(part, str) else _word(part) for part in parts])


def _word(value: tf.Tensor) -> tf.Tensor:
    if value.dtype == tf.string:
        return readable(value)
    return tf.as_string(value, shortest=value.dtype.is_floating)


def readable(text: tf.Tensor) -> tf.Tensor:
    """`text` without bytes that are no UTF-8: Python cannot decode an error message that holds them."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def gate(value: tf.Tensor, checks: Sequence[tf.Tensor]) -> tf.Tensor:
    """`value`, only once all `checks` have passed."""
    with tf.control_dependencies(checks):
        return tf.identity(value)
