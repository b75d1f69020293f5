"""Computes what the report shows of an evaluation: values by class and by vertical, confusions, curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats64, Ints64, places_within
from yt8m.eval_util.videos import Videos
from yt8m.records.thresholds import BELOW_TARGET, COMMON, TOO_FEW_LABELS
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports.loading import Run, class_intervals

EXAMPLES = 3  # videos named for a pair of confused classes
ENOUGH = 5  # with fewer positives, the AP of a class is mostly chance


class ClassFigure(NamedTuple):
    """One class: `positives` is its number of labels in the evaluation; `vertical` is empty if it is not known."""

    number: int
    name: str
    vertical: str
    average_precision: float
    positives: int


class VerticalFigure(NamedTuple):
    """One vertical: `classes` is its number of classes; `mean_ap` is the unweighted mean of their AP."""

    name: str
    classes: int
    positives: int
    mean_ap: float


class Confusion(NamedTuple):
    """A pair of classes that the model confuses.

    Attributes:
      missed: a class that is a label but was not predicted.
      taken: a class that was predicted but is not a label.
      videos: number of videos with this confusion.
      share: `videos` as a share of all videos with the label `missed`.
      rows: up to EXAMPLES of these videos.
    """

    missed: int
    taken: int
    videos: int
    share: float
    rows: tuple[int, ...] = ()


def class_figures(figures: Mapping[str, Any], names: Vocabulary) -> list[ClassFigure]:
    """All classes that have a positive, in the order of their index."""
    return [
        ClassFigure(number, names.name(number), names.vertical(number), row["average_precision"], row["positives"])
        for row in figures["classes"]
        for number in [row["class"]]
    ]


def best_and_worst(classes: Sequence[ClassFigure], count: int) -> tuple[list[ClassFigure], list[ClassFigure], int]:
    """The `count` best and the `count` worst classes by AP; no class is in both lists, and none with AP 1.0 is worst.

    Returns:
      The best (best first), the worst (worst first), and the number of positives that a class needed to be listed:
      ENOUGH if at least 2 * `count` classes have so many, else 1.
    """
    often = [row for row in classes if row.positives >= ENOUGH]
    least = ENOUGH if len(often) >= 2 * count else 1
    ranked = sorted(often if least > 1 else classes, key=lambda row: (-row.average_precision, -row.positives))
    best = ranked[: min(count, (len(ranked) + 1) // 2)]
    return best, [row for row in ranked[len(best) :][::-1] if is_below_one(row.average_precision)][:count], least


def is_below_one(average_precision: float) -> bool:
    """Whether the AP is still below 1.0 when rounded to the three digits shown."""
    return round(average_precision, 3) < 1


def verticals(classes: Sequence[ClassFigure]) -> list[VerticalFigure]:
    """A `VerticalFigure` for each known vertical, the one with the most positives first."""
    by_name = {}
    for name in dict.fromkeys(row.vertical for row in classes if row.vertical):
        members = [row for row in classes if row.vertical == name]
        mean = float(np.mean([row.average_precision for row in members]))
        by_name[name] = VerticalFigure(name, len(members), sum(row.positives for row in members), mean)
    return sorted(by_name.values(), key=lambda row: (-row.positives, row.name))


def confusions(videos: Videos, num_classes: int, count: int) -> list[Confusion]:
    """The `count` pairs of classes that are confused most often.

    The answer for a video with n labels is its n best classes (as for PERR). Each label that the answer lacks is
    paired with each wrong class of the answer. If every video has one label, these are the entries of the confusion
    matrix off its diagonal.
    """
    answer = videos.ranked & (np.arange(videos.scores.shape[1]) < videos.num_labels[:, None])
    missed_rows, missed = _missed(videos, answer, num_classes)
    wrong = answer & ~videos.hits
    taken, counts = videos.classes[wrong].astype(np.int64), np.count_nonzero(wrong, axis=1)
    starts = np.cumsum(counts) - counts
    each = counts[missed_rows]
    pairs = np.repeat(missed, each) * num_classes + taken[np.repeat(starts[missed_rows], each) + places_within(each)]
    owners = np.repeat(missed_rows, each)
    codes, sizes = np.unique(pairs, return_counts=True)
    having = np.bincount(videos.labels, minlength=num_classes)
    order = np.lexsort((codes, -sizes))[:count]
    confused_pairs = zip(
        *(part.tolist() for part in np.divmod(codes[order], num_classes)), sizes[order].tolist(), strict=True
    )
    return [
        Confusion(missing, took, size, float(size / having[missing]), tuple(owners[pairs == code][:EXAMPLES].tolist()))
        for code, (missing, took, size) in zip(codes[order], confused_pairs, strict=True)
    ]


def _missed(videos: Videos, answer: Bools, num_classes: int) -> tuple[Ints64, Ints64]:
    """(rows, classes) of the labels that are not in the answer for their video, in the order of the videos."""
    rows, columns = np.nonzero(answer & videos.hits)
    answered = rows * num_classes + videos.classes[rows, columns]
    labels = videos.owners() * num_classes + videos.labels
    return np.divmod(labels[~np.isin(labels, answered)], num_classes)


class PrecisionRecall(NamedTuple):
    """One point for each distinct score, highest first. Recall is a share of all labels of the videos."""

    precision: Floats64
    recall: Floats64
    thresholds: Floats64


def precision_recall(videos: Videos) -> PrecisionRecall:
    """The curve of all (video, class) pairs in one list; GAP is the area under it."""
    scores, hits = videos.predictions()
    order = np.argsort(-scores, kind="stable")
    scores, right = scores[order], np.cumsum(hits[order])
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)) if len(scores) else np.zeros(0, np.int64)
    recall = right[last] / max(1, len(videos.labels))
    return PrecisionRecall(right[last] / (last + 1), recall, scores[last])


def thinned(curve: PrecisionRecall, points: int = 300) -> PrecisionRecall:
    """About `points` of the curve's points, evenly spaced by recall, with the first and the last."""
    if len(curve.recall) <= points:
        return curve
    wanted = np.linspace(curve.recall[0], curve.recall[-1], points - 1)
    chosen = np.unique(np.append(np.searchsorted(curve.recall, wanted), len(curve.recall) - 1))
    return PrecisionRecall(*(values[chosen] for values in curve))


