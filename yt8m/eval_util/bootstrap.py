"""Confidence intervals of figures, by resampling videos with replacement (bootstrap).

Source: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), chapters 10 and 13.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Floats64, Ints64, Keys, block_starts, class_of, hit_of, without_class
from yt8m.eval_util.average_precision import average_precisions
from yt8m.eval_util.metrics import Gap, MeanAveragePrecision, MeanMetric, ScoredBatch, metrics
from yt8m.eval_util.videos import Videos


class Interval(NamedTuple):
    """A lower and an upper bound."""

    low: float
    high: float


def resampled_figures(videos: Videos, num_classes: int, resamples: int, seed: int) -> dict[str, Floats64]:
    """GAP, mAP and the means over examples, of `resamples` sets of as many videos, drawn with replacement.

    The same seed and number of videos draw the same sets. So the figures of two models on the same videos (in the
    same order) may be subtracted, resample by resample.

    Returns:
      float64 [resamples] by the key of the metric, each exactly what `EvaluationMetrics` gives for those videos.
    """
    draw, size = np.random.default_rng(seed), len(videos)
    resampler = _Resampler(videos, num_classes)
    rows = [resampler.figures(np.bincount(draw.integers(size, size=size), minlength=size)) for _ in range(resamples)]
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def interval(
    figure: float, resampled: npt.NDArray[np.float64], shrink: float = 1.0, level: float = 0.95, least: float = 0.0
) -> Interval:
    """The percentile interval: the middle `level` of the resamples, moved so that their median is the figure.

    They are moved because a resample lacks some of the rare classes. That makes its mAP higher than that of the
    videos themselves, so only the spread of the resamples is meaningful. Moving and shrinking are done on the
    scale arcsin(sqrt(x)), which stabilises the variance of a share, and stop at the ends of that scale. So the
    interval never leaves the range of the figure, and it always contains the figure.

    Source of the scale: F. J. Anscombe, The transformation of Poisson, binomial and negative-binomial data,
    Biometrika 35 (1948).

    Args:
      figure: the figure of all videos, from `least` to 1.
      resampled: [R], the figures of the resamples; nan (not defined) is left out.
      shrink: factor of the spread. If the resampled videos are a sample of all videos: the square root of the
        sample's share.
      level: the share of the resamples between the bounds.
      least: lower end of the figure's range: 0, or -1 for a difference of two figures.
    """
    known = resampled[np.isfinite(resampled)]
    if not len(known):
        return Interval(float("nan"), float("nan"))
    angles = _angles(known, least)
    spread = np.quantile(angles, [(1 - level) / 2, (1 + level) / 2]) - np.median(angles)
    moved = np.clip(_angles(np.float64(figure), least) + shrink * spread, 0, np.pi / 2)
    low, high = least + (1 - least) * np.sin(moved) ** 2
    return Interval(float(low), float(high))


def _angles(figures: npt.NDArray[np.float64] | np.float64, least: float) -> npt.NDArray[np.float64]:
    """From 0 for `least` to pi/2 for 1; values that rounding put outside are clipped."""
    return np.arcsin(np.sqrt(np.clip((figures - least) / (1 - least), 0, 1)))


class _Resampler:
    """Figures of videos that may be repeated. Entries are sorted once, since repeating them keeps the order."""

    def __init__(self, videos: Videos, num_classes: int) -> None:
        columns = videos.columns(num_classes)
        self._videos, self._num_classes = videos, num_classes
        batch = ScoredBatch(columns, videos.perr)
        means = {metric.key: metric.of_examples(batch) for metric in metrics.all() if issubclass(metric, MeanMetric)}
        self._means = {key: np.asarray(values) for key, values in means.items() if values is not None}
        keys = columns.entries(columns.scores.shape[1])
        rows = np.repeat(np.arange(len(videos)), np.count_nonzero(columns.ranked, axis=1))
        self._by_class = _sorted(keys, rows)
        self._pooled = _sorted(without_class(keys), rows)

    def figures(self, counts: Ints64) -> dict[str, float]:
        """The figures of the set that has video n `counts`[n] times."""
        videos, total = self._videos, counts.sum()
        weights = np.repeat(counts, videos.num_labels)
        label_counts = np.bincount(videos.labels, weights, minlength=self._num_classes).astype(np.float64)
        by_class = _precisions(*self._by_class, counts, label_counts)[label_counts > 0]
        pooled = _precisions(*self._pooled, counts, label_counts.sum(keepdims=True))
        return {key: float(counts @ values / total) for key, values in self._means.items()} | {
            Gap.key: float(pooled[0]),
            MeanAveragePrecision.key: float(by_class.mean()) if len(by_class) else float("nan"),
        }


def _sorted(keys: Keys, rows: Ints64) -> tuple[Keys, Ints64]:
    order = np.argsort(keys)
    return keys[order], rows[order]


def _precisions(keys: Keys, rows: Ints64, counts: Ints64, num_positives: Floats64) -> Floats64:
    repeated = np.repeat(keys, counts[rows])
    return average_precisions(class_of(repeated), block_starts(repeated), hit_of(repeated), num_positives)
