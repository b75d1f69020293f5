"""Records parsed into arrays: whatever is in them, the arrays are those of protobuf, or the record is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.records import shards
from yt8m.records.data_format import PUBLISHED, DataFormat, FeatureFormat, dequantized
from yt8m.records.record_parser import NumpyBatch, RecordParser
from yt8m.records.shards import DamagedError

VIDEO = DataFormat("video", (FeatureFormat("a", 3), FeatureFormat("b", 2)), num_classes=200)
FRAME = DataFormat("frame", (FeatureFormat("c", 4, PUBLISHED), FeatureFormat("d", 2)), num_classes=200)


def video(number: int, labels: list[int]) -> bytes:
    features = {"a": shards.float_feature([number, 1, 2]), "b": shards.float_feature([3, number])}
    return shards.example(_context(number, labels) | features)


def frame(number: int, labels: list[int]) -> bytes:
    rows = np.full((number % 3, 4), number, np.uint8)
    floats = [shards.float_feature([number, one]) for one in range(number % 3)]
    return shards.sequence_example(_context(number, labels), {"c": shards.frame_features(rows), "d": floats})


def _context(number: int, labels: list[int]) -> dict[str, bytes]:
    return {"id": shards.bytes_feature(b"v%d" % number), "labels": shards.int64_feature(labels)}


def batch_of(data: DataFormat, records: list[bytes]) -> NumpyBatch:
    return RecordParser(data).batch([(record, "file", number) for number, record in enumerate(records)])


LABELS = st.lists(st.lists(st.integers(0, 199), max_size=4), min_size=1, max_size=12)


@given(LABELS)
def test_videos(labels: list[list[int]]) -> None:
    found = batch_of(VIDEO, [video(number, one) for number, one in enumerate(labels)])
    assert found.ids == [f"v{number}" for number in range(len(labels))]
    assert found.features["a"].tolist() == [[number, 1, 2] for number in range(len(labels))]
    assert found.features["b"].tolist() == [[3, number] for number in range(len(labels))]
    assert [np.flatnonzero(row).tolist() for row in found.labels] == [sorted(set(one)) for one in labels]


@given(LABELS)
def test_frames(labels: list[list[int]]) -> None:
    found = batch_of(FRAME, [frame(number, one) for number, one in enumerate(labels)])
    assert found.num_frames.tolist() == [number % 3 for number in range(len(labels))]
    for number in range(len(labels)):
        count = number % 3
        assert found.features["c"][number].tolist()[:count] == [[number] * 4] * count
        assert found.features["d"][number].tolist()[:count] == [[number, one] for one in range(count)]
        assert not found.features["c"][number, count:].any()
    assert [np.flatnonzero(row).tolist() for row in found.labels] == [sorted(set(one)) for one in labels]


def unpacked(numbers: list[float]) -> bytes:
    """A FloatList as writers of the first version of protocol buffers may encode it."""
    return shards.field(2, b"".join(b"\x0d" + struct.pack("<f", one) for one in numbers))


def test_other_encodings_are_read_among_usual_ones() -> None:
    other = shards.example(_context(7, [5]) | {"a": unpacked([7, 1, 2]), "b": shards.float_feature([3, 7])})
    twice = shards.field(1, shards.field(1, shards.field(1, b"a") + shards.field(2, b""))) + video(8, [300 - 101])
    found = batch_of(VIDEO, [video(6, [1]), other, video(6, [1]), twice])
    assert found.ids == ["v6", "v7", "v6", "v8"]
    assert found.features["a"].tolist() == [[6, 1, 2], [7, 1, 2], [6, 1, 2], [8, 1, 2]]
    assert [np.flatnonzero(row).tolist() for row in found.labels] == [[1], [5], [1], [199]]


@pytest.mark.parametrize(("data", "make"), [(VIDEO, video), (FRAME, frame)], ids=["video", "frame"])
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.booleans())
def test_a_changed_record_is_read_as_protobuf_reads_it_or_refused(data, make, place, byte, cut) -> None:
    whole = make(5, [3, 150])
    place %= len(whole)
    record = whole[:place] if cut else whole[:place] + bytes([byte]) + whole[place + 1 :]
    try:
        found = batch_of(data, [make(4, []), record])
    except DamagedError as error:
        refusal, found = error, None
    if found is None:
        assert (refusal.path, refusal.record) == ("file", 1)
        return
    parsed = shards.parse(record)
    assert found.ids[1] == shards.id_text(parsed.id())
    assert np.flatnonzero(found.labels[1]).tolist() == sorted(set(parsed.values("labels")))
    for feature in data.features:
        frames = parsed.features()[feature.name]
        expected = np.array([one.numbers() for one in frames]).reshape(-1, feature.size)
        got = found.features[feature.name][1].reshape(-1, feature.size)[: len(expected)]
        np.testing.assert_array_equal(got, expected)


def test_ids_of_any_kind() -> None:
    names = [b"plain", "\u00fcber".encode(), b"two\nlines", b"\xff", b"back\\slash"]
    records = [
        shards.example(
            {"id": shards.bytes_feature(name), "a": shards.float_feature([0] * 3), "b": shards.float_feature([0] * 2)}
        )
        for name in names
    ]
    assert batch_of(VIDEO, records).ids == [shards.id_text(name) for name in names]
    assert batch_of(VIDEO, records[:1]).ids == ["plain"]


def test_joined_means_leave_out_what_follows_the_last_frame() -> None:
    frames = {
        "rgb": np.array([[[0, 255], [255, 255], [9, 9]], [[255, 0], [7, 7], [7, 7]]], np.uint8),
        "audio": np.array([[[1.0], [3.0], [0.0]], [[5.0], [0.0], [0.0]]], np.float32),
    }
    batch = NumpyBatch(["a", "b"], frames, np.array([2, 1], np.int32), np.zeros((2, 0), np.bool_))
    low, high = dequantized(np.array([0, 255], np.uint8), PUBLISHED)
    expected = [[(low + high) / 2, high, 2.0], [high, low, 5.0]]
    np.testing.assert_allclose(batch.joined_means(), expected, rtol=1e-6)
