"""Ranking in bounded memory against sorting everything; the memory it takes."""

from __future__ import annotations

import pathlib
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.config.programs import InferenceConfig
from yt8m.errors import RunError
from yt8m.eval_util import segment_ranking
from yt8m.eval_util.segment_ranking import Candidates, SegmentRanking, WindowMeans
from yt8m.scoring.inference import new_segment_ranking


def names_of(lengths: list[int]) -> list[bytes]:
    return [b"v%d:%d" % (video, 5 * place) for video, count in enumerate(lengths) for place in range(count)]


def by_sorting(names: list[bytes], scores: np.ndarray, most: int) -> list[list[bytes]]:
    listed = []
    for column in scores.T:
        order = [at for at in np.argsort(-column, kind="stable") if column[at] > -np.inf]
        listed.append([names[at] for at in order[:most]])
    return listed


@examples(60)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=12),
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(0, 1000),
    st.booleans(),
)
def test_keeps_what_sorting_everything_would(
    lengths: list[int], most: int, classes: int, seed: int, tied: bool
) -> None:
    names, draw = names_of(lengths), np.random.default_rng(seed)
    scores = draw.normal(size=(len(names), classes)).astype(np.float32)
    scores = np.round(scores) if tied else scores
    scores[draw.random(scores.shape) < 0.1] = -np.inf
    numbers = draw.permutation(50)[:classes].tolist()
    original, segment_ranking._BLOCK = segment_ranking._BLOCK, 16
    try:
        ranking, start = SegmentRanking(numbers, most), 0
        while start < len(names):
            end = start + int(draw.integers(1, 40))
            ranking.add(names[start:end], scores[start:end])
            start = end
        found = dict(ranking.lines())
    finally:
        segment_ranking._BLOCK = original
    assert list(found) == sorted(numbers)
    for number, expected in zip(numbers, by_sorting(names, scores, most), strict=True):
        assert found[number] == expected
    assert ranking.count == len(names)


@pytest.mark.heavy
def test_memory_is_bounded_by_classes_and_what_is_kept() -> None:
    classes, most = 50, 4000
    draw = np.random.default_rng(0)
    peaks = []
    for videos in (500, 5000):
        tracemalloc.start()
        ranking = SegmentRanking(range(classes), most)
        for video in range(0, videos, 100):
            names = [b"%d:%d" % (video + one, 5 * place) for one in range(100) for place in range(60)]
            ranking.add(names, draw.random((len(names), classes), dtype=np.float32))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert ranking.count == videos * 60
    kept = classes * (most + 4096) * 8
    # Ten times the stream costs ten times the ids of its videos (a bytes object, an int, two references).
    assert peaks[1] - peaks[0] < 4500 * 150
    assert peaks[1] < kept + 2 * 4096 * classes * 4 + 2_000_000


def test_a_video_that_comes_twice_is_listed_once() -> None:
    ranking = SegmentRanking([7], 10)
    ranking.add([b"a:0", b"a:5", b"a:0"], np.array([[0.1], [0.2], [0.3]], np.float32))
    assert dict(ranking.lines()) == {7: [b"a:0", b"a:5"]}
    assert dict(SegmentRanking([7], 10).lines()) == {7: []}


def test_segments_of_another_length_keep_their_starts() -> None:
    ranking = new_segment_ranking(InferenceConfig(), 3, segment_size=10)
    segments = [b"v:0", b"v:10", b"w:0", b"w:10", b"w:20"]
    ranking.add(segments, np.array([[score] * len(ranking.classes) for score in (5, 4, 3, 2, 1)], np.float32))
    assert [names for _, names in ranking.lines()] == [segments] * len(ranking.classes)


def test_what_cannot_be_listed() -> None:
    with pytest.raises(RunError, match="empty id"):
        SegmentRanking([7]).add([b":0"], np.array([[1.0]], np.float32))


def test_ids_that_are_no_text_stand_there_as_in_other_files(tmp_path: pathlib.Path) -> None:
    ranking, scores = SegmentRanking([7]), np.array([[1.0]], np.float32)
    ranking.add([b"a\xff:0"], scores)
    assert dict(ranking.lines()) == {7: [b"a\\xff:0"]}
    (tmp_path / "videos.csv").write_text("a\\xff,7 0.5\n")
    candidates = Candidates(str(tmp_path / "videos.csv"), [7], 8)
    assert candidates.among([b"a\xff:0"], scores).tolist() == [[1.0]]


def test_means_do_not_depend_on_how_the_stream_is_cut() -> None:
    draw = np.random.default_rng(0)
    scores = draw.random((21, 4)).astype(np.float32)
    names = [b"v:%d" % (5 * (row // 3)) for row in range(21)]
    for _ in range(20):
        means, found, rows = WindowMeans(3), list[bytes](), list[np.ndarray]()
        ends = sorted(draw.integers(0, 22, 4).tolist())
        for start, end in zip([0, *ends], [*ends, 21], strict=True):
            joined, mean = means.join(names[start:end], scores[start:end])
            found += joined
            rows += list(mean)
        assert found == names[::3]
        np.testing.assert_allclose(rows, scores.reshape(7, 3, 4).mean(1), rtol=1e-6)
