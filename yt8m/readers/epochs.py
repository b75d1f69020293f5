"""Shuffled epochs whose order can be entered anywhere: the run's shards are one seeded sequence.

Epoch by epoch, the order of an epoch is a function of seed and epoch alone. So the number of the last shard
that was begun says, in any process, which shards of its epoch are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yt8m.lazy import tf

# Where there is no last epoch, their orders come again after so many. Not endless, so that shards without a
# record come to an end: `repeat` looks for the first record once, and then no more.
_EPOCHS_OF_NO_END = 1 << 16


def in_epochs(
    files: tf.Tensor,
    begun: tf.Tensor,
    num_epochs: int | None,
    seed: int,
    read: Callable[[tf.data.Dataset, tf.data.Dataset, tf.Tensor], tf.data.Dataset],
) -> tf.data.Dataset:
    """The records of all epochs, one epoch after the other.

    Args:
      files: string [F].
      begun: int64 scalar, how many shards of the sequence are passed over: whole epochs, then the first
        ones of the epoch after them.
      num_epochs: epochs in all, those passed over too; None for no end.
      seed: of the orders.
      read: from an epoch's paths, their numbers in the sequence and the epoch (int64 scalar) to its records.
    """
    count = tf.size(files, out_type=tf.int64)
    first = begun // tf.maximum(count, 1)

    def epoch_of(epoch: tf.Tensor) -> tf.data.Dataset:
        start = epoch * count
        skipped = tf.clip_by_value(begun - start, 0, count)
        order = _order(count, seed, epoch)
        paths = tf.data.Dataset.from_tensor_slices(tf.gather(files, order[skipped:]))
        numbers = tf.data.Dataset.range(start + skipped, start + count)
        return read(paths, numbers, epoch)

    last = first + _EPOCHS_OF_NO_END if num_epochs is None else tf.constant(num_epochs, tf.int64)
    records = tf.data.Dataset.range(first, last).flat_map(epoch_of)
    return records.repeat() if num_epochs is None else records


def order_of(count: int, seed: int, epoch: int) -> list[int]:
    """The order in which `in_epochs` begins its `count` files in an epoch, by their places in the list."""
    config = tf.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.device("/cpu:0"), tf.Session(config=config) as session:
        order = _order(tf.constant(count, tf.int64), seed, tf.constant(epoch, tf.int64))
        return session.run(order).tolist()


def _order(count: tf.Tensor, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    return tf.random.experimental.stateless_shuffle(tf.range(count), tf.stack([2 * seed, epoch]))


def numbered(records: tf.data.Dataset, number: tf.Tensor) -> tf.data.Dataset:
    """The records of shard `number`, each with it."""
    # A function that only hands on what it is given and holds is not run, so this is nearly free. Counting
    # (`zip` with `range`) would make a tensor a record, and `repeat` costs twice that.
    return records.map(lambda record: (record, number))


def shuffled(records: tf.data.Dataset, buffer: int, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """Draws from `buffer` records at a time, in an order that is a function of seed and epoch."""
    # Not `records.shuffle`, which within a function takes an op whose position cannot be saved.
    variant = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(records),
        buffer_size=tf.constant(buffer, tf.int64),
        seed=tf.constant(2 * seed + 1, tf.int64),  # both 0 would mean any
        seed2=epoch,
        reshuffle_each_iteration=False,
        **_described(records),
    )
    return tf.data.experimental.from_variant(variant, records.element_spec)


def _described(dataset: tf.data.Dataset) -> dict[str, list[Any]]:
    specs = tf.nest.flatten(dataset.element_spec)
    return {"output_types": [spec.dtype for spec in specs], "output_shapes": [spec.shape for spec in specs]}
