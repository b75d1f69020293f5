"""Reading files into batches that nothing consumes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks import data, runs
from benchmarks.measure import Measured, Sample, take_turns, timed
from yt8m.config.train_config import DataConfig
from yt8m.lazy import tf
from yt8m.readers import BatchQueue, reader_for
from yt8m.readers.cached_input import format_of
from yt8m.records import manifest
from yt8m.records.batches import read_records
from yt8m.records.shard_cache import ShardCache

_AHEAD = 3  # batches that the queue prefetched before the clock starts


class Reading:
    """Reads batches of a queue and computes nothing: the floor of rows that compute little.

    Args:
      queue: makes the batches.
      steps: batches in a sample.
    """

    def __init__(self, queue: BatchQueue, steps: int) -> None:
        self._steps = steps
        with tf.Graph().as_default():
            files = tf.placeholder(tf.string, [None])
            iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
            batch = iterator.get_next()
            # Fetch one value of each tensor: the queue makes the whole batch, and nothing but that is timed.
            self._fetches = [batch.labels[:1, :1], *[feature[:1, ..., :1] for feature in batch.features]]
            self._session = tf.Session()
            self._session.run(iterator.initializer, {files: queue.files()})

    def __call__(self) -> Sample:
        """Seconds of one batch."""
        self._run(_AHEAD)
        return timed(lambda: self._run(self._steps), self._steps)()

    def _run(self, steps: int) -> None:
        for _ in range(steps):
            self._session.run(self._fetches)


def read(config: DataConfig, is_shuffled: bool, steps: int, repeats: int) -> Measured:
    """Reads as training does (shuffled), or as evaluation does (in order)."""
    return take_turns(config.batch_size, Reading(_queue(config, is_shuffled), steps), {}, repeats)


def video_cached(repeats: int) -> Measured:
    """Reads from a filled cache. The floor reads without the cache, so a ratio above 100 % is a gain."""
    plain = Reading(_queue(runs.video_data(), True), 100)
    with cached(runs.video_data()) as config:
        return take_turns(config.batch_size, Reading(_queue(config, True), 100), {"no cache": plain}, repeats)


def frame_cached(repeats: int) -> Measured:
    """Reads frames from a filled cache. The floors read without it, and only copy and pad mapped frames."""
    plain, gather = Reading(_queue(runs.frame_data(), True), 30), _Gathering(runs.frame_data())
    with cached(runs.frame_data()) as config:
        work = Reading(_queue(config, True), 30)
        return take_turns(config.batch_size, work, {"no cache": plain, "bare gather": gather}, repeats)


@contextlib.contextmanager
def cached(config: DataConfig) -> Iterator[DataConfig]:
    """`config` with a cache of parsed records that has all shards."""
    with tempfile.TemporaryDirectory() as folder:
        _fill(config, folder)
        yield dataclasses.replace(config, cache=folder)


def make_cache(repeats: int) -> Measured:
    """Parses frames into a cache, in one process. The floor parses them into batches."""

    def make() -> None:
        with tempfile.TemporaryDirectory() as folder:
            _fill(runs.frame_data(), folder)

    records = read_records(runs.frame_data().data_pattern, batch_size=128)
    floor = timed(lambda: [None for _ in records])
    return take_turns(data.EXAMPLES["frame"], timed(make), {"read_records": floor}, repeats)


def _fill(config: DataConfig, folder: str) -> None:
    cache = ShardCache(folder, format_of(reader_for(config)))
    for shard in manifest.shards_at(config.data_pattern):
        cache.made(shard)


class _Gathering:
    """Copies and pads random videos of one mapped file of frames, for a batch at a time."""

    def __init__(self, config: DataConfig, steps: int = 30) -> None:
        self._size, self._steps, self._draw = config.batch_size, steps, np.random.default_rng(0)
        file, lengths = tempfile.TemporaryFile(), []  # noqa: SIM115 - it is mapped for as long as the process lives
        for batch in read_records(config.data_pattern, batch_size=config.batch_size):
            for row, count in enumerate(batch.num_frames.tolist()):
                frames = [values[row, :count] for values in batch.features.values()]
                file.write(np.concatenate(frames, axis=1).tobytes())
                lengths.append(count)
        file.flush()
        self._frames = np.memmap(file, np.uint8, "r").reshape(sum(lengths), -1)
        self._ends, self._lengths = np.cumsum(lengths), np.array(lengths)
        self()  # maps every page

    def __call__(self) -> Sample:
        """Seconds of one batch."""
        return timed(self._gather, self._steps)()

    def _gather(self) -> None:
        for rows in np.array_split(self._draw.permutation(self._steps * self._size) % len(self._ends), self._steps):
            padded = np.empty((len(rows), self._lengths[rows].max(), self._frames.shape[1]), np.uint8)
            for place, (end, count) in enumerate(zip(self._ends[rows], self._lengths[rows], strict=True)):
                padded[place, :count] = self._frames[end - count : end]
                padded[place, count:] = 0


def frame_shuffled(repeats: int) -> Measured:
    """Reads frames as training does: shuffled. The floor parses and decodes records that are in memory."""
    config = runs.frame_data()
    return take_turns(config.batch_size, Reading(_queue(config, True), 30), {"parsing": _Parsing(config)}, repeats)


class _Parsing(Reading):
    """TensorFlow's parser and `decode_raw` alone, in one thread: neither files nor shuffling, checks or padding."""

    _BATCHES = 2  # in memory, 30 MB each

    def __init__(self, config: DataConfig, steps: int = 30) -> None:
        self._steps = steps
        stored = read_records(config.data_pattern, batch_size=config.batch_size).serialized()
        groups = [[raw[0] for raw in group] for group in itertools.islice(stored, self._BATCHES)]
        with tf.Graph().as_default():
            records = tf.placeholder(tf.string, [None, None])
            batches = tf.data.Dataset.from_tensor_slices(records).repeat()
            parse = tf.autograph.experimental.do_not_convert(functools.partial(_parse_frames, config.feature_names))
            iterator = tf.data.make_initializable_iterator(batches.map(parse, 1).prefetch(1))
            self._fetches = [values[:1, :1] for values in iterator.get_next()]
            self._session = tf.Session()
            self._session.run(iterator.initializer, {records: np.array(groups, object)})


