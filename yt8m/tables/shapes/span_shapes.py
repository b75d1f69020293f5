"""Tables whose rows are no spans yet: several spans in a cell, times of each class, events that start and stop.

Each shape becomes rows with a start, an end and labels, which `span_rows` reads. BORIS exports events: a row where a
behaviour starts, and a row where it stops. Others have a start and an end for each class, as in
`video,weld_start,weld_end,cut_start,cut_end`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.shapes import datavyu, ends_alone, raven, span_ranges, time_parts
from yt8m.tables.sources.rewritten import RewrittenSource, place_of, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import is_of_labels, meaning_of, plain_meaning
from yt8m.tables.words.time_columns import END, FRAMES, START, divided, meaning_of_span, unit_of
from yt8m.tables.words.times import NotATimeError, is_empty, parse_time

_CLASS = "label"
_SIGNS = r"[\s_.:\-]+"
_WORDS_OF_STARTS, _WORDS_OF_ENDS = r"start|begin|onset|from|in", r"end|stop|offset|to|out"
_FORMS = [
    (re.compile(rf"(.+?){_SIGNS}({words})", re.IGNORECASE), re.compile(rf"({words}){_SIGNS}(.+)", re.IGNORECASE))
    for words in (_WORDS_OF_STARTS, _WORDS_OF_ENDS)
]
_STARTS = frozenset(["start", "begin", "on", "onset", "state start"])
_STOPS = frozenset(["stop", "end", "off", "offset", "state stop"])
_POINTS = frozenset(["point"])  # an event without a length
_TIMES = frozenset(["time", "timestamp", "t", "event_time"])
_PEOPLE = frozenset(["subject", "individual", "observer", "annotator", "coder"])
_SAMPLE = 2000


def reshaped(
    source: Source, chosen: Mapping[str, str], are_spans: bool, frame_rate: float
) -> tuple[Source, dict[str, str]]:
    """(the rows of a table with a start and an end, {meaning: column} as the user names them).

    Args:
      are_spans: whether rows are spans; rows of videos stay as they are.
      frame_rate: frames per second, if times count frames; else 0.
    """
    if not are_spans:
        time_parts.refuse_parts(source, chosen)
        return source, dict(chosen)
    original = source
    ends_alone.refuse_counters(source, chosen)
    source = source if frame_rate else raven.with_file_times(source, chosen)
    source = source if frame_rate else ends_alone.with_starts(time_parts.joined(source, chosen), chosen)
    for shape in (paired_events, span_ranges.expanded, datavyu.by_cell, by_class):
        rewritten = shape(source, chosen)
        if rewritten is not source:
            source = rewritten
            break
    if source is original:
        return source, dict(chosen)
    columns = {*source.columns, ""}
    return source, {name: text for name, text in chosen.items() if columns.issuperset(text.split("+"))}


class _Pair(NamedTuple):
    name: str
    start: str
    end: str


def by_class(source: Source, chosen: Mapping[str, str]) -> Source:
    """The source with a row for each span, if classes have columns of their starts and ends."""
    pairs = _pairs(source, chosen)
    if not pairs:
        return source
    cells, bad = read_all(source, list(source.columns))
    used = {column for pair in pairs for column in (pair.start, pair.end)}
    others = {name: values for name, values in cells.items() if name not in used}
    rows: list[tuple[int, str, object, object]] = []
    for place in range(len(cells[source.columns[0]])):
        times = [(place, pair.name, cells[pair.start][place], cells[pair.end][place]) for pair in pairs]
        filled = [row for row in times if not (is_empty(row[2]) and is_empty(row[3]))]
        rows += filled or [(place, "", None, None)]
    columns = {name: [values[row[0]] for row in rows] for name, values in others.items()}
    columns |= {_CLASS: [row[1] for row in rows], START: [row[2] for row in rows], END: [row[3] for row in rows]}
    remark = "starts and ends of " + ", ".join(pair.name for pair in pairs[:8])
    result = RewrittenSource(source, columns, [row[0] + 1 for row in rows], bad, remark)
    result.hints = {**result.hints, "labels": _CLASS, START: START, END: END}
    return result


def _pairs(source: Source, chosen: Mapping[str, str]) -> list[_Pair]:
    """The classes with columns of their starts and ends; none if columns have the labels or times of all classes."""
    if {"labels", START, END} & {*chosen, *source.hints} or any(map(_is_other, source.columns)):
        return []
    starts, ends = ({_class_of(name, forms): name for name in source.columns} for forms in _FORMS)
    return [_Pair(name, starts[name], ends[name]) for name in starts if name and name in ends]


def _is_other(column: str) -> bool:
    """Whether a column has labels, or times of spans whose classes are named elsewhere."""
    return meaning_of_span(column) in (START, END) or is_of_labels(column) or column == _CLASS


def _class_of(column: str, forms: tuple[re.Pattern[str], re.Pattern[str]]) -> str:
    """The class whose times a column has; empty for other columns, and for times that count another unit."""
    if unit_of(column) not in ("", "seconds"):
        return ""
    column = re.sub(rf"{_SIGNS}\(?(s|sec|secs|seconds)\)?$", "", column.strip(), flags=re.IGNORECASE)
    behind, before = (form.fullmatch(column) for form in forms)
    return behind[1] if behind else before[2] if before else ""


def paired_events(source: Source, chosen: Mapping[str, str]) -> Source:
    """The source with a row for each span, if its rows are events that start and stop."""
    status, time = _columns_of_events(source, chosen)
    labels = chosen.get("labels") or _column_with(source, "labels", status)
    if not (status and time and labels in source.columns):
        return source
    cells, bad = read_all(source, list(source.columns))
    keys = [*filter(None, [chosen.get("id")]), *_names_of_events(cells, status), labels]
    spans = _paired_rows(source, cells, status, time, list(dict.fromkeys(keys)))
    columns = {
        name: [values[first] for first, _ in spans] for name, values in cells.items() if name not in (status, time)
    }
    unit = unit_of(time)
    start, end = (f"{name}_{unit}" if unit else name for name in (START, END))
    columns |= {start: [cells[time][first] for first, _ in spans], end: [cells[time][last] for _, last in spans]}
    remark = f'events that "{status}" starts and stops'
    result = RewrittenSource(source, columns, [first + 1 for first, _ in spans], bad, remark)
    result.hints = {**result.hints, "labels": labels, START: start, END: end}
    return result


def _names_of_events(cells: Mapping[str, Sequence[Any]], status: str) -> list[str]:
    """The columns that say of which video, and of whom, an event is: each span repeats their values."""
    rows = [place for place, cell in enumerate(cells[status]) if str(cell).strip().lower() not in _POINTS]
    names = [name for name in cells if plain_meaning(name) == "id"]
    repeated = [name for name in names if 2 * len({cells[name][row] for row in rows}) <= max(len(rows), 2)]
    return [*repeated, *(name for name in cells if normalized(name) in _PEOPLE)]


def _column_with(source: Source, meaning: str, other: str) -> str:
    """The surest column with a meaning; empty if there is none."""
    ranked = [
        (rank[1], name)
        for name in source.columns
        if name != other and (rank := meaning_of(name)) and rank[0] == meaning
    ]
    return min(ranked, default=(0, ""))[1]


def _columns_of_events(source: Source, chosen: Mapping[str, str]) -> tuple[str, str]:
    """(the column that says whether an event starts or stops, the column of its time); empty if there are none."""
    times = [name for name in source.columns if divided(normalized(name)).bare in _TIMES]
    times = [name for name in times if unit_of(name) != FRAMES]
    if len(times) != 1 or {START, END} & {*chosen, *source.hints}:
        return "", ""
    for rows in source.batches(_SAMPLE, 0, source.columns):
        for name in source.columns:
            words = {str(cell or "").strip().lower() for cell in rows.cells[name]} - {""}
            if words & _STARTS and words & _STOPS and words <= _STARTS | _STOPS | _POINTS:
                return name, times[0]
        break
    return "", ""


def _paired_rows(
    source: Source, cells: Mapping[str, Sequence[Any]], status: str, time: str, keys: Sequence[str]
) -> list[tuple[int, int]]:
    """(the row of the start, the row of the stop) of each span; both are the same for an event without a length."""
    order = sorted(range(len(cells[time])), key=lambda row: _time_of(source, cells[time][row], row))
    begun: dict[tuple[Any, ...], int] = {}
    spans: list[tuple[int, int]] = []
    for row in order:
        key, word = tuple(cells[name][row] for name in keys), str(cells[status][row] or "").strip().lower()
        if word in _STARTS and key not in begun:
            begun[key] = row
        elif word in _STOPS and key in begun:
            spans.append((begun.pop(key), row))
        elif word in _POINTS:
            spans.append((row, row))
        else:
            problem = "starts again before it stops" if word in _STARTS else "stops, but has not started"
            raise _unpaired(source, cells, keys, row, problem if word else f'has no "{status}"')
    for row in begun.values():
        raise _unpaired(source, cells, keys, row, "starts, and never stops")
    return sorted(spans)


def _time_of(source: Source, cell: Any, row: int) -> float:
    try:
        return parse_time(cell)
    except NotATimeError as error:
        raise UsageError(f"{source.path}, {place_of(source, row + 1)}: a time is {error}.") from error


def _unpaired(
    source: Source, cells: Mapping[str, Sequence[Any]], keys: Sequence[str], row: int, problem: str
) -> UsageError:
    event = ", ".join(str(cells[name][row])[:40] for name in keys)
    return UsageError(
        f"{source.path}, {place_of(source, row + 1)}: the event of {event} {problem}. Write a start and a stop for "
        "each span, or a row for each span with the columns start and end."
    )
