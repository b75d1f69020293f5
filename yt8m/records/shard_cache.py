"""A folder of parsed shards: one file for each version of a shard and each format in which it is read.

A shard is parsed once. Its file is written atomically, so that several processes may fill one folder. The name of the
file contains a hash of the shard's path and version (see `Stamp`), and of the format, so that a changed shard or
another format has another file. The file has the values of all records, in the layout of NumPy arrays, then an index:

    values of record 0 | values of record 1 | ... | index: an NPZ file | end of the values, checksum of the index, magic

The values of a record are those of one feature after another: uint8 or little-endian float32, [frames, size]; the
vector of a video-level feature is one frame. Each record has a checksum, which is compared when the record is first
read after opening the file. The frames of a record are read by `preadv` straight into the array of a batch. That is as
fast as copying from a memory map. But the pages of a map would count as memory of the process, and a map of a file that
became shorter, or that a disk cannot read, would end the process by SIGBUS, where `preadv` reports an error.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import io
import itertools
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, refusing
from yt8m.records import shards
from yt8m.records.data_format import DataFormat
from yt8m.records.record_parser import NumpyBatch, Raw, RecordParser
from yt8m.records.row_file import RowFile, ShortFileError
from yt8m.records.shards import SEGMENT_LISTS, DamagedError
from yt8m.storage.local import free_bytes

# Version of the layout of the files. It is part of the hash in their names, so files of other versions are not found.
_FORMAT = 4
_FOOTER = struct.Struct("<QI8s")  # end of the values, checksum of the index, magic
_MAGIC = b"yt8mrec1"  # the last bytes of each file, by which it is recognized as one of the cache


class Block(NamedTuple):
    """Some parsed records.

    Attributes:
      ratings: {name from `SEGMENT_LISTS`: for each record, the list of this name}; empty if ratings are not read.
    """

    batch: NumpyBatch
    ratings: Mapping[str, Sequence[NDArray[Any]]]


class Ragged(NamedTuple):
    """Lists of values, one for each record.

    Attributes:
      values: [n], the values of all lists, one list after another.
      splits: int64 [N + 1]; the list of record i is `values[splits[i] : splits[i + 1]]`.
    """

    values: NDArray[Any]
    splits: NDArray[np.int64]

    @classmethod
    def of_counts(cls, values: NDArray[Any], counts: NDArray[Any]) -> Ragged:
        """Splits `values` [n] into consecutive lists; `counts` [N] has the number of values of each."""
        return cls(values, np.append(0, np.cumsum(counts, dtype=np.int64)))

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """The lists of some records, in the order of `rows`, int64 [K], which are the indices of the records."""
        counts = self.splits[rows + 1] - self.splits[rows]
        splits = np.append(0, np.cumsum(counts))
        indices = np.arange(splits[-1]) + np.repeat(self.splits[rows] - splits[:-1], counts)
        return Ragged(self.values[indices], splits)


def write_cached_shard(path: str, blocks: Iterable[Block], damage: Sequence[DamagedError] = ()) -> None:
    """Writes the parsed records of a shard into a file of the cache, atomically; an existing file is replaced.

    Args:
      damage: the error of the damaged record at which reading the shard ended, as the only item; empty if no record is
        damaged. The items are read after `blocks` has ended, so the iterator `blocks` may add the error.
    """
    columns: dict[str, list[Any]] = {name: [] for name in ("ids", "frames", "checksums", "labels", *SEGMENT_LISTS)}
    with storage.write_atomic(path) as file:
        for batch, ratings in blocks:
            columns["ids"] += [np.frombuffer(shards.id_bytes(text.encode()), np.uint8) for text in batch.ids]
            columns["frames"].append(batch.num_frames)
            columns["labels"] += map(np.flatnonzero, batch.labels)
            for name, values in ratings.items():
                columns[name] += values
            for content in _record_values(batch):
                file.write(content)
                columns["checksums"].append(google_crc32c.value(content))
        index, values_end = _encode_index(columns, damage), file.tell()
        file.write(index)
        file.write(_FOOTER.pack(values_end, google_crc32c.value(index), _MAGIC))


def _record_values(batch: NumpyBatch) -> Iterator[bytes]:
    """Yields the bytes of each record's values, without the padding after its last frame."""
    for row, count in enumerate(batch.num_frames.tolist()):
        frames = [values[row] if values.ndim == 2 else values[row, :count] for values in batch.features.values()]
        yield b"".join([values.tobytes() for values in frames])


