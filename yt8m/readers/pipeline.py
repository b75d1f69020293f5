"""The steps of the input, as functions on `tf.data` datasets, which `BatchQueue` combines.

The steps are: batching and parsing; shuffled epochs, of which reading can begin at any shard; class-balanced sampling;
local copies of shards in buckets.

Class-balanced sampling (--balance=power): videos of rare classes are read several times in an epoch, others may be left
out. A class with n training videos has the weight n^-power (scaled, see `class_weights`), and a video has the mean of
the weights of its labels. PSLA (Gong et al. 2021, arXiv 2102.01243) uses power 1 and the sum of the weights, and draws
videos with replacement. Here each video is repeated instead, before the shuffle buffer: a video with weight w becomes
floor(w + u) copies, with u uniform in 0..1, so that the expected number of copies is w, and the order of the videos
does not change.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from yt8m import forks
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers import traced
from yt8m.storage import base
from yt8m.storage.staging import Stage
from yt8m.types import Batch

P = ParamSpec("P")
R = TypeVar("R")


def without_autograph(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator that keeps AutoGraph from converting the functions that the method `function` passes to datasets.

    AutoGraph converts Python branches that depend on tensors. These functions have none, but AutoGraph would need half
    a second to find that out, and would leave a folder of bytecode in the system's temporary folder.
    """

    @functools.wraps(function)  # the wrapper applies do_not_convert when it is called; so TensorFlow is imported late
    def call_unconverted(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = tf.autograph.experimental.do_not_convert(function)(*args, **kwargs)
        return result

    return call_unconverted


def cpu_session(graph: tf.Graph, *, is_optimized: bool = True) -> tf.Session:
    """A session on the CPU with threads of its own.

    Threads of the training session run this session and wait for it. If both sessions shared their threads, they could
    wait for each other forever.
    """
    config = tf.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=2, device_count={"GPU": 0})
    if not is_optimized:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return forks.new_session(graph=graph, config=config)


_RECORDS_PER_PARSE = 64  # number of frame-level records that are parsed together if their segments are the examples
_RECORDS_AHEAD = 128  # number of long records that are read while a batch is parsed


def parse_in_batches(
    records: tf.data.Dataset,
    parse: Callable[..., Any],
    batch_size: int,
    calls: int,
    has_segments: bool,
    starts_fast: bool = False,
    are_long: bool = False,
    alike: Hashable = None,
    count: RecordCount | None = None,
) -> tf.data.Dataset:
    """Parses records into batches of `batch_size` examples; the last batch may be smaller.

    Args:
      parse: takes a vector of these (of tuples: a vector of each item); returns a `Batch`, or a tuple whose first item
        is one.
      starts_fast: whether to skip graph optimizations of `parse`, so that the input starts sooner; see
        the module `traced`.
      alike: what `parse` depends on, see `traced.mapped`; None if that is not known.
      count: counts the records; None for no count.
    """
    if not has_segments:
        groups = records.prefetch(min(batch_size, _RECORDS_AHEAD)) if are_long else records
        groups = _counted(groups.batch(batch_size), count)
        # Without `prefetch`, a batch of records would be read only after the batch before it was parsed.
        groups = groups if starts_fast or are_long else groups.prefetch(1)
        return traced.mapped(groups, parse, calls, one_device=starts_fast, alike=alike)
    batches = traced.mapped(_counted(records.batch(_RECORDS_PER_PARSE), count), parse, calls, alike=alike)
    return batches.filter(_has_rows).rebatch(batch_size)


def _counted(groups: tf.data.Dataset, count: RecordCount | None) -> tf.data.Dataset:
    """The same groups of records, whose sizes are added to `count` before they are parsed."""
    return groups if count is None else traced.mapped(groups, count.pass_on, 1, one_device=True)


