"""Batches of records as NumPy arrays, without TensorFlow: for models of other libraries, and for `yt8m.load`.

for batch in read_records("data/video/train/*.tfrecord", seed=1):
    features, labels = batch.features["mean_rgb"], batch.labels
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.records import discovery, manifest, shards, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.manifest import Manifest
from yt8m.records.record_parser import NumpyBatch, Raw, RecordParser
from yt8m.records.shards import DamagedError

T = TypeVar("T")

# Number of serialized records in a shuffle buffer. A video record has 5 KB, a frame record 250 to 350 KB.
VIDEO_SHUFFLE_BUFFER, FRAME_SHUFFLE_BUFFER = 4096, 256
BLOCK = 4  # number of consecutive records that a shuffled epoch reads from a file before it turns to the next one
_AT_ONCE = 8  # number of files that a shuffled epoch reads in turns


@dataclass(eq=False)
class Records:
    """Batches of the records of some files; each `iter` is one epoch.

    Attributes:
      files: the paths, in order.
      format: level, features and class count of the records.
      batch_size: B; the last batch of an epoch may be smaller.
      max_frames: frames of a video that are read, from its start.
      dequantize: whether bytes are converted to floats.
      seed: shuffles files and records, in a new order in each epoch; None keeps their order.
      shuffle_buffer: number of records from which the next one is drawn; None for the default of the level.
      worker: (i, n) reads the i-th of n shares: every n-th file if there are at least n files, else every n-th record.
    """

    files: Sequence[str]
    format: DataFormat
    batch_size: int = 1024
    max_frames: int = 300
    dequantize: bool = False
    seed: int | None = None
    shuffle_buffer: int | None = None
    worker: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_frames", "shuffle_buffer"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"{name} is {value}; it must be at least 1.")
        if not (isinstance(self.worker, tuple) and len(self.worker) == 2 and 0 <= self.worker[0] < self.worker[1]):
            raise UsageError(f"worker is {self.worker}; expected (i, n) with i from 0 to n - 1.")
        self._epoch, self._parser = 0, RecordParser(self.format, self.max_frames)

    def __iter__(self) -> Iterator[NumpyBatch]:
        """The batches of the next epoch; the first iteration is epoch 0."""
        self._epoch += 1
        return self.epoch(self._epoch - 1)

    def epoch(self, number: int) -> Iterator[NumpyBatch]:
        """The batches of one epoch, whose order depends only on the files, the seed and `number`.

        Raises:
          DamagedError: a record is damaged or not of the expected format; the message names file and record.
          RunError: a file has another number of records than its manifest says, or cannot be read.
        """
        return map(self.parsed, self.serialized(number))

    def parsed(self, raws: Sequence[Raw]) -> NumpyBatch:
        """Serialized records as one batch; raises like `epoch`."""
        batch = self._parser.batch(raws)
        return batch.dequantize() if self.dequantize else batch

    def serialized(self, epoch: int = 0) -> Iterator[list[Raw]]:
        """The batches of one epoch before parsing: lists of (serialized record, its file, its number in the file)."""
        raws = self._raws(epoch)
        while group := list(itertools.islice(raws, self.batch_size)):
            yield group

    def _raws(self, epoch: int) -> Iterator[Raw]:
        """The records of this worker's share, in the order of the epoch."""
        part, workers = self.worker
        has_files = len(self.files) >= workers
        files = list(self.files[part::workers] if has_files else self.files)
        expected, share = manifest.find(files), (0, 1) if has_files else self.worker
        draw = random.Random(f"{self.seed} {epoch}")
        if self.seed is not None:
            draw.shuffle(files)
        streams = [itertools.chain.from_iterable(_of_file(path, expected, share)) for path in files]
        if self.seed is None:
            return itertools.chain.from_iterable(streams)
        usual = VIDEO_SHUFFLE_BUFFER if self.format.level == "video" else FRAME_SHUFFLE_BUFFER
        return _shuffled(_in_turns(streams), self.shuffle_buffer or usual, draw)


def _of_file(path: str, expected_shards: Manifest, share: tuple[int, int]) -> Iterator[Iterator[Raw]]:
    """The records of a file that belong to the i-th of n workers, for `share` (i, n); one block at a time.

    At the end, the number of records in the file is compared with that in the manifest.
    """
    count, (part, workers) = 0, share
    for records in shards.read_blocks(path):
        first = (part - count) % workers
        yield zip(records[first::workers], itertools.repeat(path), itertools.count(count + first, workers))
        count += len(records)
    refuse_other_count(path, count, expected_shards)


