"""Scores of a class that do not depend on the number and the order of the other classes, not even in their last bit.

The CPU kernels compute products and exponentials in blocks of up to 16 values, and the values after the last whole
block by other instructions, which round differently. So the last bit of a class's score depends on the index of the
class. Within `scope`, arrays are padded to whole blocks, and the padding is cut off the results. Variables are padded
only once: call `fill` after they were restored. Use this for inference only, not for training, evaluation or exports.
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
# For each graph, the ops that pad its variables, and {cut tensor: padded tensor}. All are kept by name, because the ops
# and tensors themselves would keep their graph in memory.
_fills: weakref.WeakKeyDictionary[tf.Graph, list[str]] = weakref.WeakKeyDictionary()
_wholes: weakref.WeakKeyDictionary[tf.Graph, dict[str, str]] = weakref.WeakKeyDictionary()


def scope(is_on: bool = True) -> AbstractContextManager[None]:
    """A context in which arrays are padded to whole blocks."""
    return within(_is_on, is_on)


def extend_columns(values: tf.Tensor) -> tf.Tensor:
    """Weights [..., U], padded inside `scope` with columns of zeros to a multiple of `BLOCK`; unchanged outside."""
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
    """Computes the padded copies of the variables of the session's graph. Call this after the variables have values."""
    session.run(_fills.get(session.graph, []))


def cut(values: tf.Tensor, columns: int) -> tf.Tensor:
    """The first `columns` columns of values [..., U]: `values` without their padding."""
    remaining = values if values.shape[-1] == columns else values[..., :columns]
    if _is_on.get():
        _wholes.setdefault(remaining.graph, {})[remaining.name] = values.name
    return remaining


def uncut(values: tf.Tensor) -> tf.Tensor:
    """The padded tensor that `cut` turned into `values`; `values` itself if nothing was cut.

    Fetch this rather than `values`: NumPy drops the padding without a copy.
    """
    name = _wholes.get(values.graph, {}).get(values.name)
    return values if name is None else values.graph.get_tensor_by_name(name)


def extended(count: tf.Tensor) -> tf.Tensor:
    """int32 scalar: a number of columns, rounded up inside `scope` to a multiple of `BLOCK`; unchanged outside."""
    return count + tf.math.floormod(-count, BLOCK) if _is_on.get() else count


def apply_to_rows(function: Callable[..., tf.Tensor], *arrays: tf.Tensor) -> tf.Tensor:
    """`function(*arrays)` for arrays [N, ...], which are padded to whole blocks of rows inside `scope`.

    Each row of the result must depend only on the same row of the arrays.
    """
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
