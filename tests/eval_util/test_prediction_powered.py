"""Shares of classes: against intervals that ppi_py computed, and how often they contain the true share."""

from __future__ import annotations

import cases
import numpy as np
import pytest
from golden_data import golden
from scipy.stats import hypergeom

from yt8m.eval_util.prediction_powered import ClassShares, ScoreSums, class_shares, interval_of_count
from yt8m.eval_util.resampling import wilson_interval


def shares_of(labels: np.ndarray, labelled_scores: np.ndarray, other_scores: np.ndarray) -> ClassShares:
    labelled, others = ScoreSums(labels.shape[1]), ScoreSums(labels.shape[1])
    for rows in np.array_split(np.arange(len(labels)), 3):
        labelled.add(labelled_scores[rows], labels[rows])
    others.add(other_scores)
    return class_shares(labelled, others)


def test_the_intervals_are_those_of_ppi_py() -> None:
    with np.load(golden("prediction_powered.npz")) as arrays:
        labels, scores = arrays["labels"], arrays["scores"]
        intervals, estimates = arrays["intervals"], arrays["estimates"]
    shares = shares_of(labels, scores[: len(labels)], scores[len(labels) :])
    assert shares.is_corrected.all()
    np.testing.assert_allclose(shares.shares, estimates, atol=1e-9)
    found = np.stack([shares.low, shares.high], axis=1)
    np.testing.assert_allclose(found[1:], intervals[1:], atol=1e-9)
    # The scores of the first class hardly err on the sample, which may lack rare errors: its interval is wider.
    assert found[0, 0] < intervals[0, 0] < intervals[0, 1] < found[0, 1]
    assert found[0, 1] - found[0, 0] < 2 * (intervals[0, 1] - intervals[0, 0])
    assert shares.weights[0] > 0.8
    assert shares.weights[5] == 0  # the scores of the last class are worse than chance


@pytest.mark.heavy
@pytest.mark.parametrize("others", [400, 4000])
def test_95_percent_intervals_contain_the_truth_in_93_to_97_percent_of_2000_simulations(others: int) -> None:
    """Each of 2000 classes is one simulation."""
    draw, labelled, share = np.random.default_rng(others), 300, 0.2
    truth = draw.random((labelled + others, 2000)) < share
    noise = draw.normal(size=truth.shape)
    scores = (1 / (1 + np.exp(-(2 * truth - 1.5 + noise)))).astype(np.float32)
    shares = shares_of(truth[:labelled], scores[:labelled], scores[labelled:])
    assert shares.is_corrected.all()
    assert 0.93 <= np.mean((shares.low <= share) & (share <= shares.high)) <= 0.97
    counts = truth[labelled:].sum(axis=0)
    assert 0.93 <= np.mean((shares.count_low <= counts) & (counts <= shares.count_high)) <= 0.97
    alone = 2 * 1.96 * np.sqrt(share * (1 - share) / labelled)
    assert np.mean(shares.high - shares.low) < 0.97 * alone


def test_a_class_with_few_labels_has_the_interval_of_its_labels() -> None:
    labels = np.zeros((100, 2), np.bool_)
    labels[:9, 0] = True
    shares = shares_of(labels, np.full((100, 2), 0.9, np.float32), np.full((50, 2), 0.9, np.float32))
    assert shares.is_corrected.tolist() == [False, False]
    assert shares.shares.tolist() == [0.09, 0]
    assert shares.positives.tolist() == [9, 0]
    for number, rate in enumerate((0.09, 0.0)):
        np.testing.assert_allclose((shares.low[number], shares.high[number]), wilson_interval(rate, 100))
        found = shares.count_low[number], shares.count_high[number]
        assert found == interval_of_count(round(100 * rate), 100, 50)


