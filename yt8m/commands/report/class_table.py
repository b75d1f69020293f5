"""The table of all classes: how often each occurs, how well it is ranked, and what its threshold gives."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from yt8m.commands.report.loading import Run, class_intervals
from yt8m.commands.report.measures import ENOUGH
from yt8m.records.vocabulary import Vocabulary

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
    is_own: bool


def class_rows(run: Run, names: Vocabulary) -> list[ClassRow]:
    """A row for each class of the run, in the order of the classes.

    The AP of a class with fewer than ENOUGH labels has no interval, because so few labels say nothing about other
    videos; nor has one whose AP is the same in all resamples. The columns of thresholds are UNDEFINED if an earlier
    version made the evaluation.
    """
    count = run.samples.num_classes
    aps, positives = np.full(count, np.nan), np.zeros(count, np.int64)
    for row in run.samples.figures["classes"]:
        aps[row["class"]], positives[row["class"]] = row["average_precision"], row["positives"]
    low, high = class_intervals(run, aps)
    low[(positives < ENOUGH) | (low == high)] = np.nan
    points = run.samples.points
    nothing = np.full(count, np.nan)
    shares = [nothing] * 4 if points is None else [points.precision, points.recall, points.f1, points.thresholds]
    is_own = np.ones(count, np.bool_) if points is None else points.is_own
    columns = zip(positives, aps, low, high, *shares, is_own, strict=True)
    return [
        ClassRow(
            number,
            names.name(number),
            names.vertical(number),
            f"{having:,}",
            _told(ap),
            UNDEFINED if math.isnan(start) else f"{start:.3f} to {end:.3f}",
            _told(precision),
            _told(recall),
            _told(f1),
            UNDEFINED if math.isnan(threshold) else f"{threshold:.3g}",
            bool(own),
        )
        for number, (having, ap, start, end, precision, recall, f1, threshold, own) in enumerate(columns)
    ]


def _told(share: float) -> str:
    return UNDEFINED if math.isnan(share) else f"{share:.3f}"
