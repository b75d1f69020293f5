"""Tables with a start and an end for each class: `video,weld_start,weld_end,cut_start,cut_end`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from yt8m.tables.sources.rewritten import RewrittenSource, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words.meanings import meaning_of, normalized
from yt8m.tables.words.time_columns import END, START, divided, meaning_in_spans, meaning_of_time
from yt8m.tables.words.times import is_empty

_LABELS = "label"
_SIGNS = r"[\s_.:\-]+"
_STARTS, _ENDS = r"start|begin|onset|from|in", r"end|stop|offset|to|out"
_FORMS = [
    (re.compile(rf"(.+?){_SIGNS}({words})", re.IGNORECASE), re.compile(rf"({words}){_SIGNS}(.+)", re.IGNORECASE))
    for words in (_STARTS, _ENDS)
]


class _Pair(NamedTuple):
    name: str
    start: str
    end: str


def expanded(source: Source, chosen: Mapping[str, str]) -> Source:
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
    columns |= {_LABELS: [row[1] for row in rows], START: [row[2] for row in rows], END: [row[3] for row in rows]}
    remark = "starts and ends of " + ", ".join(pair.name for pair in pairs[:8])
    result = RewrittenSource(source, columns, [row[0] + 1 for row in rows], bad, remark)
    result.hints = {**result.hints, "labels": _LABELS, START: START, END: END}
    return result


def _pairs(source: Source, chosen: Mapping[str, str]) -> list[_Pair]:
    """The classes with columns of their starts and ends; none if columns have the labels or times of all classes."""
    if {"labels", START, END} & {*chosen, *source.hints} or any(map(_is_other, source.columns)):
        return []
    starts, ends = ({_class_of(name, forms): name for name in source.columns} for forms in _FORMS)
    return [_Pair(name, starts[name], ends[name]) for name in starts if name and name in ends]


def _is_other(column: str) -> bool:
    """Whether a column has labels, or times of spans whose classes are named elsewhere."""
    name = normalized(column)
    is_time = meaning_of_time(name) or meaning_in_spans(name)
    return bool(is_time) or (meaning_of(column) or ("",))[0] == "labels" or column == _LABELS


def _class_of(column: str, forms: tuple[re.Pattern[str], re.Pattern[str]]) -> str:
    """The class whose times a column has; empty for other columns, and for times that count another unit."""
    if divided(normalized(column)).unit not in ("", "seconds"):
        return ""
    column = re.sub(rf"{_SIGNS}\(?(s|sec|secs|seconds)\)?$", "", column.strip(), flags=re.IGNORECASE)
    behind, before = (form.fullmatch(column) for form in forms)
    return behind[1] if behind else before[2] if before else ""