def coverage_of_counts(videos: int, others: int, level: float) -> list[float]:
    """How often the interval of a count contains it, if 0, 1, ... of all videos show the class."""
    intervals = np.array([interval_of_count(number, videos, others, level) for number in range(videos + 1)])
    covered = []
    for total in range(videos + others + 1):
        drawn = np.arange(max(0, total - others), min(total, videos) + 1)
        chances = hypergeom.pmf(drawn, videos + others, total, videos)
        low, high = intervals[drawn].T
        covered.append(float(chances[(low <= total - drawn) & (total - drawn <= high)].sum()))
    return covered


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize(("videos", "others"), [(60, 40), (30, 120), (100, 5), (1, 3), (12, 1)])
def test_the_interval_of_a_count_contains_it_at_least_as_often_as_it_says(
    videos: int, others: int, level: float
) -> None:
    """Exactly, whatever the number of videos that show the class."""
    assert min(coverage_of_counts(videos, others, level)) >= level - 1e-9


def test_the_interval_of_a_count_is_not_much_wider_than_needed() -> None:
    covered = coverage_of_counts(200, 200, 0.95)[20:-20]
    assert max(covered) < 0.99
    assert np.mean(covered) < 0.97
    for number in (0, 1, 9):  # each bound is the last number that is not too improbable
        low, high = map(int, interval_of_count(number, 1000, 500))
        assert (
            hypergeom.cdf(number, 1500, number + high + 1, 1000)
            <= 0.025
            < hypergeom.cdf(number, 1500, number + high, 1000)
        )
        assert low == 0 or hypergeom.sf(number - 1, 1500, number + low - 1, 1000) <= 0.025
        assert hypergeom.sf(number - 1, 1500, number + low, 1000) > 0.025


@pytest.mark.parametrize(
    ("labelled", "others", "share"),
    cases.all_of(
        [(1000, 100, 0.005), (300, 300, 0.03), (300, 100, 0.98)],
        heavy=[(1000, 500, 0.009), (2000, 200, 0.003), (300, 5000, 0.01)],
    ),
)
def test_intervals_of_classes_with_few_labels_contain_the_truth(labelled: int, others: int, share: float) -> None:
    """Each of 1000 classes is one simulation; those with enough labels are left out."""
    draw = np.random.default_rng(labelled + others)
    truth = draw.random((labelled + others, 1000)) < share
    scores = (1 / (1 + np.exp(4 - 1.8 * truth - draw.normal(size=truth.shape)))).astype(np.float32)
    shares = shares_of(truth[:labelled], scores[:labelled], scores[labelled:])
    counts, few = truth[labelled:].sum(axis=0), ~shares.is_corrected
    assert few.sum() > 500
    assert np.mean((shares.count_low <= counts) & (counts <= shares.count_high), where=few) >= 0.94
    assert np.mean((shares.low <= share) & (share <= shares.high), where=few) >= 0.94


@pytest.mark.parametrize(
    ("labelled", "others", "errors"),
    cases.only([(300, 5000, 0.002), (300, 5000, 0.01), (1000, 5000, 0.001)], [(300, 5000, 0.002)]),
)
def test_intervals_contain_the_truth_if_the_sample_has_few_errors_of_the_scores(
    labelled: int, others: int, errors: float
) -> None:
    """A sample without an error, or with few, does not say that there is none among the other videos."""
    draw, share = np.random.default_rng(labelled), 0.2
    truth = draw.random((labelled + others, 1000)) < share
    scores = np.abs((truth ^ (draw.random(truth.shape) < errors)) - np.float32(0.01))
    shares = shares_of(truth[:labelled], scores[:labelled], scores[labelled:])
    counts = truth[labelled:].sum(axis=0)
    assert np.mean((shares.count_low <= counts) & (counts <= shares.count_high)) >= 0.93
    assert np.mean((shares.low <= share) & (share <= shares.high)) >= 0.93
    alone = 2 * 1.96 * np.sqrt(share * (1 - share) / labelled) * others
    assert np.mean(shares.count_high - shares.count_low) < 0.5 * alone


def test_videos_with_and_without_labels_are_needed() -> None:
    with pytest.raises(ValueError, match=r"with and without labels.*\b0 and 0"):
        class_shares(ScoreSums(1), ScoreSums(1))
