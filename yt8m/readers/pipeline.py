"""Keeps AutoGraph away from the functions of the input.

Serialised records to batches of examples.

Shuffled epochs whose order can be entered anywhere: the run's shards are one seeded sequence.

Epoch by epoch, the order of an epoch is a function of seed and epoch alone. So the number of the last shard
that was begun says, in any process, which shards of its epoch are left.

Remote shards in a dataset: announced some files ahead, read from local copies.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.storage import base
from yt8m.storage.staging import Stage
from yt8m.types import Batch

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def unconverted(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """`function`, with all functions that datasets made within it are given left as they are.

    None of them branches on a tensor in Python. AutoGraph would take half a second to find that out, and
    would leave a folder of bytecode among the system's temporary files.
    """

    @functools.wraps(function)
    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
        made: _Made = tf.autograph.experimental.do_not_convert(function)(*args, **kwargs)
        return made

    return called


# Frame records parsed at once where their segments are the examples.
_RECORDS_PER_PARSE = 64


def parsed(
    records: tf.data.Dataset, parse: Callable[..., Any], batch_size: int, calls: int, has_segments: bool
) -> tf.data.Dataset:
    """What `parse` makes of the records, `batch_size` examples at a time.

    Args:
      records: serialised ones, or tuples of them and what comes with them.
      parse: from vectors of these to a batch, or to a tuple that begins with one.
      batch_size: examples in a batch; the last one is what remains.
      calls: batches parsed side by side.
      has_segments: whether a record has any number of examples.
    """
    if not has_segments:
        return records.batch(batch_size).map(parse, calls, deterministic=True)
    batches = records.batch(_RECORDS_PER_PARSE).map(parse, calls, deterministic=True)
    return batches.filter(_has_rows).rebatch(batch_size)


def with_numbers(parse: Callable[[tf.Tensor], Batch], has_segments: bool) -> Callable[..., tuple[Batch, tf.Tensor]]:
    """`parse` of records with their shards' numbers.

    Each example gets the number of its record; where a record has any number of examples, the largest number
    that was parsed with it.
    """

    def parse_both(serialized: tf.Tensor, numbers: tf.Tensor) -> tuple[Batch, tf.Tensor]:
        batch = parse(serialized)
        if not has_segments:
            return batch, numbers
        return batch, tf.fill([tf.size(batch.video_ids)], tf.reduce_max(numbers))

    return parse_both


class ReadCounts:
    """How many records of each file were read in one pass; any thread may add to it."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()

    def of(self, number: int) -> int:
        """Records of the file with this number."""
        return self._counts[number]

    def counting(self, parse: Callable[[tf.Tensor], Batch]) -> Callable[..., Batch]:
        """`parse` of records with their files' numbers, which are counted on the way."""

        def count_and_parse(serialized: tf.Tensor, numbers: tf.Tensor) -> Batch:
            counted = tf.numpy_function(self._add, [numbers], tf.int64)
            with tf.control_dependencies([counted]):
                return parse(tf.identity(serialized))

        return count_and_parse

    def _add(self, numbers: np.ndarray) -> np.int64:
        found, counts = np.unique(numbers, return_counts=True)
        with self._lock:
            self._counts.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        return np.int64(len(numbers))


def _has_rows(*parts: Any) -> tf.Tensor:
    return tf.size(tf.nest.flatten(parts)[0]) > 0


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


_AHEAD = 4  # files, beside those that are read side by side
_BUFFER = 256 << 10  # bytes, as tf.data.TFRecordDataset has it


class StagedFiles:
    """The paths of a dataset, and the local copies that they are read from.

    Args:
      num_readers: files read side by side.
    """

    def __init__(self, num_readers: int) -> None:
        self._ahead = num_readers + _AHEAD
        self._stage = Stage(num_readers)

    @property
    def failure(self) -> RunError | None:
        """Why a file could not be staged."""
        return self._stage.failure

    def announced(self, paths: tf.data.Dataset) -> tf.data.Dataset:
        """The same paths; each begins to be fetched some places before it is asked for."""
        return paths.map(lambda path: self._call(self._announce, path)).prefetch(self._ahead)

    def records(self, path: tf.Tensor) -> tf.data.Dataset:
        """The records of a file, from its local copy; waits for it."""
        # Not tf.data.TFRecordDataset, which puts the copy's name into a saved position in the data: another
        # process has other copies. Of this one, the position holds the name in the bucket.
        here = self._call(self._take, path)
        variant = tf.raw_ops.TFRecordDataset(filenames=here, compression_type="", buffer_size=_BUFFER)
        return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))

    def copy_of(self, path: str) -> str:
        """The local copy of a file that is opened again and again while it is read."""
        return self._stage.again(path)

    def _call(self, function: Any, path: tf.Tensor) -> tf.Tensor:
        # Not stateful, or a position in the data could not be saved.
        found = tf.numpy_function(function, [path], tf.string, stateful=False)
        return tf.ensure_shape(found, [])

    def _announce(self, path: bytes) -> np.ndarray:
        self._stage.announce(path.decode())
        return np.array(path, object)

    def _take(self, path: bytes) -> np.ndarray:
        return np.array(self._stage.take(path.decode()).encode(), object)


def staging_for(patterns: Sequence[str], num_readers: int) -> StagedFiles | None:
    """How the files of `patterns` are staged; None where none is in a bucket, or TensorFlow is to read them.

    Raises:
      UsageError: TensorFlow is to read them by itself, and cannot.
    """
    if not any("gs://" in pattern for pattern in patterns):
        return None
    if base.current_settings().gs_reading == "staged":
        return StagedFiles(num_readers)
    if "gs" not in tf.io.gfile.get_registered_schemes():
        raise UsageError(
            f"--gs_reading=direct: this TensorFlow {tf.version.VERSION} has no file system for gs://; leave "
            "the flag out, so that shards are staged."
        )
    return None
