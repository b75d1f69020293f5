"""Bytes that are not what they should be end in an error that Python can read, or in a batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_records import Parsed, frame_record, video_record

from yt8m.lazy import tf
from yt8m.readers import Reader, YT8MAggregatedFeatureReader, YT8MFrameFeatureReader


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


CHANGES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3)


@pytest.mark.promise("I3")
@pytest.mark.parametrize("make", [video, frames, segments])
def test_changed_bytes_and_cut_records(make: object, request: pytest.FixtureRequest) -> None:
    reader, whole = make()  # type: ignore[operator]
    parsed = Parsed(reader)
    request.addfinalizer(parsed.close)

    @given(CHANGES, st.floats(0, 1) | st.just(1.0))
    @settings(max_examples=150, deadline=None)
    def check(changes: list[tuple[int, int]], kept: float) -> None:
        damaged = bytearray(whole)
        for at, value in changes:
            damaged[at % len(damaged)] = value
        try:
            result = parsed([whole, bytes(damaged[: round(kept * len(damaged))])])
        except tf.errors.InvalidArgumentError:
            return
        assert len(result["video_ids"]) == len(result["video_matrix"]) == len(result["labels"])

    check()


@pytest.mark.promise("I3")
@pytest.mark.parametrize("make", [video, frames, segments])
def test_arbitrary_bytes(make: object) -> None:
    reader, whole = make()  # type: ignore[operator]
    parsed = Parsed(reader)
    for junk in (b"", b"\xff\xff junk", bytes(range(256)), whole[: len(whole) // 2]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"no id|Invalid protocol message"):
            parsed([whole, junk])
