"""Makes the score of a class independent of the number and the order of the other classes, even in its last bit.

The CPU kernels compute products and exponentials in blocks of up to 16 values. The values after the last whole block
are computed by other instructions, which round differently. So the last bit of a class's score depends on the index of
the class. Within `scope`, arrays are padded to whole blocks, and the padding is cut off the results. Variables are
padded only once: call `fill` after they have been restored. Use this for inference only, not for training, evaluation
or exports.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from yt8m.lazy import tf
from yt8m.numerics import within

# Arrays are padded to a multiple of this number, the largest number of values that a CPU kernel computes at once.
BLOCK = 16

_is_on: ContextVar[bool] = ContextVar("whole_blocks", default=False)
# For each graph, the names of the ops that pad its variables, and {name of a tensor without padding: name of the padded
# tensor}. Ops and tensors themselves would keep their graph in memory.
_padding_ops: weakref.WeakKeyDictionary[tf.Graph, list[str]] = weakref.WeakKeyDictionary()
_padded_names: weakref.WeakKeyDictionary[tf.Graph, dict[str, str]] = weakref.WeakKeyDictionary()


def scope(is_on: bool = True) -> AbstractContextManager[None]:
    """A context in which the functions of this module pad arrays to whole blocks, or do not, if `is_on` is False."""
    return within(_is_on, is_on)


def extend_columns(values: tf.Tensor) -> tf.Tensor:
    """Pads weights with columns of zeros to a multiple of `BLOCK`; outside of `scope` they are returned unchanged.

    A variable gets a padded copy, another variable that is not saved; `fill` computes its value.

    Args:
      values: a tensor or a variable [..., U].
    """
    missing = -int(values.shape[-1]) % BLOCK
    if not _is_on.get() or not missing:
        return values
    paddings = [[0, 0]] * (values.shape.rank - 1) + [[0, missing]]
    if isinstance(values, tf.Tensor):
        return tf.pad(values, paddings)
    with tf.init_scope():
        copy = tf.Variable(lambda: tf.pad(values, paddings), trainable=False, collections=[], use_resource=True)
        _padding_ops.setdefault(tf.get_default_graph(), []).append(copy.initializer.name)
    return copy


def fill(session: tf.Session) -> None:
    """Computes the padded copies of the variables in the session's graph; call this after the variables have values."""
    session.run(_padding_ops.get(session.graph, []))


def cut(values: tf.Tensor, columns: int) -> tf.Tensor:
    """The first `columns` columns of values [..., U], whose other columns are padding.

    Inside `scope`, `uncut` maps the result back to the padded tensor.
    """
    remaining = values if values.shape[-1] == columns else values[..., :columns]
    if _is_on.get():
        _padded_names.setdefault(remaining.graph, {})[remaining.name] = values.name
    return remaining


def uncut(values: tf.Tensor) -> tf.Tensor:
    """The padded tensor of which `cut` returned the first columns as `values`; `values` itself if there is none.

    It is faster to fetch this tensor than `values`, because NumPy drops the padding without a copy.
    """
    name = _padded_names.get(values.graph, {}).get(values.name)
    return values if name is None else values.graph.get_tensor_by_name(name)


def extended(count: tf.Tensor) -> tf.Tensor:
    """int32 scalar: inside `scope`, `count` columns rounded up to a multiple of `BLOCK`; outside, `count` itself."""
    return count + tf.math.floormod(-count, BLOCK) if _is_on.get() else count


def apply_to_rows(function: Callable[..., tf.Tensor], *arrays: tf.Tensor) -> tf.Tensor:
    """`function(*arrays)`, computed inside `scope` on arrays that are padded to whole blocks of rows.

    Args:
      function: maps tensors [N, ...] to a tensor [N, ...]. Each row of the result must depend only on the same row of
        the arguments.
      *arrays: tensors [N, ...].

    Returns:
      The result without the rows of the padding.
    """
    if not _is_on.get():
        return function(*arrays)
    rows = tf.shape(arrays[0])[0]
    missing = tf.math.floormod(-rows, BLOCK)
    padded = (tf.pad(array, [[0, missing], *[[0, 0]] * (array.shape.rank - 1)]) for array in arrays)
    return function(*padded)[:rows]


def sigmoid(logits: tf.Tensor) -> tf.Tensor:
    """The sigmoid of logits [B, C], computed inside `scope` on whole blocks."""
    if not _is_on.get():
        return tf.sigmoid(logits)
    if logits.name in _padded_names.get(logits.graph, {}):
        # `cut` made the logits from a padded tensor. Its sigmoid is computed, and then the padding is cut off.
        return cut(tf.sigmoid(uncut(logits)), int(logits.shape[-1]))
    flat = apply_to_rows(tf.sigmoid, tf.reshape(logits, [-1]))
    return tf.ensure_shape(tf.reshape(flat, tf.shape(logits)), logits.shape)
