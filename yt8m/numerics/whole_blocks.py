"""Scores of a class that do not depend on the number and the order of the other classes, not even in their last bit.

The kernels of the CPU compute products and exponentials in blocks of up to 16 values, and the values after the last
whole block by other instructions, which round differently. So the last bit of a class's score depends on its place.
Within `scope`, arrays are extended to whole blocks, and what was added is cut off again. Variables are extended once,
when they have their values: call `fill` then. This is for inference, not for training, evaluation or exports.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from yt8m.lazy import tf
from yt8m.numerics import within

BLOCK = 16

# The arrays from which others were cut, by the names of these; None outside of the scope.
_whole: ContextVar[dict[str, tf.Tensor] | None] = ContextVar("whole_blocks", default=None)
# The names of the ops that extend the variables of a graph. The ops themselves would keep the graph in memory.
_fills: weakref.WeakKeyDictionary[tf.Graph, list[str]] = weakref.WeakKeyDictionary()


def scope(is_on: bool = True) -> AbstractContextManager[None]:
    """A context in which arrays are extended to whole blocks."""
    return within(_whole, {} if is_on else None)


def extend_columns(values: tf.Tensor) -> tf.Tensor:
    """Weights [..., U] with as many columns of zeros as the last block lacks, if the scope is on."""
    missing = -int(values.shape[-1]) % BLOCK
    if _whole.get() is None or not missing:
        return values
    paddings = [[0, 0]] * (values.shape.rank - 1) + [[0, missing]]
    if isinstance(values, tf.Tensor):
        return tf.pad(values, paddings)
    with tf.init_scope():
        copy = tf.Variable(lambda: tf.pad(values, paddings), trainable=False, collections=[], use_resource=True)
        _fills.setdefault(tf.get_default_graph(), []).append(copy.initializer.name)
    return copy


def fill(session: tf.Session) -> None:
    """Extends the variables of the session's graph, which have their values."""
    session.run(_fills.get(session.graph, []))


def cut(values: tf.Tensor, columns: int) -> tf.Tensor:
    """The first columns of values [..., U]."""
    remaining, wholes = values if values.shape[-1] == columns else values[..., :columns], _whole.get()
    if wholes is not None:
        wholes[remaining.name] = values
    return remaining


def extended(count: tf.Tensor) -> tf.Tensor:
    """int32 scalar: the number of columns with those that the last block lacks, if the scope is on."""
    return count + tf.math.floormod(-count, BLOCK) if _whole.get() is not None else count


def apply_to_rows(function: Callable[..., tf.Tensor], *arrays: tf.Tensor) -> tf.Tensor:
    """`function` of arrays [N, ...], which treats each row by itself."""
    if _whole.get() is None:
        return function(*arrays)
    rows = tf.shape(arrays[0])[0]
    missing = tf.math.floormod(-rows, BLOCK)
    extended = (tf.pad(array, [[0, missing], *[[0, 0]] * (array.shape.rank - 1)]) for array in arrays)
    return function(*extended)[:rows]


def sigmoid(logits: tf.Tensor) -> tf.Tensor:
    """The sigmoid of logits [B, C]."""
    wholes = _whole.get()
    if wholes is None:
        return tf.sigmoid(logits)
    if logits.name in wholes:  # the sigmoid is computed within the product, and cut together with it
        return cut(tf.sigmoid(wholes[logits.name]), int(logits.shape[-1]))
    flat = apply_to_rows(tf.sigmoid, tf.reshape(logits, [-1]))
    return tf.ensure_shape(tf.reshape(flat, tf.shape(logits)), logits.shape)
