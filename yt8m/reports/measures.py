"""Computes the tables and the curve of a report: classes, verticals, confused classes, precision and recall.

A vertical is the coarse category of a class, such as Animals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats64, Ints64, places_within
from yt8m.eval_util.metrics import is_below_one
from yt8m.eval_util.videos import Videos
from yt8m.records.thresholds import BELOW_TARGET, COMMON, FEW_POSITIVES, TOO_FEW_LABELS
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports.loading import Run, class_intervals

EXAMPLES = 3  # number of videos that are named for a pair of confused classes
# With fewer labels, the AP of a class is mostly chance. So this AP gets no interval, and tables of the best, the worst
# or the most different classes leave the class out if enough classes have more labels.
ENOUGH_LABELS = 5


class ClassFigure(NamedTuple):
    """The AP of one class.

    Attributes:
      vertical: its vertical, the coarse category; empty if it is not known.
    """

    number: int
    name: str
    vertical: str
    average_precision: float
    positives: int


class VerticalFigure(NamedTuple):
    """The mean AP of one vertical, a coarse category of classes such as Animals."""

    name: str
    classes: int
    positives: int
    mean_ap: float


class Confusion(NamedTuple):
    """A pair of classes that the model confuses; `confusions` says which classes of a video count as predicted.

    Attributes:
      share: `videos` as a share of all videos with the label `missed`.
    """

    missed: int
    predicted: int
    videos: int
    share: float
    rows: tuple[int, ...] = ()


def class_figures(figures: Mapping[str, Any], names: Vocabulary) -> list[ClassFigure]:
    """All classes that have a label, in the order of their indices."""
    return [
        ClassFigure(number, names.name(number), names.vertical(number), row["average_precision"], row["positives"])
        for row in figures["classes"]
        for number in [row["class"]]
    ]


def best_and_worst(classes: Sequence[ClassFigure], count: int) -> tuple[list[ClassFigure], list[ClassFigure], int]:
    """The `count` best and the `count` worst classes by AP; fewer if there are not so many.

    No class is in both lists. A class whose AP is shown as 1.000 is not among the worst.

    Returns:
      (the best classes, best first; the worst classes, worst first; the number of labels that a class needs to be
      listed: ENOUGH_LABELS if at least 2 * `count` classes have so many, else 1).
    """
    frequent = [row for row in classes if row.positives >= ENOUGH_LABELS]
    least = ENOUGH_LABELS if len(frequent) >= 2 * count else 1
    ranked = sorted(frequent if least > 1 else classes, key=lambda row: (-row.average_precision, -row.positives))
    best = ranked[: min(count, (len(ranked) + 1) // 2)]
    return best, [row for row in ranked[len(best) :][::-1] if is_below_one(row.average_precision)][:count], least


def verticals(classes: Sequence[ClassFigure]) -> list[VerticalFigure]:
    """The mean AP of each vertical, a coarse category of classes such as Animals; verticals with most labels first.

    Classes whose vertical is not known are left out.
    """
    by_name = {}
    for name in dict.fromkeys(row.vertical for row in classes if row.vertical):
        members = [row for row in classes if row.vertical == name]
        mean = float(np.mean([row.average_precision for row in members]))
        by_name[name] = VerticalFigure(name, len(members), sum(row.positives for row in members), mean)
    return sorted(by_name.values(), key=lambda row: (-row.positives, row.name))


def confusions(videos: Videos, num_classes: int, count: int) -> list[Confusion]:
    """The `count` pairs of classes that are confused most often, the most frequent first.

    For a video with n labels its n best classes count as predicted (as for PERR). Each label that is not predicted is
    paired with each predicted class that is not a label. If every video has one label, the numbers of these pairs are
    the entries of the confusion matrix outside its diagonal.
    """
    is_predicted = videos.ranked & (np.arange(videos.scores.shape[1]) < videos.num_labels[:, None])
    missed_rows, missed = _missed_labels(videos, is_predicted, num_classes)
    is_wrong = is_predicted & ~videos.hits
    wrong, counts = videos.classes[is_wrong].astype(np.int64), np.count_nonzero(is_wrong, axis=1)
    starts = np.cumsum(counts) - counts  # where the wrong classes of each video begin in `wrong`
    num_wrong = counts[missed_rows]
    wrong_indices = np.repeat(starts[missed_rows], num_wrong) + places_within(num_wrong)
    pairs = np.repeat(missed, num_wrong) * num_classes + wrong[wrong_indices]  # one number for each pair of classes
    rows = np.repeat(missed_rows, num_wrong)
    codes, sizes = np.unique(pairs, return_counts=True)
    label_counts = np.bincount(videos.labels, minlength=num_classes)
    order = np.lexsort((codes, -sizes))[:count]
    columns = (*np.divmod(codes[order], num_classes), sizes[order], codes[order])
    return [
        Confusion(label, other, size, float(size / label_counts[label]), tuple(rows[pairs == code][:EXAMPLES].tolist()))
        for label, other, size, code in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _missed_labels(videos: Videos, is_predicted: Bools, num_classes: int) -> tuple[Ints64, Ints64]:
    """(rows, classes) of the labels that are not predicted for their video, in the order of the videos."""
    rows, columns = np.nonzero(is_predicted & videos.hits)
    predicted = rows * num_classes + videos.classes[rows, columns]
    labels = videos.owners() * num_classes + videos.labels
    return np.divmod(labels[~np.isin(labels, predicted)], num_classes)


class PrecisionRecall(NamedTuple):
    """The precision-recall curve, with one point for each distinct score, the highest score first. Arrays are [P].

    Attributes:
      precision: the share of right predictions among those with at least the score of the point.
      recall: the share of all labels of the videos that these predictions find.
    """

    precision: Floats64
    recall: Floats64
    thresholds: Floats64


def precision_recall(videos: Videos) -> PrecisionRecall:
    """The curve of the best classes of all videos, ranked in one list (micro-averaged); GAP is the area under it."""
    scores, hits = videos.predictions()
    order = np.argsort(-scores, kind="stable")
    scores, num_right = scores[order], np.cumsum(hits[order])
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)) if len(scores) else np.zeros(0, np.int64)
    recall = num_right[last] / max(1, len(videos.labels))
    return PrecisionRecall(num_right[last] / (last + 1), recall, scores[last])


def thinned(curve: PrecisionRecall, points: int = 300) -> PrecisionRecall:
    """The curve with only about `points` of its points, evenly spaced by recall, including the first and the last."""
    if len(curve.recall) <= points:
        return curve
    recalls = np.linspace(curve.recall[0], curve.recall[-1], points - 1)
    indices = np.unique(np.append(np.searchsorted(curve.recall, recalls), len(curve.recall) - 1))
    return PrecisionRecall(*(values[indices] for values in curve))


UNDEFINED = "—"  # stands in a table for a value that is not defined


class ClassRow(NamedTuple):
    """A row of the table of all classes, as the page shows it: numbers as texts, or UNDEFINED.

    Attributes:
      vertical: its coarse category; empty if it is not known.
      interval: the 95 % interval of its AP.
      precision, recall, f1: how well the tags of the class agree with its labels, see `OperatingPoints`.
      remark: `*` for a threshold that is common to all classes; why the class has no threshold; or in brackets how many
        videos its threshold comes from, if they are few; else empty.
    """

    number: int
    name: str
    vertical: str
    positives: str
    average_precision: str
    interval: str
    precision: str
    recall: str
    f1: str
    threshold: str
    remark: str


def class_rows(run: Run, names: Vocabulary) -> list[ClassRow]:
    """A row for each class of the run, in the order of the classes.

    An AP has no interval if the class has fewer than ENOUGH_LABELS labels, which say nothing about other videos, or if
    the AP is the same in all resamples. An AP from few labels is too high, so its interval may lie below it.
    """
    count = run.samples.num_classes
    aps, positives = np.full(count, np.nan), np.zeros(count, np.int64)
    for row in run.samples.figures["classes"]:
        aps[row["class"]], positives[row["class"]] = row["average_precision"], row["positives"]
    low, high = class_intervals(run, aps)
    low[(positives < ENOUGH_LABELS) | (low == high)] = np.nan
    points = run.samples.points
    columns = zip(positives, aps, low, high, points.precision, points.recall, points.f1, strict=True)
    thresholds = zip(points.thresholds.tolist(), points.bases(), strict=True)
    return [
        ClassRow(
            number,
            names.name(number),
            names.vertical(number),
            f"{num_labels:,}",
            _share_text(ap),
            UNDEFINED if math.isnan(lower) else f"{lower:.3f} to {upper:.3f}",
            _share_text(precision),
            _share_text(recall),
            _share_text(f1),
            *_threshold_texts(threshold, basis, int(num_labels)),
        )
        for number, ((num_labels, ap, lower, upper, precision, recall, f1), (threshold, basis)) in enumerate(
            zip(columns, thresholds, strict=True)
        )
    ]


def _threshold_texts(threshold: float, basis: str, positives: int) -> tuple[str, str]:
    """(the threshold as a text, the remark after it)."""
    remarks = {COMMON: "*", TOO_FEW_LABELS: "too few labels", BELOW_TARGET: "below target"}
    few = f"({positives})" if positives < FEW_POSITIVES else ""
    return f"{threshold:.3g}" if math.isfinite(threshold) else UNDEFINED, remarks.get(basis, few)


def _share_text(share: float) -> str:
    return UNDEFINED if math.isnan(share) else f"{share:.3f}"
