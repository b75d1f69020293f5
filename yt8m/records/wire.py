"""Parses records in their usual encoding without protobuf, which is many times as fast.

Protocol buffers allow many encodings of one Example or SequenceExample: fields in any order, numbers packed or not, a
field given twice. Writers use only one of them, and the functions here parse only that one. For any other they raise
`OtherEncodingError`, and the caller uses `yt8m.records.shards.parse`, which parses all encodings.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.records.shards import head

Span = tuple[int, int]  # (begin, end) of a value in the record

_IN_1, _IN_2, _IN_3 = 0x0A, 0x12, 0x1A  # keys of the length-delimited fields 1, 2 and 3
_LONGEST = 9  # longest varint of a number from 0 on; a negative one takes ten bytes


class FeatureSpans(NamedTuple):
    """Where the features are in a record.

    Attributes:
      context: {name: span of the Feature}.
      lists: {name: span of the FeatureList}.
    """

    context: dict[bytes, Span]
    lists: dict[bytes, Span]


class OtherEncodingError(Exception):
    """The record does not have the usual encoding, or is damaged."""


def entries(record: bytes) -> FeatureSpans:
    """The spans of the features of a record."""
    context, offset = _message(record, _IN_1, 0)
    lists = (offset, offset)
    if offset < len(record):
        lists, offset = _message(record, _IN_2, offset)
    if offset < len(record):
        raise OtherEncodingError
    return FeatureSpans(_map(record, *context), _map(record, *lists))


def _map(record: bytes, offset: int, end: int) -> dict[bytes, Span]:
    """{name: span of its value} of a proto map: field 1 is repeated for each entry, whose fields are name and value."""
    entries: dict[bytes, Span] = {}
    while offset < end:
        (offset, stop), after = _message(record, _IN_1, offset)
        name, offset = _message(record, _IN_1, offset)
        value, offset = _message(record, _IN_2, offset)
        key = record[slice(*name)]
        # Names that are not ASCII are left to protobuf, which checks whether they are valid UTF-8.
        if offset != stop or key in entries or not key.isascii():
            raise OtherEncodingError
        entries[key], offset = value, after
    if offset != end:
        raise OtherEncodingError
    return entries


def _message(record: bytes, key: int, offset: int) -> tuple[Span, int]:
    """(span of the content, offset after it) of the field at `offset`, which must have this key."""
    try:
        if record[offset] != key:
            raise OtherEncodingError
        size, offset = record[offset + 1], offset + 2
        if size > 0x7F:  # a varint of several bytes, the lowest seven bits first
            size, shift = size & 0x7F, 7
            while record[offset] > 0x7F:
                size |= (record[offset] & 0x7F) << shift
                offset, shift = offset + 1, shift + 7
            size |= record[offset] << shift
            offset += 1
    except IndexError:
        raise OtherEncodingError from None
    if offset + size > len(record):
        raise OtherEncodingError
    return (offset, offset + size), offset + size


def bytes_value(record: bytes, feature: Span) -> Span:
    """The span of the only string in a Feature with a BytesList."""
    return _value(record, feature, _IN_1)


def numbers_value(record: bytes, feature: Span) -> Span:
    """The span of the packed numbers of a Feature with an Int64List or without a value."""
    return feature if feature[0] == feature[1] else _value(record, feature, _IN_3)


def _value(record: bytes, feature: Span, kind: int) -> Span:
    """The span of the values in a Feature; empty for an empty list.

    `kind` is the key of the Feature's list, whose only field must be one string of bytes or packed numbers.
    """
    (start, end), after = _message(record, kind, feature[0])
    value, last = _message(record, _IN_1, start) if start < end or kind == _IN_1 else ((end, end), end)
    if last != end or after != feature[1]:
        raise OtherEncodingError
    return value


def floats_value(record: bytes, feature: Span, size: int) -> Span:
    """The span of the values in a Feature with a packed FloatList of `size` values."""
    header = _header(2, 4 * size)
    start = feature[0] + len(header)
    if start + 4 * size != feature[1] or not record.startswith(header, feature[0]):
        raise OtherEncodingError
    return start, feature[1]


@functools.cache
def _header(kind: int, size: int) -> bytes:
    """The bytes of a Feature before its values, which take `size` bytes; `kind` is the field number of its list."""
    inner = head(1, size)
    return head(kind, len(inner) + size) + inner


def numbers(packed: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decodes rows of packed varints, uint8 [N, bytes]; returns (the row of each number, the numbers), int64.

    Raises:
      OtherEncodingError: a row ends within a number, or a number is negative.
    """
    flat = packed.reshape(-1).astype(np.int64)
    if not len(flat):
        return flat, flat
    ends = np.flatnonzero(flat < 0x80)
    starts = np.append(0, ends[:-1] + 1)
    sizes = ends - starts + 1
    if (packed[:, -1] >= 0x80).any() or sizes.max() > _LONGEST:
        raise OtherEncodingError
    shifts = 7 * (np.arange(len(flat)) - np.repeat(starts, sizes))
    return ends // packed.shape[1], np.add.reduceat((flat & 0x7F) << shifts, starts)


def byte_frames(record: bytes, frames: Span, size: int) -> NDArray[np.uint8]:
    """The values of a FeatureList with one string of `size` bytes per frame: uint8 [T, size], a view of `record`."""
    return _frames(record, frames, _header(1, size), size)


def float_frames(record: bytes, frames: Span, size: int) -> NDArray[np.float32]:
    """The values of a FeatureList with `size` packed floats per frame: float32 [T, size], a copy."""
    return np.ascontiguousarray(_frames(record, frames, _header(2, 4 * size), 4 * size)).view("<f4")


def _frames(record: bytes, frames: Span, feature_header: bytes, size: int) -> NDArray[np.uint8]:
    """The values of all frames of a FeatureList, uint8 [T, size].

    Args:
      record: the record.
      frames: the span of the FeatureList.
      feature_header: the bytes of each frame's Feature before its values.
      size: bytes of the values of a frame.
    """
    header = head(1, len(feature_header) + size) + feature_header
    count, remainder = divmod(frames[1] - frames[0], len(header) + size)
    if remainder:
        raise OtherEncodingError
    rows = np.frombuffer(record, np.uint8)[slice(*frames)].reshape(count, len(header) + size)
    if not (rows[:, : len(header)] == np.frombuffer(header, np.uint8)).all():
        raise OtherEncodingError
    return rows[:, len(header) :]
