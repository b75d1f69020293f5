"""Parses records without protobuf, in the one encoding that writers use; this is many times as fast.

An Example or SequenceExample may be encoded in many ways: fields in any order, numbers packed or not, a field given
twice. Writers use one of these encodings, and the functions here parse only that one. For any other they raise
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
    """The places of the features in a record.

    Attributes:
      context: {name: span of the Feature}.
      lists: {name: span of the FeatureList}.
    """

    context: dict[bytes, Span]
    lists: dict[bytes, Span]


class OtherEncodingError(Exception):
    """The record is encoded in another way, or damaged."""


def entries(record: bytes) -> FeatureSpans:
    """The features of a record."""
    context, place = _message(record, _IN_1, 0)
    lists = (place, place)
    if place < len(record):
        lists, place = _message(record, _IN_2, place)
    if place < len(record):
        raise OtherEncodingError
    return FeatureSpans(_map(record, *context), _map(record, *lists))


def _map(record: bytes, place: int, end: int) -> dict[bytes, Span]:
    """The entries of a proto map, which are in field 1; each has its name in field 1 and its value in field 2."""
    entries: dict[bytes, Span] = {}
    while place < end:
        (place, stop), after = _message(record, _IN_1, place)
        name, place = _message(record, _IN_1, place)
        value, place = _message(record, _IN_2, place)
        key = record[slice(*name)]
        # Names that are not ASCII are left to protobuf, which checks whether they are valid UTF-8.
        if place != stop or key in entries or not key.isascii():
            raise OtherEncodingError
        entries[key], place = value, after
    if place != end:
        raise OtherEncodingError
    return entries


def _message(record: bytes, key: int, place: int) -> tuple[Span, int]:
    """(span of the field at `place`, which must have this key; the place after the field)."""
    try:
        if record[place] != key:
            raise OtherEncodingError
        size, place = record[place + 1], place + 2
        if size > 0x7F:  # a varint of several bytes, the lowest seven bits first
            size, shift = size & 0x7F, 7
            while record[place] > 0x7F:
                size |= (record[place] & 0x7F) << shift
                place, shift = place + 1, shift + 7
            size |= record[place] << shift
            place += 1
    except IndexError:
        raise OtherEncodingError from None
    if place + size > len(record):
        raise OtherEncodingError
    return (place, place + size), place + size


def bytes_value(record: bytes, feature: Span) -> Span:
    """The span of the value of a Feature with one bytes value."""
    return _value(record, feature, _IN_1)


def numbers_value(record: bytes, feature: Span) -> Span:
    """The span of the packed numbers of a Feature with an Int64List or without a value."""
    return feature if feature[0] == feature[1] else _value(record, feature, _IN_3)


def _value(record: bytes, feature: Span, kind: int) -> Span:
    """The span of field 1 of a Feature's list, which must be its only field; empty for an empty list."""
    (start, end), after = _message(record, kind, feature[0])
    value, last = _message(record, _IN_1, start) if start < end or kind == _IN_1 else ((end, end), end)
    if last != end or after != feature[1]:
        raise OtherEncodingError
    return value


def floats_value(record: bytes, feature: Span, size: int) -> Span:
    """The span of the `size` float32 of a Feature with a packed FloatList."""
    header = _header(2, 4 * size)
    start = feature[0] + len(header)
    if start + 4 * size != feature[1] or not record.startswith(header, feature[0]):
        raise OtherEncodingError
    return start, feature[1]


@functools.cache
def _header(kind: int, size: int) -> bytes:
    """The bytes of a Feature before its value of `size` bytes; `kind` is the number of the field that has its list."""
    inner = head(1, size)
    return head(kind, len(inner) + size) + inner


def numbers(packed: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decodes rows of packed varints, uint8 [N, bytes]; returns (row of each number, numbers).

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
    """uint8 [T, size], a view of a FeatureList with one string of `size` bytes per frame."""
    return _frames(record, frames, _header(1, size), size)


def float_frames(record: bytes, frames: Span, size: int) -> NDArray[np.float32]:
    """float32 [T, size], a copy of a FeatureList with `size` packed floats per frame."""
    return np.ascontiguousarray(_frames(record, frames, _header(2, 4 * size), 4 * size)).view("<f4")


def _frames(record: bytes, frames: Span, of_value: bytes, size: int) -> NDArray[np.uint8]:
    """The values of frames in a FeatureList, [T, bytes]; each frame must begin with the same bytes.

    These bytes are the key and length of the frame's Feature, then `of_value`; `size` bytes of values follow them.
    """
    header = head(1, len(of_value) + size) + of_value
    count, remainder = divmod(frames[1] - frames[0], len(header) + size)
    if remainder:
        raise OtherEncodingError
    rows = np.frombuffer(record, np.uint8)[slice(*frames)].reshape(count, len(header) + size)
    if not (rows[:, : len(header)] == np.frombuffer(header, np.uint8)).all():
        raise OtherEncodingError
    return rows[:, len(header) :]
