"""Shares of classes: against intervals that ppi_py computed, and how often they contain the true share."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import golden

from yt8m.eval_util.prediction_powered import ClassShares, ScoreSums, class_shares
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
    np.testing.assert_allclose(np.stack([shares.low, shares.high], axis=1), intervals, atol=1e-9)
    assert shares.weights[0] > 0.8
    assert shares.weights[5] == 0  # the scores of the last class are worse than chance


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
    np.testing.assert_allclose(shares.count_high, 50 * shares.high)


def test_videos_with_and_without_labels_are_needed() -> None:
    with pytest.raises(ValueError, match="videos with and without labels are needed; there are 0 and 0"):
        class_shares(ScoreSums(1), ScoreSums(1))
