"""Thresholds and their precision, recall and F1: against scikit-learn, and against every threshold tried in a loop."""

from __future__ import annotations

import cases
import numpy as np
import pytest
from evaluated_videos import drawn
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from sklearn import metrics

from yt8m.eval_util import EvaluationMetrics, arrays, evaluation_metrics
from yt8m.eval_util.evaluation_metrics import DEFAULT_THRESHOLD
from yt8m.records.thresholds import OperatingPoints

VIDEOS, CLASSES = 60, 6


def found(scores: np.ndarray, labels: np.ndarray, top_k: int, min_positives: int = 1) -> OperatingPoints:
    """The points of two batches."""
    evaluated = EvaluationMetrics(scores.shape[1], top_k)
    for part in (slice(0, 50), slice(50, None)):
        evaluated.accumulate(scores[part], labels[part])
    return evaluated.operating_points(min_positives)


def ranked(scores: np.ndarray, top_k: int) -> np.ndarray:
    """The scores of the best classes of each video; -inf for the others."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
    kept = np.full(scores.shape, -np.inf)
    np.put_along_axis(kept, best, np.take_along_axis(scores, best, 1), 1)
    return kept


def best_of(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float, float]:
    """(highest threshold with the best F1, that F1, the next lower score), by trying every score."""
    tried = [(metrics.f1_score(labels, scores >= one), one) for one in np.unique(scores[scores > -np.inf])]
    best, score = max(tried)
    lower = [one for _, one in tried if one < score]
    return float(score), float(best), float(max(lower, default=0.998 * score))


@pytest.mark.parametrize("coarse", [False, True], ids=["distinct scores", "ties"])
@pytest.mark.parametrize("top_k", cases.all_of([3], heavy=[CLASSES]))
def test_each_class_has_the_best_threshold_and_its_figures(coarse, top_k):
    scores, labels = drawn(3, VIDEOS, CLASSES, coarse)
    points, kept = found(scores, labels, top_k), ranked(scores, top_k)
    assert points.is_own.all()
    for c in range(CLASSES):
        score, best, lower = best_of(kept[:, c], labels[:, c])
        assert points.thresholds[c] == pytest.approx((score + lower) / 2, abs=1e-7)
        shares = points.precision[c], points.recall[c], points.f1[c]
        assert shares == pytest.approx(cross_fitted(c, kept[:, c], labels[:, c]), nan_ok=True)
        assert best == pytest.approx(metrics.f1_score(labels[:, c], kept[:, c] >= points.thresholds[c]))


def cross_fitted(number: int, scores: np.ndarray, labels: np.ndarray) -> tuple[float, float, float]:
    """Precision, recall and F1 of one class: each half tries every score, and the other half uses the best."""
    ranked_ones = scores > -np.inf
    keys = arrays.pack_entries(np.full(len(scores), number), scores.astype(np.float32), labels)
    halves = evaluation_metrics._in_second_half(keys)
    tags = np.zeros(len(scores), np.bool_)
    missed = np.count_nonzero(labels & ~ranked_ones) / 2
    for choosing in (False, True):
        part = ranked_ones & (halves == choosing)
        tried = [
            (
                2
                * (labels & part & (scores >= one)).sum()
                / ((part & (scores >= one)).sum() + (labels & part).sum() + missed),
                one,
            )
            for one in np.unique(scores[part])
        ]
        f1, best = max(tried, default=(0, 0))
        lower = max((one for _, one in tried if one < best), default=0.998 * best)
        if f1 > 0:
            tags |= ranked_ones & (halves != choosing) & (scores >= (best + lower) / 2)
    right = np.count_nonzero(tags & labels)
    return right / tags.sum() if tags.any() else np.nan, right / labels.sum(), 2 * right / (tags.sum() + labels.sum())


def test_the_precision_of_scores_that_say_nothing_is_the_share_of_labels():
    """Where the same videos choose the threshold and count its precision, it seems to be higher."""
    rng = np.random.default_rng(1)
    scores = rng.random((60, 300), np.float32)
    labels = rng.random((60, 300)) < 0.2
    points = found(scores, labels, top_k=300)
    tags = scores >= points.thresholds
    apparent = np.mean((tags & labels).sum(0) / tags.sum(0))
    assert apparent > 0.25
    assert np.nanmean(points.precision) == pytest.approx(0.2, abs=0.015)


def test_rare_classes_share_the_threshold_that_is_best_for_all():
    scores, labels = drawn(5, VIDEOS, CLASSES)
    labels[:, 2] = False
    labels[:, 4] = np.arange(VIDEOS) == 7
    points = found(scores, labels, CLASSES, min_positives=2)
    assert points.is_own.tolist() == [c not in (2, 4) for c in range(CLASSES)]
    assert points.positives.tolist() == labels.sum(0).tolist()
    score, _, lower = best_of(scores.ravel(), labels.ravel())
    assert points.thresholds[[2, 4]] == pytest.approx([(score + lower) / 2] * 2, abs=1e-7)
    for figures in (points.precision, points.recall, points.f1):
        assert np.isnan(figures).tolist() == [c in (2, 4) for c in range(CLASSES)]


def test_a_class_whose_labels_are_never_ranked_has_the_common_threshold():
    scores = np.tile(np.array([0.9, 0.5, 0.1], np.float32), (6, 1))
    labels = np.ones((6, 3), np.bool_)
    points = found(scores, labels, top_k=2)
    assert points.is_own.tolist() == [True, True, False]
    assert points.thresholds.tolist() == pytest.approx([0.9 * 0.999, 0.5 * 0.999, 0.5 * 0.999])
    assert np.isnan([points.precision[2], points.recall[2], points.f1[2]]).all()


@pytest.mark.parametrize("videos", [0, 5])
def test_without_labels_every_class_has_the_same_threshold(videos):
    points = found(np.full((videos, 3), 0.7, np.float32), np.zeros((videos, 3), np.bool_), top_k=3)
    assert points.thresholds.tolist() == [DEFAULT_THRESHOLD] * 3
    assert not points.is_own.any()


@examples(25)
@given(st.integers(0, 10_000), st.integers(2, 40), st.booleans())
@pytest.mark.heavy
def test_no_other_threshold_is_better(seed, videos, coarse):
    scores, labels = drawn(seed, videos, 3, coarse)
    points = found(scores, labels, 3)
    for c in np.flatnonzero(labels.any(0)):
        f1 = [
            metrics.f1_score(labels[:, c], scores[:, c] >= one, zero_division=0) for one in np.append(scores[:, c], 2)
        ]
        assert metrics.f1_score(labels[:, c], scores[:, c] >= points.thresholds[c]) == pytest.approx(max(f1))
