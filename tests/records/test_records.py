"""Encoded records against TensorFlow's own protos and parsers."""

from __future__ import annotations

import pathlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from yt8m.lazy import tf
from yt8m.records import shards

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
