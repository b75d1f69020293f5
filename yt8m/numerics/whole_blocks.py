"""Scores of a class that do not depend on the number and the order of the other classes, not even in their last bit.

The kernels of the CPU compute products and exponentials in blocks of up to 16 values, and the values after the last
whole block by other instructions, which round differently. So the last bit of a class's score depends on its place.
Within `scope`, arrays are extended to whole blocks, and what was added is cut off again. That copies the weights of the
last layer in each step, so it is for inference, not for training, evaluation or exports.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from yt8m.lazy import tf
from yt8m.numerics import within

BLOCK = 16

_is_on: ContextVar[bool] = ContextVar("whole_blocks", default=False)


def scope(is_on: bool = True) -> AbstractContextManager[None]:
    """A context in which arrays are extended to whole blocks."""
    return within(_is_on, is_on)


def extend_columns(weights: tf.Tensor) -> tf.Tensor:
    """Weights [F, U] with as many columns of zeros as the last block lacks, if the scope is on."""
    missing = -int(weights.shape[-1]) % BLOCK if _is_on.get() else 0
    return tf.pad(weights, [[0, 0], [0, missing]]) if missing else weights


def extended(count: tf.Tensor) -> tf.Tensor:
    """int32 scalar: the number of columns with those that the last block lacks, if the scope is on."""
    return count + tf.math.floormod(-count, BLOCK) if _is_on.get() else count


def apply_to_rows(function: Callable[..., tf.Tensor], *arrays: tf.Tensor) -> tf.Tensor:
    """`function` of arrays [N, ...], which treats each row by itself."""
    if not _is_on.get():
        return function(*arrays)
    rows = tf.shape(arrays[0])[0]
    missing = tf.math.floormod(-rows, BLOCK)
    extended = (tf.pad(array, [[0, missing], *[[0, 0]] * (array.shape.rank - 1)]) for array in arrays)
    return function(*extended)[:rows]


def sigmoid(logits: tf.Tensor) -> tf.Tensor:
    """The sigmoid of logits [B, C]."""
    if not _is_on.get():
        return tf.sigmoid(logits)
    flat = apply_to_rows(tf.sigmoid, tf.reshape(logits, [-1]))
    return tf.ensure_shape(tf.reshape(flat, tf.shape(logits)), logits.shape)
