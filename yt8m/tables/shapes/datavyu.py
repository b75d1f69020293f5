"""Tables of Datavyu: columns `ordinal`, `onset` and `offset` of each of its columns, and its codes; milliseconds.

A column of Datavyu, such as `behavior`, becomes `behavior.ordinal`, `behavior.onset`, `behavior.offset` and
`behavior.code01`. Several of them stand beside one another, so that the cells of a row have nothing to do with each
other but the video.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.sources.rewritten import RewrittenSource, read_all
from yt8m.tables.sources.source import ROWS_AT_ONCE, Source
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import JOIN, columns_flag
from yt8m.tables.words.time_columns import END, START
from yt8m.tables.words.times import is_empty

_LABEL, _ORDINAL, _ONSET, _OFFSET = "label", "ordinal", "onset", "offset"
_PARTS = (_ORDINAL, _ONSET, _OFFSET)
_COLUMN = re.compile(r"(.+)[._](\w+)")
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
    if names := chosen.get("labels", "").split(JOIN)[0]:
        columns = [column for column in columns if names in column.codes]
    if not columns:
        return source
    cells, bad = read_all(source, list(source.columns))
    used = {name for column in all_columns for name in (column.ordinal, column.onset, column.offset)}
    used.update(name for column in columns for name in column.codes)
    others = {name: values for name, values in cells.items() if name not in used}
    rows: list[tuple[int, object, object, object]] = []
    for place in range(len(cells[source.columns[0]])):
        marked = [_row(cells, place, column) for column in columns]
        rows += [row for row in marked if not (is_empty(row[2]) and is_empty(row[3]))] or [(place, "", None, None)]
    start, end = f"{START}_ms", f"{END}_ms"
    table = {name: [values[row[0]] for row in rows] for name, values in others.items()}
    table |= {_LABEL: [row[1] for row in rows], start: [row[2] for row in rows], end: [row[3] for row in rows]}
    remark = "Datavyu's milliseconds of " + ", ".join(column.name for column in columns[:8])
    result = RewrittenSource(source, table, [row[0] + 1 for row in rows], bad, remark)
    result.hints = {**result.hints, "labels": _LABEL, START: start, END: end}
    return result


def _row(cells: Mapping[str, Sequence[object]], place: int, column: _Column) -> tuple[int, object, object, object]:
    """(place of the row, label, onset, offset); a column without codes is a class itself."""
    label = cells[column.codes[0]][place] if column.codes else column.name
    return place, label, cells[column.onset][place], cells[column.offset][place]


def _columns(names: Sequence[str]) -> list[_Column]:
    """The columns of Datavyu in a table, each of which has an ordinal, an onset and an offset."""
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _COLUMN.fullmatch(name):
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
        raise UsageError(
            f'{source.path}: "{times[0]}" and "{times[1]}" beside an ordinal have whole numbers such as '
            f"{max(texts, key=int)}: milliseconds, if Datavyu has written them, or seconds. Write {times[0]}_ms and "
            f"{times[1]}_ms, or {times[0]}_s and {times[1]}_s, into the header."
        )
