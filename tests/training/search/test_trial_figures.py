"""The figures of a search: those of the project's metrics, and quoted figures that promise nothing."""

from __future__ import annotations

import itertools
import math

import cases
import numpy as np
import pytest

from yt8m.eval_util import EvaluationMetrics
from yt8m.training.search import trial_figures
from yt8m.training.search.trial_figures import Ranked


def draw(seed: int, videos: int = 90, classes: int = 18, signal: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = generator.random((videos, classes)) < 0.12
    labels[:, -1] = False
    return (generator.normal(size=labels.shape) + signal * labels).astype(np.float32), labels


def test_the_figures_are_those_of_an_evaluation() -> None:
    scores, labels = draw(1)
    scores = 1 / (1 + np.exp(-scores))
    metrics = EvaluationMetrics(labels.shape[1], 20)
    metrics.accumulate(scores, labels, 0.0)
    expected, found = metrics.get(), Ranked(scores, labels).figures()
    assert found.gap == pytest.approx(expected["gap"], abs=1e-6)
    assert found.map == pytest.approx(expected["map"], abs=1e-6)
    assert found.hit_at_one == pytest.approx(expected["avg_hit_at_one"])


def test_a_weight_counts_a_video_so_often() -> None:
    scores, labels = draw(2, videos=30)
    counts = np.random.default_rng(0).integers(0, 3, 30)
    rows = np.repeat(np.arange(30), counts)
    repeated = Ranked(scores[rows], labels[rows]).figures()
    weighted = Ranked(scores, labels).figures(counts.astype(float))
    assert weighted.hit_at_one == pytest.approx(repeated.hit_at_one)
    # A video that counts twice is one place with two videos in one sum and two places in the other.
    assert weighted.map == pytest.approx(repeated.map, abs=0.05)
    assert weighted.gap == pytest.approx(repeated.gap, abs=0.05)


@pytest.mark.parametrize(("videos", "classes", "candidates"), cases.all_of([(30, 3, 10)], heavy=[(40, 8, 23)]))
def test_what_is_quoted_of_the_best_of_many_does_not_exceed_chance(videos: int, classes: int, candidates: int) -> None:
    """20 searches on data without signal: the best of the random candidates looks better than chance, its quote not."""
    naive, quoted, chance, errors = [], [], [], []
    for repeat in range(20):
        generator = np.random.default_rng(repeat)
        labels = draw(repeat, videos=videos, classes=classes)[1]
        keys = generator.integers(0, 2**63, videos).astype(np.uint64)
        scores_of_candidates = [generator.normal(size=labels.shape).astype(np.float32) for _ in range(candidates)]
        rows = [trial_figures.row_of(scores, labels, keys) for scores in scores_of_candidates]
        quote = trial_figures.quoted(rows)
        halves = [half["map"] for row in rows for half in row["halves"]]
        naive.append(max(rows, key=trial_figures.rank_of)["map"] - np.mean([row["map"] for row in rows]))
        quoted.append(quote["map"] - np.mean(halves))
        errors.append(quote["map_error"])
        chance.append(quote["map"] - 1.96 * quote["map_error"] <= np.mean(halves))
    assert np.mean(naive) > 2 * np.std(naive) / np.sqrt(20) + 0.02
    assert abs(np.mean(quoted)) < 2.5 * np.std(quoted) / np.sqrt(20)
    assert sum(chance) >= 18


def test_the_standard_error_is_the_spread_of_new_videos() -> None:
    rows = [trial_figures.row_of(*draw(seed, videos=200), np.arange(200, dtype=np.uint64)) for seed in range(20)]
    spread = np.std([row["map"] for row in rows])
    assert np.mean([row["map_error"] for row in rows]) == pytest.approx(spread, rel=0.5)


def test_folds_that_cut_what_belongs_together_are_noticed() -> None:
    """A candidate that remembers resembling videos is far better in the folds than on videos that were kept apart."""
    labels = draw(3, videos=160, classes=8)[1]
    keys, apart = np.arange(160, dtype=np.uint64), slice(0, 40)

    def row(signal_of_folds: float, signal_apart: float) -> dict[str, object]:
        signal = np.full((160, 1), signal_of_folds)
        signal[apart] = signal_apart
        scores = (np.random.default_rng(4).normal(size=labels.shape) + signal * labels).astype(np.float32)
        alone = trial_figures.row_of(scores[apart], labels[apart], keys[apart])
        return {**trial_figures.row_of(scores, labels, keys), "alone": alone}

    assert trial_figures.are_cut([row(6, 1), row(5, 0.5)])
    assert not trial_figures.are_cut([row(2, 2), row(1, 1)])


@pytest.mark.parametrize(("videos", "positives"), [(5, 1), (6, 3), (7, 7)])
def test_the_chance_level_is_the_mean_over_all_orders(videos: int, positives: int) -> None:
    labels = np.arange(videos)[:, np.newaxis] < positives
    orders = np.array([*itertools.permutations(range(videos))][:: max(1, math.factorial(videos) // 5040)])
    hits = labels[orders, 0]
    precisions = np.cumsum(hits, 1) / np.arange(1, videos + 1)
    expected = (precisions * hits).sum(1).mean() / positives
    assert trial_figures.chance_map(labels) == pytest.approx(expected)
    empty = np.zeros((videos, 1), bool)
    assert trial_figures.chance_map(np.hstack([labels, empty])) == pytest.approx(expected)  # a class without a video
    assert trial_figures.chance_map(empty) == 0


def test_gap_counts_more_of_cells_than_of_videos() -> None:
    """With the figures of two models of planted spans, whose mAP at tIoU 0.5 was 0.87 and 0.93 on other films."""
    rows = [{"map": 0.9427, "gap": 0.9597}, {"map": 0.9395, "gap": 0.9717}]
    assert max(rows, key=trial_figures.rank_of) == rows[0]
    of_cells = [{**row, "gap_weight": trial_figures.WEIGHT_FOR_CELLS} for row in rows]
    assert max(of_cells, key=trial_figures.rank_of) == of_cells[1]
