"""Thresholds that guarantee a precision: how often they break the promise, and against a loop over the videos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from yt8m.eval_util import guaranteed_precision
from yt8m.eval_util.guaranteed_precision import CommonThreshold, PrecisionCalibration, thresholds_at
from yt8m.eval_util.videos import hashes
from yt8m.records.thresholds import BELOW_TARGET, CLASS, TOO_FEW_LABELS, PrecisionTarget

TARGET = PrecisionTarget(0.8, 0.9)
CALIBRATIONS = 1000
MOST_VIOLATIONS = 0.1 + 3 * np.sqrt(0.1 * 0.9 / CALIBRATIONS)
# How often a prediction is right, by tenths of the score.
JUST_BELOW = [0.7999] * 10
FALLING = [0, 0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98]
WORST_FIRST = [0.5] * 5 + [0.9] * 4 + [0.5]
WAVES = [0.2, 0.9, 0.6, 0.95, 0.7, 0.9, 0.7, 0.95, 0.7, 0.9]


def precision(shares: Sequence[float], threshold: float) -> float:
    """The precision over all new videos, whose scores are uniform from 0 to 1."""
    edges = np.linspace(0, 1, 11)
    widths = np.clip(edges[1:] - np.maximum(edges[:-1], threshold), 0, None)
    return float(widths @ np.array(shares) / widths.sum())


def right(draw: np.random.Generator, shares: Sequence[float], scores: np.ndarray) -> np.ndarray:
    return draw.random(scores.shape) < np.array(shares)[np.minimum((10 * scores).astype(int), 9)]


def reports(scores: np.ndarray, labels: np.ndarray, most: int | None = None) -> dict[str, Any]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :most]
    return {
        "video_ids": np.array([b"v%d" % number for number in range(len(scores))], object),
        "scores": np.take_along_axis(scores, order, 1).astype(np.float32),
        "classes": order.astype(np.int32),
        "hits": np.take_along_axis(labels, order, 1),
        "labels": labels,
    }


def calibrated(scores: np.ndarray, labels: np.ndarray) -> PrecisionCalibration:
    calibration = PrecisionCalibration(scores.shape[1])
    calibration.add(reports(scores, labels))
    return calibration


@pytest.mark.parametrize(
    ("shares", "least_used"), [(JUST_BELOW, 0.0), (FALLING, 0.9), (WORST_FIRST, 0.05), (WAVES, 0.2)]
)
def test_few_of_1000_calibrations_break_the_promise_of_a_class(shares: list[float], least_used: float) -> None:
    """Each of 1000 independent classes is one calibration."""
    draw = np.random.default_rng(1)
    scores = draw.random((500, CALIBRATIONS)).astype(np.float32)
    thresholds = calibrated(scores, right(draw, shares, scores)).choose_class_thresholds(TARGET).thresholds
    used = thresholds[np.isfinite(thresholds)]
    violations = sum(precision(shares, threshold) < TARGET.precision for threshold in used)
    assert violations / CALIBRATIONS <= MOST_VIOLATIONS
    assert len(used) / CALIBRATIONS >= least_used


@pytest.mark.heavy
@pytest.mark.parametrize(("shares", "least_used"), [(FALLING, 0.5), (JUST_BELOW, 0.0), (WORST_FIRST, 0.0)])
def test_few_of_1000_calibrations_break_the_promise_of_all_tags(shares: list[float], least_used: float) -> None:
    """The predictions of a video have the same score, and all are right or all are wrong."""
    draw, thresholds = np.random.default_rng(2), []
    for _ in range(CALIBRATIONS):
        quality = draw.random((250, 1))
        has_prediction = np.arange(3) <= draw.integers(0, 3, (250, 1))
        labels = right(draw, shares, quality) & has_prediction
        calibration = calibrated(np.where(has_prediction, quality, -1).astype(np.float32), labels)
        thresholds.append(calibration.choose_common_threshold(TARGET).threshold)
    used = [max(threshold, 0.0) for threshold in thresholds if np.isfinite(threshold)]
    violations = sum(precision(shares, threshold) < TARGET.precision for threshold in used)
    assert violations / CALIBRATIONS <= MOST_VIOLATIONS
    assert len(used) / CALIBRATIONS >= least_used


def _reference(scores: np.ndarray, labels: np.ndarray, is_planning: np.ndarray) -> tuple[float, int]:
    """The threshold of one class and its predictions in the testing part, by loops and SciPy."""
    ranked = np.sort(scores[is_planning])[::-1]
    depths = sorted({int(np.ceil(guaranteed_precision._GRID_STEP**power)) for power in range(200)})
    places = [depth - 1 for depth in depths if depth < len(ranked)] + [len(ranked) - 1]
    grid = thresholds_at(ranked[places])
    assert ((ranked[places] >= grid) & (np.nextafter(ranked[places], np.float32(-1)) < grid)).all()
    ratio = np.sum(~is_planning) / np.sum(is_planning)

    def tail(part: np.ndarray, threshold: float, factor: float) -> tuple[float, int]:
        reaching = part & (scores >= threshold)
        count, hits = int(factor * reaching.sum()), int(factor * (reaching & labels).sum())
        return float(stats.binom.sf(hits - 1, count, TARGET.precision)), count

    place = int(np.argmin([tail(is_planning, threshold, ratio)[0] for threshold in grid]))
    found = np.inf, 0
    while place < len(grid):
        value, count = tail(~is_planning, grid[place], 1)
        if value > 1 - TARGET.confidence:
            break
        found = grid[place], count
        place += 1
    return found


@pytest.mark.parametrize("coarse", [False, True], ids=["distinct scores", "ties"])
def test_thresholds_are_those_of_a_loop_over_the_videos(coarse: bool) -> None:
    draw = np.random.default_rng(3)
    scores = draw.random((300, 8)).astype(np.float32)
    scores = np.round(scores, 1).astype(np.float32) if coarse else scores
    labels = right(draw, FALLING, scores)
    is_planning = hashes([b"v%d" % number for number in range(300)]) % np.uint64(5) == 0
    calibration = calibrated(scores, labels)
    found, for_all = calibration.choose_class_thresholds(TARGET), calibration.choose_common_threshold(TARGET)
    assert found.guarantee is not None
    for number in range(8):
        threshold, count = _reference(scores[:, number], labels[:, number], is_planning)
        assert found.thresholds[number] == threshold
        assert found.guarantee.tested[number] == count
        reached = labels[:, number] & (scores[:, number] >= np.float64(threshold))
        assert found.recall[number] == pytest.approx(reached.sum() / labels[:, number].sum())
    assert np.isnan(found.precision).all()
    assert np.isnan(found.f1).all()
    assert calibration.testing_videos == (~is_planning).sum()
    reaching = scores[~is_planning] >= np.float64(for_all.threshold)
    assert for_all[1:] == (reaching.any(axis=1).sum(), reaching.sum())
    each = calibration.points_at_common_threshold(for_all, TARGET)
    assert each.bases() == ["common"] * 8
    assert each.thresholds.tolist() == [for_all.threshold] * 8


def test_classes_without_enough_labels_abstain_and_say_why() -> None:
    draw = np.random.default_rng(4)
    scores = draw.random((400, 3)).astype(np.float32)
    labels = scores > 0.5
    labels[:, 1] = draw.random(400) < 0.5
    labels[:, 2] &= scores[:, 2] > 0.98
    found = calibrated(scores, labels).choose_class_thresholds(TARGET)
    assert found.bases() == [CLASS, BELOW_TARGET, TOO_FEW_LABELS]
    assert found.thresholds[1:].tolist() == [np.inf, np.inf]
    assert found.positives.tolist() == labels.sum(0).tolist()


def test_the_order_and_the_size_of_the_batches_do_not_matter() -> None:
    draw = np.random.default_rng(5)
    scores = draw.random((300, 5)).astype(np.float32)
    labels = right(draw, FALLING, scores)
    whole = reports(scores, labels, most=3)
    in_parts = PrecisionCalibration(5)
    for rows in np.array_split(draw.permutation(300), 7):
        in_parts.add({name: values[rows] for name, values in whole.items()})
    at_once = PrecisionCalibration(5)
    at_once.add(whole)
    expected = at_once.choose_class_thresholds(TARGET).thresholds
    np.testing.assert_array_equal(in_parts.choose_class_thresholds(TARGET).thresholds, expected)
    assert in_parts.choose_common_threshold(TARGET) == at_once.choose_common_threshold(TARGET)
    in_parts.clear()
    assert in_parts.choose_common_threshold(TARGET) == CommonThreshold(np.inf, 0, 0)


@pytest.mark.parametrize("videos", [0, 1, 30])
def test_few_videos_give_no_threshold(videos: int) -> None:
    target = PrecisionTarget(0.95, 0.9)
    calibration = calibrated(np.full((videos, 2), 0.5, np.float32), np.ones((videos, 2), np.bool_))
    assert calibration.choose_class_thresholds(target).bases() == [TOO_FEW_LABELS] * 2
    for_all = calibration.choose_common_threshold(target)
    assert for_all == CommonThreshold(np.inf, 0, 0)
    assert calibration.points_at_common_threshold(for_all, target).bases() == [BELOW_TARGET] * 2


def test_videos_with_one_id_are_in_one_part() -> None:
    calibration = PrecisionCalibration(1)
    scores = np.linspace(0, 1, 200, dtype=np.float32)[:, np.newaxis]
    calibration.add(reports(scores, scores > 0.2) | {"video_ids": np.full(200, b"", object)})
    assert calibration.choose_class_thresholds(TARGET).thresholds.tolist() == [np.inf]
