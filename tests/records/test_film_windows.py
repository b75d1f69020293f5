from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.errors import UsageError
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.film_windows import WINDOWS_AT_ONCE, FilmWindows, Part, best_scores, find_cuts, windows_for

OWN = DataFormat("video", (FeatureFormat("mean_clip", 4),), video_frames=(6, 20))
PUBLISHED = DataFormat("video", (FeatureFormat("mean_rgb", 1024),), video_frames=(6, 20))


@given(st.integers(1, 40), st.integers(0, 60), st.integers(1, 300))
def test_windows_overlap_by_half_and_cover_the_film(size: int, further: int, frames_after: int) -> None:
    windows = FilmWindows(size, size + further)
    count = windows.longest + frames_after
    parts = windows.parts(count)
    assert windows.are_for(count)
    assert not windows.are_for(windows.longest)
    assert {last - first for first, last in parts} == {size}
    starts = [first for first, _ in parts]
    assert starts[0] == 0
    assert starts[-1] == count - size
    steps = np.diff(starts)
    assert (steps[:-1] == max(1, size // 2)).all()
    assert (steps > 0).all()
    assert steps.max(initial=0) <= max(1, size // 2)


def test_who_scores_films_in_windows() -> None:
    assert windows_for(OWN) == FilmWindows(6, 20)
    assert windows_for(OWN, tags_of="whole") is None
    assert windows_for(PUBLISHED) is None  # as published
    assert windows_for(PUBLISHED, tags_of="windows") == FilmWindows(6, 20)
    unknown = OWN._replace(video_frames=None)
    assert windows_for(unknown) is None
    with pytest.raises(UsageError, match=r"--tags_of=windows: runs/a\b.*how long"):
        windows_for(unknown, "runs/a", "windows")


@pytest.mark.parametrize("count", [1, WINDOWS_AT_ONCE, WINDOWS_AT_ONCE + 1, 5 * WINDOWS_AT_ONCE + 3])
def test_the_best_window_counts_for_each_class(count: int) -> None:
    table = np.random.default_rng(count).uniform(size=(count, 7)).astype(np.float32)
    most = 0

    def score(parts: Sequence[Part]) -> np.ndarray:
        nonlocal most
        most = max(most, len(parts))
        return table[[first for first, _ in parts]]

    np.testing.assert_array_equal(best_scores(score, [(row, row + 1) for row in range(count)]), table.max(axis=0))
    assert most <= WINDOWS_AT_ONCE


@given(st.integers(1, 12), st.integers(20, 60), st.sets(st.integers(1, 59), max_size=6))
def test_no_window_has_a_cut_inside_and_each_scene_has_one(size: int, count: int, given_cuts: set[int]) -> None:
    cuts = sorted(cut for cut in given_cuts if cut < count)
    parts = FilmWindows(size, size).parts(count, cuts)
    ends = [0, *cuts, count]
    for first, last in parts:
        assert 0 <= first < last <= count
        assert not any(first < cut < last for cut in cuts)
        (scene,) = [pair for pair in itertools.pairwise(ends) if pair[0] <= first < pair[1]]
        assert last - first == min(size, scene[1] - scene[0])
    for first, last in itertools.pairwise(ends):
        assert any(first <= start and end <= last for start, end in parts)


def scene(level: float, count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(level, 1, (count, 16)).astype(np.float32)


def test_cuts_are_large_changes() -> None:
    film = np.concatenate([scene(0, 20, 0), scene(9, 7, 1), scene(-9, 30, 2)])
    assert find_cuts([film]) == [20, 27]
    assert find_cuts([film, film * 1000]) == [20, 27]
    assert find_cuts([film, np.zeros((57, 3), np.float32)]) == [20, 27]
    assert find_cuts([scene(0, 300, 3)]) == []  # noise
    slow = np.linspace(0, 50, 100, dtype=np.float32)[:, np.newaxis] + scene(0, 100, 4) / 10
    assert find_cuts([slow]) == []  # a slow change
    assert find_cuts([np.ones((9, 2), np.float32)]) == []
    assert find_cuts([np.ones((1, 2), np.float32)]) == []
    still = np.repeat([[0.0, 1.0], [1.0, 0.0]], [40, 60], axis=0).astype(np.float32)
    assert find_cuts([still]) == [40]
    long = np.concatenate([scene(0, 5000, 5), scene(9, 5000, 6)])
    assert find_cuts([long]) == [5000]