def _parse_frames(names: Sequence[str], records: tf.Tensor) -> list[tf.Tensor]:
    """The bytes of all frames of the records, uint8 [F, size] for each feature."""
    labels = {"labels": tf.io.RaggedFeature(tf.int64)}
    lists = {name: tf.io.RaggedFeature(tf.string) for name in names}
    _, frames, _ = tf.io.parse_sequence_example(records, labels, lists)
    return [tf.io.decode_raw(frames[name].flat_values, tf.uint8) for name in names]


def read_as_numpy(config: DataConfig, is_shuffled: bool, repeats: int) -> Measured:
    """Reads an epoch into NumPy batches. The floor is TensorFlow's input."""
    seed = 1 if is_shuffled else None
    records = read_records(config.data_pattern, batch_size=config.batch_size, num_classes=config.num_classes, seed=seed)
    steps = sum(map(len, records)) // config.batch_size
    plain = Reading(_queue(config, is_shuffled), steps)
    work = timed(lambda: [None for _ in records], steps)
    return take_turns(config.batch_size, work, {"TensorFlow's input": plain}, repeats)


def in_order(config: DataConfig) -> BatchQueue:
    """The queue of an evaluation, repeated without end."""
    return BatchQueue(reader_for(config), config.data_pattern, config.batch_size, num_epochs=None)


def _queue(config: DataConfig, is_shuffled: bool) -> BatchQueue:
    return BatchQueue.for_config(config, "train") if is_shuffled else in_order(config)
