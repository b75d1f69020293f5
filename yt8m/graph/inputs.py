"""The input side of a graph: files that are fed, an iterator, and a saver of its position."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from yt8m.graph.ops import InputOps
from yt8m.graph.protocols import Inputter
from yt8m.lazy import tf


def create_input(inputter: Inputter, batch_size: int) -> tuple[Any, InputOps]:
    """An initializable iterator over batches of `batch_size`, and its handles.

    The files come by a plain placeholder: forgetting to feed it fails at once, and a meta-graph made
    on one machine reads other files on another. The position has a saver of its own, because in
    SAVEABLE_OBJECTS it would put shuffle buffers into every checkpoint and break `Saver()` after an import.
    Where the inputter numbers its shards, the iterator gives pairs of a batch and the numbers of its rows.
    """
    files = tf.placeholder(tf.string, [None], name="input_files")
    with tf.device("/cpu:0"):
        begun = None
        if is_numbered(inputter):
            begun = tf.placeholder_with_default(tf.zeros([], tf.int64), [], name="input_begun")
            dataset = inputter.numbered_dataset(files, batch_size, begun)  # type: ignore[attr-defined]
        else:
            dataset = inputter.dataset(files, batch_size)
        iterator = tf.data.make_initializable_iterator(dataset)
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        saver = tf.train.Saver([saveable], max_to_keep=None, name="input_saver")
    return iterator, InputOps(iterator.initializer, files, saver.to_proto().SerializeToString(), begun)


def is_numbered(inputter: Inputter) -> bool:
    """Whether the batches of `inputter` come with the numbers of their shards."""
    return getattr(inputter, "shard_order", None) is not None


def next_batches(iterator: Any, count: int, ops: InputOps) -> tuple[list[Any], InputOps]:
    """So many batches one after the other, the i-th always the same tower's; the handles completed."""
    batches, shards = apart(in_turn(iterator.get_next, count), ops)
    return batches, with_shards(ops, shards)


def in_turn(read: Callable[[], Any], count: int) -> list[Any]:
    """What so many calls of `read` build, each of which runs behind the one before."""
    found: list[Any] = []
    for _ in range(count):
        before = tf.nest.flatten(found[-1:], expand_composites=True)
        with tf.control_dependencies([leaf for leaf in before if leaf is not None]):
            found.append(read())
    return found


def apart(elements: Sequence[Any], ops: InputOps) -> tuple[list[Any], tf.Tensor | None]:
    """The batches in elements of the iterator, and the numbers of their shards, if they have any."""
    if ops.begun is None:
        return list(elements), None
    with tf.device("/cpu:0"):
        return [batch for batch, _ in elements], tf.concat([numbers for _, numbers in elements], axis=0)


def with_shards(ops: InputOps, shards: tf.Tensor | None) -> InputOps:
    """`ops` of a step whose examples have these shards' numbers, None where they have none."""
    if shards is None:
        return ops
    with tf.device("/cpu:0"):
        last = tf.reduce_max(shards, name="input_last_shard")
    return dataclasses.replace(ops, last_shard=last, shards=shards)


def input_saver(ops: InputOps) -> Any:
    """The saver of the iterator's position; restore only after `ops.initializer` has run."""
    saver_def = tf.train.SaverDef.FromString(ops.saver_def)
    return tf.train.Saver(saver_def=saver_def)
