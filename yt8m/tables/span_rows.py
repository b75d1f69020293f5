"""Tables with a row for each span of a video, `welding from 12.4 to 31.0`: their rows become one row for each video."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.class_names import TRUE_WORDS
from yt8m.tables.csv_source import CsvSource
from yt8m.tables.meanings import normalized
from yt8m.tables.merging import LABELS, Merger
from yt8m.tables.roles import Roles
from yt8m.tables.sources import MemorySource, Rows, Source
from yt8m.tables.times import NotATimeError, Span, is_clock, is_empty, parse_time

SPANS, PROBLEMS = "spans of all rows", "what is wrong with a span"  # columns of the merged rows
_ROWS_AT_ONCE = 8192


class MergedSpans(NamedTuple):
    """The videos of a table of spans.

    Attributes:
      source: a row for each video, whose column `SPANS` has its spans.
      spans: number of spans.
    """

    source: MemorySource
    rows: int
    spans: int
    is_scattered: bool


def merge_spans(
    source: Source,
    roles: Roles,
    extra_columns: Sequence[str],
    split_cell: Callable[[Any], tuple[str, ...]],
    frame_rate: float,
) -> MergedSpans:
    """Merges the rows of each video. A row without times and labels is a video that may have no span."""
    missing = [name for name, column in (("start", roles.start), ("end", roles.end)) if not column]
    if not roles.labels:
        missing.append("labels")
    if missing:
        listed = ", ".join(source.columns)[:300]
        raise UsageError(
            f"{source.path}: a row of a span needs the columns start, end and labels, but {' and '.join(missing)} "
            f"cannot be found; it has: {listed}. Name them, as in --columns=start=COLUMN,end=COLUMN,labels=COLUMN."
        )
    if isinstance(source, CsvSource):
        source.pads_rows = True  # a video without spans may have no further cells
    merger = _SpanMerger(source, roles, [*extra_columns], frame_rate)
    for rows in source.batches(_ROWS_AT_ONCE, 0, merger.columns):
        merger.add(rows, split_cell)
    return merger.spans()


class _SpanMerger(Merger):
    """Collects the spans of each video."""

    def __init__(self, source: Source, roles: Roles, extra_columns: list[str], frame_rate: float) -> None:
        super().__init__(source, dataclasses.replace(roles, start="", end="", value="", clock_times=()), extra_columns)
        self._times, self._value, self._frame_rate = (roles.start, roles.end), roles.value, frame_rate
        self._has_durations = roles.has_durations
        self.columns = list(dict.fromkeys([*self.columns, *self._times, *filter(None, [roles.value])]))
        columns = [name for name in self._times if "frame" in normalized(name).split("_")]
        has_seconds = frame_rate or getattr(source, "has_seconds", False)
        self._columns_of_frames = [] if has_seconds else columns
        self._spans: list[list[Span]] = []
        self._problems: list[str] = []

    def add(self, rows: Rows, split_cell: Callable[[Any], tuple[str, ...]]) -> None:
        """Adds rows; a bad one stays a row of its own."""
        cells = rows.cells
        self._bad |= rows.bad
        labels = zip(*(cells[name] for name in self._roles.labels), strict=True)
        counts = (
            [_says_yes(cell) for cell in cells[self._value]] if self._value else [True] * len(cells[self._roles.id])
        )
        for index, (cell_id, row, *times) in enumerate(
            zip(cells[self._roles.id], labels, *(cells[name] for name in self._times), strict=True)
        ):
            name, number = str(cell_id), rows.first + index
            if number in rows.bad:
                continue
            place = self.find_place(name, number, cells, index)
            if place == len(self._spans):
                self._spans.append([])
                self._problems.append("")
            is_span = counts[index]
            names = tuple(label for cell in row if is_span and not is_empty(cell) for label in split_cell(cell))
            self._labels[place].update(dict.fromkeys(names))
            if is_span:
                self._add_span(place, names, times, number)
            self._last, self._rows = name, self._rows + 1

    def _add_span(self, place: int, names: tuple[str, ...], times: Sequence[Any], row: int) -> None:
        """Adds the span of a row, or says what is wrong with it."""
        if not names and all(map(is_empty, times)):
            return
        if self._columns_of_frames and not all(is_empty(cell) or is_clock(cell) for cell in times):
            raise UsageError(
                f'{self._source.path}: "{self._columns_of_frames[0]}" counts frames, as its name says; say how many '
                "there are in a second by --frame_rate=25, or name columns of seconds, as in "
                "--columns=start=COLUMN,end=COLUMN."
            )
        problem = ""
        if not names:
            problem = "the span has no label"
        elif any(map(is_empty, times)):
            problem = "a span needs a start and an end"
        else:
            try:
                start, end = (parse_time(cell, self._frame_rate) for cell in times)
                end += start if self._has_durations else 0
            except NotATimeError as error:
                problem = f"a time is {error}"
            else:
                if end < start:
                    problem = f"the end, {end:g}, is before the start, {start:g}"
                self._spans[place].append(Span(start, end, names, row))
        if problem and not self._problems[place]:
            self._problems[place] = f"its span in {self.where(row)}: {problem}"

    def spans(self) -> MergedSpans:
        """The merged rows."""
        source = self.merged_source(
            {
                LABELS: [tuple(names) for names in self._labels],
                SPANS: list(map(tuple, self._spans)),
                PROBLEMS: self._problems,
            }
        )
        return MergedSpans(source, self._rows, sum(map(len, self._spans)), self._is_scattered)


def _says_yes(cell: Any) -> bool:
    return str(cell).strip().lower() in TRUE_WORDS


def rate_of(source: Source, frame_rate: float) -> float:
    """The frames per second that the times of spans count; 0 for times, which those of an export are already."""
    return 0.0 if getattr(source, "has_seconds", False) else frame_rate
