from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import Parsed, frame_record, read_shard

from yt8m.readers import YT8MFrameFeatureReader

SETTINGS: dict[str, Any] = {"num_classes": 6, "feature_sizes": (3,), "feature_names": ("rgb",)}


def reader() -> YT8MFrameFeatureReader:
    return YT8MFrameFeatureReader(**SETTINGS, segment_labels=True)


def record(name: bytes, length: int, ratings: list[tuple[int, int, float]], **context: Any) -> bytes:
    """`ratings` are (start, class, score)."""
    frames = (np.arange(length * 3) % 251).astype(np.uint8).reshape(length, 3)
    lists = {
        "segment_start_times": [start for start, _, _ in ratings],
        "segment_end_times": [start + 5 for start, _, _ in ratings],
        "segment_labels": [label for _, label, _ in ratings],
        "segment_scores": [score for _, _, score in ratings],
    }
    return frame_record({"id": [name], **lists, **context}, {"rgb": frames})


def test_gives_the_recorded_batch_but_counts_the_frames_that_are_there() -> None:
    data = np.load(golden("readers.npz"))
    whole = YT8MFrameFeatureReader(20, (16, 8), segment_labels=True)
    parsed = Parsed(whole)(read_shard(golden("tiny_segment.tfrecord")))
    np.testing.assert_array_equal(parsed["video_ids"].astype("S"), data["segment/video_ids"])
    for name in ("video_matrix", "labels", "label_weights"):
        np.testing.assert_array_equal(parsed[name], data[f"segment/{name}"])
        assert parsed[name].dtype == np.float32
    # The published reader says 5 everywhere; here 5 but for the segment past the end of its video (S003
    # has 50 frames, the segment starts at 60) and the one that straddles it (S004: 48 frames, start 45).
    expected = data["segment/num_frames"].copy()
    past = np.flatnonzero(data["segment/video_ids"] == b"S003")[-1]
    straddling = np.flatnonzero(data["segment/video_ids"] == b"S004")[-1]
    expected[[past, straddling]] = [0, 3]
    np.testing.assert_array_equal(parsed["num_frames"], expected)


RATINGS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5), st.sampled_from([0.0, 0.25, 1.0])), max_size=8)


@given(st.lists(st.tuples(st.integers(0, 12), RATINGS), max_size=4))
@examples(60)
def test_segments_are_those_of_a_loop_over_ratings(videos: list[tuple[int, Any]]) -> None:
    records = [record(b"v%d" % n, length, ratings) for n, (length, ratings) in enumerate(videos)]
    parsed = _parsed(records)
    expected = _by_loops(videos)
    assert parsed["video_ids"].tolist() == [name for name, *_ in expected]
    for at, name in enumerate(("frames", "num_frames", "labels", "label_weights"), start=1):
        found = parsed["features"][0] if name == "frames" else parsed[name]
        rows = [row[at] for row in expected]
        np.testing.assert_array_equal(found, np.array(rows).reshape(found.shape))
    assert parsed["features"][0].shape == (len(expected), 5, 3)


def _by_loops(videos: list[tuple[int, Any]]) -> list[tuple[Any, ...]]:
    rows = []
    for n, (length, ratings) in enumerate(videos):
        frames = (np.arange(length * 3) % 251).astype(np.uint8).reshape(length, 3)
        for start in dict.fromkeys(start for start, _, _ in ratings):
            kept = frames[start : start + 5]
            padded = np.zeros([5, 3], np.uint8)
            padded[: len(kept)] = kept
            labels, weights = np.zeros(6, np.float32), np.zeros(6, np.float32)
            for _, label, score in (one for one in ratings if one[0] == start):
                labels[label], weights[label] = max(labels[label], score), 1
            rows.append((b"v%d" % n, padded, len(kept), labels, weights))
    return rows


_session: list[Parsed] = []


@pytest.fixture(scope="module", autouse=True)
def _one_session() -> Iterator[None]:
    with Parsed(reader()) as parsed:
        _session.append(parsed)
        yield
    _session.clear()


def _parsed(records: list[bytes]) -> dict[str, Any]:
    return _session[0](records)


def test_the_largest_of_several_ratings_counts_in_any_order() -> None:
    for scores in ([1.0, 0.0], [0.0, 1.0]):
        parsed = _parsed([record(b"v", 9, [(0, 2, score) for score in scores])])
        assert parsed["labels"].tolist() == [[0, 0, 1, 0, 0, 0]]
        assert parsed["label_weights"].tolist() == [[0, 0, 1, 0, 0, 0]]


def test_records_without_ratings_give_no_row() -> None:
    parsed = _parsed([frame_record({"id": [b"v"]}, {"rgb": np.zeros([9, 3], np.uint8)})])
    assert parsed["video_matrix"].shape == (0, 5, 3)
    assert parsed["labels"].shape == (0, 6)


def test_a_segment_beyond_max_frames_is_read_whole() -> None:
    short = YT8MFrameFeatureReader(**SETTINGS, max_frames=4, segment_labels=True, segment_size=2)
    parsed = Parsed(short)([record(b"v", 9, [(6, 2, 1.0)])])
    assert parsed["num_frames"].tolist() == [2]
    assert parsed["features"][0][0].ravel().tolist() == [18, 19, 20, 21, 22, 23]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({"ratings": [(0, 6, 1.0)]}, ["label 6 ", "0..5"]),
        ({"ratings": [(-1, 2, 1.0)]}, ["starts at -1", "expected 0 to 2147483647 seconds"]),
        ({"ratings": [(1 << 40, 2, 1.0)]}, ["starts at 1099511627776"]),
        ({"ratings": [(0, 2, 1.5)]}, ["score", "1.5", "0 to 1"]),
        ({"ratings": [(0, 2, float("nan"))]}, ["score", "nan", "0 to 1"]),
        ({"ratings": [(0, 2, 1.0)], "segment_labels": [1, 2]}, ["1 segment_start_times", "2 segment_labels"]),
        ({"ratings": [(0, 2, 1.0)], "segment_scores": []}, ["1 segment_start_times", "0 segment_scores"]),
    ],
)
def test_a_wrong_rating_is_named(bad: dict[str, Any], expected: list[str]) -> None:
    message = _session[0].error_of([record(b"good", 9, [(0, 1, 1.0)]), record(b"bad!", 9, **bad)])
    assert [words for words in ["video bad!", *expected] if words not in message] == [], message


def test_segments_know_the_labels_of_their_video() -> None:
    both = [record(b"a", 9, [(5, 2, 1.0), (0, 3, 0.0)], labels=[1, 2]), record(b"b", 9, [(0, 2, 1.0)])]
    parsed = _parsed(both)
    assert parsed["video_labels"].tolist() == [[False, True, True, False, False, False]] * 2 + [[False] * 6]