def refuse_other_count(path: str, count: int, expected_shards: Manifest) -> None:
    """Compares the number of records of a file with that in its manifest, if it has one.

    Raises:
      DamagedError: the file is empty.
      RunError: the manifest has another number.
    """
    if not count:
        raise DamagedError(path, 0, shards.EMPTY)
    for difference in expected_shards.differences(path, records=count):
        raise RunError(f"{path} {difference}. {manifest.REMEDY}")


def _in_turns(streams: Sequence[Iterator[T]]) -> Iterator[T]:
    """All items of the streams: `_AT_ONCE` streams are read in turns, and one that ends is replaced by the next."""
    waiting, open_streams = deque(streams), deque[Iterator[T]]()
    while waiting or open_streams:
        while waiting and len(open_streams) < _AT_ONCE:
            open_streams.append(waiting.popleft())
        stream = open_streams.popleft()
        block = list(itertools.islice(stream, BLOCK))
        yield from block
        if len(block) == BLOCK:
            open_streams.append(stream)


def _shuffled(items: Iterator[T], size: int, draw: random.Random) -> Iterator[T]:
    """The items in a random order, drawn from a buffer of `size`."""
    buffer = list(itertools.islice(items, size))
    for item in items:
        index = int(draw.random() * size)
        yield buffer[index]
        buffer[index] = item
    draw.shuffle(buffer)
    yield from buffer


def read_records(
    pattern: storage.Patterns,
    *,
    batch_size: int = 1024,
    feature_names: Sequence[str] | None = None,
    num_classes: int | None = None,
    max_frames: int = 300,
    dequantize: bool = False,
    seed: int | None = None,
    shuffle_buffer: int | None = None,
    worker: tuple[int, int] = (0, 1),
) -> Records:
    """Batches of the records in TFRecord files as NumPy arrays; TensorFlow is not imported.

    Args:
      pattern: a pattern of files, local or gs://; or a list of patterns.
      batch_size: number of videos of a batch; the last batch of an epoch may be smaller.
      feature_names: the features to read, in this order; by default all, in the order of the manifest, or in
        alphabetical order if there is no manifest.
      num_classes: number of classes, C; by default that of the vocabulary or the manifest of the data, else 3862.
      max_frames: frames of a video that are read, from its start.
      dequantize: whether frames that are stored as bytes are converted to float32.
      seed: shuffles the files and the records, each epoch in another order; None keeps their order.
      shuffle_buffer: number of records from which the next one is drawn; by default 4096 at video level, 256 at frame
        level.
      worker: (i, n) reads the i-th of n shares of the files, so that n processes read each record once.

    Returns:
      `Records`; each iteration over it is one epoch.

    Raises:
      UsageError: no file matches, or an argument is out of its bounds.
      DamagedError: there is no manifest to describe the data, and the first record is damaged.
    """
    files = manifest.shards_at(pattern)
    data = _format_of(files)
    features = data.features if feature_names is None else tuple(_feature(data, name) for name in feature_names)
    classes = num_classes or _classes_of(files, data)
    data = data._replace(features=features, num_classes=classes)
    return Records(files, data, batch_size, max_frames, dequantize, seed, shuffle_buffer, worker)


def _feature(data: DataFormat, name: str) -> FeatureFormat:
    features = {feature.name: feature for feature in data.features}
    if name not in features:
        raise UsageError(f"feature_names has {name!r}; the records have {', '.join(features)}.")
    return features[name]


def _classes_of(files: Sequence[str], data: DataFormat) -> int:
    """The number of classes in the files' vocabulary, or else in their manifest, or else in YouTube-8M."""
    path = vocabulary.find(files)
    return len(vocabulary.read(path)) if path else data.num_classes or len(vocabulary.load())


def _format_of(files: Sequence[str]) -> DataFormat:
    """The format in the manifest if there is one, else that of the first record."""
    discovered = discovery.find(files)
    if discovered is not None:
        return discovered.format
    for path in files:  # damage is the likely cause; reading the first record raises an error that describes it
        next(shards.read_contexts(path), None)
    raise UsageError(
        f"{files[0]}: the first records do not show the names and sizes of the features. Write a manifest with them, "
        "as `yt8m make-records` does."
    )
