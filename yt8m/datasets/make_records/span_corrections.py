"""Applies decisions on spans that may be wrong or missing, before the spans are stored as cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from yt8m.datasets.make_records.classes import Classes
from yt8m.datasets.make_records.human_labels import MISSING, CorrectedLabels, Corrections, Decision, class_lookup
from yt8m.datasets.make_records.rows import Labels
from yt8m.datasets.make_records.span_cells import ClassSpan, number_spans
from yt8m.tables.words.times import Span


class CorrectedSpans(NamedTuple):
    """The spans of a video after the decisions.

    Attributes:
      added, removed: numbers of decisions that have added a span, and of those that have removed one or a part of it.
      idle: the decisions that have done neither.
    """

    spans: tuple[ClassSpan, ...]
    added: int = 0
    removed: int = 0
    idle: tuple[Decision, ...] = ()

    @property
    def classes(self) -> set[int]:
        """The classes that are left."""
        return {number for span in self.spans for number in span.classes}


def corrected(
    spans: Sequence[ClassSpan], decisions: Sequence[Decision], class_of: Callable[[str], int]
) -> CorrectedSpans:
    """Adds missing spans to those of a video, and takes the time of wrong ones out of them.

    What is taken out becomes a span without a class: people have looked there. A decision without times takes out all
    spans of its class.

    Args:
      decisions: those on the video, of which each says that a label really is wrong or missing.
      class_of: the number of a class by its text.
    """
    result, added, removed, idle = tuple(spans), 0, 0, list[Decision]()
    for decision in decisions:
        number = class_of(decision.label)
        start, end = decision.span or (0.0, float("inf"))
        if decision.kind == MISSING:
            is_there = any(number in span.classes and span.start <= start and end <= span.end for span in result)
            added += not is_there
            idle += [decision] if is_there else []
            result += () if is_there else (ClassSpan(start, end, (number,)),)
            continue
        shortened = tuple(piece for span in result for piece in _without(span, number, start, end))
        removed += shortened != result
        idle += [decision] if shortened == result else []
        result = shortened
    return CorrectedSpans(result, added, removed, tuple(idle))


def _without(span: ClassSpan, number: int, start: float, end: float) -> Sequence[ClassSpan]:
    """A span as parts, of which those from `start` to `end` do not have a class."""
    if number not in span.classes or max(span.start, start) >= min(span.end, end):
        return (span,)
    times = (span.start, max(span.start, start), min(span.end, end), span.end)
    others = tuple(other for other in span.classes if other != number)
    pieces = zip(times[:-1], times[1:], (span.classes, others, span.classes), strict=True)
    return [ClassSpan(*piece) for piece in pieces if piece[1] > piece[0]]


class SpanCorrections:
    """The decisions of a table, for videos with spans."""

    def __init__(self, corrections: Corrections, classes: Classes) -> None:
        self._corrections, self._classes, self._class_of = corrections, classes, class_lookup(classes)

    def spans(self, video: bytes, spans: Sequence[Span]) -> CorrectedSpans:
        """The spans of a video after the decisions, with the numbers of their classes."""
        numbered = number_spans(spans, self._classes.number)
        result = corrected(numbered, self._corrections.changes_of(video), self._class_of)
        self._corrections.idle.update(result.idle)
        return result

    def labels(self, videos: Sequence[bytes], spans: Sequence[Sequence[Span]], labels: Labels) -> CorrectedLabels:
        """The labels of a batch of videos, which are the classes of their spans, after the decisions."""
        rows_to_change = [row for row, video in enumerate(videos) if self._corrections.changes_of(video)]
        changes = {row: self.spans(videos[row], spans[row]) for row in rows_to_change}
        is_kept = ~np.isin(labels.rows, list(changes))
        pairs_left = zip(labels.rows[is_kept].tolist(), labels.codes[is_kept].tolist(), strict=True)
        pairs = [*pairs_left, *((row, code) for row, change in changes.items() for code in change.classes)]
        rows, codes = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
        added, removed = (
            np.repeat(np.array(list(changes), np.int64), [getattr(change, name) for change in changes.values()])
            for name in ("added", "removed")
        )
        return CorrectedLabels(Labels(rows, codes), added, removed)
