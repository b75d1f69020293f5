"""The encoding that writers use, parsed by hand: the same values as protobuf's, or an error."""

from __future__ import annotations

import struct

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.records import shards, wire
from yt8m.records.wire import OtherEncodingError

NAMES = st.text(st.characters(max_codepoint=126), min_size=1, max_size=200)
FLOATS = arrays.arrays("f4", st.integers(1, 40), elements=st.floats(width=32, allow_nan=False))
NUMBERS = st.lists(st.integers(0, 2**62), max_size=20)


@given(st.dictionaries(NAMES, st.one_of(st.binary(max_size=300), FLOATS, NUMBERS)))
def test_each_feature_of_an_example_is_found(values: dict) -> None:
    encoded = {name: _encoded(value) for name, value in values.items()}
    record = shards.example(encoded)
    found = wire.entries(record)
    assert {name.decode() for name in found.context} == values.keys()
    for name, value in values.items():
        span = found.context[name.encode()]
        assert record[slice(*span)] == encoded[name]
        if isinstance(value, bytes):
            assert record[slice(*wire.bytes_value(record, span))] == value
        elif isinstance(value, np.ndarray):
            start, end = wire.floats_value(record, span, len(value))
            assert record[start:end] == value.tobytes()
            with pytest.raises(OtherEncodingError):
                wire.floats_value(record, span, len(value) + 1)
        else:
            packed = np.frombuffer(record, np.uint8)[slice(*wire.numbers_value(record, span))]
            assert wire.numbers(packed[np.newaxis])[1].tolist() == value


def _encoded(value) -> bytes:
    if isinstance(value, bytes):
        return shards.bytes_feature(value)
    return shards.float_feature(value) if isinstance(value, np.ndarray) else shards.int64_feature(value)


@given(st.lists(st.lists(st.integers(0, 127), min_size=3, max_size=3), min_size=1, max_size=5))
def test_rows_of_numbers(rows: list) -> None:
    packed = np.array(rows, np.uint8)
    places, values = wire.numbers(packed)
    assert places.tolist() == [row for row in range(len(rows)) for _ in range(3)]
    assert values.tolist() == packed.ravel().tolist()


@pytest.mark.parametrize("packed", [[0x80], [0x01, 0x80], [0xFF] * 9 + [0x01]])
def test_numbers_that_are_cut_or_negative_are_left_to_protobuf(packed: list) -> None:
    with pytest.raises(OtherEncodingError):
        wire.numbers(np.array([packed], np.uint8))


@given(arrays.arrays(np.uint8, st.tuples(st.integers(0, 5), st.integers(1, 200))))
def test_frames(frames: np.ndarray) -> None:
    size = frames.shape[1]
    floats = frames.astype("<f4")
    lists = {"rgb": shards.frame_features(frames), "flow": [shards.float_feature(row) for row in floats]}
    record = shards.sequence_example({"id": shards.bytes_feature(b"v")}, lists)
    found = wire.entries(record).lists
    np.testing.assert_array_equal(wire.byte_frames(record, found[b"rgb"], size), frames)
    np.testing.assert_array_equal(wire.float_frames(record, found[b"flow"], size), floats)
    if len(frames):
        for parse, name, asked in (
            (wire.byte_frames, b"rgb", size + 1),
            (wire.byte_frames, b"flow", size),
            (wire.float_frames, b"rgb", size),
        ):
            with pytest.raises(OtherEncodingError):
                parse(record, found[name], asked)


def _field(number: int, content: bytes) -> bytes:
    return shards.field(number, content)


_ENTRY = _field(1, _field(1, b"a") + _field(2, shards.int64_feature([1])))
OTHERS = {
    "a name twice": _field(1, _ENTRY + _ENTRY),
    "the value before the name": _field(1, _field(1, _field(2, b"") + _field(1, b"a"))),
    "a field besides": _field(1, _ENTRY) + _field(3, b""),
    "a number": b"\x08\x01",
    "cut": _field(1, _ENTRY)[:-1],
    "longer than it is": b"\x0a\x7f",
    "a name that is not ASCII": _field(1, _field(1, _field(1, b"\xff") + _field(2, b""))),
    "nothing": b"",
}


@pytest.mark.parametrize("record", OTHERS.values(), ids=OTHERS)
def test_other_encodings_are_left_to_protobuf(record: bytes) -> None:
    with pytest.raises(OtherEncodingError):
        wire.entries(record)


def test_other_values_are_left_to_protobuf() -> None:
    unpacked = _field(2, b"".join(b"\x0d" + struct.pack("<f", one) for one in (1, 2)))
    two = shards.bytes_feature(b"x", b"y")
    for feature in (unpacked, two):
        record = b"\x00" + feature
        span = (1, len(record))
        for parse, *size in ((wire.bytes_value,), (wire.floats_value, 2), (wire.numbers_value,)):
            with pytest.raises(OtherEncodingError):
                parse(record, span, *size)