def with_numbers(parse: Callable[[tf.Tensor], Batch], has_segments: bool) -> Callable[..., tuple[Batch, tf.Tensor]]:
    """Wraps a parser in one that also returns the shard number of each example, int64 [B].

    Args:
      parse: maps serialized records, string [N], to a `Batch`.
      has_segments: whether the examples are segments. Then each of them gets the largest shard number of the records
        that were parsed together.

    Returns:
      A function of the records, string [N], and the shard number of each, int64 [N].
    """

    def parse_both(serialized: tf.Tensor, numbers: tf.Tensor) -> tuple[Batch, tf.Tensor]:
        batch = parse(serialized)
        if not has_segments:
            return batch, numbers
        return batch, tf.fill([tf.size(batch.video_ids)], tf.reduce_max(numbers))

    return parse_both


class RecordCount:
    """Counts the records that a pass over the data reads; any thread may count.

    Attributes:
      total: the number of records.
    """

    def __init__(self) -> None:
        self.total, self._lock = 0, threading.Lock()

    def pass_on(self, serialized: tf.Tensor) -> tf.Tensor:
        """Returns serialized records, string [N], whose computation counts them."""
        counted = tf.numpy_function(self._add, [tf.size(serialized, out_type=tf.int64)], tf.int64)
        with tf.control_dependencies([counted]):
            return tf.identity(serialized)

    def _add(self, count: np.int64) -> np.int64:
        with self._lock:
            self.total += int(count)
        return count


def _has_rows(*elements: Any) -> tf.Tensor:
    return tf.size(tf.nest.flatten(elements)[0]) > 0


# After this number of epochs, training without a number of epochs repeats the orders of its epochs. An infinite range
# of epochs would make the input search forever for a first record if no shard has one; `repeat` ends in that case.
_EPOCHS_BEFORE_REPEAT = 1 << 16


def in_epochs(
    files: tf.Tensor,
    begun: tf.Tensor,
    num_epochs: int | None,
    seed: int,
    read: Callable[[tf.data.Dataset, tf.data.Dataset, tf.Tensor], tf.data.Dataset],
) -> tf.data.Dataset:
    """The records of all epochs, one epoch after another, without those of the first `begun` shards.

    The order of the shards in an epoch depends only on the seed and the number of the epoch. So the number of shards
    that were opened suffices to go on reading at the same place, even in another process.

    Args:
      files: string [F].
      begun: int64 scalar, the number of shards to skip: those of whole epochs, then the first ones of the next epoch.
      num_epochs: number of epochs, including skipped ones; None for no end.
      read: returns the records of an epoch, given three arguments: a dataset of the paths of its shards, a dataset of
        their numbers (counted over all epochs), and the number of the epoch (int64 scalar).
    """
    count = tf.size(files, out_type=tf.int64)
    first = begun // tf.maximum(count, 1)

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        start = epoch * count
        skipped = tf.clip_by_value(begun - start, 0, count)
        order = _shuffle_indices(count, seed, epoch)
        paths = tf.data.Dataset.from_tensor_slices(tf.gather(files, order[skipped:]))
        numbers = tf.data.Dataset.range(start + skipped, start + count)
        return read(paths, numbers, epoch)

    last = first + _EPOCHS_BEFORE_REPEAT if num_epochs is None else tf.constant(num_epochs, tf.int64)
    records = traced.flat_mapped(tf.data.Dataset.range(first, last), read_epoch)
    return records.repeat() if num_epochs is None else records


