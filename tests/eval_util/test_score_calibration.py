"""Platt's scaling and the reliability of scores against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from evaluated_videos import drawn, kept_videos
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from yt8m.eval_util import score_calibration
from yt8m.eval_util.score_calibration import PlattScaling, calibrate, fit, logits, reliability

SCORES, LABELS = drawn(11, videos=120, classes=9, coarse=True)


def reference(scores: np.ndarray, hits: np.ndarray) -> PlattScaling:
    """scikit-learn's logistic regression without a penalty; each prediction counts as right and wrong, in parts."""
    right, wrong = hits.sum(), (~hits).sum()
    parts = np.where(hits, (right + 1) / (right + 2), 1 / (wrong + 2))
    column = np.log(scores.astype(np.float64) / (1 - scores.astype(np.float64)))[:, None]
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    truth = np.repeat([1, 0], len(scores))
    model.fit(np.concatenate([column, column]), truth, sample_weight=np.concatenate([parts, 1 - parts]))
    return PlattScaling(model.coef_.item(), model.intercept_.item())


@pytest.mark.parametrize("count", [12, 300, 5000])
@pytest.mark.parametrize(("slope", "intercept"), [(0.3, -2.0), (1.0, 0.0), (2.5, 1.0), (-0.5, 0.0)])
def test_the_scaling_is_that_of_scikit_learn(count: int, slope: float, intercept: float) -> None:
    draw = np.random.default_rng(count)
    values = draw.normal(scale=3, size=count)
    hits = draw.random(count) < 1 / (1 + np.exp(-(slope * values + intercept)))
    hits[:2] = [True, False]
    scores = (1 / (1 + np.exp(-values))).astype(np.float32)
    found = fit(scores, hits)
    assert found is not None
    np.testing.assert_allclose(found, reference(scores, hits), rtol=1e-5, atol=1e-6)
    if count > 1000:
        np.testing.assert_allclose(found, (slope, intercept), atol=0.1)


def test_scores_that_separate_or_are_saturated_have_a_scaling() -> None:
    hits = np.arange(10) < 5
    for scores in (np.where(hits, 0.9, 0.2), np.where(hits, 1.0, 0.0), np.full(10, 0.3), np.full(10, 1.0)):
        found = fit(scores.astype(np.float32), hits)
        assert found is not None
        assert np.isfinite(found).all()
        assert np.isfinite(found.apply(scores)).all()
    assert fit(np.full(3, 0.5, np.float32), np.ones(3, bool)) is None
    assert fit(np.zeros(0, np.float32), np.zeros(0, bool)) is None


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=20), st.floats(0.01, 50), st.floats(-20, 20))
def test_a_positive_slope_keeps_the_order(values: list[float], slope: float, intercept: float) -> None:
    scores = np.sort(np.array(values, np.float32))
    scaled = PlattScaling(slope, intercept).apply(scores)
    assert (np.diff(scaled) >= 0).all()
    assert ((scaled >= 0) & (scaled <= 1)).all()
    np.testing.assert_allclose(PlattScaling(1, 0).apply(scores), scores, rtol=1e-6, atol=1e-7)


def test_reliability_is_that_of_scikit_learn() -> None:
    shares, scores = calibration_curve(LABELS.ravel(), SCORES.ravel().astype(float), n_bins=score_calibration.BINS)
    found = reliability(*kept_videos(SCORES, LABELS, 9).predictions())
    np.testing.assert_allclose(found.shares, shares)
    np.testing.assert_allclose(found.scores, scores)
    assert found.sizes.sum() == SCORES.size
    assert found.error == pytest.approx(np.abs(shares - scores) @ found.sizes / SCORES.size)


def test_a_half_of_the_videos_measures_the_scaling_of_the_other_half() -> None:
    scores, labels = drawn(5, videos=400, classes=6)
    videos = kept_videos(scores, labels, 6)
    found = calibrate(videos)
    assert found is not None
    kept, hits = videos.scores.astype(np.float64), videos.hits
    halves = [videos.keys % 2 == 0, videos.keys % 2 == 1]
    scaled = np.empty_like(kept)
    for part, other in (halves, halves[::-1]):
        slope, intercept = reference(kept[other].ravel(), hits[other].ravel())
        scaled[part] = 1 / (1 + np.exp(-(slope * np.log(kept[part] / (1 - kept[part])) + intercept)))
    assert (found.videos, found.predictions) == (400, 2400)
    assert found.scaling == pytest.approx(reference(kept.ravel(), hits.ravel()), rel=1e-5)
    assert found.log_loss == pytest.approx(log_loss(hits.ravel(), kept.ravel()), rel=1e-6)
    assert found.log_loss_scaled == pytest.approx(log_loss(hits.ravel(), scaled.ravel()), rel=1e-6)
    assert found.ece_scaled == pytest.approx(reliability(scaled.ravel(), hits.ravel()).error, rel=1e-5)
    assert found.ece_scaled < found.ece / 2  # a label has the probability score**4
    assert found.log_loss_scaled < found.log_loss


def test_no_calibration_without_right_and_wrong_predictions_in_each_half() -> None:
    scores, labels = drawn(5, videos=40, classes=6)
    assert calibrate(kept_videos(scores, np.zeros_like(labels), 6)) is None
    assert calibrate(kept_videos(scores[:1], labels[:1], 6)) is None


def test_logits_of_saturated_scores_are_finite() -> None:
    found = logits(np.array([0, 0.5, 1], np.float32))
    assert found[1] == 0
    assert found[0] < -80
    assert 16 < found[2] < 18