def _encode_index(columns: Mapping[str, list[Any]], damage: Sequence[DamagedError]) -> bytes:
    """The index of a file as an NPZ file."""
    arrays: dict[str, Any] = {
        "frames": np.concatenate([np.zeros(0, np.int32), *columns["frames"]]),
        "checksums": np.array(columns["checksums"], np.uint32),
        "bad_record": np.array([bad_record.record for bad_record in damage], np.int64),
        "bad_because": np.array([bad_record.what for bad_record in damage], np.str_),
    }
    for name, kind in {"ids": "uint8", "labels": "int64", **SEGMENT_LISTS}.items():
        arrays[name] = np.concatenate([np.zeros(0, kind), *columns[name]]).astype(kind)
        arrays[f"{name} each"] = np.array(list(map(len, columns[name])), np.int64)
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


class DamagedCacheError(RunError):
    """A file of the cache is damaged, so its shard must be parsed again."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: this file of --cache is damaged; check the disk, and remove the file.")


class CachedShard:
    """The parsed records of a shard, read from its file in the cache. Several threads may read at the same time.

    Args:
      frame_bytes: the number of bytes of one frame of all features together. At video level, a record is one frame.

    Attributes:
      ids: object [N], the id of each record as bytes.
      num_frames: int32 [N], the number of frames of each record; 1 at video level.
      lists: {name: the list of each record} for `labels` (int64) and, if ratings were read, for `SEGMENT_LISTS`.
      damage: (number of the damaged record at which reading the shard ended, what is wrong with it); None if all
        records are sound.
    """

    def __init__(self, path: str, frame_bytes: int) -> None:
        self.path = path
        self._context = storage.open_read(path)  # closes the file when this object is garbage-collected
        self._opened = self._context.__enter__()
        self._file, self._rows = self._opened.fileno(), RowFile(self._opened, path, frame_bytes)
        index, values_end = self._read_index()
        self.num_frames, self._checksums = index["frames"], index["checksums"]
        self._starts = np.append(0, np.cumsum(self.num_frames, dtype=np.int64) * frame_bytes)
        if self._starts[-1] != values_end:
            raise DamagedCacheError(path)
        ids = _lists_in_index(index, "ids")
        content = ids.values.tobytes()
        self.ids = np.empty(len(self), object)
        self.ids[:] = [content[start:end] for start, end in itertools.pairwise(ids.splits.tolist())]
        self.lists = {name: _lists_in_index(index, name) for name in ("labels", *SEGMENT_LISTS)}
        self._is_checked = np.zeros(len(self), np.bool_)
        bad = zip(index["bad_record"].tolist(), index["bad_because"].tolist(), strict=True)
        self.damage: tuple[int, str] | None = next(bad, None)

    def __len__(self) -> int:
        return len(self.num_frames)

    def _read_index(self) -> tuple[Mapping[str, NDArray[Any]], int]:
        """(the arrays of the index, the offset at which the values end); raises `DamagedCacheError`."""
        size = os.fstat(self._file).st_size
        footer = os.pread(self._file, _FOOTER.size, max(0, size - _FOOTER.size))
        if len(footer) < _FOOTER.size:
            raise DamagedCacheError(self.path)
        values_end, checksum, magic = _FOOTER.unpack(footer)
        index_size = max(0, size - _FOOTER.size - values_end)
        content = os.pread(self._file, index_size, values_end) if index_size else b""
        if magic != _MAGIC or google_crc32c.value(content) != checksum:
            raise DamagedCacheError(self.path)
        with refusing(lambda _: DamagedCacheError(self.path)):
            return dict(np.load(io.BytesIO(content), allow_pickle=False)), values_end

    def read_values(self, row: int, buffers: list[Any]) -> None:
        """Reads the values of one record.

        Args:
          buffers: for each feature the uint8 array to fill, with as many bytes as the record's values take.
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
        """The values of K video-level records, uint8 [K, bytes of a record]; raises like `read_values`.

        Args:
          rows: int64 [K], the numbers of the records in the shard.
        """
        try:
            vectors = self._rows.read_rows(rows)
        except ShortFileError as error:
            raise DamagedCacheError(self.path) from error
        for index in np.flatnonzero(~self._is_checked[rows]):
            self._check(rows[index], [vectors[index]])
        return vectors

    def _check(self, row: int, values: list[Any]) -> None:
        """Compares the stored checksum of a record with that of the values just read; raises `DamagedCacheError`."""
        if functools.reduce(google_crc32c.extend, values, 0) != self._checksums[row]:
            raise DamagedCacheError(self.path)
        self._is_checked[row] = True


def _lists_in_index(index: Mapping[str, NDArray[Any]], name: str) -> Ragged:
    """The list `name` of each record, from the arrays of a file's index."""
    return Ragged.of_counts(index[name], index[f"{name} each"])


