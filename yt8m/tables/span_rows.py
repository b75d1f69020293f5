"""Tables with a row for each span of a video, `welding from 12.4 to 31.0`: their rows become one row for each video."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.columns import doubtful_times
from yt8m.tables.columns.roles import Roles
from yt8m.tables.merging import LABELS, Merger
from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.sources.source import ROWS_AT_ONCE, MemorySource, Rows, Source
from yt8m.tables.words import normalized
from yt8m.tables.words.class_names import NO_CLASS, says_no_class
from yt8m.tables.words.numbers import with_point
from yt8m.tables.words.side_words import SELECTION
from yt8m.tables.words.time_columns import (
    CLOCKS,
    END,
    FRAME_RATES,
    FRAMES,
    START,
    as_clock,
    in_seconds,
    is_length_of_video,
    per_second,
    unit_of,
)
from yt8m.tables.words.times import NotATimeError, Span, is_clock, is_empty, parse_time

# Columns of the merged rows.
SPANS, PROBLEMS, SECONDS = COLUMNS = ("spans of all rows", "what is wrong with a span", "length of the video")
_CLASSES = "classes whose columns say yes"  # a column of rows while they are merged
_FOUND = frozenset(["video", "start", "end", "class", "score"])
# Columns of tables whose rows are clips: of AudioSet, and of parts of films that `yt8m select` has chosen.
_CLIPS = (frozenset(["ytid", "positive_labels"]), SELECTION)
_IDS_OF_YOUTUBE = frozenset(["ytid", "yt_id", "youtube_id"])  # as in Kinetics
_DENIALS = frozenset(["-1", "-1.0"])  # as in HACS: people have looked for the class at these times, and it is not there
_SAME_RATE = 1e-3  # 29.97 and 30000 / 1001 are one rate
_MOST_CLIPS = 0.9  # a larger share of spans of one length is no chance


class MergedSpans(NamedTuple):
    """The videos of a table of spans.

    Attributes:
      source: a row for each video, whose column `SPANS` has its spans.
      spans: number of spans.
      are_clips: whether the spans seem to be clips of longer videos, which nobody has seen to their end.
      in_parts: number of videos of which an export names the parts that alone people have looked at.
    """

    source: MemorySource
    rows: int
    spans: int
    is_scattered: bool
    are_clips: bool
    in_parts: int


class Reading(NamedTuple):
    """How the cells of rows of spans are read.

    Attributes:
      split_cell: the names of the classes in a cell of labels.
      frame_rate: frames per second, if times count frames; else 0.
      has_thousands: whether commas in times stand between thousands.
      read_classes: makes the names of the classes of each row, and adds bad rows, if classes have columns; else None.
    """

    split_cell: Callable[[Any], tuple[str, ...]]
    frame_rate: float
    has_thousands: bool
    read_classes: Callable[[Rows, dict[int, str]], list[tuple[str, ...]]] | None = None


def merge_spans(source: Source, roles: Roles, extra_columns: Sequence[str], reading: Reading) -> MergedSpans:
    """Merges the rows of each video. A row without times and labels is a video that may have no span."""
    missing = [name for name, column in (("start", roles.start), ("end", roles.end)) if not column]
    if not roles.labels and not roles.classes:
        missing.append("labels")
    if missing:
        listed = ", ".join(source.columns)[:300]
        raise UsageError(
            f"{source.path}: a row of a span needs the columns start, end and labels, but {' and '.join(missing)} "
            f"cannot be found; it has: {listed}. Name them, as in --columns=start=COLUMN,end=COLUMN,labels=COLUMN."
        )
    if isinstance(source, CsvSource):
        source.pads_rows = True  # a video without spans may have no further cells
    merger = _SpanMerger(source, roles, [*extra_columns], reading)
    for rows in source.batches(ROWS_AT_ONCE, 0, merger.columns):
        merger.add(_with_classes(rows, reading), _names_in if reading.read_classes else reading.split_cell)
    return merger.spans()


def _with_classes(rows: Rows, reading: Reading) -> Rows:
    """Rows with the names of the classes whose columns say yes, in a column of labels."""
    if reading.read_classes is None:
        return rows
    bad = dict(rows.bad)
    names = reading.read_classes(rows, bad)
    return rows._replace(cells={**rows.cells, _CLASSES: [each or NO_CLASS for each in names]}, bad=bad)


def _names_in(cell: Any) -> tuple[str, ...]:
    """The names in a cell of `_CLASSES`."""
    return () if cell == NO_CLASS else cell


class _SpanMerger(Merger):
    """Collects the spans of each video."""

    def __init__(self, source: Source, roles: Roles, extra_columns: list[str], reading: Reading) -> None:
        labels = (_CLASSES,) if roles.classes else roles.labels
        bare_roles = dataclasses.replace(roles, labels=labels, start="", end="", value="", clock_times=())
        super().__init__(source, bare_roles, extra_columns)
        self._times, self._value = (roles.start, roles.end), roles.value
        frame_rate, self._has_thousands = reading.frame_rate, reading.has_thousands
        self._has_durations = roles.has_durations
        self._units = [unit_of(name) for name in self._times]
        self._rates = [self._rate(name, frame_rate) for name in self._times]
        self._length = next((name for name in source.columns if is_length_of_video(normalized(name))), "")
        self._fps = next((name for name in source.columns if normalized(name) in FRAME_RATES), "")
        others = [*self._times, *filter(None, [roles.value, self._length, self._fps])]
        read = dict.fromkeys([*self.columns, *others, *roles.classes])
        self.columns = [name for name in read if name != _CLASSES]
        columns = [name for name in self._times if unit_of(name) == FRAMES]
        has_seconds = frame_rate or getattr(source, "has_seconds", False)
        self._frame_rate, self._columns_of_frames = frame_rate, [] if has_seconds else columns
        self._spans: list[list[Span]] = []
        self._problems: list[str] = []
        self._seconds: list[float] = []

    def _rate(self, column: str, frame_rate: float) -> float:
        """How many of the unit of a column of times are a second; 0 for times."""
        unit = unit_of(column)
        if frame_rate and unit not in {"", FRAMES, *CLOCKS}:
            raise UsageError(
                f'{self._source.path}: "{column}" counts {unit}, as its name says, but --frame_rate={frame_rate:g} is '
                "for times that count frames; leave the flag out, or name other columns, as in "
                "--columns=start=COLUMN,end=COLUMN."
            )
        return frame_rate if unit in CLOCKS else per_second(unit, frame_rate)

    def add(self, rows: Rows, split_cell: Callable[[Any], tuple[str, ...]]) -> None:
        """Adds rows; a bad one stays a row of its own."""
        cells = rows.cells
        self._bad |= rows.bad
        self._verdicts.update(map(str, cells[self._verdict]) if self._verdict else ())
        labels = zip(*(cells[name] for name in self._roles.labels), strict=True)
        values = cells[self._value] if self._value else [1] * len(cells[self._roles.id])
        for index, (cell_id, row, *times) in enumerate(
            zip(cells[self._roles.id], labels, *(cells[name] for name in self._times), strict=True)
        ):
            name, number = str(cell_id), rows.first + index
            if number in rows.bad:
                continue
            times = [doubtful_times.without(cell) for cell in times] if self._has_thousands else times
            times = list(map(as_clock, times, self._units))
            place = self.find_place(name, number, cells, index)
            if place == len(self._spans):
                self._spans.append([])
                self._problems.append("")
                self._seconds.append(0.0)
            if self._length:
                self._add_length(place, cells[self._length][index])
            if self._fps and (self._frame_rate or self._columns_of_frames):
                self._use_rate(cells[self._fps][index], number)
            is_span = self._is_present(values[index], number)
            names = tuple(label for cell in row if not is_empty(cell) for label in split_cell(cell))
            if is_span:
                self._labels[place].update(dict.fromkeys(names))
                self._add_span(place, names, times, number, has_none=any(map(says_no_class, row)))
            elif names and str(values[index]).strip() in _DENIALS and not any(map(is_empty, times)):
                self._add_span(place, names, times, number, is_denied=True)
            if self._person and is_span:
                text = f"{'+'.join(names)} from {times[0]} to {times[1]}"
                self._answers[place].setdefault(cells[self._person][index], set()).add(text)
            self._last, self._rows = name, self._rows + 1

    def _use_rate(self, cell: Any, row: int) -> None:
        """Takes the frames per second of a row from its own column; refuses --frame_rate if it differs."""
        if is_empty(cell):
            self._rates = [0.0] * 2 if self._columns_of_frames else self._rates
            return
        try:
            rate = with_point(str(cell))
        except ValueError:
            rate = 0.0
        if rate <= 0:
            raise UsageError(
                f'{self._source.path}, {self.where(row)}: "{self._fps}" is {str(cell)[:40]!r}; expected the number of '
                "frames per second."
            )
        if self._frame_rate and abs(rate - self._frame_rate) > _SAME_RATE * rate:
            raise UsageError(
                f'{self._source.path}, {self.where(row)}: "{self._fps}" is {rate:g}, but --frame_rate is '
                f"{self._frame_rate:g}; leave the flag out, so that each row counts frames by its own rate."
            )
        if self._columns_of_frames:
            self._rates = [rate] * 2

    def _add_length(self, place: int, cell: Any) -> None:
        """Keeps the length of a video; a cell that holds no time says nothing."""
        with contextlib.suppress(NotATimeError):
            if not is_empty(cell):
                self._seconds[place] = parse_time(cell, per_second(unit_of(self._length)))

    def _add_span(
        self,
        place: int,
        names: tuple[str, ...],
        times: Sequence[Any],
        row: int,
        *,
        has_none: bool = False,
        is_denied: bool = False,
    ) -> None:
        """Adds the span of a row, or says what is wrong with it.

        Args:
          has_none: whether the row says that no class is seen at its times.
          is_denied: whether the row says that these classes are not seen at its times.
        """
        if not names and all(map(is_empty, times)):
            return
        if (
            self._columns_of_frames
            and not any(self._rates)
            and not all(is_empty(cell) or is_clock(cell) for cell in times)
        ):
            raise UsageError(
                f'{self._source.path}: "{self._columns_of_frames[0]}" counts frames, as its name says; say how many '
                "there are in a second by --frame_rate=25, or name columns of seconds, as in "
                "--columns=start=COLUMN,end=COLUMN."
            )
        problem = ""
        if not names and not has_none:
            problem = f'the span has no label; write "{NO_CLASS}" if people have looked there and seen no class'
        elif any(map(is_empty, times)):
            problem = "a span needs a start and an end"
        else:
            try:
                start, end = (parse_time(cell, rate) for cell, rate in zip(times, self._rates, strict=True))
                end += start if self._has_durations else 0
            except NotATimeError as error:
                problem = f"a time is {error}"
            else:
                if end < start:
                    problem = f"the end, {end:g}, is before the start, {start:g}"
                labels, denied = ((), names) if is_denied else (names, ())
                self._spans[place].append(Span(start, end, labels, row, denied=denied))
        if problem and not self._problems[place]:
            is_first = row == self._numbers[place]  # the message on the video has this place
            self._problems[place] = f"its span{'' if is_first else f' in {self.where(row)}'}: {problem}"

    def spans(self) -> MergedSpans:
        """The merged rows."""
        self._refuse_verdicts()
        self._refuse_several_answers()
        seen_parts, lengths = told_by(self._source)
        number = sum(not span.denied for spans in self._spans for span in spans)
        for name, place in self._place.items():
            self._spans[place] += [Span(start, end, (), is_part=True) for start, end in seen_parts.get(name, ())]
            self._seconds[place] = lengths.get(name, self._seconds[place])
        source = self.merged_source(
            {
                LABELS: [tuple(names) for names in self._labels],
                SPANS: list(map(tuple, self._spans)),
                PROBLEMS: self._problems,
                SECONDS: self._seconds,
            }
        )
        in_parts = sum(bool(seen_parts.get(name)) for name in self._place)
        return MergedSpans(source, self._rows, number, self._is_scattered, self._are_clips(), in_parts)

    def _are_clips(self) -> bool:
        """Whether the columns are those of AudioSet or of `yt8m select`, or ids of YouTube with clips of one length."""
        names = frozenset(map(normalized, self._source.columns))
        if any(layout <= names for layout in _CLIPS):
            return True
        lengths = Counter(round(span.end - span.start, 2) for spans in self._spans for span in spans)
        return (
            not names.isdisjoint(_IDS_OF_YOUTUBE) and max(lengths.values(), default=0) > _MOST_CLIPS * lengths.total()
        )


def spans_of_videos(source: MemorySource) -> Iterator[Sequence[Span]]:
    """Yields the spans of each video of merged rows that are not bad."""
    for rows in source.batches(ROWS_AT_ONCE, 0, [SPANS, PROBLEMS]):
        yield from (
            spans for spans, problem in zip(rows.cells[SPANS], rows.cells[PROBLEMS], strict=True) if not problem
        )


def is_own_table(source: Source) -> bool:
    """Whether `yt8m select` or `yt8m predict --spans` has written the table, whose numbers deny no label."""
    names = frozenset(map(normalized, source.columns))
    return names >= SELECTION or names == _FOUND


def told_by(source: Source) -> tuple[Mapping[str, Sequence[tuple[float, float]]], Mapping[str, float]]:
    """({video: the parts of it that alone people have looked at}, {video: its seconds}), as an export says them."""
    return getattr(source, "seen_parts", {}), getattr(source, "lengths", {})


def have_thousands(
    path: str, columns: Mapping[str, Iterable[Any]], frame_rate: float, has_decimal_commas: bool
) -> bool:
    """Whether commas in columns of times stand between thousands; see `doubtful_times`.

    Numbers of frames or of another unit need no decimal commas, so theirs stand between thousands if they can.
    """
    names = [name for name in columns if not per_second(unit_of(name), frame_rate)]
    others = [cell for name in columns if name not in names for cell in columns[name]]
    if not has_decimal_commas and doubtful_times.can_only_be_thousands(others):
        return not names or not doubtful_times.have_any(cell for name in names for cell in columns[name])
    cells = [cell for name in names for cell in columns[name]]
    return doubtful_times.are_of_thousands(f"{path}, column {' and '.join(names)}", cells, has_decimal_commas)


def rate_of(source: Source, frame_rate: float) -> float:
    """The frames per second that the times of spans count; 0 for times, which those of an export are already."""
    return 0.0 if getattr(source, "has_seconds", False) else frame_rate


def is_used_beside(name: str) -> bool:
    """Whether a column that has no role says something of spans: how long its video is, or how frames are counted."""
    return is_length_of_video(normalized(name)) or normalized(name) in FRAME_RATES


def times_of_videos(cells: Mapping[str, Sequence[Any]], roles: Roles, has_thousands: bool) -> dict[str, Sequence[Any]]:
    """{start or end: its cells} of rows that are videos; what counts in another unit is seconds."""
    columns, plain = (
        {START: roles.start, END: roles.end},
        doubtful_times.without if has_thousands else lambda cell: cell,
    )
    return {
        meaning: [in_seconds(plain(cell), unit_of(column)) for cell in cells[column]]
        for meaning, column in columns.items()
        if column
    }


def describe_times(source: Source, roles: Roles, frame_rate: float) -> list[str]:
    """What is said of the columns of times: their names, and what they count if that is not seconds."""
    columns = [name for name in (roles.start, roles.end) if name]
    if not columns:
        return []
    rate = rate_of(source, frame_rate)
    units = [unit_of(name) for name in columns]
    units = [unit if unit not in ("", FRAMES) and per_second(unit) else "" for unit in units]
    if len(set(units)) == 1:
        columns = [f'"{name}"' for name in columns]
        unit_text = f", in {units[0]}" if units[0] else ""
    else:
        columns = [f'"{name}"' + (f" in {unit}" if unit else "") for name, unit in zip(columns, units, strict=True)]
        unit_text = ""
    if roles.has_durations:
        unit_text = f", in frames at {rate:g} per second" if rate else unit_text
        return [f"starts from {columns[0]}, ends from {' + '.join(columns)}{unit_text}"]
    return [f"times from {' and '.join(columns)}{f', in frames at {rate:g} per second' if rate else unit_text}"]
