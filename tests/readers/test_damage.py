"""Bytes that are not what they should be end in an error that Python can read, or in a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import fault_shards
import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import Parsed, feature, frame_record, video_record

from yt8m.lazy import tf
from yt8m.readers import Reader, YT8MAggregatedFeatureReader, YT8MFrameFeatureReader
from yt8m.readers.damage import RecordCheck
from yt8m.records.shards import DamagedError


def video() -> tuple[Reader, bytes]:
    record = video_record(id=[b"abcd"], labels=[1, 9], mean_rgb=[1.5, -1e9, 3.0], mean_audio=[1.0, 200.0])
    return YT8MAggregatedFeatureReader(10, (3, 2)), record


def frames() -> tuple[Reader, bytes]:
    lists = {"rgb": np.full([3, 3], 200, np.uint8), "audio": np.full([3, 2], 255, np.uint8)}
    return YT8MFrameFeatureReader(10, (3, 2)), frame_record({"id": [b"abcd"], "labels": [1, 9]}, lists)


def segments() -> tuple[Reader, bytes]:
    ratings = {"segment_start_times": [0, 1], "segment_labels": [2, 3], "segment_scores": [0.0, 1.0]}
    record = frame_record({"id": [b"abcd"], **ratings}, {"rgb": np.full([3, 3], 200, np.uint8)})
    return YT8MFrameFeatureReader(10, (3,), ("rgb",), segment_labels=True), record


def is_proto(record: bytes) -> bool:
    """Whether protobuf itself takes it."""
    try:
        tf.train.SequenceExample.FromString(record)
    except DecodeError:
        return False
    return True


class Kind(NamedTuple):
    """A reader in a session, and a record that it takes."""

    parsed: Parsed
    whole: bytes


@pytest.fixture(scope="module", params=[video, frames, segments])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    reader, whole = request.param()
    with Parsed(reader) as parsed:
        yield Kind(parsed, whole)


REFUSED = (tf.errors.InvalidArgumentError, tf.errors.DataLossError)
CHANGES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3)


@pytest.mark.promise("I3")
def test_changed_bytes_and_cut_records(kind: Kind) -> None:
    parsed, whole = kind

    @given(CHANGES, st.floats(0, 1) | st.just(1.0))
    @examples(30)
    def check(changes: list[tuple[int, int]], kept: float) -> None:
        damaged = bytearray(whole)
        for at, value in changes:
            damaged[at % len(damaged)] = value
        try:
            result = parsed([whole, bytes(damaged[: round(kept * len(damaged))])])
        except REFUSED:
            return
        assert len(result["video_ids"]) == len(result["video_matrix"]) == len(result["labels"])

    check()


@pytest.mark.promise("I3")
def test_arbitrary_bytes(kind: Kind) -> None:
    parsed, whole = kind
    for junk in (b"", b"\xff\xff junk", bytes(range(256)), whole[: len(whole) // 2]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"no id|Invalid protocol message"):
            parsed([whole, junk])


@pytest.mark.promise("I3")
def test_a_record_cut_at_any_byte_is_refused(kind: Kind) -> None:
    parsed, whole = kind
    for end in range(len(whole)):
        if not is_proto(whole[:end]):
            with pytest.raises(REFUSED):
                parsed([whole, whole[:end]])


@pytest.mark.promise("I3")
def test_a_record_cut_before_its_labels_is_refused() -> None:
    reader = fault_shards.reader("video")
    with Parsed(reader) as parsed:
        assert parsed([fault_shards.video(b"none", [])])["labels"].sum() == 0
        with pytest.raises(tf.errors.DataLossError):
            parsed([fault_shards.cut_before_labels()])


def test_protos_of_several_pieces_and_with_unknown_fields_are_read() -> None:
    ((_, whole), (_, other)) = video(), frames()
    unlabelled = video_record(id=[b"abcd"], mean_rgb=[1.5, 0.0, 3.0], mean_audio=[1.0, 2.0])
    labels = tf.train.Example(features=tf.train.Features(feature={"labels": feature([3])})).SerializeToString()
    unknown = b"\xba\x3e\x02ab" + b"\x38\x05"  # field 999 of two bytes, field 7 of one number
    with Parsed(video()[0]) as parsed:
        found = parsed([whole + unknown, unlabelled + labels])["labels"]
        assert [np.flatnonzero(row).tolist() for row in found] == [[1, 9], [3]]
    with Parsed(frames()[0]) as parsed:
        assert parsed([other + unknown])["num_frames"].tolist() == [3]


def test_no_record_at_all_is_an_empty_batch(kind: Kind) -> None:
    assert kind.parsed([])["video_ids"].shape == (0,)


def test_a_record_of_the_other_level_is_named_with_the_flags_to_add() -> None:
    (video_reader, of_video), (frame_reader, of_frames) = video(), frames()
    for reader, record, told in (
        (
            video_reader,
            of_frames,
            "it is a frame-level record (rgb,audio), but video-level records are expected; name video-level "
            "shards, or train with --frame_features and with --feature_names=rgb,audio",
        ),
        (
            frame_reader,
            of_video,
            "it is a video-level record (mean_rgb,mean_audio), but frame-level records are expected; name frame-level "
            "shards, or train without --frame_features and with --feature_names=mean_rgb,mean_audio",
        ),
    ):
        check = RecordCheck(reader)
        assert check.first_bad([record]) == (0, told)
        check.close()
    error = DamagedError("a", 3, told)
    assert str(error) == f"a: record 3: {told}."
    assert str(DamagedError("a", 3, "it is cut")) == "a: record 3: it is cut; fetch the file again, or leave it out."
