"""The input side of a graph: the files to feed, an iterator and the saver of its position, the towers' shares.

It splits a batch over the towers and combines the values that the towers compute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.graph.protocols import InputOps, Inputter, Reduction, Report
from yt8m.lazy import tf


class RowShare(NamedTuple):
    """One tower's share of a batch.

    Attributes:
      batch: the tower's rows; if it has none, one row of another tower with weight 0.
      rows: int64 scalar, its true number of rows.
      weight: float32 scalar, rows / rows of all towers; the weights add up to 1.
    """

    batch: Any
    rows: tf.Tensor
    weight: tf.Tensor


def count_rows(batch: Any) -> tf.Tensor:
    """int64 scalar: the first dimension of the nest's first tensor."""
    first = next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)
    return tf.shape(first, out_type=tf.int64)[0]


def split_batch(batch: Any, num_towers: int) -> list[RowShare]:
    """Splits a nest of tensors (first dimension: examples) as evenly as possible.

    Parts start at ceil(rows * i / N), so the first tower has the largest part and is never empty.
    A tower without rows gets the last row with weight 0, so that shapes stay valid and nothing is NaN.
    """
    rows = count_rows(batch)
    if num_towers == 1:
        return [RowShare(batch, rows, tf.ones([]))]
    edges = [-(-rows * i // num_towers) for i in range(num_towers)] + [rows]
    return [_cut(batch, rows, edges[i], edges[i + 1]) for i in range(num_towers)]


def _cut(batch: Any, rows: tf.Tensor, start: tf.Tensor, end: tf.Tensor) -> RowShare:
    real = end - start
    low = tf.minimum(start, rows - 1)
    high = low + tf.maximum(real, 1)
    part = tf.nest.map_structure(lambda t: None if t is None else t[low:high], batch)
    return RowShare(part, real, tf.cast(real, tf.float32) / tf.cast(rows, tf.float32))


def join_batches(batches: Sequence[Any]) -> list[RowShare]:
    """Shares of a step that dequeued one whole batch for each tower."""
    rows = [count_rows(batch) for batch in batches]
    total = tf.cast(tf.add_n(rows), tf.float32)
    return [RowShare(batch, n, tf.cast(n, tf.float32) / total) for batch, n in zip(batches, rows, strict=True)]


def reduce_reports(reports: Sequence[Mapping[str, Report]], shares: Sequence[RowShare]) -> dict[str, tf.Tensor]:
    """One tensor per name, reduced as each report declares."""
    return {
        name: reduce_values([tower[name].tensor for tower in reports], shares, first.reduction)
        for name, first in reports[0].items()
    }


def reduce_values(values: Sequence[tf.Tensor], shares: Sequence[RowShare], reduction: Reduction) -> tf.Tensor:
    """Reduces the values of the towers to one value; a tower without an example adds nothing."""
    if len(values) == 1:
        return values[0]
    if reduction is Reduction.ROWS:
        return tf.concat([value[: share.rows] for value, share in zip(values, shares, strict=True)], axis=0)
    if reduction is Reduction.LIST:
        return tf.concat([v[: _all_or_none(v, share)] for v, share in zip(values, shares, strict=True)], axis=0)
    if reduction is Reduction.MEAN:
        return tf.add_n([value * share.weight for value, share in zip(values, shares, strict=True)])
    return tf.add_n([value * tf.cast(share.rows > 0, value.dtype) for value, share in zip(values, shares, strict=True)])


def _all_or_none(value: tf.Tensor, share: RowShare) -> tf.Tensor:
    """int64 scalar: the rows of `value`; 0 if the tower has no example."""
    return count_rows(value) * tf.cast(share.rows > 0, tf.int64)


def create_input(inputter: Inputter, batch_size: int) -> tuple[Any, InputOps]:
    """An initializable iterator over batches of `batch_size`, and its handles.

    The files are a placeholder without a default: a run that does not feed it fails at once, and a meta-graph
    made on one machine can read other files on another. The position has a saver of its own, because in
    SAVEABLE_OBJECTS it would put shuffle buffers into every checkpoint and break `Saver()` after an import.
    If the inputter numbers its shards, the iterator gives pairs of a batch and the numbers of its rows.
    """
    files = tf.placeholder(tf.string, [None], name="input_files")
    with tf.device("/cpu:0"):
        begun = None
        if inputter.shard_order is not None:
            begun = tf.placeholder_with_default(tf.zeros([], tf.int64), [], name="input_begun")
            dataset = inputter.numbered_dataset(files, batch_size, begun)
        else:
            dataset = inputter.dataset(files, batch_size)
        iterator = tf.data.make_initializable_iterator(dataset)
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        saver = tf.train.Saver([saveable], max_to_keep=None, name="input_saver")
    return iterator, InputOps(iterator.initializer, files, saver.to_proto().SerializeToString(), begun)


def next_batches(iterator: Any, count: int, ops: InputOps) -> tuple[list[Any], InputOps]:
    """Reads `count` batches in order, the i-th for tower i; returns them, and `ops` with the shard handles added."""
    batches, shards = separate_shards(read_in_turn(iterator.get_next, count), ops)
    return batches, with_shards(ops, shards)


def read_in_turn(read: Callable[[], Any], count: int) -> list[Any]:
    """Calls `read` `count` times; control dependencies make the ops run in this order."""
    found: list[Any] = []
    for _ in range(count):
        before = tf.nest.flatten(found[-1:], expand_composites=True)
        with tf.control_dependencies([leaf for leaf in before if leaf is not None]):
            found.append(read())
    return found


def separate_shards(elements: Sequence[Any], ops: InputOps) -> tuple[list[Any], tf.Tensor | None]:
    """Splits elements of the iterator into the batches and the shard number of each example (None if not numbered)."""
    if ops.begun is None:
        return list(elements), None
    with tf.device("/cpu:0"):
        return [batch for batch, _ in elements], tf.concat([numbers for _, numbers in elements], axis=0)


def with_shards(ops: InputOps, shards: tf.Tensor | None) -> InputOps:
    """`ops` with the shard numbers of the step's examples; unchanged if `shards` is None."""
    if shards is None:
        return ops
    with tf.device("/cpu:0"):
        last = tf.reduce_max(shards, name="input_last_shard")
    return dataclasses.replace(ops, last_shard=last, shards=shards)


def input_saver(ops: InputOps) -> Any:
    """The saver of the iterator's position; restore only after `ops.initializer` has run."""
    saver_def = tf.train.SaverDef.FromString(ops.saver_def)
    return tf.train.Saver(saver_def=saver_def)
