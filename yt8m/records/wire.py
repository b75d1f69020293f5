"""Parses records in their usual encoding without protobuf, many times as fast as protobuf does.

Protocol buffers allow many encodings of one Example or SequenceExample: fields in any order, numbers packed or not, a
field given twice. The usual writers use only one of them, and the functions here parse only that one. Each of them
raises `OtherEncodingError` for any other encoding and for damage; then the caller uses `yt8m.records.shards.parse`,
which parses all encodings.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.records.shards import field, head

Span = tuple[int, int]  # the offsets in a record at which a value begins and ends

_IN_1, _IN_2, _IN_3 = 0x0A, 0x12, 0x1A  # keys of the length-delimited fields 1, 2 and 3
_LONGEST = 9  # bytes of the longest varint of an int64 that is not negative; a negative one takes ten


class FeatureSpans(NamedTuple):
    """Where the features are in a record.

    Attributes:
      context: {name: span of the Feature} of the features of the whole video.
      lists: {name: span of the FeatureList} of the features of its frames.
    """

    context: dict[bytes, Span]
    lists: dict[bytes, Span]


class OtherEncodingError(Exception):
    """The record does not have the usual encoding, or is damaged."""


def entries(record: bytes) -> FeatureSpans:
    """Finds the features of a serialized Example or SequenceExample."""
    context, offset = _message(record, _IN_1, 0)
    lists = (offset, offset)
    if offset < len(record):
        lists, offset = _message(record, _IN_2, offset)
    if offset < len(record):
        raise OtherEncodingError
    return FeatureSpans(_map(record, *context), _map(record, *lists))


def with_context(record: bytes, features: Mapping[bytes, bytes]) -> bytes:
    """The record with these encoded Features in its context, {name: Feature}; every other byte stays."""
    earlier = {name: record[slice(*span)] for name, span in entries(record).context.items()}
    _, after = _message(record, _IN_1, 0)
    encoded = (field(1, field(1, name) + field(2, value)) for name, value in {**earlier, **features}.items())
    return field(1, b"".join(encoded)) + record[after:]


def _map(record: bytes, offset: int, end: int) -> dict[bytes, Span]:
    """{name: span of its value} of a proto map.

    A map is encoded as a message whose field 1 is repeated for each entry; an entry has the name as field 1 and the
    value as field 2.
    """
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
    """(span of the content, offset after it) of a length-delimited field."""
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
    """The span of the string in a Feature at span `feature`, which must be a BytesList of one string."""
    return _value(record, feature, _IN_1)


def numbers_value(record: bytes, feature: Span) -> Span:
    """The span of the packed numbers in a Feature at span `feature`, which must be an Int64List or have no value."""
    return feature if feature[0] == feature[1] else _value(record, feature, _IN_3)


def _value(record: bytes, feature: Span, list_key: int) -> Span:
    """The span of the values in a Feature; an empty span for an empty list of numbers.

    Args:
      list_key: the key of the Feature's list, whose only field must be one string of bytes or packed numbers.
    """
    (start, end), after = _message(record, list_key, feature[0])
    value, last = _message(record, _IN_1, start) if start < end or list_key == _IN_1 else ((end, end), end)
    if last != end or after != feature[1]:
        raise OtherEncodingError
    return value


def floats_value(record: bytes, feature: Span, size: int) -> Span:
    """The span of the values in a Feature at span `feature`, which must be a packed FloatList of `size` values."""
    header = _feature_header(2, 4 * size)
    start = feature[0] + len(header)
    if start + 4 * size != feature[1] or not record.startswith(header, feature[0]):
        raise OtherEncodingError
    return start, feature[1]


@functools.cache
def _feature_header(list_number: int, size: int) -> bytes:
    """The bytes of a Feature before its values.

    Args:
      list_number: the field number of the Feature's list: 1 for bytes, 2 for floats.
      size: the number of bytes of the values.
    """
    list_header = head(1, size)
    return head(list_number, len(list_header) + size) + list_header


def numbers(packed: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decodes rows of packed varints.

    Args:
      packed: uint8 [N, bytes], each row with any number of varints.

    Returns:
      (int64 [n]: the row of each number; int64 [n]: the numbers of all rows, one row after another).
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
    """The values of a feature with one string of `size` bytes per frame: uint8 [T, size], a view of `record`."""
    return _frame_values(record, frames, _feature_header(1, size), size)


def float_frames(record: bytes, frames: Span, size: int) -> NDArray[np.float32]:
    """The values of a feature with `size` packed floats per frame: float32 [T, size], a copy; see `byte_frames`."""
    return np.ascontiguousarray(_frame_values(record, frames, _feature_header(2, 4 * size), 4 * size)).view("<f4")


def _frame_values(record: bytes, frames: Span, feature_header: bytes, size: int) -> NDArray[np.uint8]:
    """The bytes of the values of all frames of a FeatureList, uint8 [T, size], a view of `record`.

    Args:
      feature_header: the bytes with which each frame's Feature must begin; the values follow.
      size: the number of bytes of a frame's values.
    """
    header = head(1, len(feature_header) + size) + feature_header
    count, remainder = divmod(frames[1] - frames[0], len(header) + size)
    if remainder:
        raise OtherEncodingError
    rows = np.frombuffer(record, np.uint8)[slice(*frames)].reshape(count, len(header) + size)
    if not (rows[:, : len(header)] == np.frombuffer(header, np.uint8)).all():
        raise OtherEncodingError
    return rows[:, len(header) :]
