"""Encodes videos as framed TFRecords, many at a time and without protobuf.

Two records whose ids and labels take equally many bytes have the same layout: each value begins at the same byte of
both. Records of one layout are written together, as the rows of one array, which is ten times as fast as encoding one
record after the other.
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

from yt8m.records import checksums, shards

_BEFORE, _AFTER = 12, 4  # bytes of a TFRecord frame before and after its payload
_BLOCK = 1 << 20  # bytes of records that are made at once, so that they stay in a core's cache until they are written
# (name, number of the list's type, see `_feature_head`) of the context features that every record has.
_CONTEXT = (("id", 1), ("labels", 3))

_scratch_of_thread = threading.local()  # the memory of `scratch`, by name, of each thread


def scratch(name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """An uninitialized array, which the next call with the same name in the same thread overwrites.

    Arrays of the same name use the same memory, because the kernel takes longer to provide new memory than a copy into
    existing memory takes.

    Args:
      shape: the shape of the array.
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
      rows: [n], for each label of any video the index of its video in `ids`, ascending.
      classes: [n], for each label its class, ascending within each video.
    """

    def __init__(self, ids: Sequence[bytes], rows: NDArray[np.int64], classes: NDArray[np.int64]) -> None:
        encoded, widths = _varints(classes)
        self._ids = _ByteStrings(b"".join(ids), np.fromiter(map(len, ids), np.int64, len(ids)))
        self._labels = _ByteStrings(encoded.tobytes(), np.bincount(rows, widths, len(ids)).astype(np.int64))

    def equally_long(self, indices: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Groups these videos by the lengths of their encoded ids and labels; yields the indices of each group."""
        lengths = self._ids.lengths[indices] << 32 | self._labels.lengths[indices]
        order = np.argsort(lengths, kind="stable")
        yield from np.split(indices[order], np.flatnonzero(np.diff(lengths[order])) + 1)

    def entries(self, indices: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        """Encodes the context features of n videos.

        Args:
          indices: int64 [n], one of the groups that `equally_long` yields.

        Returns:
          Consecutive parts of the encoding: uint8 [n, size], or [size] for a part that is the same for all videos.
        """
        values = self._ids.matrix(indices), self._labels.matrix(indices)
        heads = [_feature_head(*entry, value.shape[1]) for entry, value in zip(_CONTEXT, values, strict=True)]
        return [np.frombuffer(heads[0], np.uint8), values[0], np.frombuffer(heads[1], np.uint8), values[1]]


class _ByteStrings:
    """Byte strings of any lengths, of which any equally long ones can be taken as the rows of an array.

    Args:
      lengths: int64 [n], the number of bytes of each.
    """

    def __init__(self, joined: bytes, lengths: NDArray[np.int64]) -> None:
        self._joined, self.lengths = np.frombuffer(joined, np.uint8), lengths
        self._starts = np.cumsum(lengths) - lengths

    def matrix(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The strings with these indices as the rows of an array; all of them must have the same length."""
        length = self.lengths[indices[0]]
        return np.asarray(self._joined[self._starts[indices][:, None] + np.arange(length)])


def _varints(numbers: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encodes non-negative numbers as varints.

    Returns:
      (uint8: the bytes of all varints, one after the other; int64: the number of bytes of each varint).
    """
    max_bytes = -(-int(numbers.max(initial=1)).bit_length() // 7)  # 7 bits in each byte
    groups_of_bits = numbers[:, None] >> 7 * np.arange(max(max_bytes, 1))
    is_used = groups_of_bits > 0
    is_used[:, 0] = True
    is_last = np.diff(is_used, axis=1, append=False)
    encoded = (groups_of_bits & 0x7F | np.where(is_last, 0, 0x80)).astype(np.uint8)
    return encoded[is_used], is_used.sum(axis=1)


@lru_cache(1 << 10)
def _feature_head(name: str, list_number: int, length: int) -> bytes:
    """The bytes that precede the values in the encoding of a named Feature.

    Args:
      list_number: the field number of the Feature's list: 1 for bytes, 2 for floats, and 3 for packed integers.
      length: the number of bytes of the values.
    """
    entry = shards.entries({name: _encode_feature(list_number, bytes(length))})
    return entry[: len(entry) - length]


def _encode_feature(list_number: int, value: bytes) -> bytes:
    return shards.field(list_number, shards.field(1, value))


def _list_number(values: NDArray[Any]) -> int:
    """The field number of a Feature's list for values of this type: 1 for uint8 (a string of bytes), 2 for floats."""
    return 1 if values.dtype == np.uint8 else 2


class VideoRecords:
    """Videos as Examples in the frames of TFRecords, sorted by the byte lengths of their encoded ids and labels.

    An iteration yields the records of all videos as uint8 arrays [m, bytes of a record]; the records of one array have
    one length. Whoever iterates must write or copy an array before taking the next one, which has the same memory, even
    if another `VideoRecords` in the same thread yields it.

    Args:
      indices: int64 [n], the indices of the videos in `contexts`; n is at least 1.
      features: takes the indices [m] of videos; returns their features {name: uint8 or float32 [m, size]}.

    Attributes:
      size: number of bytes of all records together, including the length and the checksums of each.
    """

    def __init__(
        self,
        contexts: Contexts,
        indices: NDArray[np.int64],
        features: Callable[[NDArray[np.int64]], Mapping[str, NDArray[Any]]],
    ) -> None:
        self._contexts, self._features = contexts, features
        feature_bytes = _bytes_of_row(_feature_parts(features(indices[:1])))
        self._block_rows = max(1, _BLOCK // feature_bytes)
        self._groups = list(contexts.equally_long(indices))
        sizes = [_bytes_of_row(contexts.entries(group[:1])) + feature_bytes for group in self._groups]
        framed = [_BEFORE + len(shards.head(1, size)) + size + _AFTER for size in sizes]
        self.size = sum(len(group) * size for group, size in zip(self._groups, framed, strict=True))

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        for group in self._groups:
            context = self._contexts.entries(group)
            for start in range(0, len(group), self._block_rows):
                block = slice(start, start + self._block_rows)
                entries = [part[block] if part.ndim == 2 else part for part in context]
                entries += _feature_parts(self._features(group[block]))
                columns = [np.frombuffer(shards.head(1, _bytes_of_row(entries)), np.uint8), *entries]
                records = scratch("records", (len(group[block]), _framed_size(columns)), np.uint8)
                _fill_frames(records, columns)
                yield records


def _feature_parts(features: Mapping[str, NDArray[Any]]) -> Iterator[NDArray[np.uint8]]:
    """Yields the parts of the encoding of n videos' features {name: [n, size]}: uint8 [size], then uint8 [n, size]."""
    for name, values in features.items():
        yield np.frombuffer(_feature_head(name, _list_number(values), values[0].nbytes), np.uint8)
        yield _as_bytes(values)


def _bytes_of_row(columns: Iterable[NDArray[np.uint8]]) -> int:
    return sum(int(part.shape[-1]) for part in columns)


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """uint8 or float32 [n, size] as the bytes that a record stores, uint8 [n, bytes of a row]."""
    return values if values.dtype == np.uint8 else np.ascontiguousarray(values, "<f4").view(np.uint8)


def _framed_size(columns: Sequence[NDArray[np.uint8]]) -> int:
    """The number of bytes of a framed record whose payload consists of these parts."""
    return _BEFORE + _bytes_of_row(columns) + _AFTER


def _fill_frames(records: NDArray[np.uint8], columns: Sequence[NDArray[np.uint8]]) -> None:
    """Fills an array with framed records.

    Args:
      records: uint8 [n, bytes of a framed record], to be filled.
      columns: the consecutive parts of the payloads: uint8 [n, size], or [size] for a part that all records share.
    """
    length = struct.pack("<Q", records.shape[1] - _BEFORE - _AFTER)
    start = 0
    for part in [np.frombuffer(length + checksums.masked_crc(length), np.uint8), *columns]:
        records[:, start : start + part.shape[-1]] = part
        start += part.shape[-1]
    crcs = np.array([google_crc32c.value(payload) for payload in records[:, _BEFORE:-_AFTER]], np.uint64)
    records[:, -_AFTER:] = checksums.mask_crc(crcs).astype("<u4").view(np.uint8).reshape(-1, _AFTER)


def frame_records(
    contexts: Contexts, index: int, features: Mapping[str, NDArray[Any]], others: Mapping[str, bytes] | None = None
) -> NDArray[np.uint8]:
    """The framed SequenceExample of one video, uint8 [1, bytes of the record].

    Args:
      features: {name: its frames, uint8 or float32 [T, size]}.
      others: {name: encoded Feature} of further entries of the context.
    """
    context = b"".join(part.tobytes() for part in contexts.entries(np.array([index]))) + shards.entries(others or {})
    lists = shards.entries({name: _encode_frames(frames) for name, frames in features.items()})
    columns = [np.frombuffer(shards.field(1, context) + shards.field(2, lists), np.uint8)]
    record = np.empty((1, _framed_size(columns)), np.uint8)
    _fill_frames(record, columns)
    return record


def _encode_frames(frames: NDArray[Any]) -> bytes:
    """Encodes the frames of one feature, uint8 or float32 [T, size], as a FeatureList."""
    values = _as_bytes(frames)
    first = shards.field(1, _encode_feature(_list_number(frames), values[0].tobytes()))
    encoded = np.empty((len(frames), len(first)), np.uint8)
    head_size = len(first) - values.shape[1]
    encoded[:, :head_size] = np.frombuffer(first[:head_size], np.uint8)  # the same bytes precede each frame's values
    encoded[:, head_size:] = values
    return encoded.tobytes()
