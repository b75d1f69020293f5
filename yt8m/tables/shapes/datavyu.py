"""Tables of Datavyu: columns `ordinal`, `onset` and `offset` of each of its columns, and its codes; milliseconds.

A column of Datavyu, such as `behavior`, becomes `behavior.ordinal`, `behavior.onset`, `behavior.offset` and
`behavior.code01`. Several of them stand beside one another, so that the cells of a row have nothing to do with each
other but the video.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.sources.rewritten import RewrittenSource, read_all
from yt8m.tables.sources.source import ROWS_AT_ONCE, Source
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import JOIN, columns_flag, is_of_labels
from yt8m.tables.words.time_columns import END, START
from yt8m.tables.words.times import is_empty

_LABEL, _ORDINAL, _ONSET, _OFFSET = "label", "ordinal", "onset", "offset"
_PARTS = (_ORDINAL, _ONSET, _OFFSET)
_COLUMN = re.compile(r"(.+)[._](\w+)")
_UNIT = re.compile(r"(.+)[._](onset|offset)_(ms|s)", re.IGNORECASE)  # where the user says the unit
_WHOLE = re.compile(r"\d+(?:\.0*)?", re.ASCII)
_DAY = 86400  # times from here on count no seconds
_LARGE = 1000  # whole numbers from which on times may be milliseconds


class _Column(NamedTuple):
    """A column of Datavyu.

    Attributes:
      codes: the names of the columns of its codes.
    """

    name: str
    ordinal: str
    onset: str
    offset: str
    codes: Sequence[str]


def by_cell(source: Source, chosen: Mapping[str, str]) -> Source:
    """The source with a row for each cell of Datavyu; the source itself if it is no table of Datavyu."""
    if {START, END} & {*chosen, *source.hints}:
        return source
    _refuse_doubtful_unit(source)
    all_columns = _columns(source.columns)
    columns = [_with_codes(source, column, chosen) for column in all_columns]
    times = {name for column in all_columns for name in (column.ordinal, column.onset, column.offset)}
    codes = {name for column in all_columns for name in column.codes}
    label_column = _own_labels(source, columns, [name for name in source.columns if name not in times | codes], chosen)
    if (names := chosen.get("labels", "").split(JOIN)[0]) and not label_column:
        columns = [column for column in columns if names in column.codes]
    if not columns or (label_column and len(columns) > 1):
        return source
    return _rewritten(source, columns, times.union(*(column.codes for column in columns)), label_column)


def _rewritten(source: Source, columns: Sequence[_Column], used: Collection[str], label_column: str) -> Source:
    """The source with a row for each cell of columns, without `used` ones; `label_column` has those of the user."""
    cells, bad = read_all(source, list(source.columns))
    unit = _unit(source.path, columns, cells)
    others = {name: values for name, values in cells.items() if name not in used}
    rows: list[tuple[int, object, object, object]] = []
    for place in range(len(cells[source.columns[0]])):
        marked = [_row(cells, place, column) for column in columns]
        rows += [row for row in marked if not (is_empty(row[2]) and is_empty(row[3]))] or [(place, "", None, None)]
    start, end = START + unit, END + unit
    table = {name: [values[row[0]] for row in rows] for name, values in others.items()}
    label = label_column or (_LABEL if _LABEL not in table else f"{_LABEL} of {columns[0].name}")
    table |= {} if label_column else {label: [row[1] for row in rows]}
    table |= {start: [row[2] for row in rows], end: [row[3] for row in rows]}
    remark = f"{'milliseconds' if unit else 'times'} of Datavyu's " + ", ".join(column.name for column in columns[:8])
    result = RewrittenSource(source, table, [row[0] + 1 for row in rows], bad, remark)
    result.hints = {**result.hints, "labels": label, START: start, END: end}
    return result


def _own_labels(source: Source, columns: Sequence[_Column], others: Sequence[str], chosen: Mapping[str, str]) -> str:
    """The column of labels beside those of Datavyu; empty if there is none, or if the user chooses a code."""
    codes = [code for column in columns for code in column.codes]
    if names := chosen.get("labels", ""):
        return names if names in others else ""
    label_column = next((name for name in others if is_of_labels(name)), "")
    if label_column and codes:
        choices = " or ".join(columns_flag("labels", [name]) for name in (label_column, *codes[:4]))
        raise UsageError(
            f'{source.path}: "{label_column}" may have the labels, or "{codes[0]}" of Datavyu. Choose by {choices}.'
        )
    return label_column


def _unit(path: str, columns: Sequence[_Column], cells: Mapping[str, Sequence[object]]) -> str:
    """`_ms` if the times of columns are Datavyu's milliseconds, which are whole; empty for seconds and clocks."""
    said = {match[3].lower() for column in columns if (match := _UNIT.fullmatch(column.onset))}
    if said:
        return "_ms" if said == {"ms"} else ""
    texts = [str(cell) for column in columns for name in (column.onset, column.offset) for cell in cells[name]]
    texts = [text for text in texts if not is_empty(text)]
    if not texts or not all(map(_WHOLE.fullmatch, texts)):
        return ""
    largest = max(map(float, texts))
    if _LARGE <= largest < _DAY and not any(column.codes for column in columns):
        _refuse_unit(path, columns[0].onset, columns[0].offset, f"{largest:g}")
    return "_ms" if largest >= _LARGE else ""


