"""Spans of videos as rated segments: the cells of a grid that a class covers, and the frames that were annotated.

A cell has `Grid.frames` frames; the last one of a video may have fewer. A class is shown in a cell if its spans cover
at least half of it. Records store only these cells, as YouTube-8M's rated segments, and the annotated ranges: in their
cells every other class is absent, which readers add. Times after the last frame do not count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.datasets.make_records.classes import WHOLE
from yt8m.errors import RunError, UsageError
from yt8m.records import shards
from yt8m.tables.words.times import Span, union

_ROUNDING = 1e-6  # seconds
_OTHER_UNITS = (
    "do their times count milliseconds or frames (start_ms, --frame_rate), or have the features another number of "
    "frames per second (--frames_per_second)?"
)
# The length of a video may differ so much from what its table says: other copies of a film begin or end elsewhere.
_MOST_APART, _SECONDS_APART = 0.1, 2.0  # a share of its length, and seconds

# What is counted, in the words of the summary.
SPANS, POSITIVE, ANNOTATED = "spans", "positive cells", "annotated cells"
BEYOND, CLIPPED = "spans after the end of the video, left out", "spans cut at the end of the video"
EMPTY, OVERLAPPING = "spans of no length, left out", "spans that overlap another one of their class"
UNSEEN = "spans that cover half of no cell, left out (a smaller --segment_size keeps them)"
DENIED = "cells in which people say that one class is absent"
CONTRADICTED = "cells that a row shows and another one denies, taken as shown"
DENIED_NOWHERE = "rows that deny a class, but half of no cell of their video, left out"


class ClassSpan(NamedTuple):
    """A span with the numbers of its classes; `start` and `end` are seconds.

    Without a class it is a part of the video that people have looked at, unless it denies classes.

    Attributes:
      is_part: whether people have looked at this part, and others that are given so, of the video alone.
      denied: the classes of which people say that this part does not show them.
    """

    start: float
    end: float
    classes: tuple[int, ...]
    is_part: bool = False
    denied: tuple[int, ...] = ()


def number_spans(spans: Sequence[Span], numbers: Mapping[str, int]) -> tuple[ClassSpan, ...]:
    """The spans with the classes of their labels; `numbers` is {label: class}, without those that are only denied."""
    return tuple(
        ClassSpan(
            *(span.start, span.end, tuple(dict.fromkeys(numbers[name] for name in span.labels)), span.is_part),
            denied=tuple(dict.fromkeys(numbers[name] for name in span.denied if name in numbers)),
        )
        for span in spans
    )


class RatedCells(NamedTuple):
    """What a record stores of the spans of a video.

    Attributes:
      starts, classes: int64 [n], the first frame of each rated cell, and the class.
      scores: float32 [n], 1 if the cell shows the class, 0 if people say that it does not.
      ranges: int64 [r, 2], the first frame of each annotated range, and the frame after its last.
    """

    starts: NDArray[np.int64]
    classes: NDArray[np.int64]
    scores: NDArray[np.float32]
    ranges: NDArray[np.int64]

    @property
    def shown(self) -> NDArray[np.int64]:
        """The class of each cell that shows one."""
        return self.classes[self.scores > 0]

    def only_shown(self, classes: Iterable[int]) -> tuple[int, ...]:
        """Those of the labels of the video that a cell shows: all spans of the others were left out."""
        shown = set(self.shown.tolist())
        return tuple(number for number in classes if number in shown)

    def context(self) -> dict[str, bytes]:
        """{name: encoded Feature} for the context of the record."""
        return {
            "segment_start_times": shards.int64_feature(self.starts.tolist()),
            "segment_labels": shards.int64_feature(self.classes.tolist()),
            "segment_scores": shards.float_feature(self.scores),
            **{
                name: shards.int64_feature(times.tolist())
                for name, times in zip(shards.ANNOTATED_LISTS, self.ranges.T, strict=True)
            },
        }


class Grid(NamedTuple):
    """The grid on which spans are stored.

    Attributes:
      frames: number of frames of a cell.
      per_second: frames per second of the features.
      annotated: `whole` or `spans`, see `WHOLE`.
    """

    frames: int
    per_second: float
    annotated: str

    @classmethod
    def with_cells(cls, seconds: float, per_second: float, annotated: str) -> Grid:
        """The grid of cells of some seconds; refuses seconds that are no whole number of frames."""
        frames = seconds * per_second
        if abs(frames - round(frames)) > _ROUNDING or round(frames) < 1:
            raise UsageError(
                f"--segment_size={seconds:g}: at {per_second:g} frames per second this is {frames:g} frames, but a "
                "cell has whole frames, at least one."
            )
        return cls(round(frames), per_second, annotated)

    def wrong_length(self, seconds: float, num_frames: int) -> str:
        """What is wrong with a video of some frames that the table says to last some seconds; empty if they fit.

        Args:
          seconds: 0 if the table does not say them.
        """
        length = num_frames / self.per_second
        if not seconds or abs(length - seconds) <= max(
            _MOST_APART * seconds, _SECONDS_APART, self.frames / self.per_second
        ):
            return ""
        return (
            f"it has {num_frames} frames, which are {length:g} s at {self.per_second:g} frames per second, but lasts "
            f"{seconds:g} s by the table, so its spans would lie at wrong times; if all videos have "
            f"{num_frames / seconds:.4g} frames per second, say so by --frames_per_second"
        )

    def cells(self, spans: Sequence[ClassSpan], num_frames: int) -> tuple[RatedCells, Counter[str]]:
        """The cells of a video, and what is to be said of its spans."""
        seconds, said = num_frames / self.per_second, Counter({SPANS: sum(len(span.classes) for span in spans)})
        covers = list[tuple[int, NDArray[np.bool_]]]()
        times = [(span.start, min(span.end, seconds)) for span in spans if not span.classes and not span.denied]
        for number, intervals in _by_class((span, span.classes) for span in spans).items():
            visible = list(_within(intervals, seconds, said))
            covers.append((number, self.half_covered(visible, num_frames)))
            said[UNSEEN] += sum(not self.half_covered([interval], num_frames).any() for interval in visible)
            times += visible
        count = -(-num_frames // self.frames)
        is_whole = self.annotated == WHOLE and not any(span.is_part for span in spans)
        is_annotated = np.ones(count, bool) if is_whole else self.half_covered(times, num_frames)
        denials = list(self._denials(spans, dict(covers), is_annotated, num_frames, said))
        rated = _rated(covers, denials, frame_ranges(is_annotated, self.frames, num_frames), self.frames)
        said.update({POSITIVE: len(rated.shown), ANNOTATED: int(is_annotated.sum())})
        return rated, +said

    def _denials(
        self,
        spans: Sequence[ClassSpan],
        shown: Mapping[int, NDArray[np.bool_]],
        is_annotated: NDArray[np.bool_],
        num_frames: int,
        said: Counter[str],
    ) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Yields (class, whether it is rated as absent in each cell) of classes that rows deny.

        In annotated cells they are absent anyway. Cells that show a class stay as they are, since clips may overlap.

        Args:
          shown: {class: whether each cell shows it}.
        """
        for number, intervals in _by_class((span, span.denied) for span in spans).items():
            is_denied = self.half_covered(intervals, num_frames)
            is_shown = shown.get(number, np.zeros(len(is_denied), bool))
            said[DENIED_NOWHERE] += sum(not self.half_covered([each], num_frames).any() for each in intervals)
            said[CONTRADICTED] += int((is_denied & is_shown).sum())
            said[DENIED] += int((is_denied & ~is_shown).sum())
            yield number, is_denied & ~is_shown & ~is_annotated

    def half_covered(self, intervals: Sequence[tuple[float, float]], num_frames: int) -> NDArray[np.bool_]:
        """Whether intervals cover at least half of each cell of a video."""
        edges = np.append(np.arange(0, num_frames, self.frames), num_frames) / self.per_second
        covered = np.zeros(len(edges) - 1)
        for start, end in union(intervals):
            first, last = np.searchsorted(edges, [start, end]).tolist()
            cells = slice(max(first - 1, 0), last)
            covered[cells] += np.clip(np.minimum(edges[1:][cells], end) - np.maximum(edges[:-1][cells], start), 0, None)
        return np.asarray((2 * covered >= np.diff(edges) - _ROUNDING) & (covered > 0))


