"""Reads records into batches of NumPy arrays, without TensorFlow.

The batches are input for models of other libraries, and for the models that `yt8m.load` returns. An example:

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
from yt8m.errors import RunError, UsageError, quantity
from yt8m.records import manifest, shards, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.manifest import Manifest
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.record_parser import NumpyBatch, Raw, RecordParser
from yt8m.records.shards import DamagedError

T = TypeVar("T")

# Default number of serialized records in a shuffle buffer, by level. A record of a video has 5 KB; one of frames has
# 250 to 350 KB, so its buffer is smaller.
VIDEO_SHUFFLE_BUFFER, FRAME_SHUFFLE_BUFFER = 4096, 256
BLOCK = 4  # number of consecutive records that a shuffled epoch reads from a file before it turns to the next one
_FILES_IN_TURN = 8  # number of files that a shuffled epoch reads in turns


@dataclass(eq=False, repr=False)
class Records:
    """Batches of the records of some files; each iteration over this object (`for batch in records`) is one epoch.

    Attributes:
      files: the paths of the TFRecord files, in order.
      format: level, features and number of classes of the records; if the number is None, no labels are read.
      batch_size: number of videos of a batch; the last batch of an epoch may be smaller.
      max_frames: largest number of frames that are read of a video, from its start.
      dequantize: whether frames that are stored as bytes are converted to float32; video-level features always are.
      seed: seed of the shuffling of files and records, which gives each epoch another order; None: no shuffling.
      shuffle_buffer: number of records from which a shuffled epoch draws the next one; None for 4096 at video level,
        256 at frame level.
      worker: (i, n), with i from 0: only the i-th of n shares of the records is read. A share is every n-th file if
        there are at least n files, else every n-th record of each file.
      opened: the files with their manifest and vocabulary; by default they are opened when an epoch begins.
      allows_unfit: whether values that are NaN, infinite or too large are returned as they are, not refused.

    Raises:
      UsageError: a number is below 1, or `worker` is not such a pair.
    """

    files: Sequence[str]
    format: DataFormat
    batch_size: int = 1024
    max_frames: int = 300
    dequantize: bool = False
    seed: int | None = None
    shuffle_buffer: int | None = None
    worker: tuple[int, int] = (0, 1)
    opened: OpenedData | None = None
    allows_unfit: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_frames", "shuffle_buffer"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"{name} is {value}; it must be at least 1.")
        if not (isinstance(self.worker, tuple) and len(self.worker) == 2 and 0 <= self.worker[0] < self.worker[1]):
            raise UsageError(f"worker is {self.worker}; expected (i, n) with i from 0 to n - 1.")
        self._epoch, self._parser = 0, RecordParser(self.format, self.max_frames, allows_unfit=self.allows_unfit)

    def __repr__(self) -> str:
        sizes = " and ".join(f"{name} of {size}" for name, size in self.format.sizes().items())
        classes = f", {quantity(self.format.num_classes, 'class')}" if self.format.num_classes else ""
        return f"<records of {quantity(len(self.files), 'file')}: {self.format.level} level, {sizes}{classes}>"

    @property
    def data(self) -> OpenedData:
        """The files with their manifest and vocabulary."""
        self.opened = self.opened or open_data(None).of_files(self.files)
        return self.opened

    def __iter__(self) -> Iterator[NumpyBatch]:
        """The batches of the next epoch; the first iteration is epoch 0."""
        self._epoch += 1
        return self.epoch(self._epoch - 1)

    def epoch(self, number: int) -> Iterator[NumpyBatch]:
        """The batches of epoch `number`, from 0; their order depends only on the files, the seed and this number.

        Raises:
          DamagedError: a record is damaged or not of the expected format; the message names file and record.
          RunError: as for `serialized`.
        """
        return map(self.parsed, self.serialized(number))

    def parsed(self, raws: Sequence[Raw]) -> NumpyBatch:
        """Parses serialized records into one batch; raises `DamagedError` if one is damaged or of another format.

        Args:
          raws: the records: (serialized record, its file, its number in the file).
        """
        batch = self._parser.batch(raws)
        return batch.dequantize() if self.dequantize else batch

    def serialized(self, epoch: int = 0) -> Iterator[list[Raw]]:
        """The batches of one epoch before parsing: lists of (serialized record, its file, its number in the file).

        Args:
          epoch: number of the epoch, from 0; with a seed, each number has another order.

        Raises:
          DamagedError: a checksum or a length in a file is wrong; the message names file and record.
          RunError: a file has another number of records than its manifest says, or cannot be read; or a manifest is
            damaged.
        """
        raws = self._raws(epoch)
        while group := list(itertools.islice(raws, self.batch_size)):
            yield group

    def _raws(self, epoch: int) -> Iterator[Raw]:
        """The serialized records of this worker's share, in the order of this epoch; raises like `serialized`."""
        worker, workers = self.worker
        has_files = len(self.files) >= workers
        files = list(self.files[worker::workers] if has_files else self.files)
        expected, share = self.data.manifest, (0, 1) if has_files else self.worker
        generator = random.Random(f"{self.seed} {epoch}")
        if self.seed is not None:
            generator.shuffle(files)
        streams = [itertools.chain.from_iterable(_blocks_of_file(path, expected, share)) for path in files]
        if self.seed is None:
            return itertools.chain.from_iterable(streams)
        default_size = VIDEO_SHUFFLE_BUFFER if self.format.level == "video" else FRAME_SHUFFLE_BUFFER
        return _shuffle(_read_in_turns(streams), self.shuffle_buffer or default_size, generator)


