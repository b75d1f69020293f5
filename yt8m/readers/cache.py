"""A cache of parsed shards of videos: files with one NumPy array of records, which later epochs map into memory.

The input shuffles record numbers instead of records, so the order of examples is the same as without a cache. A
shard is parsed when an epoch first opens it; its file appears whole or not at all. The file name contains a hash of
the shard's path, size and time and of the reader's features. So a changed shard or another reader uses another file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.readers.base import Reader
from yt8m.records import shards
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.record_parser import NumpyBatch, RecordParser
from yt8m.records.shards import DamagedError
from yt8m.types import Batch

# Appended to each id, since NumPy drops zero bytes at the end of a string.
_END_OF_ID = b"."
_NO_CLASS = -1  # fills the classes of a record up to the most that a record of the shard has


def write_shard(path: str, batches: Sequence[NumpyBatch]) -> None:
    """Writes the examples of at least one batch as a file for `read_shard`; it appears whole or not at all."""
    ids = [shards.id_bytes(text.encode()) + _END_OF_ID for batch in batches for text in batch.ids]
    counts = np.concatenate([np.count_nonzero(batch.labels, axis=1) for batch in batches])
    features = np.concatenate([np.concatenate([*batch.features.values()], axis=1) for batch in batches])
    most, longest = int(counts.max(initial=1)), max(map(len, ids), default=1)
    columns: list[Any] = [("features", "<f4", features.shape[1:]), ("classes", "<i4", (most,)), ("id", f"S{longest}")]
    rows = np.zeros(len(ids), np.dtype(columns, align=True))
    rows["features"], rows["classes"], rows["id"] = features, _NO_CLASS, ids
    is_class = np.arange(most) < counts[:, np.newaxis]
    rows["classes"][is_class] = np.concatenate([np.nonzero(batch.labels)[1] for batch in batches])
    content = io.BytesIO()
    np.save(content, rows, allow_pickle=False)
    storage.write(path, content.getvalue() + _checksum(content.getbuffer()))


def read_shard(path: str, checked: bool = False) -> np.ndarray | None:
    """The memory-mapped records, [N]; None if the file is missing or damaged.

    A record has the columns `features` (float32, side by side), `classes` (int32) and `id`.

    Args:
      path: the file.
      checked: whether the checksum is already known to be right.
    """
    if not storage.exists(path) or not storage.size(path):
        return None
    data = np.memmap(path, np.uint8, "r")
    if not checked and data[-_CHECKSUM:].tobytes() != _checksum(data[:-_CHECKSUM]):
        return None
    return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]


_CHECKSUM = 4  # bytes of the checksum, after the array


def _checksum(content: Any) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM, "little")


_FORMAT = 3  # version of the file format; a new version makes existing files stale
_OPEN = 64  # number of shards that stay memory-mapped
_ROWS = 1 << 32  # more than any shard has; record number = shard number * _ROWS + row


class ShardCache:
    """The parsed records of a list of shards.

    Args:
      folder: local folder, created if missing; any number of runs may share it.
      reader: reader of videos, whose names, sizes and ranges of features say what the records hold.
      files: the shards; the number of a record contains the index of its shard.

    Attributes:
      failure: the first error of caching a shard; None without one.
    """

    def __init__(self, folder: str, reader: Reader, files: Sequence[str]) -> None:
        self._folder, self._reader, self._files = folder, reader, list(files)
        self._numbers = {path: number for number, path in enumerate(self._files)}
        self._parser = RecordParser(_format_of(reader))
        self._open: OrderedDict[int, tuple[str, np.ndarray]] = OrderedDict()
        self._sound: set[str] = set()  # files whose checksums have been verified
        self._lock = threading.Lock()
        self._is_closed = False
        self.failure: RunError | None = None

    def numbers(self, path: tf.Tensor) -> tf.data.Dataset:
        """Dataset of int64: the number of each record of a shard, in order."""
        # The function is declared stateless, because otherwise the position of the input could not be saved.
        ends = tf.numpy_function(self._ends, [path], tf.int64, stateful=False)
        return tf.data.Dataset.range(ends[0], ends[1])

    def batch(self, numbers: tf.Tensor) -> Batch:
        """The examples with these numbers, int64 [B], as the reader would parse them."""
        types = [tf.string, tf.bool] + [tf.float32] * len(self._reader.feature_sizes)
        ids, labels, *features = tf.numpy_function(self._batch_arrays, [numbers], types, stateful=False)
        lengths = tf.strings.length(ids) - 1  # without the byte that `write_shard` adds to an id
        ids = tf.ensure_shape(tf.strings.substr(ids, tf.zeros_like(lengths), lengths), [None])
        sizes = self._reader.feature_sizes
        return Batch(
            video_ids=ids,
            features=tuple(tf.ensure_shape(f, [None, size]) for f, size in zip(features, sizes, strict=True)),
            num_frames=tf.ones_like(ids, tf.int32),
            labels=tf.ensure_shape(labels, [None, self._reader.num_classes]),
        )

    def close(self) -> None:
        """Closes the mapped files, for good."""
        with self._lock:
            self._is_closed = True
            self._open.clear()

    def _ends(self, path: bytes) -> np.ndarray:
        number = self._numbers[path.decode()]
        return np.int64(number * _ROWS) + np.array([0, len(self._shard(number, is_begun=True))])

    def _batch_arrays(self, numbers: np.ndarray) -> list[np.ndarray]:
        owners, rows = np.divmod(numbers, _ROWS)
        ids, labels = np.empty(len(numbers), object), np.zeros([len(numbers), self._reader.num_classes], bool)
        features = [np.empty([len(numbers), size], np.float32) for size in self._reader.feature_sizes]
        borders = np.cumsum(self._reader.feature_sizes)[:-1]
        for number in np.unique(owners):
            places = np.flatnonzero(owners == number)
            taken = self._shard(int(number))[rows[places]]
            ids[places] = taken["id"]
            is_class = taken["classes"] != _NO_CLASS
            labels[places[np.nonzero(is_class)[0]], taken["classes"][is_class]] = True
            for values, part in zip(features, np.split(taken["features"], borders, axis=1), strict=True):
                values[places] = part
        return [ids, labels, *features]

    def _shard(self, number: int, is_begun: bool = False) -> np.ndarray:
        """A shard, from the cache or parsed.

        If `is_begun`, a pass opens the shard now, and its file is checked for changes.
        """
        with self._lock:
            if self._is_closed:  # prefetch threads may still run
                raise RunError("the cache of parsed videos is closed")
            try:
                return self._mapped(number, is_begun)
            except DamagedError:  # `damage` finds it anew, and describes it as without a cache
                raise
            except RunError as error:
                self.failure = self.failure or error
                raise

    def _mapped(self, number: int, is_begun: bool) -> np.ndarray:
        known = self._open.get(number)
        if known is None or is_begun:
            path = self._place(self._files[number])
            if known is None or known[0] != path:
                shard = read_shard(path, path in self._sound)
                known = path, self._parsed(number, path) if shard is None else shard
                self._sound.add(path)
            self._open[number] = known
        self._open.move_to_end(number)
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)
        return known[1]

    def _parsed(self, number: int, place: str) -> np.ndarray:
        shard = self._files[number]
        batches = [self._parser.batch([])]  # for a shard without records
        for records in shards.read_blocks(shard):
            begun = sum(map(len, batches))
            batches.append(self._parser.batch([(record, shard, begun + row) for row, record in enumerate(records)]))
        if self._place(shard) != place:
            raise RunError(f"{shard} has changed while it was read; start again once it is whole.")
        write_shard(place, batches)
        found = read_shard(place)
        if found is None:
            raise RunError(f"{place} was written but cannot be read; check the disk of --cache.")
        return found

    def _place(self, shard: str) -> str:
        """The path of the cache file for the present version of a shard and this reader."""
        try:
            stat = os.stat(shard)
        except OSError as error:
            raise RunError(f"cannot read {shard}: {error.strerror}") from error
        reader = self._reader
        made_from: list[Any] = [_FORMAT, os.path.realpath(shard), stat.st_size, stat.st_mtime_ns]
        made_from += [reader.feature_names, reader.feature_sizes, reader.feature_ranges, reader.num_classes]
        digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:24]
        return storage.join(self._folder, f"{os.path.basename(shard)[:100]}.{digest}.arrays")


def _format_of(reader: Reader) -> DataFormat:
    """The format of the records that a reader of videos parses."""
    ranges = [
        (min(bounds), max(bounds)) if (bounds := reader.range_of(name)) else None for name in reader.feature_names
    ]
    features = map(FeatureFormat, reader.feature_names, reader.feature_sizes, ranges)
    return DataFormat("video", tuple(features), num_classes=reader.num_classes)
