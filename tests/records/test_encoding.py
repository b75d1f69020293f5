"""Records that are encoded without protobuf: what TensorFlow reads in them is what was put in."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.lazy import tf
from yt8m.records import checksums, encoding

VIDEOS = st.lists(
    st.tuples(st.text(max_size=200), st.sets(st.integers(0, (1 << 62) - 1), max_size=40)), min_size=1, max_size=12
)


def contexts(videos: list[tuple[str, set[int]]]) -> encoding.Contexts:
    rows = [place for place, (_, labels) in enumerate(videos) for _ in labels]
    classes = [label for _, labels in videos for label in sorted(labels)]
    ids = [name.encode() for name, _ in videos]
    return encoding.Contexts(ids, np.array(rows, np.int64), np.array(classes, np.int64))


def payloads(records: np.ndarray) -> list[bytes]:
    """The contents of framed records, after a check of both checksums."""
    joined, found, place = records.tobytes(), [], 0
    while place < len(joined):
        length = int.from_bytes(joined[place : place + 8], "little")
        assert joined[place + 8 : place + 12] == checksums.masked_crc(joined[place : place + 8])
        payload, place = joined[place + 12 : place + 12 + length], place + 12 + length
        assert joined[place : place + 4] == checksums.masked_crc(payload)
        found, place = [*found, payload], place + 4
    return found


@given(VIDEOS)
def test_videos_are_read_back_by_protobuf(videos: list[tuple[str, set[int]]]) -> None:
    places = np.flatnonzero(np.random.default_rng(len(videos)).random(len(videos)) < 0.8)
    draw = np.random.default_rng(7)
    values = draw.normal(size=(len(videos), 5)).astype(np.float32)
    other = draw.integers(256, size=(len(videos), 130), dtype=np.uint8)

    def features(some: np.ndarray) -> dict[str, np.ndarray]:
        return {"clip": values[some], "b": other[some]}

    found = {}
    framed = list(map(np.copy, encoding.VideoRecords(contexts(videos), places, features))) if len(places) else []
    for records in framed:
        for payload in payloads(records):
            example = tf.train.Example.FromString(payload)
            feature = example.features.feature
            place = int(np.flatnonzero((values == np.float32(feature["clip"].float_list.value)).all(axis=1))[0])
            found[place] = feature
    assert sorted(found) == places.tolist()
    assert not framed or encoding.VideoRecords(contexts(videos), places, features).size == sum(map(np.size, framed))
    for place, feature in found.items():
        name, labels = videos[place]
        assert feature["id"].bytes_list.value == [name.encode()]
        assert list(feature["labels"].int64_list.value) == sorted(labels)
        assert feature["b"].bytes_list.value == [other[place].tobytes()]
        assert feature.keys() == {"id", "labels", "clip", "b"}


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_frames_are_read_by_tensorflow(tmp_path: pathlib.Path, kind: type) -> None:
    videos = [("first", {3, 300}), ("second", set[int]())]
    frames = np.arange(24).reshape(6, 4).astype(kind)
    path = tmp_path / "frames.tfrecord"
    with path.open("wb") as file:
        for place in (1, 0):
            record = encoding.frame_records(contexts(videos), place, {"clip": frames + kind(place)})
            file.write(record.tobytes())
    found = [tf.train.SequenceExample.FromString(text) for text in tf.io.tf_record_iterator(str(path))]
    assert [list(one.context.feature["id"].bytes_list.value) for one in found] == [[b"second"], [b"first"]]
    assert [list(one.context.feature["labels"].int64_list.value) for one in found] == [[], [3, 300]]
    for place, one in zip((1, 0), found, strict=True):
        stored = one.feature_lists.feature_list["clip"].feature
        read = [
            np.frombuffer(part.bytes_list.value[0], np.uint8) if kind is np.uint8 else part.float_list.value
            for part in stored
        ]
        np.testing.assert_array_equal(np.array(read, kind), frames + kind(place))