class ShardCache:
    """A folder of parsed shards, which makes, names and opens its files.

    Args:
      folder: local folder, made if missing; any number of processes may share it.
      data: the format in which records are read. If `num_classes` is None, no labels are read; if `segment_labels` is
        True, ratings are read; `max_frames` is the largest number of frames that are read of a video (None for all).

    Attributes:
      types: for each feature, the NumPy type in which the cache stores it: `uint8` if the shards have it as bytes, at
        frame level only; else `float32`.
      frame_bytes: for each feature, the number of bytes of one frame in the cache.
    """

    def __init__(self, folder: str, data: DataFormat, skips_bad: bool = False) -> None:
        self._folder, self.data, self._skips_bad = folder, data, skips_bad
        self._parser = RecordParser(data, data.max_frames)
        self.types = ["uint8" if declared.range and data.level == "frame" else "float32" for declared in data.features]
        self.frame_bytes = [
            feature.size * np.dtype(kind).itemsize for feature, kind in zip(data.features, self.types, strict=True)
        ]

    def describe_space(self, files: Sequence[str]) -> str:
        """A line for the log: how many of the shards are parsed, the space that the others need, and the free space."""
        missing = [shard for shard in files if not storage.exists(self.path_of(shard))]
        needed, free = sum(storage.size(shard) for shard in missing), free_bytes(self._folder)
        line = f"{self._folder} has {len(files) - len(missing)} of {len(files)} parsed shards"
        if not missing:
            return line
        line += f"; the others take at most {needed / 1e9:.2f} GB, the size of the shards; {free / 1e9:.2f} GB are free"
        warning = ". The disk may become full: free some space, or name a --cache on a larger disk"
        return line + warning if needed > free else line

    def path_of(self, shard: str) -> str:
        """The path of the cache's file for the present version of a shard; the file may not exist yet.

        The path changes if the shard is written again, or if another file takes its place (see `storage.base.Stamp`).
        """
        stamp = storage.stamps([shard]).get(shard)
        if stamp is None:
            raise RunError(f"cannot read {shard}: {os.strerror(errno.ENOENT)}")
        made_from = [_FORMAT, os.path.realpath(shard), stamp, self.data]
        digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:24]
        name = os.fsencode(os.path.basename(shard))[:100].decode(errors="ignore")  # systems limit a name by its bytes
        return storage.join(self._folder, f"{name}.{digest}.parsed")

    def open_parsed(self, path: str) -> CachedShard | None:
        """Opens the file `path` of the cache, which `path_of` returned; None if it is missing or damaged."""
        try:
            return CachedShard(path, sum(self.frame_bytes))
        except (storage.NotFoundError, DamagedCacheError):
            return None

    def parse_shard(self, shard: str, path: str) -> CachedShard:
        """Parses a shard, writes its file in the cache, and opens that file.

        Args:
          path: the file to write: the result of `path_of(shard)` just before this call. After reading the shard, this
            method calls `path_of(shard)` again. Another result means that the shard has changed meanwhile, so nothing
            is written.
        """
        damage = list[DamagedError]()
        write_cached_shard(path, self._blocks(shard, path, damage), damage)
        return CachedShard(path, sum(self.frame_bytes))

    def _blocks(self, shard: str, path: str, damage: list[DamagedError]) -> Iterator[Block]:
        """Yields the parsed records of a shard, up to the first damaged one."""
        count = 0
        try:
            for records in shards.read_blocks(shard):
                raws = [(record, shard, count + row) for row, record in enumerate(records)]
                yield from self._parse_sound(raws)
                count += len(records)
        except DamagedError as error:
            if not self._skips_bad:
                raise
            damage.append(error)
        if self.path_of(shard) != path:
            raise RunError(f"{shard} changed while it was read; start again once it is complete.")

    def _parse_sound(self, raws: Sequence[Raw]) -> Iterator[Block]:
        """Yields the parsed records before the first damaged one, then raises the `DamagedError` of that record."""
        try:
            yield self._parse_block(raws)
        except DamagedError as error:
            # An earlier record may be damaged too: the parser checks all records for one kind of damage after another.
            before = raws[: error.record - raws[0][2]]
            if before:
                yield from self._parse_sound(before)
            raise

    def _parse_block(self, raws: Sequence[Raw]) -> Block:
        """Parses records, with their ratings if these are read; raises `DamagedError` if one is damaged."""
        batch = self._parser.batch(raws)
        if not self.data.segment_labels:
            return Block(batch, {})
        ratings = list(map(self._parser.ratings, raws))
        return Block(batch, {name: [lists[index] for lists in ratings] for index, name in enumerate(SEGMENT_LISTS)})