def _row(cells: Mapping[str, Sequence[object]], place: int, column: _Column) -> tuple[int, object, object, object]:
    """(place of the row, label, onset, offset); a column without codes is a class itself."""
    label = cells[column.codes[0]][place] if column.codes else column.name
    return place, label, cells[column.onset][place], cells[column.offset][place]


def _columns(names: Sequence[str]) -> list[_Column]:
    """The columns of Datavyu in a table, each of which has an ordinal, an onset and an offset."""
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _UNIT.fullmatch(name) or _COLUMN.fullmatch(name):
            groups.setdefault(match[1], {})[match[2].lower()] = name
    return [
        _Column(
            name,
            columns[_ORDINAL],
            columns[_ONSET],
            columns[_OFFSET],
            [text for part, text in columns.items() if part not in _PARTS],
        )
        for name, columns in groups.items()
        if columns.keys() >= set(_PARTS)
    ]


def _with_codes(source: Source, column: _Column, chosen: Mapping[str, str]) -> _Column:
    """A column with the only codes that are filled, or those that the user names."""
    names = chosen.get("labels", "").split(JOIN)
    if codes := [code for code in column.codes if code in names]:
        return column._replace(codes=codes[:1])
    filled = [code for code in column.codes if _is_filled(source, code)]
    if len(filled) > 1 and "labels" not in chosen:
        choices = " or ".join(columns_flag("labels", [code]) for code in filled[:4])
        raise UsageError(
            f'{source.path}: "{column.name}" of Datavyu has several codes, {", ".join(filled)[:200]}, of which one '
            f"must have the labels. Choose by {choices}."
        )
    return column._replace(codes=filled)


def _is_filled(source: Source, name: str) -> bool:
    return any(not is_empty(cell) for rows in source.batches(ROWS_AT_ONCE, 0, [name]) for cell in rows.cells[name])


def _refuse_doubtful_unit(source: Source) -> None:
    """Refuses `ordinal,onset,offset` with large whole numbers: Datavyu counts milliseconds, others seconds."""
    names = {normalized(name): name for name in source.columns}
    if not names.keys() >= set(_PARTS):
        return
    times = [names[_ONSET], names[_OFFSET]]
    texts = {
        str(cell) for rows in source.batches(ROWS_AT_ONCE, 0, times) for name in times for cell in rows.cells[name]
    }
    texts = {text for text in texts if not is_empty(text)}
    if texts and all(map(str.isdecimal, texts)) and max(map(int, texts)) >= _LARGE:
        _refuse_unit(source.path, times[0], times[1], max(texts, key=int))


def _refuse_unit(path: str, start: str, end: str, number: str) -> None:
    raise UsageError(
        f'{path}: "{start}" and "{end}" beside an ordinal have whole numbers such as {number}: milliseconds, '
        f"if Datavyu has written them, or seconds. Write {start}_ms and {end}_ms, or {start}_s and {end}_s, into "
        "the header."
    )