def _blocks_of_file(path: str, expected_shards: Manifest, share: tuple[int, int]) -> Iterator[Iterator[Raw]]:
    """Yields, for each block of records that is read from a file, an iterator over these records or every n-th one.

    Args:
      path: the file.
      expected_shards: the manifest; at the end, the number of records in the file is compared with that in it.
      share: (i, n) for the records i, i + n, i + 2 n, ... of the file; (0, 1) for all.

    Raises:
      DamagedError, RunError: as for `Records.serialized`.
    """
    count, (worker, workers) = 0, share
    for records in shards.read_blocks(path):
        first = (worker - count) % workers
        yield zip(records[first::workers], itertools.repeat(path), itertools.count(count + first, workers))
        count += len(records)
    check_record_count(path, count, expected_shards)


def check_record_count(path: str, count: int, expected_shards: Manifest) -> None:
    """Compares the number of records of a file with that in its manifest, if a manifest names the file.

    Args:
      path: the file.
      count: number of records that were read from the file.
      expected_shards: the manifest.

    Raises:
      DamagedError: the file has no record.
      RunError: the manifest has another number of records.
    """
    if not count:
        raise DamagedError(path, 0, shards.EMPTY)
    for difference in expected_shards.differences(path, records=count):
        raise RunError(f"{path} {difference}. {manifest.REMEDY}")


def _read_in_turns(streams: Sequence[Iterator[T]]) -> Iterator[T]:
    """Yields all items of the streams: `_FILES_IN_TURN` streams take turns of `BLOCK` items each.

    When a stream ends, the next one of `streams` takes its place.
    """
    waiting, open_streams = deque(streams), deque[Iterator[T]]()
    while waiting or open_streams:
        while waiting and len(open_streams) < _FILES_IN_TURN:
            open_streams.append(waiting.popleft())
        stream = open_streams.popleft()
        block = list(itertools.islice(stream, BLOCK))
        yield from block
        if len(block) == BLOCK:
            open_streams.append(stream)


def _shuffle(items: Iterator[T], size: int, generator: random.Random) -> Iterator[T]:
    """Yields all items in a random order.

    Args:
      items: the items.
      size: number of items in the shuffle buffer. Each item is drawn from the buffer, and the next item that was not
        yet in the buffer takes the place of the drawn one.
      generator: draws the items.
    """
    buffer = list(itertools.islice(items, size))
    for item in items:
        index = int(generator.random() * size)
        yield buffer[index]
        buffer[index] = item
    generator.shuffle(buffer)
    yield from buffer


def read_records(
    pattern: storage.Patterns | OpenedData,
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
      pattern: a glob pattern of files such as "data/train*.tfrecord", local or gs://; a list of patterns; or files that
        `open_data` opened.
      batch_size: number of videos of a batch; the last batch of an epoch may be smaller.
      feature_names: the features to read, in this order; by default all, in the order of the manifest, or in
        alphabetical order if there is no manifest.
      num_classes: number of classes, C; by default that of the vocabulary or the manifest beside the files, else 3862.
      max_frames: largest number of frames that are read of a video, from its start.
      dequantize: whether frames that are stored as bytes are converted to float32; video-level features always are.
      seed: seed of the shuffling of files and records, which gives each epoch another order; None: no shuffling.
      shuffle_buffer: number of records from which a shuffled epoch draws the next one; by default 4096 at video level,
        256 at frame level.
      worker: (i, n), with i from 0, reads the i-th of n shares of the records, so that n processes together read each
        record once.

    Returns:
      `Records`; each iteration over it is one epoch.

    Raises:
      UsageError: no file matches, the files have no feature of one of `feature_names`, an argument is out of its
        bounds, the vocabularies of several folders differ, or there is no manifest and the first records do not show
        the names and sizes of the features.
      DamagedError: there is no manifest that describes the records, and the first record of a file is damaged.
      RunError: a manifest or the vocabulary is damaged, or two manifests contradict each other.
    """
    opened = (
        pattern
        if isinstance(pattern, OpenedData)
        else open_data([] if pattern is None else pattern).with_absolute_paths()
    )
    data = _format_of(opened)
    features = data.features if feature_names is None else tuple(_find_feature(data, name) for name in feature_names)
    classes = num_classes or opened.num_classes() or len(vocabulary.load())
    data = data._replace(features=features, num_classes=classes)
    return Records(opened.files, data, batch_size, max_frames, dequantize, seed, shuffle_buffer, worker, opened)


def _find_feature(data: DataFormat, name: str) -> FeatureFormat:
    """The feature `name` of the format; raises `UsageError` if there is none."""
    features = {feature.name: feature for feature in data.features}
    if name not in features:
        raise UsageError(f"feature_names has {name!r}; the records have {', '.join(features)}.")
    return features[name]


def _format_of(data: OpenedData) -> DataFormat:
    """The format that the manifest beside the files declares, or else that of the first record of a file.

    Raises:
      DamagedError, RunError, UsageError: as for `read_records`.
    """
    if data.format is not None:
        return data.format.format
    for path in data.files:  # damage is the likely cause; reading the first record raises an error that describes it
        next(shards.read_contexts(path), None)
    raise UsageError(
        f"{data.files[0]}: the first records do not show the names and sizes of the features. Put a manifest.json "
        "whose entry `data` lists them beside the shards; docs/users/formats.md shows one."
    )
