"""Turns files of records into a stream of batches, shuffled and repeated, and parsed by several threads."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import cores, options, storage
from yt8m.config.data_config import DataConfig
from yt8m.errors import RunError
from yt8m.graph.protocols import Inputter
from yt8m.lazy import tf
from yt8m.readers import base, pipeline
from yt8m.readers.base import Reader, ZeroedCount, at_least_one
from yt8m.readers.cached_input import AUTO, CachedInput, open_cache
from yt8m.readers.damage import RecordCheck, Tolerance, find_damage
from yt8m.readers.listed_labels import FEWEST_CLASSES
from yt8m.readers.pipeline import RecordCount, StagedFiles, without_autograph
from yt8m.readers.youtube8m import READERS, YT8MAggregatedFeatureReader, reader_for
from yt8m.records import manifest
from yt8m.records.batches import BLOCK, FRAME_SHUFFLE_BUFFER, VIDEO_SHUFFLE_BUFFER
from yt8m.records.held_out import HeldOut
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.shards import DamagedError
from yt8m.storage.base import Stamp
from yt8m.types import Batch

_LEAST_TO_CACHE = 10**8  # bytes of frames; fewer are parsed in a second or two, so that no cache is offered


class BatchQueue(Inputter):
    """Reads files of video records into batches, shuffled or in order.

    Without `shuffle`, files and records keep their order. With it, every epoch opens the files in another order,
    interleaves `num_readers` of them and draws records from a buffer. In both cases the order of the examples depends
    only on files, seed and settings; no example is dropped (the last batch may be smaller); and an epoch ends before
    the next begins. `Inputter` describes the attributes that are not listed here.

    Attributes:
      reader, batch_size, num_epochs: the arguments of these names.
      tolerance: skips damaged records and counts them; None if the first damaged record is an error.
      records: number of records in an epoch, counted in the headers of the files; None if they were not counted.
      expected_records: {path: number of records that the file should have}; empty if they were not counted.
      class_weights: float32 [C], the weights of class-balanced sampling (see `readers.pipeline`) in shuffled epochs;
        None for no balancing.
      held_out: the rule by which videos are left out, see `yt8m.records.held_out`; empty if all are read.
      threads: how many batches are parsed in parallel, and how many parsed ones may wait.
    """

    class_weights: NDArray[np.float32] | None = None
    held_out: Sequence[int] = ()

    def __init__(
        self,
        reader: Reader,
        pattern: storage.Patterns,
        batch_size: int = 1024,
        num_epochs: int | None = 1,
        shuffle: bool = False,
        shuffle_buffer: int | None = None,
        num_readers: int = 1,
        seed: int = 0,
        max_bad_records: int = 0,
        cache: str = "",
    ) -> None:
        """Stores the arguments; the files are listed when they are needed.

        Args:
          pattern: file patterns, local or gs://, separated by commas or in a list.
          batch_size: number of examples of a batch. In a training with several towers, each tower gets one batch per
            step.
          num_epochs: number of passes over the files; None for no end.
          shuffle_buffer: number of records from which the next one is drawn; None for 4096 at video level, 256 at frame
            level.
          max_bad_records: number of damaged records that are tolerated; the rest of the shard after each is skipped. If
            it is 0, the first damaged record is an error.
          cache: folder of the cache of parsed records; empty for no cache.
        """
        self.reader = reader
        self.batch_size = at_least_one("batch_size", batch_size)
        self._patterns = storage.pattern_texts(pattern)
        self.num_epochs = None if num_epochs is None else at_least_one("num_epochs", num_epochs)
        self._shuffle = shuffle
        has_frames = hasattr(reader, "max_frames")
        default_size = FRAME_SHUFFLE_BUFFER if has_frames else VIDEO_SHUFFLE_BUFFER
        self._buffer = pipeline.FRAME_BUFFER if has_frames else pipeline.VIDEO_BUFFER
        self._shuffle_buffer = at_least_one("shuffle_buffer", shuffle_buffer or default_size)
        self._num_readers = at_least_one("num_readers", num_readers)
        self._seed = seed
        self.shard_order = {"seed": seed} if shuffle else None
        self._opened: OpenedData | None = None
        self._manifest_file = ""
        self._staged: StagedFiles | None = None
        self._cache_folder = cache
        self._cache: CachedInput | None = None
        self._part, self._parts = 0, 1
        self.threads = threads_for(reader, shuffle)
        self._record_count: RecordCount | None = None
        self._stamps: dict[str, Stamp] = {}
        self._check = RecordCheck(reader)
        self.tolerance = Tolerance(self._check, max_bad_records) if max_bad_records else None
        is_counting = self.tolerance is not None or getattr(reader, "zeroed", None) is not None
        self.calls_python = is_counting or bool(cache) or pipeline.is_staged(self._patterns)

    @classmethod
    def for_config(
        cls, data: DataConfig, mode: str, reader: Reader | None = None, *, opened: OpenedData | None = None
    ) -> BatchQueue:
        """The queue of a run: shuffled epochs for mode `train`, one pass in order for `eval` and `infer`.

        Args:
          data: the config.
          mode: `train`, `eval` or `infer`.
          reader: parses the records; by default the reader that the config names.
          opened: the data, if they are open; otherwise they are opened when the files are needed.

        Raises:
          UsageError: the settings contradict each other, or the reader cannot be made.
          ValueError: there is no such mode.
        """
        if mode not in ("train", "eval", "infer"):
            raise ValueError(f"mode is {mode!r}; expected train, eval or infer")
        training, reader = mode == "train", reader or reader_for(data)
        reader.zeroed = ZeroedCount() if data.nan_policy == "zero" else None
        queue = cls(
            reader,
            data.data_pattern,
            batch_size=data.batch_size,
            num_epochs=data.num_epochs if training else 1,
            shuffle=training,
            shuffle_buffer=data.shuffle_buffer,
            num_readers=data.num_readers,
            seed=data.seed,
            max_bad_records=data.max_bad_records,
            cache=data.cache,
        )
        queue._opened, queue._manifest_file = opened, data.manifest
        queue.threads = threads_for(reader, training, data.parse_threads, data.prefetch)
        if training and data.held_out:
            queue.held_out, queue.calls_python = data.held_out, True
        queue.example_order = options.order_of_examples(options.shaping(data))
        return queue

    def log_settings(self) -> None:
        """Logs the batch size and the numbers of threads, with the flags that change them."""
        logging.info(
            "input on %d cores: --batch_size=%d --parse_threads=%d --prefetch=%d --num_readers=%d",
            *(cores.usable(), self.batch_size, self.threads.parse_calls, self.threads.prefetch, self._num_readers),
        )
        if size := self._bytes_for_cache():
            logging.info(
                "frames are parsed from records in every epoch; --cache=%s, or another folder, takes at most %.1f GB "
                "of disk, and about a quarter of the CPU time of reading them from the second epoch on",
                *(AUTO, size / 1e9),
            )

    def _bytes_for_cache(self) -> int:
        """The most disk space of a cache of frames that are read again and again; 0 if there is little to gain.

        That is so if there is a cache, in a single pass, for shards in buckets, and for small data.
        """
        if self._cache_folder or self.num_epochs == 1 or not _yields_whole_videos(self.reader):
            return 0
        files = self.files()
        size = 0 if any(map(storage.is_remote, files)) else sum(map(storage.size, files))
        return size if size >= _LEAST_TO_CACHE else 0

    def contents(self) -> dict[str, Any]:
        """{path: checksum of the records' own checksums, or the generation of an object in a bucket}."""
        files = self.files()
        stamps = storage.stamps([path for path in files if storage.is_remote(path)])
        return manifest.fingerprints(files) | {path: stamp.version for path, stamp in stamps.items()}

    def files(self) -> list[str]:
        """The sorted paths that match the patterns, each once.

        Raises:
          UsageError: a pattern matches nothing.
        """
        return list((self._opened or self._open()).files)

    def _open(self) -> OpenedData:
        return open_data(self._patterns, manifest=self._manifest_file)

    def pack_batches(self) -> None:
        """Lists the labels of videos (`readers.listed_labels`), if there are many classes and the reader can do it."""
        if type(self.reader) in READERS and not self._has_segments and self.reader.num_classes >= FEWEST_CLASSES:
            self.reader = copy.copy(self.reader)
            self.reader.lists_labels = True

    def keep_opened(self) -> OpenedData:
        """Opens the data, unless they are open, and keeps them: `files` does not change from now on.

        Raises like `files`.
        """
        self._opened = self._opened or self._open()
        return self._opened

    def count_reads(self) -> None:
        """Makes later passes without shuffling count their records; `records_read` returns the number."""
        self._record_count = RecordCount()

    def begin_again(self) -> None:
        """Prepares another pass over the data with the same graph: counts from 0, and opens the cache again.

        It may follow `close`. No thread of the last pass may still run.
        """
        if self._record_count is not None:
            self._record_count.total = 0
        if self._cache is not None:
            self._cache.reopen()

    @property
    def records_read(self) -> int:
        """The number of records that the last pass read; 0 if `count_reads` was not called."""
        return self._record_count.total if self._record_count else 0

    def records_to_read(self, counts: Mapping[str, int]) -> int | None:
        """The number of records that a pass without shuffling should read; None if that of a file is unknown.

        A file with a damaged record is read up to that record, any other to its end.

        Args:
          counts: {path: number of records in the file}.
        """
        skipped = self.tolerance.skipped if self.tolerance else {}
        records = [skipped[path].record if path in skipped else counts.get(path) for path in self.files()]
        total = sum(count for count in records if count is not None)
        # Queues that share every file take turns, record by record, and the turns go on from file to file.
        return None if None in records else (total + self._parts - 1 - self._part) // self._parts

    def keep_stamps(self) -> list[str]:
        """Remembers which version each file has; returns those that have changed since the last call, if any."""
        before, self._stamps = self._stamps, storage.stamps(self.files())
        return self._changed(before, self._stamps)

    def changed_files(self) -> list[str]:
        """The files that were written again, replaced or removed since the last call of `keep_stamps`."""
        return self._changed(self._stamps, storage.stamps(self.files())) if self._stamps else []

    def _changed(self, before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> list[str]:
        return [path for path in self.files() if before and before.get(path) != after.get(path)]

    def share(self, index: int, count: int) -> BatchQueue:
        """A copy of this queue that reads one of `count` shares; together the shares have every record exactly once.

        A share is every `count`-th file if there are at least `count` files, else every `count`-th record.

        Args:
          index: the number of the share, from 0.
          count: the number of shares.

        Raises:
          UsageError: a pattern matches nothing.
        """
        shared, opened = copy.copy(self), self._opened or self._open()
        files = opened.files
        shared.records, shared.expected_records = None, {}
        shared._opened = opened.of_files(files[index::count])
        if len(files) < count:
            logging.info("%d files for %d processes: each reads every %d-th record", len(files), count, count)
            shared._opened, shared._part, shared._parts = opened, index, count
        return shared

    def damage(self) -> RunError | None:
        """The error that made reading fail: a damaged record, a failed download or a failed cache; None if none did.

        If the error is not known yet, this reads the files until it finds a damaged record.
        """
        if self.tolerance is not None and self.tolerance.failure is not None:
            return self.tolerance.failure
        for source in (self._staged, self._cache):
            if source is not None and source.failure:
                return source.failure
        logging.info("looking for the damaged record")
        return find_damage(self._check, self.files())

    def bad_records(self) -> list[DamagedError]:
        """The damaged records skipped so far; the records after them in their shards were skipped too."""
        return list(self.tolerance.skipped.values()) if self.tolerance else []

    def zeroed_values(self) -> int:
        """The number of values that the reader has set to 0; 0 if it does not count them."""
        zeroed = getattr(self.reader, "zeroed", None)
        return zeroed.count if zeroed is not None else 0

    def close(self) -> None:
        """Closes the session that checks records, and the shards of the cache."""
        self._check.close()
        if self._cache:
            self._cache.close()

    @without_autograph
    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """A dataset of `Batch`es.

        Args:
          files: string [F], the paths of the files; if it is empty, initializing the iterator fails.
          batch_size: number of examples in a batch; the last batch may be smaller.
        """
        if self._shuffle:
            numbered = self.numbered_dataset(files, batch_size, tf.zeros([], tf.int64))
            return numbered.map(lambda batch, _: batch)
        self._stage()
        records = self._in_order(assert_not_empty(files)).repeat(self.num_epochs)
        if self._record_count is not None:
            self._record_count = RecordCount()  # threads of an earlier pass may still add to the old one
        return self._batches(records, batch_size, self._parse, self._record_count)

    def _parse_ids(self, records: tf.Tensor) -> tf.Tensor:
        """The ids of records, string [N], which are given as to `_parse`."""
        return self._cache.ids(records) if self._cache else base.unchecked_ids(records)

    def _parse(self, records: tf.Tensor) -> Batch:
        """The `Batch` of serialized records, string [N]; with a cache, of records by their numbers, int64 [N]."""
        return self._cache.batch(records) if self._cache else self.reader.prepare_serialized_examples(records)

    @without_autograph
    def numbered_dataset(self, files: tf.Tensor, batch_size: int, begun: tf.Tensor) -> tf.data.Dataset:
        """A dataset of pairs: a shuffled `Batch`, and the shard number of each of its examples, int64 [B].

        The shards of a run are numbered from 0 in the order in which they are opened, epoch by epoch; a shard has
        another number in each epoch. If the examples are segments, see `pipeline.with_numbers`.

        Args:
          files: string [F], as in `dataset`.
          batch_size: number of examples in a batch.
          begun: int64 scalar, the number of the shard with which reading begins; those before it are skipped.
        """
        self._stage()
        records = pipeline.in_epochs(assert_not_empty(files), begun, self.num_epochs, self._seed, self._shuffled_epoch)
        return self._batches(records, batch_size, pipeline.with_numbers(self._parse, self._has_segments))

    def _stage(self) -> None:
        """Prepares the local copies of shards in buckets, and the cache of parsed records, for a new dataset."""
        self._staged = pipeline.staging_for(self._patterns, self._num_readers, self._buffer)
        if self._staged and self.tolerance:
            self.tolerance.local_path = self._staged.again
        if self._cache_folder:
            skips_bad = self.tolerance is not None
            records = open_cache(self._cache_folder, self.reader, self.files(), skips_bad=skips_bad)
            self._cache = CachedInput(records, self.reader, self.tolerance)

    def _batches(
        self, records: tf.data.Dataset, batch_size: int, parse: Callable[..., Any], count: RecordCount | None = None
    ) -> tf.data.Dataset:
        """Parses records into batches, counts them if there is a `count`, and sets the options of the dataset."""
        batches = pipeline.parse_in_batches(
            *(records, parse, batch_size, self.threads.parse_calls, self._has_segments),
            starts_fast=type(self.reader) is YT8MAggregatedFeatureReader,
            are_long=self._cache is None and _yields_whole_videos(self.reader),
            alike=self._alike(),
            count=count,
        )
        options = tf.data.Options()
        options.autotune.enabled = False  # all parallelism is set explicitly, so the autotuner would only cost time
        options.deterministic = True
        options.experimental_warm_start = True  # reads the first batch as soon as the iterator is made
        if self._staged:  # threads that wait for downloads get a pool of their own, and do not block training steps
            options.threading.private_threadpool_size = self._num_readers + cores.usable()
        batches = batches.prefetch(self.threads.prefetch) if self.threads.prefetch else batches
        return batches.with_options(options)

    def _alike(self) -> Hashable:
        """What the parser of this queue depends on; None if it calls Python functions, or is a user's own."""
        calls_python = self._cache or getattr(self.reader, "zeroed", None)
        if calls_python or type(self.reader) not in READERS:
            return None
        return type(self.reader), self._shuffle, tuple(sorted(vars(self.reader).items()))

    @property
    def _has_segments(self) -> bool:
        """Whether the examples are segments, of which a record may have several, rather than whole videos."""
        return bool(getattr(self.reader, "segment_labels", False))

    def _in_order(self, files: tf.Tensor) -> tf.data.Dataset:
        """The records of one epoch in order."""
        if self._staged is None and self._cache is None:
            return self._read(files)
        paths = self._announced(tf.data.Dataset.from_tensor_slices(files))
        return self._own(paths.flat_map(self._all_records))

    def _shuffled_epoch(self, paths: tf.data.Dataset, numbers: tf.data.Dataset, epoch: tf.Tensor) -> Any:
        """The records of one epoch, shuffled, as pairs (record, number of its shard)."""
        records = tf.data.Dataset.zip((self._announced(paths), numbers)).interleave(
            lambda path, number: pipeline.with_shard_number(self._read(path), number),
            cycle_length=self._num_readers,
            block_length=BLOCK,
            # At most `num_readers` local copies are kept at a time. Parallel calls would open more files in advance.
            num_parallel_calls=None if self._staged else read_calls(self._patterns, self._num_readers),
        )
        if self.class_weights is not None:
            weigh = functools.partial(self._weigh, self.class_weights)
            records = pipeline.resampled(records, weigh, self._seed, epoch)
        return pipeline.shuffled(records, self._shuffle_buffer, self._seed, epoch)

    def _weigh(self, weights: NDArray[np.float32], records: tf.Tensor) -> tf.Tensor:
        """The weight of each record in class-balanced sampling, float32 [N].

        Args:
          weights: float32 [C], the weight of each class.
          records: string [N], serialized records; with a cache, int64 [N], their numbers.
        """
        labels = self._cache.labels(records) if self._cache else self.reader.parse_labels(records)
        return pipeline.video_weights(labels, weights)

    def _announced(self, paths: tf.data.Dataset) -> tf.data.Dataset:
        """The same paths; if the files are in a bucket, their downloads begin before the paths are consumed."""
        return self._staged.announced(paths) if self._staged else paths

    def _read(self, files: tf.Tensor) -> tf.data.Dataset:
        """The records of `files` (a path, or a vector of paths) that belong to this queue's share."""
        return self._own(self._all_records(files))

    def _all_records(self, files: tf.Tensor) -> tf.data.Dataset:
        """All records of `files` (a path, or a vector of paths); with a cache, the numbers of the records of a path."""
        if self._cache:
            return self._cache.numbers(files)
        if self.tolerance:
            return self.tolerance.records(files)
        if self._staged:
            return self._staged.records(files)
        # Without a buffer, each record would cost three requests to a bucket that is read directly.
        buffer = pipeline.VIDEO_BUFFER if pipeline.has_remote(self._patterns) else self._buffer
        return tf.data.TFRecordDataset(files, buffer_size=buffer)

    def _own(self, records: tf.data.Dataset) -> tf.data.Dataset:
        """The records that belong to this queue's share, if queues share every file, without those held out."""
        if self.held_out:
            are_long = self._cache is None and hasattr(self.reader, "max_frames")
            is_held_out = HeldOut(self.held_out, self.files()).of_ids
            records = pipeline.without(records, self._parse_ids, is_held_out, are_long)
        return records.shard(self._parts, self._part) if self._parts > 1 else records


def assert_not_empty(files: tf.Tensor) -> tf.Tensor:
    """Returns `files`, string [F]; its computation fails if there are none: `repeat` would never find a record."""
    not_empty = tf.debugging.Assert(tf.size(files) > 0, ["the list of input files is empty"])
    with tf.control_dependencies([not_empty]):
        return tf.identity(files)


class Threads(NamedTuple):
    """How many batches are prepared in advance."""

    parse_calls: int
    prefetch: int


def threads_for(reader: Any, shuffle: bool, parse_calls: int | None = None, prefetch: int | None = None) -> Threads:
    """Chooses how many batches of the reader's records are parsed and prefetched.

    By default half the cores parse, at most 4; the others are left to the training step. One batch is prefetched, or
    two with 8 cores or more. Batches of whole frame-level videos are not prefetched: 128 videos take 43 MB, and the
    next batch is parsed during a step anyway. An evaluation of rated segments parses whole videos but keeps few frames.
    Its step takes little time compared with parsing, and its batches are small, so all cores parse, at most 8.

    Args:
      parse_calls: number of batches parsed in parallel; None for the default.
      prefetch: number of prefetched batches; None for the default.
    """
    is_mostly_parsing = not shuffle and getattr(reader, "keeps_few_frames", False)
    default_calls = min(8, cores.usable()) if is_mostly_parsing else min(4, max(1, cores.usable() // 2))
    default_prefetch = 0 if _yields_whole_videos(reader) else 1 if cores.usable() < 8 else 2
    return Threads(parse_calls or default_calls, default_prefetch if prefetch is None else prefetch)


def _yields_whole_videos(reader: Any) -> bool:
    """Whether the reader's examples are whole frame-level videos, so that records and batches are large."""
    return hasattr(reader, "max_frames") and not getattr(reader, "segment_labels", False)


def read_calls(patterns: Sequence[str], num_readers: int) -> int | None:
    """The number of threads that read files; None if the thread that consumes the records reads them.

    Each file in a bucket gets a thread, which mostly waits for the network. A thread that reads local files occupies a
    core: it reads 300,000 video-level records per second from the page cache, and passing records from thread to thread
    costs as much as reading them. So with fewer than 8 cores local files get no threads of their own.

    Args:
      patterns: the file patterns, local or gs://.
    """
    if pipeline.has_remote(patterns):
        return num_readers
    return min(num_readers, cores.usable() // 4) if cores.usable() >= 8 else None
