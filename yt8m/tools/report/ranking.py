"""Precision against recall, and how far scores are to be believed, over the best classes of all videos."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.eval_util.videos import Videos

BINS = 10


class PrecisionRecall(NamedTuple):
    """One point for each score that occurs, from the highest on; recall counts every label of the videos."""

    precision: Floats64
    recall: Floats64
    thresholds: Floats64


class Calibration(NamedTuple):
    """Predictions by score in BINS equal parts of 0..1; parts without any are left out.

    Attributes:
      scores: mean score of each part.
      shares: share of its predictions that are right.
      sizes: int64, its predictions.
      error: expected calibration error, the mean of |share - score| over predictions (Naeini et al. 2015).
    """

    scores: Floats64
    shares: Floats64
    sizes: Ints64
    error: float


def precision_recall(videos: Videos) -> PrecisionRecall:
    """The curve of all (video, class) pairs in one list: the one under which GAP is the area."""
    scores, hits = _pairs(videos)
    order = np.argsort(-scores, kind="stable")
    scores, right = scores[order], np.cumsum(hits[order])
    last = (
        np.flatnonzero(np.append(scores[1:] != scores[:-1], True)) if len(scores) else np.zeros(0, np.int64)
    )
    recall = right[last] / max(1, len(videos.labels))
    return PrecisionRecall(right[last] / (last + 1), recall, scores[last])


def calibration(videos: Videos) -> Calibration:
    """Scores against what they promise, of the pairs that were kept."""
    scores, hits = _pairs(videos)
    edges = np.linspace(0, 1, BINS + 1)[1:-1]
    parts = np.searchsorted(edges, scores)
    sizes = np.bincount(parts, minlength=BINS)
    used = np.flatnonzero(sizes)
    means, shares = (
        np.bincount(parts, weights=values, minlength=BINS)[used] / sizes[used] for values in (scores, hits)
    )
    error = float(np.abs(shares - means) @ sizes[used] / max(1, len(scores)))
    return Calibration(means, shares, sizes[used], error)


def thinned(curve: PrecisionRecall, points: int = 300) -> PrecisionRecall:
    """At most about `points` of a curve's points, evenly by recall; the first and the last among them."""
    if len(curve.recall) <= points:
        return curve
    wanted = np.linspace(curve.recall[0], curve.recall[-1], points - 1)
    chosen = np.unique(np.append(np.searchsorted(curve.recall, wanted), len(curve.recall) - 1))
    return PrecisionRecall(*(values[chosen] for values in curve))


def _pairs(videos: Videos) -> tuple[Floats64, Bools]:
    ranked = videos.ranked
    return videos.scores[ranked].astype(np.float64), videos.hits[ranked]