UNDEFINED = "—"


class ClassRow(NamedTuple):
    """A row of the table, as it is shown: numbers are texts, and UNDEFINED if there is none."""

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

    The AP of a class with fewer than ENOUGH labels has no interval, because so few labels say nothing about other
    videos; nor has one whose AP is the same in all resamples. AP of few labels is too high, so an interval may lie
    below it.
    """
    count = run.samples.num_classes
    aps, positives = np.full(count, np.nan), np.zeros(count, np.int64)
    for row in run.samples.figures["classes"]:
        aps[row["class"]], positives[row["class"]] = row["average_precision"], row["positives"]
    low, high = class_intervals(run, aps)
    low[(positives < ENOUGH) | (low == high)] = np.nan
    points = run.samples.points
    columns = zip(positives, aps, low, high, points.precision, points.recall, points.f1, strict=True)
    limits = zip(points.thresholds.tolist(), points.bases(), strict=True)
    return [
        ClassRow(
            number,
            names.name(number),
            names.vertical(number),
            f"{having:,}",
            _share_text(ap),
            UNDEFINED if math.isnan(start) else f"{start:.3f} to {end:.3f}",
            _share_text(precision),
            _share_text(recall),
            _share_text(f1),
            *_shown_threshold(threshold, basis),
        )
        for number, ((having, ap, start, end, precision, recall, f1), (threshold, basis)) in enumerate(
            zip(columns, limits, strict=True)
        )
    ]


def _shown_threshold(threshold: float, basis: str) -> tuple[str, str]:
    """The threshold as it is shown, and the remark beside it."""
    remarks = {COMMON: "*", TOO_FEW_LABELS: "too few labels", BELOW_TARGET: "below target"}
    return f"{threshold:.3g}" if math.isfinite(threshold) else UNDEFINED, remarks.get(basis, "")


def _share_text(share: float) -> str:
    return UNDEFINED if math.isnan(share) else f"{share:.3f}"
