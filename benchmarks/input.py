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
from benchmarks.measure import Measured, Sample, Work, take_turns, timed, timed_steps
from yt8m.config.data_config import DataConfig
from yt8m.lazy import tf
from yt8m.readers import BatchQueue, reader_for
from yt8m.readers.cached_input import format_of
from yt8m.records.batches import read_records
from yt8m.records.opened_data import open_data
from yt8m.records.shard_cache import ShardCache

_AHEAD = 3  # batches that the queue prefetched before the clock starts


def reading(config: DataConfig, steps: int, *, is_shuffled: bool = True) -> Work:
    """Reads batches and computes nothing: the floor of rows that compute little.

    Args:
      config: the data.
      steps: batches in a sample, which is the time of one.
      is_shuffled: whether it reads as training does; otherwise as an evaluation does, in order.
    """
    queue = BatchQueue.for_config(config, "train") if is_shuffled else runs.endless_queue(config)
    with tf.Graph().as_default():
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
        batch, session = iterator.get_next(), tf.Session()
        # Fetch one value of each tensor: the queue makes the whole batch, and nothing but that is timed.
        fetches = [batch.labels[:1, :1], *[feature[:1, ..., :1] for feature in batch.features]]
        session.run(iterator.initializer, {files: queue.files()})
    return timed_steps(session, fetches, steps, _AHEAD)


def read(config: DataConfig, is_shuffled: bool, steps: int, repeats: int) -> Measured:
    """Reads as training does (shuffled), or as evaluation does (in order)."""
    return take_turns(config.batch_size, reading(config, steps, is_shuffled=is_shuffled), {}, repeats)


def video_cached(repeats: int) -> Measured:
    """Reads from a filled cache. The floor reads without the cache, so a ratio above 100 % is a gain."""
    plain = reading(runs.video_data(), 100)
    with cached(runs.video_data()) as config:
        return take_turns(config.batch_size, reading(config, 100), {"no cache": plain}, repeats)


def frame_cached(repeats: int) -> Measured:
    """Reads frames from a filled cache. The floors read without it, and only copy and pad mapped frames."""
    floors: dict[str, Work] = {"no cache": reading(runs.frame_data(), 30), "bare gather": _Gathering(runs.frame_data())}
    with cached(runs.frame_data()) as config:
        return take_turns(config.batch_size, reading(config, 30), floors, repeats)


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
    for shard in open_data(config.data_pattern).files:
        cache.parse_shard(shard, cache.path_of(shard))


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
    return take_turns(config.batch_size, reading(config, 30), {"parsing": _parsing(config)}, repeats)


_BATCHES = 2  # in memory, 30 MB each


def _parsing(config: DataConfig) -> Work:
    """TensorFlow's parser and `decode_raw` alone, in one thread: neither files nor shuffling, checks or padding."""
    stored = read_records(config.data_pattern, batch_size=config.batch_size).serialized()
    groups = [[raw[0] for raw in group] for group in itertools.islice(stored, _BATCHES)]
    with tf.Graph().as_default():
        records, session = tf.placeholder(tf.string, [None, None]), tf.Session()
        batches = tf.data.Dataset.from_tensor_slices(records).repeat()
        parse = tf.autograph.experimental.do_not_convert(functools.partial(_parse_frames, config.feature_names))
        iterator = tf.data.make_initializable_iterator(batches.map(parse, 1).prefetch(1))
        fetches = [values[:1, :1] for values in iterator.get_next()]
        session.run(iterator.initializer, {records: np.array(groups, object)})
    return timed_steps(session, fetches, 30, _AHEAD)


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
    plain = reading(config, steps, is_shuffled=is_shuffled)
    work = timed(lambda: [None for _ in records], steps)
    return take_turns(config.batch_size, work, {"TensorFlow's input": plain}, repeats)
