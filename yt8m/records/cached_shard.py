"""A file with the parsed records of one shard: their values as they lie in memory, then an index of them.

    values of record 0 | values of record 1 | ... | index: an NPZ file | end of the values, checksum of the index, magic

The values of a record are those of its features, one feature after another: uint8 or little-endian float32,
[frames, size]; a video's vector is one frame. Each record has a checksum, which is compared when the record is first
read. Frames are read by `preadv` straight into a batch. This is as fast as copying from a mapping; but the pages do
not count as memory of the process, and a file that became shorter is an error rather than a crash. Videos are too small
for a call each, so their file is mapped.
"""

from __future__ import annotations

import functools
import io
import itertools
import os
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError
from yt8m.records import shards
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.shards import RATING_LISTS, DamagedError

_FOOTER = struct.Struct("<QI8s")
_MAGIC = b"yt8mrec1"


class Block(NamedTuple):
    """Some parsed records.

    Attributes:
      batch: the records.
      ratings: for each of `RATING_LISTS` the values of each record; empty if ratings are not read.
    """

    batch: NumpyBatch
    ratings: Mapping[str, Sequence[NDArray[Any]]]


class Ragged(NamedTuple):
    """Lists of values, one for each record.

    Attributes:
      values: the values of all lists, one list after another.
      splits: int64 [N + 1], the borders of the lists in `values`.
    """

    values: NDArray[Any]
    splits: NDArray[np.int64]

    @classmethod
    def of_counts(cls, values: NDArray[Any], counts: NDArray[Any]) -> Ragged:
        """Lists that have so many values each."""
        return cls(values, np.append(0, np.cumsum(counts, dtype=np.int64)))

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """The lists of some records."""
        counts = self.splits[rows + 1] - self.splits[rows]
        splits = np.append(0, np.cumsum(counts))
        at = np.arange(splits[-1]) + np.repeat(self.splits[rows] - splits[:-1], counts)
        return Ragged(self.values[at], splits)


def write_cached_shard(path: str, blocks: Iterable[Block], damage: Sequence[DamagedError] = ()) -> None:
    """Writes the records of a shard; the file appears whole or not at all.

    Args:
      path: the file.
      blocks: the records; at most a few of them are in memory at a time.
      damage: holds the bad record at which the shard was left, or nothing; looked at after the last block.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("ids", "frames", "checksums", "labels", *RATING_LISTS)}
    with storage.write_atomic(path) as file:
        for batch, ratings in blocks:
            columns["ids"] += [np.frombuffer(shards.id_bytes(text.encode()), np.uint8) for text in batch.ids]
            columns["frames"].append(batch.num_frames)
            columns["labels"] += map(np.flatnonzero, batch.labels)
            for name, values in ratings.items():
                columns[name] += values
            for content in _values_of_each(batch):
                file.write(content)
                columns["checksums"].append(google_crc32c.value(content))
        index, place = _index(columns, damage), file.tell()
        file.write(index)
        file.write(_FOOTER.pack(place, google_crc32c.value(index), _MAGIC))


def _values_of_each(batch: NumpyBatch) -> Iterator[bytes]:
    """The values of each record of a batch, without those after the end of its video."""
    for row, count in enumerate(batch.num_frames.tolist()):
        frames = [values[row] if values.ndim == 2 else values[row, :count] for values in batch.features.values()]
        yield b"".join([values.tobytes() for values in frames])


def _index(columns: Mapping[str, list[Any]], damage: Sequence[DamagedError]) -> bytes:
    arrays: dict[str, Any] = {
        "frames": np.concatenate([np.zeros(0, np.int32), *columns["frames"]]),
        "checksums": np.array(columns["checksums"], np.uint32),
        "bad_record": np.array([bad_record.record for bad_record in damage], np.int64),
        "bad_because": np.array([bad_record.what for bad_record in damage], np.str_),
    }
    for name, kind in {"ids": "uint8", "labels": "int64", **RATING_LISTS}.items():
        arrays[name] = np.concatenate([np.zeros(0, kind), *columns[name]]).astype(kind)
        arrays[f"{name} each"] = np.array(list(map(len, columns[name])), np.int64)
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


class DamagedCacheError(RunError):
    """A file of the cache is damaged: it must be made again."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: this file of --cache is damaged; check its disk, and remove the file.")