def _by_class(spans: Iterable[tuple[ClassSpan, Sequence[int]]]) -> dict[int, list[tuple[float, float]]]:
    """{class: the times of its spans}, from spans and those of their classes that count."""
    times: dict[int, list[tuple[float, float]]] = {}
    for span, classes in spans:
        for number in classes:
            times.setdefault(number, []).append((span.start, span.end))
    return times


def classes_within(spans: Sequence[ClassSpan], seconds: float) -> set[int]:
    """The classes of spans that have a length and begin within a video of some seconds."""
    return {number for span in spans if span.start < min(span.end, seconds) for number in span.classes}


def _within(
    intervals: Sequence[tuple[float, float]], seconds: float, said: Counter[str]
) -> Iterator[tuple[float, float]]:
    """Yields the intervals of one class within a video of some seconds; counts those that are not as people meant."""
    latest = -math.inf
    for start, end in sorted(intervals):
        if end <= start:
            said[EMPTY] += 1
        elif start >= seconds:
            said[BEYOND] += 1
        else:
            said[CLIPPED] += end > seconds + _ROUNDING
            said[OVERLAPPING] += start < latest - _ROUNDING
            latest = max(latest, end)
            yield start, min(end, seconds)


def _rated(
    covers: Sequence[tuple[int, NDArray[np.bool_]]],
    denials: Sequence[tuple[int, NDArray[np.bool_]]],
    ranges: NDArray[np.int64],
    size: int,
) -> RatedCells:
    """The cells to store, ordered by their starts.

    Args:
      covers, denials: for each class, whether each cell shows it, or is rated as not showing it.
    """
    rows = [
        (int(cell) * size, number, score)
        for score, cells_of_classes in ((1, covers), (0, denials))
        for number, is_rated in cells_of_classes
        for cell in np.flatnonzero(is_rated)
    ]
    rated = np.array(sorted(rows), np.int64).reshape(-1, 3)
    return RatedCells(rated[:, 0], rated[:, 1], rated[:, 2].astype(np.float32), ranges)


