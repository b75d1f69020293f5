"""Which columns of a table have the starts, ends and lengths of its rows."""

from __future__ import annotations

from yt8m.tables.columns.table_columns import TableColumns
from yt8m.tables.words import normalized
from yt8m.tables.words.time_columns import (
    END,
    FRAMES,
    START,
    is_duration,
    matching_pair,
    meaning_in_spans,
    starts_beside_others,
    unit_of,
)
from yt8m.tables.words.times import are_times

_CUT_FILES = frozenset(["youtube_id", "ytid", "yt_id", "slice_file_name"])  # ids of Kinetics, AudioSet and UrbanSound8K


class TimeFinder:
    """Finds the columns of times among those that are free.

    Args:
      are_spans: whether a row is a span of a video.
      counts_frames: whether the user says that times count frames.

    Attributes:
      units: {column: the unit that its name says}.
    """

    def __init__(self, columns: TableColumns, are_spans: bool, counts_frames: bool) -> None:
        self._facts, self._chosen, self._names, self._columns = columns.facts, columns.chosen, columns.names, columns
        self._are_spans, self._counts_frames = are_spans, counts_frames
        self.units = {name: unit_of(name) for name in columns.names}

    def find(self) -> tuple[str, str]:
        """The columns of starts and ends, which count in one unit if there are such."""
        starts, ends = map(self._time_candidates, (START, END))
        return matching_pair(starts, ends, self.units)

    def _time_candidates(self, meaning: str) -> list[str]:
        """The columns that may have the starts, or the ends, the surest first."""
        if meaning in self._chosen:
            return list(filter(None, [self._chosen[meaning]]))
        if not self._are_spans and any(normalized(name) in _CUT_FILES for name in self._names):
            return []  # the times are those of the film from which the video was cut
        facts, names = self._facts, self._columns.with_meaning(meaning)
        names = sorted(names, key=lambda name: normalized(name) != meaning)
        if self._are_spans:
            names += self._names_in_spans(meaning)
            names.sort(key=lambda name: (self.units[name] == FRAMES) != self._counts_frames)
        names = [name for name in names if name in facts and self._columns.is_free(name)]
        if self._are_spans:
            return names
        return [name for name in names if name == meaning or (facts[name].is_numeric and not facts[name].is_binary)]

    def _names_in_spans(self, meaning: str) -> list[str]:
        """The columns that mean starts, or ends, in tables of spans alone."""
        starts = starts_beside_others(self._names)
        ranked = [(meaning_in_spans(normalized(name)), name) for name in self._names if name not in starts]
        names = [name for _, name in sorted((time[1], name) for time, name in ranked if time and time[0] == meaning)]
        return names + starts if meaning == START else names

    def find_duration(self, unit: str) -> str:
        """The column with the lengths of spans, in the unit of their starts if there are several."""
        names = [name for name in self._names if is_duration(normalized(name))]
        names = [name for name in names if name in self._facts and self._columns.is_free(name)]
        return min(names, key=lambda name: self.units[name] != unit, default="")

    def clock_times(self) -> list[str]:
        """The free columns of starts and ends in minutes and seconds, such as 1:02.5, which may be times of day too."""
        names = [
            name
            for meaning in ("start", "end")
            for name in ([] if meaning in self._chosen else self._columns.with_meaning(meaning))
        ]
        return [*filter(self._holds_times, names), *self._pair_of_span_times()]

    def _holds_times(self, name: str) -> bool:
        facts = self._facts.get(name)
        return facts is not None and bool(facts.filled) and are_times(facts.filled[:1000])

    def _pair_of_span_times(self) -> list[str]:
        """The columns whose names are times in tables of spans, such as onset and offset, if there are both."""
        if {START, END} & self._chosen.keys():
            return []
        starts, ends = map(self._names_in_spans, (START, END))
        ends = ends or [name for name in self._names if is_duration(normalized(name))]
        pair = [*starts[:1], *ends[:1]]
        return pair if len(pair) == 2 and all(map(self._holds_times, pair)) else []
