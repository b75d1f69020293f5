"""How sure figures are: intervals by resampling videos with replacement.

Source: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), chapters 10 and 13.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Floats64, Ints64, Keys, block_starts, class_of, hit_of, without_class
from yt8m.eval_util.average_precision import average_precisions
from yt8m.eval_util.metrics import entries_of
from yt8m.eval_util.videos import Videos

FIGURES = ("hit_at_one", "perr", "gap", "map")


class Interval(NamedTuple):
    """A lower and an upper bound."""

    low: float
    high: float


def resampled_figures(videos: Videos, num_classes: int, resamples: int, seed: int) -> dict[str, Floats64]:
    """Hit@1, PERR, GAP and mAP of `resamples` sets of as many videos, drawn with replacement.

    The same seed and number of videos draw the same sets, so figures of two models on the same videos (in the
    same order) may be subtracted, resample by resample.

    Returns:
      float64 [resamples] for each of FIGURES, each exactly what `EvaluationMetrics` gives for those videos.
    """
    draw, size = np.random.default_rng(seed), len(videos)
    resampler = _Resampler(videos, num_classes)
    rows = [resampler.figures(np.bincount(draw.integers(size, size=size), minlength=size)) for _ in range(resamples)]
    return {name: np.array([row[name] for row in rows]) for name in FIGURES}


def interval(
    figure: float, resampled: npt.NDArray[np.float64], shrink: float = 1.0, level: float = 0.95, least: float = 0.0
) -> Interval:
    """The percentile interval: the middle `level` of the resamples, moved so that their median is the figure.

    They are moved because a resample lacks some of the rare classes, so that mAP is higher there than on the
    videos themselves, and only its spread tells anything. Moving and shrinking are done on the scale
    arcsin(sqrt(x)), which stabilises the variance of a share, and end at the ends of that scale. The interval
    is therefore always in the range of the figure, and the figure is always in it.

    Source of the scale: F. J. Anscombe, The transformation of Poisson, binomial and negative-binomial data,
    Biometrika 35 (1948).

    Args:
      figure: that of all videos, from `least` to 1.
      resampled: [R], those of the resamples; those that are not defined (nan) are left out.
      shrink: factor of the spread: the square root of resampled videos over all, where those are a sample.
      level: the share between the bounds.
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
    """From 0 for `least` to pi/2 for 1; what rounding put past these is taken as these."""
    return np.arcsin(np.sqrt(np.clip((figures - least) / (1 - least), 0, 1)))


class _Resampler:
    """The figures of a multiset of videos. Entries are sorted once: repeating them keeps the order."""

    def __init__(self, videos: Videos, num_classes: int) -> None:
        columns = videos.columns(num_classes)
        self._videos, self._num_classes = videos, num_classes
        keys = entries_of(columns, columns.scores.shape[1])
        rows = np.repeat(np.arange(len(videos)), np.count_nonzero(columns.ranked, axis=1))
        self._by_class = _sorted(keys, rows)
        self._pooled = _sorted(without_class(keys), rows)

    def figures(self, counts: Ints64) -> dict[str, float]:
        """The figures where video n stands `counts`[n] times."""
        videos, total = self._videos, counts.sum()
        weights = np.repeat(counts, videos.num_labels)
        label_counts = np.bincount(videos.labels, weights, minlength=self._num_classes).astype(np.float64)
        by_class = _precisions(*self._by_class, counts, label_counts)[label_counts > 0]
        pooled = _precisions(*self._pooled, counts, label_counts.sum(keepdims=True))
        return {
            "hit_at_one": float(counts @ videos.hit_at_one / total),
            "perr": float(counts @ videos.perr / total),
            "gap": float(pooled[0]),
            "map": float(by_class.mean()) if len(by_class) else float("nan"),
        }


def _sorted(keys: Keys, rows: Ints64) -> tuple[Keys, Ints64]:
    order = np.argsort(keys)
    return keys[order], rows[order]


def _precisions(keys: Keys, rows: Ints64, counts: Ints64, num_positives: Floats64) -> Floats64:
    repeated = np.repeat(keys, counts[rows])
    return average_precisions(class_of(repeated), block_starts(repeated), hit_of(repeated), num_positives)
