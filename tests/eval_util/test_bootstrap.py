"""Intervals: each resample against the metrics of the drawn videos themselves, their width against theory."""

from __future__ import annotations

import numpy as np
import pytest
from evaluated_videos import by_metrics, drawn, kept_videos

from yt8m.eval_util.bootstrap import FIGURES, interval, resampled_figures
from yt8m.eval_util.video_sample import hashes


@pytest.mark.parametrize("coarse", [False, True], ids=["distinct scores", "ties"])
@pytest.mark.parametrize("top_k", [3, 12])
def test_each_resample_is_what_the_metrics_say_of_those_videos(coarse, top_k):
    scores, labels = drawn(5, videos=40, classes=12, coarse=coarse)
    labels[:, 7] = False
    labels[3, 7] = True  # a class that some resamples lack
    found = resampled_figures(kept_videos(scores, labels, top_k), 12, resamples=6, seed=9)
    order = np.argsort(hashes([b"v%d" % row for row in range(40)]))
    draw = np.random.default_rng(9)
    for resample in range(6):
        rows = order[draw.integers(40, size=40)]
        expected = by_metrics(scores[rows], labels[rows], top_k)
        for name in FIGURES:
            assert found[name][resample] == pytest.approx(expected[name], abs=1e-12), name


def test_the_width_of_a_share_is_that_of_the_binomial_law():
    scores, labels = drawn(1, videos=900, classes=6)
    videos = kept_videos(scores, labels, 6)
    share = float(videos.hit_at_one.mean())
    low, high = interval(share, resampled_figures(videos, 6, resamples=400, seed=0)["hit_at_one"])
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(share * (1 - share) / 900), rel=0.15)
    assert low < share < high


def test_an_interval_lies_around_the_figure_and_shrinks():
    values = np.array([0.5, 0.6, 0.7, 0.8, np.nan, 0.9])
    assert interval(0.4, values, level=0.5) == pytest.approx((0.3, 0.5))
    assert interval(0.4, values, shrink=0.5, level=0.5) == pytest.approx((0.35, 0.45))
    assert np.isnan(interval(0.4, np.full(3, np.nan))).all()


def test_the_seed_decides():
    videos = kept_videos(*drawn(2, videos=30, classes=5), 5)
    first, again, other = (resampled_figures(videos, 5, 4, seed)["gap"].tolist() for seed in (1, 1, 2))
    assert first == again != other
