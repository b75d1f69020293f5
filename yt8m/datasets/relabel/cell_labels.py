"""Applies decisions on spans to the cells of a record, whose spans as people have marked them are not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from yt8m.datasets.make_records.human_labels import MISSING, WRONG, Decision
from yt8m.datasets.make_records.span_cells import Grid, RatedCells, frame_ranges
from yt8m.eval_util.arrays import Bools, Ints64
from yt8m.records import shards
from yt8m.records.shards import Record
from yt8m.tables.words.times import union

Ratings = dict[tuple[int, int], float]  # {(first frame of a cell, class): its score}


class CorrectedRecord(NamedTuple):
    """What decisions have made of the labels of a record.

    Attributes:
      features: {name: encoded Feature} of the context that have other values now; empty if nothing has changed.
      labels: the classes of the video, ascending.
      added, removed: numbers of decisions that have added a label, and of those that have removed one; and of labels of
        the video that answers have added and removed.
      idle: the decisions that have done neither.
      without_cell: those of the idle ones that cover half of no cell.
      without_segment: number of added labels that no segment shows, though some segments are rated.
    """

    features: Mapping[str, bytes]
    labels: Sequence[int]
    added: int
    removed: int
    idle: tuple[Decision, ...]
    without_cell: tuple[Decision, ...] = ()
    without_segment: int = 0


def correct(
    record: Record, grid: Grid, marked: RatedCells | None, decisions: Sequence[Decision], class_of: Callable[[str], int]
) -> CorrectedRecord:
    """Applies what people have marked in a video, then the decisions on it, to the cells of its record.

    A decision holds for the cells of which those of its class and kind cover at least half. A cell whose label is taken
    away stays rated: people have looked there.
    """
    count = frames_of(record)
    cells = _RatedVideo(record, grid, count)
    before = set(cells.labels)
    if marked:
        cells.replace(marked)
    answered = set(cells.labels)
    changed, without_cell = list[Decision](), list[Decision]()
    for kind in (WRONG, MISSING):
        for number in sorted({class_of(each.label) for each in decisions if each.kind == kind}):
            group = [each for each in decisions if each.kind == kind and class_of(each.label) == number]
            is_covered = grid.half_covered(_joined_times(group, count / grid.per_second), count)
            is_changed = cells.change(number, kind == MISSING, is_covered)
            changed += [each for each in group if is_changed[_cells_of(each, grid, len(is_changed))].any()]
            without_cell += [each for each in group if not is_covered[_cells_of(each, grid, len(is_covered))].any()]
    idle = tuple(each for each in decisions if each not in changed)
    added = sum(each.kind == MISSING for each in changed)
    removed = len(changed) - added + len(before - answered)
    features = cells.context() if changed or marked else {}
    added += len(answered - before)
    return CorrectedRecord(features, cells.labels, added, removed, idle, tuple(without_cell))


def frames_of(record: Record) -> int:
    """The number of frames of a record."""
    return max(map(len, record.lists.values()), default=0)


def _joined_times(decisions: Iterable[Decision], seconds: float) -> list[tuple[float, float]]:
    """The times of decisions, joined; one without times is about all of a video of some seconds."""
    return union([each.span or (0.0, seconds) for each in decisions])


def _cells_of(decision: Decision, grid: Grid, count: int) -> slice:
    """The cells that the time of a decision touches."""
    if decision.span is None:
        return slice(0, count)
    start, end = (time * grid.per_second / grid.frames for time in decision.span)
    return slice(math.floor(start), math.ceil(end))


class _RatedVideo:
    """The cells of a video and their ratings, which decisions change.

    Attributes:
      labels: the classes of the video, ascending.
    """

    def __init__(self, record: Record, grid: Grid, count: int) -> None:
        starts, classes, scores = (record.values(name) for name in shards.RATING_LISTS)
        self._ratings: Ratings = dict(zip(zip(starts, classes, strict=True), scores, strict=True))
        self._grid, self._count = grid, count
        self._is_seen: Bools = np.zeros(-(-count // grid.frames), bool)
        for first, last in zip(*map(record.values, shards.ANNOTATED_LISTS), strict=True):
            self._is_seen[first // grid.frames : -(-last // grid.frames)] = True
        self.labels: Sequence[int] = sorted(set(record.values("labels")))

    def change(self, number: int, is_shown: bool, is_covered: Bools) -> Bools:
        """Makes the cells that are covered show a class or not; returns whether each cell has changed."""
        is_changed: Bools = np.zeros(len(self._is_seen), bool)
        for cell in np.flatnonzero(is_covered).tolist():
            key = (cell * self._grid.frames, number)
            if (self._ratings.get(key, 0.0) > 0.5) != is_shown:
                is_changed[cell] = True
                self._rate(cell, key, is_shown)
        others = [each for each in self.labels if each != number]
        has_class = any(score > 0.5 for (_, each), score in self._ratings.items() if each == number)
        self.labels = sorted([*others, *([number] if has_class else [])]) if is_changed.any() else self.labels
        return is_changed

    def _rate(self, cell: int, key: tuple[int, int], is_shown: bool) -> None:
        """Rates a class in a cell; a class that is absent where people have rated every class has no rating."""
        if is_shown:
            self._ratings[key] = 1.0
            self._is_seen[cell] = True
        elif self._is_seen[cell]:
            del self._ratings[key]
        else:
            self._ratings[key] = 0.0

    def replace(self, marked: RatedCells) -> None:
        """Takes what people have marked, for the cells that they have looked at."""
        is_new: Bools = np.zeros(len(self._is_seen), bool)
        for first, last in marked.ranges.tolist():
            is_new[first // self._grid.frames : -(-last // self._grid.frames)] = True
        before = {number for (_, number), score in self._ratings.items() if score > 0.5}
        other_cells = {key: score for key, score in self._ratings.items() if not is_new[key[0] // self._grid.frames]}
        self._ratings, self._is_seen = other_cells, self._is_seen | is_new
        for start, number, score in zip(marked.starts.tolist(), marked.classes.tolist(), marked.scores, strict=True):
            self._ratings.pop((start, number), None)
            if score > 0.5 or not self._is_seen[start // self._grid.frames]:
                self._ratings[start, number] = float(score)
        after = {number for (_, number), score in self._ratings.items() if score > 0.5}
        others = set() if is_new.all() else {*self.labels} - before  # of the video, without a cell
        self.labels = sorted(others | after)

    def context(self) -> dict[str, bytes]:
        """{name: encoded Feature} of the labels, the ratings and the annotated ranges."""
        ranges: Ints64 = frame_ranges(self._is_seen, self._grid.frames, self._count)
        ratings = sorted(self._ratings.items())
        return {
            "labels": shards.int64_feature(self.labels),
            "segment_start_times": shards.int64_feature(start for (start, _), _ in ratings),
            "segment_labels": shards.int64_feature(number for (_, number), _ in ratings),
            "segment_scores": shards.float_feature([score for _, score in ratings]),
            **{
                name: shards.int64_feature(times.tolist())
                for name, times in zip(shards.ANNOTATED_LISTS, ranges.T, strict=True)
            },
        }
