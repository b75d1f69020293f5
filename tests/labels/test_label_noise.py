"""The estimated noise of labels, against errors that were planted in labels of normally distributed scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from yt8m.labels.label_noise import LabelNoise, estimate
from yt8m.labels.score_counts import BINS, ScoreCounts, log_odds

VIDEOS, CLASSES = 6000, 30
WRONG, MISSING = 0.06, 0.2


class Planted(NamedTuple):
    """Scores [N, C], true labels and the labels with errors."""

    scores: np.ndarray
    truth: np.ndarray
    labels: np.ndarray


def plant(
    wrong: float = WRONG, missing: float = MISSING, seed: int = 0, videos: int = VIDEOS, further: float = 0
) -> Planted:
    """Classes of many frequencies, which the scores separate more or less well, or better by `further`."""
    rng = np.random.default_rng(seed)
    frequencies = np.geomspace(0.01, 0.2, CLASSES)
    truth = rng.random((videos, CLASSES)) < frequencies
    distances = rng.uniform(2, 7, CLASSES) + further
    scores = rng.normal(size=truth.shape) + np.where(truth, distances, 0) + np.log(frequencies) - 2
    labels = truth & (rng.random(truth.shape) >= missing)
    false = wrong / (1 - wrong) * labels.sum(0) / (~truth).sum(0)
    labels |= ~truth & (rng.random(truth.shape) < false)
    return Planted(scores.astype(np.float32), truth, labels)


def counted(planted: Planted) -> ScoreCounts:
    counts = ScoreCounts.of_classes(CLASSES)
    for start in range(0, len(planted.scores), 1000):
        counts.add(planted.scores[start : start + 1000], planted.labels[start : start + 1000])
    return counts


def estimate_all(counts: ScoreCounts) -> LabelNoise:
    """The estimate if all classes of each video are listed."""
    return estimate(counts)


def test_scores_are_counted_by_class_bin_and_label() -> None:
    planted = plant()
    counts = counted(planted)
    edges = np.linspace(-16, 16, BINS + 1)
    for number in (0, 7, CLASSES - 1):
        for is_label, found in ((True, counts.labelled), (False, counts.others)):
            scores = planted.scores[planted.labels[:, number] == is_label, number]
            assert np.abs(found[number] - np.histogram(scores, edges)[0]).sum() <= 2  # scores on an edge
    assert (counts + counts).labelled.sum() == 2 * planted.labels.sum()


def test_the_labels_of_videos_without_a_label_are_counted() -> None:
    planted = plant()
    edges, numbers = np.linspace(-16, 16, BINS + 1), planted.labels.sum(1)
    for number in (0, CLASSES - 1):
        others = ~planted.labels[:, number]
        expected = np.histogram(planted.scores[others, number], edges, weights=numbers[others])[0]
        assert np.abs(counted(planted).other_labels[number] - expected).sum() <= 2 * numbers.max()


def test_wrong_labels_may_fall_on_videos_with_many_labels() -> None:
    """The scores of these videos are higher in all classes, so they do not look like any other videos."""
    planted = plant(0, 0)
    rng, numbers = np.random.default_rng(2), planted.truth.sum(1)
    scores = planted.scores + np.float32(0.7) * np.minimum(numbers, 4)[:, np.newaxis].astype(np.float32)
    rows, classes = np.nonzero(planted.truth)
    moved = rng.random(len(rows)) < WRONG
    labels = planted.truth.copy()
    labels[rows[moved], classes[moved]] = False
    frequencies = planted.truth.sum(0) / planted.truth.sum()
    labels[rows[moved], rng.choice(CLASSES, moved.sum(), p=frequencies)] = True
    noise = estimate_all(counted(Planted(scores, planted.truth, labels)))
    assert noise.wrong == pytest.approx((labels & ~planted.truth).sum() / labels.sum(), rel=0.25)


def test_scores_that_say_nothing_accuse_no_label() -> None:
    """A model that was hardly trained gives all videos much the same scores."""
    rng = np.random.default_rng(0)
    labels = rng.random((60, 3)) < 0.4
    counts = ScoreCounts.of_classes(3)
    counts.add(rng.normal(size=labels.shape).astype(np.float32), labels)
    noise = estimate_all(counts)
    assert max(noise.wrong, noise.missing) < 0.001


def wrong_chances(noise: LabelNoise, classes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return noise.wrong_chances(classes, scores)


def missing_chances(noise: LabelNoise, classes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return noise.missing_chances(classes, scores)


def test_the_shares_of_errors_are_found() -> None:
    noise = estimate_all(counted(plant()))
    assert noise.wrong == pytest.approx(WRONG, abs=0.012)
    assert noise.missing == pytest.approx(MISSING, abs=0.03)


def test_labels_without_errors_are_not_accused() -> None:
    planted = plant(0, 0)
    noise = estimate_all(counted(planted))
    assert noise.wrong < 0.005
    assert noise.missing < 0.01
    rows, classes = np.nonzero(planted.labels)
    assert wrong_chances(noise, classes, planted.scores[rows, classes]).sum() < 0.01 * len(rows)


def test_a_class_with_more_errors_than_others_is_found() -> None:
    planted = plant()
    rng = np.random.default_rng(1)
    clean = np.flatnonzero(~planted.truth[:, -1] & ~planted.labels[:, -1])
    planted.labels[rng.choice(clean, planted.labels[:, -1].sum()), -1] = True
    noise = estimate_all(counted(planted))
    assert noise.class_wrong[-1] > 1.2 * noise.class_wrong[:-1].max()


def chances_and_errors(planted: Planted) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The chances, the planted errors and the scores, first of labels and then of other pairs."""
    noise = estimate_all(counted(planted))
    made = []
    for is_label, chances in ((True, wrong_chances), (False, missing_chances)):
        rows, classes = np.nonzero(planted.labels == is_label)
        scores = planted.scores[rows, classes]
        made.append((chances(noise, classes, scores), planted.truth[rows, classes] != is_label, scores))
    return made


