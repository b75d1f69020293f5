"""Shards and records, read and written, against TensorFlow's own protos and parsers; damaged shards."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import fault_shards
import numpy as np
import pytest
from golden_data import golden
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from reader_records import frame_record, read_shard

from yt8m.lazy import tf
from yt8m.records import shards

VALUES = st.one_of(
    st.lists(st.binary(max_size=20), max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    st.lists(st.floats(width=32, allow_nan=False), max_size=4),
)


def of_proto(feature: Any) -> list[Any]:
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_any_context_reads_back(context: dict[str, Any]) -> None:
    record = shards.parse(frame_record(context, {}))
    assert {name: feature.values() for name, feature in record.context.items()} == context


@pytest.mark.parametrize("name", ["tiny_video", "tiny_frame", "tiny_segment"])
def test_published_records(name: str) -> None:
    path = golden(f"{name}.tfrecord")
    payloads = read_shard(path)
    assert list(shards.read_shard(str(path))) == payloads
    for payload in payloads:
        found, expected = shards.parse(payload), tf.train.SequenceExample.FromString(payload)
        context = {key: of_proto(value) for key, value in expected.context.feature.items()}
        assert {key: value.values() for key, value in found.context.items()} == context
        assert found.id() == (context.get("id") or context["video_id"])[0]
        lists = {k: [of_proto(one) for one in v.feature] for k, v in expected.feature_lists.feature_list.items()}
        assert {key: [one.values() for one in value] for key, value in found.lists.items()} == lists
        assert shards.parse(payload, with_lists=False).lists == {}


@pytest.mark.promise("I3")
@pytest.mark.parametrize("level", fault_shards.LEVELS)
def test_what_protobuf_refuses_is_refused(level: str) -> None:
    whole = fault_shards.record(level, b"abcd")
    changed = [whole[:end] for end in range(len(whole) + 1)]
    for at, byte in enumerate(whole):
        changed += [whole[:at] + bytes([value]) + whole[at + 1 :] for value in (0, 255, *_near(byte))]
    refused = [record for record in changed if not _passes(shards.parse, record)]
    assert refused == [r for r in changed if not _passes(tf.train.SequenceExample.FromString, r)]


def _near(byte: int) -> list[int]:
    return [byte ^ (1 << bit) for bit in range(8)]


def _passes(parse: Callable[[bytes], Any], record: bytes) -> bool:
    try:
        parse(record)
    except (ValueError, DecodeError):
        return False
    return True


def test_unpacked_numbers() -> None:
    # A Feature as old writers leave it: one field a value in place of one packed field.
    floats = b"\x12\x0a" + b"\x0d" + np.float32(1.5).tobytes() + b"\x0d" + np.float32(-2).tobytes()
    ints = b"\x1a\x04" + b"\x08\x07" + b"\x08\x09"
    for content, expected in ((floats, [1.5, -2.0]), (ints, [7, 9])):
        entry = b"\x0a\x01x\x12" + bytes([len(content)]) + content
        features = b"\x0a" + bytes([len(entry)]) + entry
        parsed = shards.parse(b"\x0a" + bytes([len(features)]) + features)
        assert parsed.context["x"].values() == expected


@pytest.mark.parametrize(("at", "number"), [(4, 0), (40, 0), (-30, 11)])
def test_damage_is_named(tmp_path: pathlib.Path, at: int, number: int) -> None:
    data = bytearray(golden("tiny_video.tfrecord").read_bytes())
    data[at] ^= 1
    path = tmp_path / "bad.tfrecord"
    path.write_bytes(data)
    with pytest.raises(shards.DamagedError, match=rf"bad.tfrecord: record {number}: "):
        list(shards.read_shard(str(path)))


def test_a_shard_cut_short_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "short.tfrecord"
    path.write_bytes(golden("tiny_video.tfrecord").read_bytes()[:-3])
    with pytest.raises(shards.DamagedError, match=r"record 11: .*cut"):
        list(shards.read_shard(str(path)))


@pytest.mark.parametrize("payload", [b"\xff" * 30, b"\x0b", b"\x0a\x30abc"])
def test_what_is_no_proto_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"Example|past the end|does not end|not allowed"):
        shards.parse(payload)


int64s = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(width=32, allow_nan=False)
frames = st.integers(1, 200).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=5)
)


@given(st.text(), st.binary(), st.lists(int64s), st.lists(floats))
def test_example_is_read_back(name: str, value: bytes, numbers: list[int], reals: list[float]) -> None:
    encoded = shards.example(
        {
            f"b{name}": shards.bytes_feature(value, b"second"),
            "i": shards.int64_feature(numbers),
            "f": shards.float_feature(reals),
        }
    )
    read = tf.train.Example.FromString(encoded).features.feature
    assert list(read[f"b{name}"].bytes_list.value) == [value, b"second"]
    assert list(read["i"].int64_list.value) == numbers
    assert list(read["f"].float_list.value) == reals
    assert read["i"].WhichOneof("kind") == "int64_list"  # an empty list is a list


@given(st.lists(int64s), frames)
def test_sequence_example_is_read_back(numbers: list[int], rows: list[bytes]) -> None:
    matrix = np.array([list(row) for row in rows], np.uint8)
    encoded = shards.sequence_example(
        {"labels": shards.int64_feature(numbers)}, {"rgb": shards.frame_features(matrix), "none": []}
    )
    read = tf.train.SequenceExample.FromString(encoded)
    assert list(read.context.feature["labels"].int64_list.value) == numbers
    lists = read.feature_lists.feature_list
    assert [feature.bytes_list.value[0] for feature in lists["rgb"].feature] == rows
    assert all(len(feature.bytes_list.value) == 1 for feature in lists["rgb"].feature)
    assert len(lists["none"].feature) == 0


def test_same_bytes_as_the_proto_library() -> None:
    """With one entry a map there is but one canonical encoding."""
    for feature, proto in (
        (shards.bytes_feature(b"x" * 300), {"bytes_list": {"value": [b"x" * 300]}}),
        (shards.int64_feature([1, 300, -1]), {"int64_list": {"value": [1, 300, -1]}}),
        (shards.float_feature([0.5, -2.0]), {"float_list": {"value": [0.5, -2.0]}}),
    ):
        theirs = tf.train.Example(features={"feature": {"k": tf.train.Feature(**proto)}})
        assert shards.example({"k": feature}) == theirs.SerializeToString()


def test_same_file_as_tensorflow_writes(tmp_path: pathlib.Path) -> None:
    payloads = [b"", b"x", bytes(range(256)) * 1000]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for payload in payloads:
            writer.write(payload)
    ours = b"".join(shards.framed(payload) for payload in payloads)
    assert ours == (tmp_path / "theirs").read_bytes()
