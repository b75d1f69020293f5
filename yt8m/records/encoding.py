"""Encodes videos as framed TFRecords, many at a time and without protobuf.

The records of videos whose ids and labels take equally many bytes differ only in bytes at fixed positions. They are
written into the rows of one array, which is ten times as fast as encoding one record after the other.
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

_BEFORE, _AFTER = 12, 4  # bytes of a TFRecord frame before and after its payload
_BLOCK = 1 << 20  # bytes of records that are made at once, so that they stay in a core's cache until they are written
_CONTEXT = (("id", 1), ("labels", 3))  # (name, kind as in `_head`) of the context features of every record

_scratch_of_thread = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """An uninitialized array in memory that the next call with the same name in the same thread uses again.

    New memory of this size would take the kernel longer to provide than a copy into it takes.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = getattr(_scratch_of_thread, name, None)
    if memory is None or len(memory) < size:
        memory = np.empty(size, np.uint8)
        setattr(_scratch_of_thread, name, memory)
    return np.asarray(memory[:size].view(dtype).reshape(shape))


class Contexts:
    """The ids and labels of videos, encoded as the context features of their records.

    Args:
      ids: the id of each video.
      rows: [n], the index of the video of each label, ascending.
      classes: [n], the class of each label, ascending within each video.
    """

    def __init__(self, ids: Sequence[bytes], rows: NDArray[np.int64], classes: NDArray[np.int64]) -> None:
        encoded, widths = _varints(classes)
        self._ids = _Texts(b"".join(ids), np.fromiter(map(len, ids), np.int64, len(ids)))
        self._labels = _Texts(encoded.tobytes(), np.bincount(rows, widths, len(ids)).astype(np.int64))

    def equally_long(self, indices: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Groups videos whose encoded ids and labels have the same lengths; yields the indices of each group."""
        lengths = self._ids.lengths[indices] << 32 | self._labels.lengths[indices]
        order = np.argsort(lengths, kind="stable")
        yield from np.split(indices[order], np.flatnonzero(np.diff(lengths[order])) + 1)

    def entries(self, indices: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        """The encoded context features of n videos, of one group of `equally_long`.

        Returns:
          Consecutive parts of the encoding: uint8 [n, size], or [size] for a part that all videos share.
        """
        values = self._ids.matrix(indices), self._labels.matrix(indices)
        heads = [_head(*entry, value.shape[1]) for entry, value in zip(_CONTEXT, values, strict=True)]
        return [np.frombuffer(heads[0], np.uint8), values[0], np.frombuffer(heads[1], np.uint8), values[1]]


class _Texts:
    """Byte strings, one after the other."""

    def __init__(self, joined: bytes, lengths: NDArray[np.int64]) -> None:
        self._joined, self.lengths = np.frombuffer(joined, np.uint8), lengths
        self._starts = np.cumsum(lengths) - lengths

    def matrix(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The strings with these indices, which have one length, as the rows of an array."""
        length = self.lengths[indices[0]]
        return np.asarray(self._joined[self._starts[indices][:, None] + np.arange(length)])


def _varints(numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """(the bytes of non-negative numbers as varints, one after the other; the number of bytes of each)."""
    most = -(-int(numbers.max(initial=1)).bit_length() // 7)  # 7 bits in each byte
    groups_of_bits = numbers[:, None] >> 7 * np.arange(max(most, 1))
    is_used = groups_of_bits > 0
    is_used[:, 0] = True
    is_last = np.diff(is_used, axis=1, append=False)
    encoded = (groups_of_bits & 0x7F | np.where(is_last, 0, 0x80)).astype(np.uint8)
    return encoded[is_used], is_used.sum(axis=1)


@lru_cache(1 << 10)
def _head(name: str, kind: int, length: int) -> bytes:
    """The bytes of a map entry from a name to a Feature, before the Feature's values, which take `length` bytes.

    `kind` is the field number of the Feature's list: 1 for bytes, 2 for floats, and 3 for packed integers.
    """
    whole = shards.entries({name: _feature(kind, bytes(length))})
    return whole[: len(whole) - length]


def _feature(kind: int, value: bytes) -> bytes:
    return shards.field(kind, shards.field(1, value))


def _kind(values: NDArray[Any]) -> int:
    return 1 if values.dtype == np.uint8 else 2


class VideoRecords:
    """Videos as framed Examples, sorted by the lengths of their ids and labels.

    An iteration yields uint8 arrays [m, bytes of a record], each of records of one length, until all are yielded.
    Each array is overwritten by the next one that any iteration in the same thread yields.

    Args:
      contexts: ids and labels of at least these videos.
      indices: int64 [n], the indices of the videos in `contexts`, at least one.
      features: function from indices [m] to the features {name: uint8 or float32 [m, size]} of these videos.

    Attributes:
      size: bytes of all framed records together.
    """

    def __init__(
        self,
        contexts: Contexts,
        indices: NDArray[np.int64],
        features: Callable[[NDArray[np.int64]], Mapping[str, NDArray[Any]]],
    ) -> None:
        self._contexts, self._features = contexts, features
        feature_bytes = _bytes_of_row(_feature_parts(features(indices[:1])))
        self._count = max(1, _BLOCK // feature_bytes)
        self._groups = list(contexts.equally_long(indices))
        sizes = [_bytes_of_row(contexts.entries(group[:1])) + feature_bytes for group in self._groups]
        framed = [_BEFORE + len(shards.head(1, size)) + size + _AFTER for size in sizes]
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
    """The number of bytes of a framed record that consists of these parts."""
    return _BEFORE + _bytes_of_row(columns) + _AFTER


def _frame(columns: Sequence[NDArray[np.uint8]], records: NDArray[np.uint8]) -> None:
    """Fills `records` with TFRecord frames around the joined parts; a part is [n, size], or [size] if constant."""
    length = struct.pack("<Q", records.shape[1] - _BEFORE - _AFTER)
    start = 0
    for part in [np.frombuffer(length + shards.masked_crc(length), np.uint8), *columns]:
        records[:, start : start + part.shape[-1]] = part
        start += part.shape[-1]
    checksums = np.array([google_crc32c.value(payload) for payload in records[:, _BEFORE:-_AFTER]], np.uint64)
    records[:, -_AFTER:] = shards.masked(checksums).astype("<u4").view(np.uint8).reshape(-1, _AFTER)


def frame_records(contexts: Contexts, index: int, features: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """The framed SequenceExample of one video, uint8 [1, bytes of the record].

    Args:
      contexts: ids and labels of videos.
      index: the index of the video in `contexts`.
      features: {name: its frames, uint8 or float32 [T, size]}.
    """
    context = b"".join(part.tobytes() for part in contexts.entries(np.array([index])))
    lists = shards.entries({name: _frame_list(frames) for name, frames in features.items()})
    columns = [np.frombuffer(shards.field(1, context) + shards.field(2, lists), np.uint8)]
    record = np.empty((1, _width(columns)), np.uint8)
    _frame(columns, record)
    return record


def _frame_list(frames: NDArray[Any]) -> bytes:
    """Encodes the frames [T, size] of one feature as a FeatureList, in which the same bytes precede each frame."""
    value = _as_bytes(frames)
    whole = shards.field(1, _feature(_kind(frames), value[0].tobytes()))
    filled = np.empty((len(frames), len(whole)), np.uint8)
    before = len(whole) - value.shape[1]
    filled[:, :before] = np.frombuffer(whole[:before], np.uint8)
    filled[:, before:] = value
    return filled.tobytes()