def frame_ranges(is_there: NDArray[np.bool_], size: int, num_frames: int) -> NDArray[np.int64]:
    """The ranges of frames of cells that are marked, int64 [r, 2]: the first frame, and the frame after the last.

    Args:
      is_there: bool [cells], of a video of `num_frames` frames, in cells of `size`.
    """
    ends = np.flatnonzero(np.diff(np.concatenate([[False], is_there, [False]]).astype(np.int8))).reshape(-1, 2)
    return np.minimum(ends * size, num_frames).astype(np.int64)


def describe(said: Mapping[str, int]) -> Iterator[str]:
    """Yields the lines about the spans of a split: their numbers, then what is not as people meant it."""
    if said:
        yield ", ".join(f"{said.get(name, 0)} {name}" for name in (SPANS, POSITIVE, ANNOTATED))
    for name in (BEYOND, CLIPPED, EMPTY, OVERLAPPING, UNSEEN, DENIED, CONTRADICTED, DENIED_NOWHERE):
        if said.get(name):
            yield f"{said[name]} {name}"
    if 2 * said.get(BEYOND, 0) > said.get(SPANS, 0):
        yield f"most spans begin after the end of their videos: {_OTHER_UNITS}"


def refuse_without_cells(said: Iterable[Mapping[str, int]]) -> None:
    """Raises `RunError` if there are spans, and no cell of any video shows a class.

    Args:
      said: what is said of the spans of each split.
    """
    total = Counter[str]()
    for counts in said:
        total.update(counts)
    if total[SPANS] and not total[POSITIVE]:
        lines = "; ".join(line for line in describe(total) if _OTHER_UNITS not in line)
        raise RunError(f"no cell of any video shows a class ({lines}): {_OTHER_UNITS}")
