"""Encodes videos as framed TFRecords, many at a time and without protobuf.

If the ids and labels of videos take equally many bytes, their records differ only in bytes at fixed positions. So
such records are filled in as the rows of one array, which is ten times as fast as one record after the other.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m.records import shards

_AROUND = 12  # bytes of a TFRecord frame before its payload
_BLOCK = 1 << 20  # bytes of records that are made at once, so that they stay in a cache until they are written
_ENTRIES = (("id", 1), ("labels", 3))  # of every record, as the first arguments of `_head`


_of_thread = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """An array of any content, in memory of this thread that the next call with the same name takes again.

    The kernel needs more time to provide new memory of this size than a copy into it takes.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = getattr(_of_thread, name, None)
    if memory is None or len(memory) < size:
        memory = np.empty(size, np.uint8)
        setattr(_of_thread, name, memory)
    return np.asarray(memory[:size].view(dtype).reshape(shape))


class Contexts:
    """The ids and labels of videos, encoded as the entries of their records.

    Args:
      ids: the id of each video.
      rows: [n], the place of a video for each label, ascending.
      classes: [n], the class of each label, ascending for each video.
    """

    def __init__(self, ids: Sequence[bytes], rows: NDArray[np.int64], classes: NDArray[np.int64]) -> None:
        encoded, widths = _varints(classes)
        self._ids = _Texts(b"".join(ids), np.fromiter(map(len, ids), np.int64, len(ids)))
        self._labels = _Texts(encoded.tobytes(), np.bincount(rows, widths, len(ids)).astype(np.int64))

    def equally_long(self, places: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Groups videos whose ids and labels have equal lengths; yields the positions of one group at a time."""
        lengths = self._ids.lengths[places] << 32 | self._labels.lengths[places]
        order = np.argsort(lengths, kind="stable")
        yield from np.split(places[order], np.flatnonzero(np.diff(lengths[order])) + 1)

    def entries(self, places: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        """The bytes of n videos whose ids have one length and whose labels have one length.

        Returns:
          The parts of an entry in their order: uint8 [n, size], or [size] for a part that all videos share.
        """
        values = self._ids.matrix(places), self._labels.matrix(places)
        heads = [_head(*entry, value.shape[1]) for entry, value in zip(_ENTRIES, values, strict=True)]
        return [np.frombuffer(heads[0], np.uint8), values[0], np.frombuffer(heads[1], np.uint8), values[1]]


class _Texts:
    """Byte strings, one after the other."""

    def __init__(self, joined: bytes, lengths: NDArray[np.int64]) -> None:
        self._joined, self.lengths = np.frombuffer(joined, np.uint8), lengths
        self._starts = np.cumsum(lengths) - lengths

    def matrix(self, places: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Some strings of one length as the rows of an array."""
        length = self.lengths[places[0]]
        return np.asarray(self._joined[self._starts[places][:, None] + np.arange(length)])


def _varints(numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of numbers from 0 as varints, one after the other, and how many bytes each has."""
    most = -(-int(numbers.max(initial=1)).bit_length() // 7)  # 7 bits in each byte
    groups_of_bits = numbers[:, None] >> 7 * np.arange(max(most, 1))
    is_used = groups_of_bits > 0
    is_used[:, 0] = True
    is_last = np.diff(is_used, axis=1, append=False)
    encoded = (groups_of_bits & 0x7F | np.where(is_last, 0, 0x80)).astype(np.uint8)
    return encoded[is_used], is_used.sum(axis=1)


@lru_cache(1 << 10)
def _head(name: str, kind: int, length: int) -> bytes:
    """The bytes before the value of a map entry; `kind` is 1 for bytes, 2 for floats, and 3 for packed integers."""
    whole = shards.entries({name: _feature(kind, bytes(length))})
    return whole[: len(whole) - length]


def _feature(kind: int, value: bytes) -> bytes:
    return shards.field(kind, shards.field(1, value))


def _kind(values: NDArray[Any]) -> int:
    return 1 if values.dtype == np.uint8 else 2


class VideoRecords:
    """Videos as framed Examples, sorted by the lengths of their ids and labels.

    Iterating gives arrays uint8 [m, bytes of a record], each of records of one length; together they have all records.
    The next array takes the memory of the one before, in any iteration of the same thread.

    Args:
      contexts: ids and labels.
      places: int64 [n], the places of the videos, at least one.
      features: function from places [m] to the features {name: uint8 or float32 [m, size]} of these videos.

    Attributes:
      size: bytes of all records together.
    """

    def __init__(
        self,
        contexts: Contexts,
        places: NDArray[np.int64],
        features: Callable[[NDArray[np.int64]], Mapping[str, NDArray[Any]]],
    ) -> None:
        self._contexts, self._features = contexts, features
        feature_bytes = _bytes_of_row(_feature_parts(features(places[:1])))
        self._count = max(1, _BLOCK // feature_bytes)
        self._groups = list(contexts.equally_long(places))
        sizes = [_bytes_of_row(contexts.entries(group[:1])) + feature_bytes for group in self._groups]
        framed = [_AROUND + len(shards.head(1, size)) + size + 4 for size in sizes]
        self.size = sum(len(group) * size for group, size in zip(self._groups, framed, strict=True))

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        for group in self._groups:
            context = self._contexts.entries(group)
            for start in range(0, len(group), self._count):
                some = slice(start, start + self._count)
                entries = [part[some] if part.ndim == 2 else part for part in context]
                entries += _feature_parts(self._features(group[some]))
                columns = [np.frombuffer(shards.head(1, _bytes_of_row(entries)), np.uint8), *entries]
                records = scratch("records", (len(group[some]), _width(columns)), np.uint8)
                _frame(columns, records)
                yield records


def _feature_parts(features: Mapping[str, NDArray[Any]]) -> Iterator[NDArray[np.uint8]]:
    for name, values in features.items():
        yield np.frombuffer(_head(name, _kind(values), values[0].nbytes), np.uint8)
        yield _as_bytes(values)


def _bytes_of_row(columns: Iterable[NDArray[np.uint8]]) -> int:
    return sum(int(part.shape[-1]) for part in columns)


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    return values if values.dtype == np.uint8 else np.ascontiguousarray(values, "<f4").view(np.uint8)


def _width(columns: Sequence[NDArray[np.uint8]]) -> int:
    """Bytes of a framed record of these parts."""
    return _AROUND + _bytes_of_row(columns) + 4


def _frame(columns: Sequence[NDArray[np.uint8]], records: NDArray[np.uint8]) -> None:
    """Fills `records` with TFRecord frames around the joined parts; a part is [n, size], or [size] if constant."""
    length = struct.pack("<Q", records.shape[1] - _AROUND - 4)
    place = 0
    for part in [np.frombuffer(length + shards.masked_crc(length), np.uint8), *columns]:
        records[:, place : place + part.shape[-1]] = part
        place += part.shape[-1]
    sums = np.array([google_crc32c.value(payload) for payload in records[:, _AROUND:-4]], np.uint64)
    records[:, -4:] = shards.masked(sums).astype("<u4").view(np.uint8).reshape(-1, 4)


def frame_records(contexts: Contexts, place: int, features: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """The framed SequenceExample of one video, uint8 [1, bytes of the record].

    Args:
      contexts: ids and labels.
      place: the place of the video.
      features: {name: uint8 or float32 [T, size]}.
    """
    context = b"".join(part.tobytes() for part in contexts.entries(np.array([place])))
    lists = shards.entries({name: _frame_list(frames) for name, frames in features.items()})
    columns = [np.frombuffer(shards.field(1, context) + shards.field(2, lists), np.uint8)]
    record = np.empty((1, _width(columns)), np.uint8)
    _frame(columns, record)
    return record


def _frame_list(frames: NDArray[Any]) -> bytes:
    """Encodes a FeatureList, in which the same bytes precede each frame."""
    value = _as_bytes(frames)
    whole = shards.field(1, _feature(_kind(frames), value[0].tobytes()))
    filled = np.empty((len(frames), len(whole)), np.uint8)
    before = len(whole) - value.shape[1]
    filled[:, :before] = np.frombuffer(whole[:before], np.uint8)
    filled[:, before:] = value
    return filled.tobytes()
