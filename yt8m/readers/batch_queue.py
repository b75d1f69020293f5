"""The reader that a configuration asks for.

From file patterns to files.

How many threads the input takes, and the guard at its start.

Files of records as a stream of batches: shuffled, repeated and parsed in bulk.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from absl import logging

from yt8m import storage
from yt8m.config.programs import DataConfig
from yt8m.errors import RunError, UsageError
from yt8m.graph.protocols import Inputter
from yt8m.lazy import tf
from yt8m.readers.base import Reader, ZeroedCount, at_least_one
from yt8m.readers.cache import ShardCache
from yt8m.readers.damage import RecordCheck, Tolerance, find_damage
from yt8m.readers.frame_reader import YT8MFrameFeatureReader
from yt8m.readers.pipeline import (
    ReadCounts,
    StagedFiles,
    in_epochs,
    numbered,
    order_of,
    parsed,
    shuffled,
    staging_for,
    unconverted,
    with_numbers,
)
from yt8m.readers.video_reader import YT8MAggregatedFeatureReader
from yt8m.records.shards import DamagedError
from yt8m.types import Batch


def reader_for(data: DataConfig) -> Reader:
    """The reader for videos, or for frames and the segments in them."""
    common = (data.num_classes, data.feature_sizes, data.feature_names)
    if not data.frame_features:
        return YT8MAggregatedFeatureReader(*common, nan_policy=data.nan_policy)
    segments = (data.max_frames, data.segment_labels, data.segment_size)
    return YT8MFrameFeatureReader(*common, *segments, nan_policy=data.nan_policy)


def matching(pattern: str, list_files: Callable[[str], list[str]]) -> list[str]:
    """The paths that match one of the patterns in `pattern`, which commas separate.

    Raises:
      UsageError: one of them matches nothing.
    """
    whole = list_files(pattern) if pattern else []
    if whole == [pattern]:  # a path of its own, though it may hold a comma
        return whole
    found = []
    for piece in (part.strip() for part in pattern.split(",")):
        paths = list_files(piece) if piece else []
        if not paths:
            raise UsageError(
                f"no file matches {piece!r}; give the shards to read, such as '/data/train*.tfrecord' "
                "or 'gs://bucket/train*.tfrecord' (quoted, so that the shell leaves the * alone)."
            )
        found += paths
    return found


# Records held for shuffling, serialised. A video record has 5 KB, a frame record 250 to 350 KB.
VIDEO_SHUFFLE_BUFFER = 4096
FRAME_SHUFFLE_BUFFER = 256

BLOCK = 4  # records taken from one file before the next one's turn


def buffer_for(reader: Any) -> int:
    """How many records of this reader's are shuffled among each other where nobody says."""
    return FRAME_SHUFFLE_BUFFER if hasattr(reader, "max_frames") else VIDEO_SHUFFLE_BUFFER


