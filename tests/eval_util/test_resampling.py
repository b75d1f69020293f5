"""Intervals: each resample against the metrics of the drawn videos themselves, their width against theory."""

from __future__ import annotations

import numpy as np
import pytest
from evaluated_videos import by_metrics, corrected_ap, drawn, kept_videos
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from yt8m.eval_util import EvaluationMetrics, resampling
from yt8m.eval_util.metrics import THIRDS, MeanMetric, ScoredBatch, thirds
from yt8m.eval_util.resampling import interval, intervals, resample, wilson_interval
from yt8m.eval_util.videos import hashes


@pytest.mark.parametrize("coarse", [False, True], ids=["distinct scores", "ties"])
@pytest.mark.parametrize("top_k", [3, 12])
def test_each_resample_is_what_the_metrics_say_of_those_videos(coarse, top_k):
    scores, labels = drawn(5, videos=40, classes=12, coarse=coarse)
    labels[:, 7] = False
    labels[3, 7] = True  # a class that some resamples lack
    found, class_aps, _ = resample(kept_videos(scores, labels, top_k), 12, resamples=6, seed=9)
    ranked = np.where(np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1) < top_k, scores, -np.inf)
    order = np.argsort(hashes([b"v%d" % row for row in range(40)]))
    draw = np.random.default_rng(9)
    for number in range(6):
        rows = order[draw.integers(40, size=40)]
        expected = by_metrics(scores[rows], labels[rows], top_k)
        for name in ("hit_at_one", "perr", "gap"):
            assert found[name][number] == pytest.approx(expected[name], abs=1e-12), name
        losses = -np.log(np.where(labels, scores, 1 - scores)[rows] + 1e-5).sum(1)
        assert found["loss"][number] == pytest.approx(losses.mean())
        aps = np.full(12, np.nan)
        for each in expected["aps_class"]:
            aps[each] = corrected_ap(ranked[rows, each], labels[rows, each])
        np.testing.assert_allclose(class_aps[number], aps, atol=1e-12)
        assert found["map"][number] == pytest.approx(np.nanmean(aps), abs=1e-12)


def test_sets_that_are_computed_together_have_the_figures_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    videos = kept_videos(*drawn(5, videos=40, classes=12, coarse=True), 12)
    together = resample(videos, 12, resamples=7, seed=9)
    for sets in (1, 3):
        monkeypatch.setattr(resampling, "ENTRIES_AT_ONCE", sets * 40 * 12)
        found = resample(videos, 12, resamples=7, seed=9)
        np.testing.assert_array_equal(found.class_aps, together.class_aps)
        for key, values in together.figures.items():
            np.testing.assert_allclose(found.figures[key], values, rtol=1e-14)


@pytest.mark.parametrize(("hits", "count"), [(0, 5), (1, 7), (52, 60), (1999, 2000), (60, 60)])
def test_the_interval_of_a_share_is_wilsons(hits: int, count: int) -> None:
    expected = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits / count, count) == pytest.approx(tuple(expected), abs=1e-12)


@pytest.mark.parametrize("coarse", [False, True], ids=["distinct scores", "ties"])
def test_the_excess_is_what_the_correction_takes_from_each_ap(coarse: bool) -> None:
    scores, labels = drawn(5, videos=40, classes=12, coarse=coarse)
    labels[:, 7] = False
    aps = by_metrics(scores, labels, 12)["aps"]
    others = [number for number in range(12) if number != 7]
    expected = [ap - corrected_ap(scores[:, number], labels[:, number]) for ap, number in zip(aps, others, strict=True)]
    found = resample(kept_videos(scores, labels, 12), 12, resamples=1, seed=0).excess
    np.testing.assert_allclose(found[others], expected, atol=1e-12)
    assert np.isnan(found[7])


@pytest.mark.heavy
def test_the_corrected_ap_of_chance_is_the_share_of_the_labels() -> None:
    """3 labels at random places of 12: AP is 0.25 over many videos, and far above in sets of 12."""
    draw, plain, corrected = np.random.default_rng(0), [], []
    for _ in range(400):
        hits = draw.permutation(12) < 3
        scores = (draw.permutation(12) / 12).astype(np.float32)
        table = scores[:, np.newaxis], hits[:, np.newaxis]
        plain.append(by_metrics(*table, 1)["map"])
        corrected.append(plain[-1] - resample(kept_videos(*table, 1), 1, resamples=1, seed=0).excess[0])
    assert np.mean(plain) > 0.37
    assert np.mean(corrected) < 0.31


def test_the_width_of_a_share_is_that_of_the_binomial_law():
    scores, labels = drawn(1, videos=900, classes=6)
    videos = kept_videos(scores, labels, 6)
    share = float(videos.hits[:, 0].mean())
    low, high = interval(share, resample(videos, 6, resamples=400, seed=0).figures["hit_at_one"])
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(share * (1 - share) / 900), rel=0.15)
    assert low < share < high


def test_an_interval_lies_around_the_figure_and_shrinks():
    values = np.array([0.5, 0.6, 0.7, 0.8, np.nan, 0.9])
    assert interval(0.7, values, level=0.5) == pytest.approx((0.6, 0.8))  # the percentiles themselves
    assert interval(0.7, values, shrink=0, level=0.5) == pytest.approx((0.7, 0.7))
    wide, narrow = (interval(0.4, values, shrink, level=0.5) for shrink in (1, 0.5))
    assert wide.low < narrow.low < 0.4 < narrow.high < wide.high
    assert np.isnan(interval(0.4, np.full(3, np.nan))).all()