def _shuffle_indices(count: tf.Tensor, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """The indices 0..count-1 in an order that depends only on the arguments, int64 [count]."""
    return tf.random.experimental.stateless_shuffle(tf.range(count), tf.stack([2 * seed, epoch]))


def with_shard_number(records: tf.data.Dataset, number: tf.Tensor) -> tf.data.Dataset:
    """Pairs each record of a shard with the shard's `number`."""
    # `map` takes almost no time here: TensorFlow does not run a function that only returns its argument and a constant.
    # `zip` with `range` would make a tensor for each record, and `zip` with `repeat` would take twice as long as that.
    return records.map(lambda record: (record, number))


def shuffled(records: tf.data.Dataset, buffer: int, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """Shuffles records by a buffer, in an order that depends only on the records, `buffer`, `seed` and `epoch`.

    Args:
      epoch: int64 scalar, the number of the epoch.
    """
    # `records.shuffle` is not used: inside a dataset function, it makes an op whose position TensorFlow cannot save.
    specs = tf.nest.flatten(records.element_spec)
    variant = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(records),
        buffer_size=tf.constant(buffer, tf.int64),
        seed=tf.constant(2 * seed + 1, tf.int64),  # never 0, since the op takes a random seed if both seeds are 0
        seed2=epoch,
        reshuffle_each_iteration=False,
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
    )
    return tf.data.experimental.from_variant(variant, records.element_spec)


_VIDEOS_AT_ONCE, _LONG_AT_ONCE = 256, 8  # records whose ids are looked at together: of videos, and long ones of frames


def without(
    records: tf.data.Dataset,
    parse_ids: Callable[[tf.Tensor], tf.Tensor],
    is_left_out: Callable[[list[bytes]], NDArray[np.bool_]],
    are_long: bool,
) -> tf.data.Dataset:
    """The records of the other videos, in their order.

    Args:
      parse_ids: maps records [N] to the ids of their videos, string [N].
      is_left_out: bool [N] for N ids; any thread may call it.
      are_long: whether records have frames, so that few of them should wait in memory.
    """

    def find_others(ids: NDArray[np.object_]) -> NDArray[np.int64]:
        return np.flatnonzero(~is_left_out(ids.tolist()))

    def keep_others(block: tf.Tensor) -> tf.Tensor:
        # `stateful=False`, because TensorFlow cannot save the position of an input with stateful functions.
        rows = tf.numpy_function(find_others, [parse_ids(block)], tf.int64, stateful=False)
        return tf.gather(block, tf.ensure_shape(rows, [None]))

    return records.batch(_LONG_AT_ONCE if are_long else _VIDEOS_AT_ONCE).map(keep_others).unbatch()


MOST_COPIES = 16  # largest number of copies of a video in an epoch; a model would memorize a video with more
_BLOCK = 64  # number of records whose labels are parsed together
# The two seeds of a block's random numbers are _KEY + seed and epoch * _BLOCKS + block. No other random numbers of the
# input have first seeds as large as _KEY, and no epoch has as many blocks as _BLOCKS: both seeds together are unique.
_KEY, _BLOCKS = 1 << 33, 1 << 32


def class_weights(counts: NDArray[np.int64], power: float) -> NDArray[np.float32]:
    """The weight of each class in class-balanced sampling, float32 [C]: n^-power for a class with n training videos.

    The weights are scaled so that their mean over all labels of the data is 1. Then the expected number of examples in
    an epoch is about the number of videos; it is exactly that number if all videos have the same number of labels and
    none reaches `MOST_COPIES`. For a class without videos, n is 1.

    Args:
      counts: int64 [C], the number of training videos of each class; not all 0.
      power: 0 leaves the data unchanged; with 1, all classes have about the same number of labels.
    """
    numbers = np.maximum(counts, 1).astype(float)
    weights = numbers**-power
    return (weights * counts.sum() / (counts * weights).sum()).astype(np.float32)


def video_weights(labels: tf.Tensor, weights: NDArray[np.float32]) -> tf.Tensor:
    """The weight of each video in class-balanced sampling: the mean of the weights of its labels.

    Args:
      labels: [N, C], bool, or numbers that are above 0 for a label.
      weights: float32 [C], the weight of each class.

    Returns:
      float32 [N]; 1 for a video without labels.
    """
    labels = tf.cast(labels > 0 if labels.dtype != tf.bool else labels, tf.float32)
    counts = tf.reduce_sum(labels, axis=1)
    means = tf.math.divide_no_nan(tf.linalg.matvec(labels, tf.constant(weights)), counts)
    return tf.where_v2(counts > 0.0, means, 1.0)


def resampled(
    records: tf.data.Dataset, weigh: Callable[[tf.Tensor], tf.Tensor], seed: int, epoch: tf.Tensor
) -> tf.data.Dataset:
    """Repeats or drops the records of an epoch, so that a record with weight w has w copies on average.

    A record has at most `MOST_COPIES` copies. The numbers of copies depend only on weights, seed, epoch and the order
    of the records.

    Args:
      weigh: maps records [N] to their weights, float32 [N].
      epoch: int64 scalar, the number of the epoch.
    """

    def repeat(block: tf.Tensor, pairs: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        values, numbers = pairs
        weights = tf.minimum(weigh(values), float(MOST_COPIES))
        has_weights = tf.debugging.Assert(
            tf.equal(tf.size(weights), tf.size(numbers)),
            ["--balance needs a reader that makes one example of each record; leave out --balance"],
        )
        with tf.control_dependencies([has_weights]):
            copies = tf.cast(tf.floor(weights + _uniform(tf.size(numbers), seed, epoch, block)), tf.int32)
        return tf.repeat(values, copies), tf.repeat(numbers, copies)

    return records.batch(_BLOCK).enumerate().map(repeat).unbatch()


def _uniform(count: tf.Tensor, seed: int, epoch: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
    """Random numbers in 0..1 for the records of a block, float32 [count]; they depend only on the arguments."""
    return tf.random.stateless_uniform([count], tf.stack([tf.constant(_KEY + seed, tf.int64), epoch * _BLOCKS + block]))


_AHEAD = 4  # number of files that are downloaded in addition to those that are being read
# Bytes that are read from a file at a time. For video-level records they are the default of tf.data.TFRecordDataset. A
# frame-level record is about as long as that, and is read without a buffer, straight into its string.
VIDEO_BUFFER, FRAME_BUFFER = 256 << 10, 0


class StagedFiles(Stage):
    """Local copies of the shards of a dataset, which are downloaded before they are read.

    Args:
      buffer: number of bytes that are read from a file at a time.
    """

    def __init__(self, num_readers: int, buffer: int = VIDEO_BUFFER) -> None:
        super().__init__(num_readers)
        self._buffer, self._ahead = buffer, num_readers + _AHEAD

    def announced(self, paths: tf.data.Dataset) -> tf.data.Dataset:
        """A dataset of the same paths; the download of a file begins before its path is consumed.

        At most `num_readers` + 4 paths are taken from `paths` in advance.
        """
        return paths.map(lambda path: self._call(self._announce, path)).prefetch(self._ahead)

    def records(self, path: tf.Tensor) -> tf.data.Dataset:
        """The records of the file `path`, read from its local copy; reading waits until the copy is downloaded."""
        # tf.data.TFRecordDataset would write the name of the local copy into the saved position of the input, but
        # another process has other copies. With this raw op, the name in the bucket is saved.
        local_path = self._call(self._take, path)
        variant = tf.raw_ops.TFRecordDataset(filenames=local_path, compression_type="", buffer_size=self._buffer)
        return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))

    def _call(self, function: Any, path: tf.Tensor) -> tf.Tensor:
        # `stateful=False`, because TensorFlow cannot save the position of an input with stateful functions.
        result = tf.numpy_function(function, [path], tf.string, stateful=False)
        return tf.ensure_shape(result, [])

    def _announce(self, path: bytes) -> np.ndarray:
        self.announce(path.decode())
        return np.array(path, object)

    def _take(self, path: bytes) -> np.ndarray:
        return np.array(self.take(path.decode()).encode(), object)


def has_remote(patterns: Sequence[str]) -> bool:
    """Whether any file is in a bucket; a text in `patterns` may have several patterns, separated by commas."""
    return any("gs://" in pattern for pattern in patterns)


def is_staged(patterns: Sequence[str]) -> bool:
    """Whether some shards are in a bucket, and are downloaded before they are read (--gs_reading=staged)."""
    return has_remote(patterns) and base.current_settings().gs_reading == "staged"


def staging_for(patterns: Sequence[str], num_readers: int, buffer: int = VIDEO_BUFFER) -> StagedFiles | None:
    """Makes `StagedFiles` for shards in buckets; None if no file is in a bucket, or with --gs_reading=direct.

    Args:
      patterns: the file patterns, local or gs://.
      buffer: number of bytes that are read from a file at a time.
    """
    if is_staged(patterns):
        return StagedFiles(num_readers, buffer)
    if has_remote(patterns) and "gs" not in tf.io.gfile.get_registered_schemes():
        raise UsageError(
            f"--gs_reading=direct: this TensorFlow {tf.version.VERSION} has no file system for gs://; leave "
            "the flag out, so that shards are staged."
        )
    return None