def assert_not_empty(files: tf.Tensor) -> tf.Tensor:
    """`files`, which must not be empty: `repeat` would look for the first record for ever."""
    there = tf.debugging.Assert(tf.size(files) > 0, ["the list of input files is empty"])
    with tf.control_dependencies([there]):
        return tf.identity(files)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_calls(patterns: Sequence[str], num_readers: int) -> int | None:
    """Threads that read: what comes over the network waits for answers, what is local costs a core.

    One thread reads 300,000 cached video records a second, and handing records from thread to thread
    costs as much as reading them, so few cores have none to spare (None: read where it is asked for).
    """
    if any("gs://" in pattern for pattern in patterns):
        return num_readers
    return min(num_readers, cores() // 4) if cores() >= 8 else None


@dataclass(frozen=True)
class Threads:
    """How many batches are in work at once; None: as many as the cores can use.

    Attributes:
      parse: parsed side by side; each is held in memory, so there are few.
      ahead: made before they are asked for.
    """

    parse: int | None = None
    ahead: int | None = None

    @property
    def parse_calls(self) -> int:
        """Half the cores, at most 4: the others are the step's."""
        return self.parse or min(4, max(1, cores() // 2))

    @property
    def prefetch(self) -> int:
        """One; two where there are cores to make them."""
        return self.ahead or (1 if cores() < 8 else 2)

    def tell(self, num_readers: int) -> None:
        """Logs what was chosen, and what changes it."""
        logging.info(
            "input on %d cores: --parse_threads=%d --prefetch=%d --num_readers=%d",
            *(cores(), self.parse_calls, self.prefetch, num_readers),
        )


def threads_for(reader: Any, shuffle: bool, parse: int | None = None, ahead: int | None = None) -> Threads:
    """The threads for records of `reader`; `parse` and `ahead` are what the user wants.

    An evaluation of rated segments parses whole videos for a few frames of each, beside which its step is
    nothing: all cores may parse, up to 8. Segments are small, so that the batches in work are too.
    """
    if not shuffle and getattr(reader, "keeps_few_frames", False):
        parse = parse or min(8, cores())
    return Threads(parse, ahead)


def pipeline_options() -> Any:
    """All numbers are set, so the tuner's thread would only cost time."""
    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    chosen.deterministic = True
    return chosen


class RecordParser(Protocol):
    """What the queue asks of a reader."""

    def prepare_serialized_examples(self, serialized: tf.Tensor) -> Batch:
        """Parses a vector of records."""


class BatchQueue(Inputter):
    """The inputter of the video workload: reader, files, shuffling, batching.

    Without `shuffle` files and records keep their order; with it, every epoch visits the files in another
    order, interleaves `num_readers` of them and draws records from a buffer. Either way the stream is a
    function of files, seed and settings alone, nothing is dropped (the last batch is what remains), and an
    epoch ends before the next begins.

    Attributes:
      reader, batch_size, num_epochs: as given.
      tolerance: reads on past bad records and counts them; None where the first one is an error.
      records: of an epoch, as their headers say; None where not known.
      expected_records: how many records each file should have, if `records` is known.
    """

    def __init__(
        self,
        reader: RecordParser,
        pattern: str | Sequence[str],
        batch_size: int = 1024,
        num_epochs: int | None = 1,
        shuffle: bool = False,
        shuffle_buffer: int | None = None,
        num_readers: int = 1,
        seed: int = 0,
        list_files: Callable[[str], list[str]] = storage.glob,
        max_bad_records: int = 0,
        cache: str = "",
    ) -> None:
        """Only keeps what it is given; no file is looked for yet.

        Args:
          reader: parses the records.
          pattern: file patterns, local or gs://, separated by commas or in a list.
          batch_size: examples per tower and step.
          num_epochs: passes over the files; None for no end.
          shuffle: whether files and records are drawn at random.
          shuffle_buffer: records to draw from; None chooses by the kind of reader.
          num_readers: files read side by side where shuffled.
          seed: of the shuffling.
          list_files: from one pattern to the paths that match.
          max_bad_records: bad records that are borne; the rest of the shard of each is skipped.
          cache: folder that keeps parsed videos, where they are shuffled; empty for none.

        Raises:
          UsageError: a number is below 1.
        """
        self.reader = reader
        self.batch_size = at_least_one("batch_size", batch_size)
        self._patterns = [pattern] if isinstance(pattern, str) else list(pattern)
        self.num_epochs = None if num_epochs is None else at_least_one("num_epochs", num_epochs)
        self._shuffle = shuffle
        self._shuffle_buffer = at_least_one("shuffle_buffer", shuffle_buffer or buffer_for(reader))
        self._num_readers = at_least_one("num_readers", num_readers)
        self._seed = seed
        self.shard_order = {"seed": seed} if shuffle else None
        self._list_files = list_files
        self._files: list[str] | None = None
        self._staged: StagedFiles | None = None
        self._cache_folder = cache
        self._cache: ShardCache | None = None
        self._part, self._parts = 0, 1
        self.threads = threads_for(reader, shuffle)
        self._counts: ReadCounts | None = None
        self._check = RecordCheck(reader)
        self.tolerance = Tolerance(self._check, max_bad_records) if max_bad_records else None

    @classmethod
    def for_config(cls, data: DataConfig, mode: str) -> BatchQueue:
        """The queue of a run: shuffled epochs for `train`, one pass in order for `eval` and `infer`.

        Raises:
          UsageError: settings that do not fit each other.
        """
        if mode not in ("train", "eval", "infer"):
            raise ValueError(f"mode is {mode!r}; expected train, eval or infer")
        training, reader = mode == "train", reader_for(data)
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
            cache=data.cache if training else "",
        )
        queue.threads = threads_for(reader, training, data.parse_threads, data.prefetch)
        return queue

    def files(self) -> list[str]:
        """The paths that match, sorted, each once; UsageError where a pattern matches nothing."""
        return self.matching_files() if self._files is None else list(self._files)

    def matching_files(self) -> list[str]:
        """The paths that match now, whatever was kept; raises as `files`."""
        return sorted({path for pattern in self._patterns for path in matching(pattern, self._list_files)})

    def keep_files(self) -> list[str]:
        """From now on `files` are those that match now, whatever is added or removed; returns them."""
        self._files = self.files()
        return list(self._files)

    def count_reads(self) -> None:
        """Has each later pass that is not shuffled count the records of each file, for `reads`."""
        self._counts = ReadCounts()

    def reads(self) -> dict[str, int]:
        """How many records of each file the last pass has read, where they are counted."""
        counts = self._counts or ReadCounts()
        return {path: counts.of(number) for number, path in enumerate(self.files())}

    def reads_of(self, held: Mapping[str, int]) -> dict[str, int | None]:
        """How many records of each file a pass in order should read; None where nobody knows.

        A file that has a bad record is read up to that one. Of the others it counts what they hold.

        Args:
          held: the records of each file, by its path.
        """
        skipped = self.tolerance.skipped if self.tolerance else {}
        found: dict[str, int | None] = {}
        place: int | None = 0
        for path in self.files():
            count = skipped[path].record if path in skipped else held.get(path)
            # Several queues that share every file take records in turn over all files.
            end = None if place is None or count is None else place + count
            found[path] = None if place is None or end is None else self._own_below(end) - self._own_below(place)
            place = end if self._parts > 1 else 0
        return found

    @property
    def reads_whole_files(self) -> bool:
        """Whether no other queue reads records of the same files."""
        return self._parts == 1

    def _own_below(self, place: int) -> int:
        """How many of the first `place` records are this queue's."""
        return (place + self._parts - 1 - self._part) // self._parts

    def share(self, index: int, count: int) -> BatchQueue:
        """One of `count` queues that together read every record of an epoch exactly once.

        Each takes whole files where there are enough of them, else every `count`-th record of each file.

        Raises:
          UsageError: a pattern matches nothing.
        """
        shared, files = copy.copy(self), self.files()
        shared.records, shared.expected_records = None, {}
        shared._files = files[index::count]
        if len(files) < count:
            logging.info("%d files for %d processes: each reads every %d-th record", len(files), count, count)
            shared._files, shared._part, shared._parts = files, index, count
        return shared

    def damage(self) -> RunError | None:
        """What is wrong with the files, by shard and record; reads them until it is found."""
        if self.tolerance is not None and self.tolerance.failure is not None:
            return self.tolerance.failure
        for source in (self._staged, self._cache):
            if source is not None and source.failure:
                return source.failure
        logging.info("looking for the damaged record")
        return find_damage(self._check, self.files())

    def bad_records(self) -> list[DamagedError]:
        """The bad records that were skipped so far; with each, the rest of its shard."""
        return list(self.tolerance.skipped.values()) if self.tolerance else []

    def zeroed_values(self) -> int:
        """How many values the reader has set to 0, if it counts them."""
        zeroed = getattr(self.reader, "zeroed", None)
        return zeroed.count if zeroed is not None else 0

    def close(self) -> None:
        """Lets go of what looking for damage has taken."""
        self._check.close()
        if self._cache:
            self._cache.close()

    def epoch_order(self, epoch: int) -> list[str]:
        """The files in the order in which a shuffled epoch (from 0) begins them."""
        files = self.files()
        return [files[place] for place in order_of(len(files), self._seed, epoch)]

    @unconverted
    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """Batches of `batch_size` examples, the last one smaller.

        Args:
          files: string [F]; no file at all fails when the iterator is initialised.
          batch_size: examples in a batch.
        """
        if self._shuffle:
            numbered = self.numbered_dataset(files, batch_size, tf.zeros([], tf.int64))
            return numbered.map(lambda batch, _: batch)
        self._stage()
        if self._counts is None:
            records = self._in_order(assert_not_empty(files)).repeat(self.num_epochs)
            return self._batches(records, batch_size, self.reader.prepare_serialized_examples)
        self._counts = ReadCounts()  # not that of an earlier pass, whose threads may still be at work
        records = self._in_order_numbered(assert_not_empty(files)).repeat(self.num_epochs)
        return self._batches(records, batch_size, self._counts.counting(self.reader.prepare_serialized_examples))

    @unconverted
    def numbered_dataset(self, files: tf.Tensor, batch_size: int, begun: tf.Tensor) -> tf.data.Dataset:
        """Shuffled batches, each with int64 [B]: of each example its shard's number, or one read with it.

        The shards of a run are numbered from 0 in the order in which they are begun, epoch by epoch.

        Args:
          files: string [F], as in `dataset`.
          batch_size: examples in a batch.
          begun: int64 scalar, how many shards to skip at the start of that sequence.
        """
        self._stage()
        parse = self._cache.batch if self._cache else self.reader.prepare_serialized_examples
        records = in_epochs(assert_not_empty(files), begun, self.num_epochs, self._seed, self._shuffled)
        return self._batches(records, batch_size, with_numbers(parse, self._has_segments))

    def _stage(self) -> None:
        self._staged = staging_for(self._patterns, self._num_readers)
        if self._staged and self.tolerance:
            self.tolerance.find = self._staged.copy_of
        if self._cache_folder and self._shuffle:
            self._cache = ShardCache(self._cache_folder, self.reader, self.files())

    def _batches(self, records: tf.data.Dataset, batch_size: int, parse: Callable[..., Any]) -> tf.data.Dataset:
        batches = parsed(records, parse, batch_size, self.threads.parse_calls, self._has_segments)
        options = pipeline_options()
        if self._staged:  # waits for files, which must not keep the steps waiting too
            options.threading.private_threadpool_size = self._num_readers + cores()
        return batches.prefetch(self.threads.prefetch).with_options(options)

    @property
    def _has_segments(self) -> bool:
        """Whether a record has any number of examples."""
        return bool(getattr(self.reader, "segment_labels", False))

    def _in_order_numbered(self, files: tf.Tensor) -> tf.data.Dataset:
        """As `_in_order`, each record with its file's number."""
        paths = tf.data.Dataset.from_tensor_slices(files)
        paths = self._staged.announced(paths) if self._staged else paths
        pairs = tf.data.Dataset.zip((paths, tf.data.Dataset.range(tf.size(files, out_type=tf.int64))))
        return self._own(pairs.flat_map(lambda path, number: numbered(self._all_of(path), number)))

    def _in_order(self, files: tf.Tensor) -> tf.data.Dataset:
        """One epoch of serialised records, not shuffled."""
        if self._staged is None:
            return self._read(files)
        paths = self._staged.announced(tf.data.Dataset.from_tensor_slices(files))
        return self._own(paths.flat_map(self._all_of))

    def _shuffled(self, paths: tf.data.Dataset, numbers: tf.data.Dataset, epoch: tf.Tensor) -> Any:
        """One epoch of pairs: a serialised record, the number of its shard."""
        paths = self._staged.announced(paths) if self._staged else paths
        records = tf.data.Dataset.zip((paths, numbers)).interleave(
            lambda path, number: numbered(self._read(path), number),
            cycle_length=self._num_readers,
            block_length=BLOCK,
            # A local copy is held for as many files as are read side by side; threads would take more ahead.
            num_parallel_calls=None if self._staged else read_calls(self._patterns, self._num_readers),
        )
        return shuffled(records, self._shuffle_buffer, self._seed, epoch)

    def _read(self, files: tf.Tensor) -> tf.data.Dataset:
        """Of these files, the records that are this queue's."""
        return self._own(self._all_of(files))

    def _all_of(self, files: tf.Tensor) -> tf.data.Dataset:
        if self._cache:
            return self._cache.numbers(files)
        if self.tolerance:
            return self.tolerance.records(files)
        return self._staged.records(files) if self._staged else tf.data.TFRecordDataset(files)

    def _own(self, records: tf.data.Dataset) -> tf.data.Dataset:
        return records.shard(self._parts, self._part) if self._parts > 1 else records
