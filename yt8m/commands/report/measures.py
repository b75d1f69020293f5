"""Figures by class: the best and the worst, the verticals, and which class is taken for which.

Precision against recall, and how far scores are to be believed, over the best classes of all videos.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.eval_util.videos import Videos
from yt8m.records.vocabulary import Vocabulary

ENOUGH = 5  # positives below which a class's AP is mostly chance


class ClassFigure(NamedTuple):
    """One class of the evaluation; `positives` are its labels there, `vertical` is empty if none is known."""

    number: int
    name: str
    vertical: str
    average_precision: float
    positives: int


class VerticalFigure(NamedTuple):
    """The classes of one vertical; mean_ap is the mean of theirs, each counting the same."""

    name: str
    classes: int
    positives: int
    mean_ap: float


class Confusion(NamedTuple):
    """So many `videos` have the class `missed` and were given `taken`, which they do not have, in its place.

    Attributes:
      share: of all videos that have `missed`.
    """

    missed: int
    taken: int
    videos: int
    share: float


def class_figures(figures: Mapping[str, Any], names: Vocabulary) -> list[ClassFigure]:
    """All classes that have a positive, in the order of their index."""
    return [
        ClassFigure(
            row["class"],
            names.name(row["class"]),
            names.vertical(row["class"]),
            row["average_precision"],
            row["positives"],
        )
        for row in figures["classes"]
    ]


def best_and_worst(classes: Sequence[ClassFigure], count: int) -> tuple[list[ClassFigure], list[ClassFigure], int]:
    """The `count` best and worst classes by AP, none in both.

    Returns:
      The best from the best, the worst from the worst, and how many positives a class had to have: ENOUGH
      where that leaves twice `count` classes, else 1.
    """
    often = [one for one in classes if one.positives >= ENOUGH]
    least = ENOUGH if len(often) >= 2 * count else 1
    ranked = sorted(often if least > 1 else classes, key=lambda one: (-one.average_precision, -one.positives))
    best = ranked[: min(count, (len(ranked) + 1) // 2)]
    return best, ranked[len(best) :][::-1][:count], least


def verticals(classes: Sequence[ClassFigure]) -> list[VerticalFigure]:
    """One figure a vertical that is known, those with the most positives first."""
    found = {}
    for name in dict.fromkeys(one.vertical for one in classes if one.vertical):
        members = [one for one in classes if one.vertical == name]
        mean = float(np.mean([one.average_precision for one in members]))
        found[name] = VerticalFigure(name, len(members), sum(one.positives for one in members), mean)
    return sorted(found.values(), key=lambda one: (-one.positives, one.name))


def confusions(videos: Videos, num_classes: int, count: int) -> list[Confusion]:
    """The `count` pairs of classes that are mixed up most.

    Of a video with n labels the n best classes are its answer (as for PERR). Each label that the answer lacks
    pairs with each class that is in it wrongly. With one label a video this is the confusion matrix off its
    diagonal.
    """
    answer = videos.ranked & (np.arange(videos.scores.shape[1]) < videos.num_labels[:, None])
    missed_rows, missed = _missed(videos, answer, num_classes)
    wrong = answer & ~videos.hits
    taken, counts = videos.classes[wrong].astype(np.int64), np.count_nonzero(wrong, axis=1)
    starts = np.cumsum(counts) - counts
    each = counts[missed_rows]
    within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
    pairs = np.repeat(missed, each) * num_classes + taken[np.repeat(starts[missed_rows], each) + within]
    codes, sizes = np.unique(pairs, return_counts=True)
    having = np.bincount(videos.labels, minlength=num_classes)
    order = np.lexsort((codes, -sizes))[:count]
    return [
        Confusion(
            int(code // num_classes), int(code % num_classes), int(size), float(size / having[code // num_classes])
        )
        for code, size in zip(codes[order], sizes[order], strict=True)
    ]


def _missed(videos: Videos, answer: Bools, num_classes: int) -> tuple[Ints64, Ints64]:
    """(video, class) of each label that the answer lacks, video after video."""
    rows, columns = np.nonzero(answer & videos.hits)
    told = rows * num_classes + videos.classes[rows, columns]
    labels = videos.owners() * num_classes + videos.labels
    return np.divmod(labels[~np.isin(labels, told)], num_classes)


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
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)) if len(scores) else np.zeros(0, np.int64)
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
