"""Segments of annotated ranges: every one is read, with every class rated; through the cache too."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import Parsed, error_of, frame_record, write_shard

from yt8m.lazy import tf
from yt8m.readers import BatchQueue, YT8MFrameFeatureReader

SETTINGS: dict[str, Any] = {"num_classes": 4, "feature_sizes": (2,), "feature_names": ("rgb",), "segment_labels": True}
_SIZE = 3
_RATINGS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from([0.0, 1.0])), max_size=5)
_RANGES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), max_size=2)
_VIDEOS = st.lists(st.tuples(st.integers(1, 14), _RATINGS, _RANGES), max_size=4)


def record(number: int, length: int, ratings: list[Any], ranges: list[Any]) -> bytes:
    """A record whose ratings begin at cells of three frames, and whose ranges are (first cell, number of cells)."""
    lists = {
        "segment_start_times": [cell * _SIZE for cell, _, _ in ratings],
        "segment_labels": [label for _, label, _ in ratings],
        "segment_scores": [score for _, _, score in ratings],
        "annotated_start_times": [first * _SIZE for first, _ in ranges],
        "annotated_end_times": [(first + count) * _SIZE for first, count in ranges],
    }
    frames = np.full((length, 2), number, np.uint8)
    return frame_record({"id": [b"v%d" % number], **lists}, {"rgb": frames})


def expected(videos: list[Any]) -> dict[tuple[bytes, int], tuple[np.ndarray, np.ndarray]]:
    """{(video, number of frames that are there, start): (labels, weights)} of each segment, by loops."""
    found: dict[Any, Any] = {}
    for number, (length, ratings, ranges) in enumerate(videos):
        cells: dict[int, Any] = {}
        for first, count in ranges:
            for cell in range(first, first + count):
                if cell * _SIZE < length:
                    cells[cell] = np.zeros(4), np.ones(4)
        for cell, label, score in ratings:
            labels, weights = cells.setdefault(cell, (np.zeros(4), np.zeros(4)))
            labels[label], weights[label] = max(labels[label], score), 1
        for cell, values in cells.items():
            found[b"v%d" % number, min(_SIZE, max(0, length - cell * _SIZE)), cell] = values
    return found


@given(_VIDEOS)
@examples(60)
def test_every_segment_of_a_range_is_rated(videos: list[Any]) -> None:
    records = [record(number, *video) for number, video in enumerate(videos)]
    parsed = _parsed(records)
    rows = [
        (video, frames, tuple(labels), tuple(weights))
        for (video, frames, _), (labels, weights) in expected(videos).items()
    ]
    found = zip(
        *(parsed["video_ids"].tolist(), parsed["num_frames"].tolist()),
        *(map(tuple, parsed["labels"].tolist()), map(tuple, parsed["label_weights"].tolist())),
        strict=True,
    )
    assert sorted(found) == sorted(rows)


_session: list[Parsed] = []


@pytest.fixture(scope="module", autouse=True)
def _one_session() -> Iterator[None]:
    with Parsed(YT8MFrameFeatureReader(**SETTINGS, segment_size=_SIZE)) as parsed:
        _session.append(parsed)
        yield
    _session.clear()


def _parsed(records: list[bytes]) -> dict[str, Any]:
    return _session[0](records)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (
            {"annotated_start_times": [0, 5], "annotated_end_times": [5]},
            "2 annotated_start_times and 1 annotated_end_times",
        ),
        pytest.param(
            {"annotated_start_times": [5], "annotated_end_times": [5]},
            "an annotated range is 5 to 5",
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            {"annotated_start_times": [-1], "annotated_end_times": [5]},
            "an annotated range is -1 to 5",
            marks=pytest.mark.heavy,
        ),
    ],
)
def test_ranges_that_are_none_are_refused_and_name_the_video(lists: dict[str, Any], message: str) -> None:
    payload = frame_record({"id": [b"v1"], **lists}, {"rgb": np.zeros((6, 2), np.uint8)})
    assert f"video v1: {message}" in error_of(YT8MFrameFeatureReader(**SETTINGS), [payload])


@pytest.mark.heavy
def test_the_cache_gives_the_same_segments(tmp_path: pathlib.Path) -> None:
    videos = [(14, [(1, 2, 1.0)], [(0, 4)]), (7, [(0, 1, 1.0), (5, 3, 0.0)], []), (9, [], [(1, 2)])]
    write_shard(tmp_path / "s.tfrecord", [record(number, *video) for number, video in enumerate(videos)])
    found = []
    for cache in ("", str(tmp_path / "cache")):
        reader = YT8MFrameFeatureReader(**SETTINGS, segment_size=_SIZE)
        queue = BatchQueue(reader, str(tmp_path / "s.tfrecord"), batch_size=100, cache=cache)
        with tf.Graph().as_default(), tf.Session() as session:
            iterator = tf.data.make_initializable_iterator(queue.dataset(tf.constant(queue.files()), 100))
            batch = iterator.get_next()
            session.run(iterator.initializer)
            found.append(session.run([batch.video_ids, batch.num_frames, batch.labels, batch.label_weights]))
        queue.close()
    assert len(found[0][0]) == len(expected(videos)) == 8
    for plain, cached in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, cached)
