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

_is_on: ContextVar[bool] = ContextVar("whole_blocks", default=False)
# The names of a graph's ops and tensors, because these themselves would keep the graph in memory: ops that extend
# variables, and arrays of whole blocks by what was cut from them.
_fills: weakref.WeakKeyDictionary[tf.Graph, list[str]] = weakref.WeakKeyDictionary()
_wholes: weakref.WeakKeyDictionary[tf.Graph, dict[str, str]] = weakref.WeakKeyDictionary()


def scope(is_on: bool = True) -> AbstractContextManager[None]:
    """A context in which arrays are extended to whole blocks."""
    return within(_is_on, is_on)


def extend_columns(values: tf.Tensor) -> tf.Tensor:
    """Weights [..., U] with as many columns of zeros as the last block lacks, if the scope is on."""
    missing = -int(values.shape[-1]) % BLOCK
    if not _is_on.get() or not missing:
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
    remaining = values if values.shape[-1] == columns else values[..., :columns]
    if _is_on.get():
        _wholes.setdefault(remaining.graph, {})[remaining.name] = values.name
    return remaining


def uncut(values: tf.Tensor) -> tf.Tensor:
    """The array [..., U] whose first columns are `values`, where those were cut; else `values`.

    Whoever fetches it cuts it without a copy.
    """
    name = _wholes.get(values.graph, {}).get(values.name)
    return values if name is None else values.graph.get_tensor_by_name(name)


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
    if logits.name in _wholes.get(logits.graph, {}):  # the sigmoid is computed in the product, and cut together with it
        return cut(tf.sigmoid(uncut(logits)), int(logits.shape[-1]))
    flat = apply_to_rows(tf.sigmoid, tf.reshape(logits, [-1]))
    return tf.ensure_shape(tf.reshape(flat, tf.shape(logits)), logits.shape)