@pytest.mark.parametrize("seed", [0, 1])
def test_chances_are_calibrated(seed: int) -> None:
    """In ten equal groups of pairs with a chance, the mean chance is the share of errors."""
    for chances, errors, _ in chances_and_errors(plant(seed=seed, videos=20_000)):
        order = np.argsort(chances)[np.searchsorted(np.sort(chances), 0.05) :]
        for group in np.array_split(order, 10):
            assert chances[group].mean() == pytest.approx(errors[group].mean(), abs=0.06)


@pytest.mark.parametrize("seed", [0, 1])
def test_chances_are_calibrated_where_hardly_any_score_is_in_doubt(seed: int) -> None:
    """Nearly all listed labels are errors, and few scores lie between those of both kinds."""
    both = [pair[:2] for pair in chances_and_errors(plant(seed=seed, videos=30_000, further=8))]
    chances, errors = (np.concatenate(each) for each in zip(*both, strict=True))
    for group in np.array_split(np.argsort(chances)[np.searchsorted(np.sort(chances), 0.1) :], 10):
        assert chances[group].mean() == pytest.approx(errors[group].mean(), abs=0.03)


def test_chances_rank_better_than_scores() -> None:
    (wrong, is_wrong, scores), (missing, is_missing, other_scores) = chances_and_errors(plant())
    assert average_precision_score(is_wrong, wrong) > average_precision_score(is_wrong, -scores) + 0.1
    assert average_precision_score(is_missing, missing) > average_precision_score(is_missing, other_scores) + 0.01


def test_classes_without_a_label_or_with_all_labels_do_no_harm() -> None:
    planted = plant()
    planted.labels[:, 0], planted.labels[:, 1] = False, True
    noise = estimate_all(counted(planted))
    classes = np.repeat(np.arange(CLASSES), 50)
    scores = np.tile(np.linspace(-16, 16, 50), CLASSES)
    for chances in (wrong_chances(noise, classes, scores), missing_chances(noise, classes, scores)):
        assert ((chances >= 0) & (chances <= 1)).all()


def test_log_odds_are_bounded() -> None:
    scores = np.array([0, 1e-30, 0.5, 0.9, 1], np.float32)
    assert log_odds(scores) == pytest.approx([-16, -16, 0, np.log(9), 16], abs=1e-5)


@pytest.mark.parametrize("number", [1, CLASSES])
@pytest.mark.parametrize("is_constant", [False, True])
def test_labels_that_are_the_same_for_all_videos_are_no_error(number: int, is_constant: bool) -> None:
    """Each video has the same number of classes, and no other; scores may be all equal."""
    scores = plant(videos=40).scores
    labels = np.zeros(scores.shape, np.bool_)
    labels[:, :number] = True
    with np.errstate(all="raise"):
        noise = estimate_all(counted(Planted(np.zeros_like(scores) if is_constant else scores, labels, labels)))
        chances = (
            wrong_chances(noise, np.arange(CLASSES), scores[0]),
            missing_chances(noise, np.arange(CLASSES), scores[0]),
        )
    assert np.isfinite(chances).all()