class CachedShard:
    """The parsed records of a shard. Any thread may read them.

    Args:
      path: a file that `write_cached_shard` made.
      frame_bytes: the bytes of a frame, over all features.

    Attributes:
      path: as given.
      ids: object [N], the ids as bytes.
      num_frames: int32 [N]; 1 for videos.
      lists: by name the lists of each record: its `labels`, int64, and if ratings were read, each of `RATING_LISTS`.
      damage: the number of the bad record at which the shard was left, and what is wrong with it; None if none is bad.

    Raises:
      DamagedCacheError: the file is damaged, or has another format.
      NotFoundError: there is no such file.
    """

    def __init__(self, path: str, frame_bytes: int) -> None:
        self.path = path
        self._context = storage.open_read(path)  # closes the file when no thread has this object any more
        self._opened = self._context.__enter__()
        self._file = self._opened.fileno()
        index, values_end = self._read_index()
        self.num_frames, self._checksums = index["frames"], index["checksums"]
        self._frame_bytes = frame_bytes
        self._starts = np.append(0, np.cumsum(self.num_frames, dtype=np.int64) * frame_bytes)
        if self._starts[-1] != values_end:
            raise DamagedCacheError(path)
        names = _lists(index, "ids")
        content = names.values.tobytes()
        self.ids = np.empty(len(self), object)
        self.ids[:] = [content[start:end] for start, end in itertools.pairwise(names.splits.tolist())]
        self.lists = {name: _lists(index, name) for name in ("labels", *RATING_LISTS)}
        self._is_checked = np.zeros(len(self), np.bool_)
        bad = zip(index["bad_record"].tolist(), index["bad_because"].tolist(), strict=True)
        self.damage: tuple[int, str] | None = next(bad, None)

    def __len__(self) -> int:
        return len(self.num_frames)

    def _read_index(self) -> tuple[Mapping[str, NDArray[Any]], int]:
        """The arrays of the index, and the end of the values."""
        size = os.fstat(self._file).st_size
        footer = os.pread(self._file, _FOOTER.size, max(0, size - _FOOTER.size))
        if len(footer) < _FOOTER.size:
            raise DamagedCacheError(self.path)
        place, checksum, magic = _FOOTER.unpack(footer)
        content = os.pread(self._file, max(0, size - _FOOTER.size - place), place) if place < size else b""
        if magic != _MAGIC or google_crc32c.value(content) != checksum:
            raise DamagedCacheError(self.path)
        try:
            return dict(np.load(io.BytesIO(content), allow_pickle=False)), place
        except (ValueError, zipfile.BadZipFile):
            raise DamagedCacheError(self.path) from None

    def read_values(self, row: int, buffers: list[Any]) -> None:
        """Reads the values of one record.

        Args:
          row: number of the record.
          buffers: uint8 arrays, one for each feature, of as many bytes as the record has of it.

        Raises:
          DamagedCacheError: the values are damaged.
          RunError: the disk has failed.
        """
        start, end = self._starts[row : row + 2].tolist()
        try:
            count = os.preadv(self._file, buffers, start) if end > start else 0
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror}") from error
        if count < end - start:
            raise DamagedCacheError(self.path)
        if not self._is_checked[row]:
            self._check(row, buffers)

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The values of some videos, uint8 [K, bytes of a video]; raises like `read_values`."""
        vectors = self._mapped[rows]
        for place in np.flatnonzero(~self._is_checked[rows]):
            self._check(rows[place], [vectors[place]])
        return vectors

    @functools.cached_property
    def _mapped(self) -> NDArray[np.uint8]:
        return np.memmap(self._opened, np.uint8, "r", shape=(len(self), self._frame_bytes))

    def _check(self, row: int, values: list[Any]) -> None:
        """Compares the checksum of a record with that of its values."""
        if functools.reduce(google_crc32c.extend, values, 0) != self._checksums[row]:
            raise DamagedCacheError(self.path)
        self._is_checked[row] = True


def _lists(index: Mapping[str, NDArray[Any]], name: str) -> Ragged:
    return Ragged.of_counts(index[name], index[f"{name} each"])