def test_a_figure_near_the_end_of_its_range_has_the_percentiles_of_scipy():
    """57 of 60 videos are right, and so are all of some resamples."""
    perr = np.array([1.0] * 57 + [0.9, 0.8, 0.9])
    draws = np.random.default_rng(4).integers(60, size=(2000, 60))
    found = interval(perr.mean(), perr[draws].mean(axis=1))
    reference = stats.bootstrap((perr,), np.mean, n_resamples=2000, method="percentile", rng=5)
    assert found == pytest.approx(tuple(reference.confidence_interval), abs=5e-4)
    assert found.high <= 1


def test_a_figure_that_is_no_share_has_the_percentiles_on_its_own_scale():
    losses = np.random.default_rng(8).gamma(2, 3, 60)
    draws = np.random.default_rng(4).integers(60, size=(2000, 60))
    found = interval(losses.mean(), losses[draws].mean(axis=1), least=None)
    reference = stats.bootstrap((losses,), np.mean, n_resamples=2000, method="percentile", rng=5)
    assert found == pytest.approx(tuple(reference.confidence_interval), abs=0.1)
    low, high = interval(losses.mean(), losses[draws].mean(axis=1), shrink=0.5, least=None)
    assert high - low == pytest.approx((found.high - found.low) / 2)


def test_intervals_of_many_values_are_those_of_each() -> None:
    draw = np.random.default_rng(3)
    resampled = np.where(draw.random((50, 7)) < 0.2, np.nan, draw.random((50, 7)))
    resampled[:, 4] = np.nan
    figures = draw.random(7)
    low, high = intervals(figures, resampled, 0.8)
    for column, figure in enumerate(figures):
        angles = np.arcsin(np.sqrt(resampled[:, column][~np.isnan(resampled[:, column])]))
        if column == 4:
            assert np.isnan([low[column], high[column]]).all()
            continue
        spread = np.quantile(angles, [0.025, 0.975]) - np.quantile(angles, 0.5)
        expected = np.sin(np.clip(np.arcsin(np.sqrt(figure)) + 0.8 * spread, 0, np.pi / 2)) ** 2
        assert (low[column], high[column]) == pytest.approx(tuple(expected))


FIGURES_OF_ANY_KIND = st.sampled_from([0.0, 1.0, 0.9995]) | st.floats(0, 1)


@given(FIGURES_OF_ANY_KIND, st.lists(FIGURES_OF_ANY_KIND, min_size=1), st.floats(0, 1), st.sampled_from([0.0, -1.0]))
def test_any_interval_is_within_the_range_and_holds_the_figure(figure, resampled, shrink, least):
    """Of differences, from -1 to 1, too; and the interval of what is left to 1 is its mirror image."""
    figure, resampled = (1 - (1 - least) * (1 - np.array(values)) for values in (figure, resampled))
    low, high = interval(figure, resampled, shrink, least=least)
    assert least <= low <= high <= 1
    assert low <= figure + 1e-7
    assert high >= figure - 1e-7
    mirrored = interval(1 + least - figure, 1 + least - resampled, shrink, least=least)
    assert mirrored == pytest.approx((1 + least - high, 1 + least - low), abs=1e-7)


def test_the_seed_decides():
    videos = kept_videos(*drawn(2, videos=30, classes=5), 5)
    first, again, other = (resample(videos, 5, 4, seed).figures["gap"].tolist() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("coarse", [False, True], ids=["distinct scores", "ties"])
def test_thirds_and_further_metrics_are_resampled_too(coarse: bool) -> None:
    class HitAtTwo(MeanMetric):
        name, key = "Hit@2", "hit_at_two"

        @classmethod
        def of_examples(cls, batch: ScoredBatch) -> np.ndarray:
            return batch.columns.hits[:, :2].any(axis=1)

    scores, labels = drawn(5, videos=40, classes=12, coarse=coarse)
    counts = np.array([5, 9, 1, 7, 0, 3, 8, 8, 2, 4, 11, 6])
    resampled = resample(kept_videos(scores, labels, 5), 12, 4, 9, metric_classes=[HitAtTwo], class_counts=counts)
    order = np.argsort(hashes([b"v%d" % row for row in range(40)]))
    draw = np.random.default_rng(9)
    for number in range(4):
        rows = order[draw.integers(40, size=40)]
        metrics = EvaluationMetrics(12, 5, class_counts=counts)
        metrics.accumulate(scores[rows], labels[rows])
        for third, classes in zip(THIRDS, thirds(counts), strict=True):
            assert resampled.figures[f"gap_{third}"][number] == pytest.approx(metrics.get()[f"gap_{third}"])
            assert resampled.figures[f"map_{third}"][number] == pytest.approx(
                np.nanmean(resampled.class_aps[number, classes])
            )
        best = np.argsort(-scores[rows], axis=1, kind="stable")[:, :2]
        expected = np.take_along_axis(labels[rows], best, 1).any(axis=1).mean()
        assert resampled.figures["hit_at_two"][number] == pytest.approx(expected)
