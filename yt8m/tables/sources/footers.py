"""Rows that are no videos: totals and remarks below a table, and the header again where files were joined."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.sources.source import ROWS_AT_ONCE, Rows, Source
from yt8m.tables.words import normalized
from yt8m.tables.words.class_names import is_nothing
from yt8m.tables.words.meanings import is_column_name, plain_meaning

_COLUMNS = 8  # so many columns of a row are looked at
LAST = 3  # so many rows at the end may be no videos
_TOTAL = re.compile(
    r"all|(?:grand |sub)?(?:totals?|sums?|counts?|summe|gesamt|insgesamt|anzahl|somme|totale|suma|total general|razem|"
    r"итого|всего|合計|总计|合计)"
    r"(?: (?:of |number of )?(?:videos?|clips?|rows?|files?|items?|records?|entries|labels?))?"
    r"\s*[:=]?\s*\d*|averages?|means?|median|minimum|maximum|durchschnitt|mittelwert|moyenne|promedio|n\s*=\s*\d+",
    re.IGNORECASE,
)
_REMARK = re.compile(
    r"(?:(?:data |file )?(?:exported|generated|created|downloaded|printed|produced|saved|updated)|last (?:updated|"
    r"change)|exportiert|erstellt|exporté|généré|exportado|generado)\b.*\d.*|"
    r"\(?\d+ (?:rows?|records?|videos?|clips?|files?|items?|images?|entries|zeilen|dateien|einträge|lignes|filas)"
    r"(?: affected| selected| in set.*)?\.?\)?|"
    r"\W*(?:end of (?:file|table|report|data|export)|eof)\W*|©.*|copyright .*",
    re.IGNORECASE,
)
# What is a remark if the other cells of its row are empty.
_NOTE = re.compile(
    r"(?:notes?|sources?|legend|summary|remarks?|comments?|anmerkung|hinweis|quelle)\s*(?::.*)?|page \d+ of \d+|"
    r"[*\u2020\u2021] .+",
    re.IGNORECASE | re.DOTALL,
)
# What is a remark whatever stands beside it: commas of a sentence cut it into cells.
_SENTENCE = re.compile(
    r"(?:notes?|n\. ?b\.|sources?|legend|remarks?|comments?|anmerkung(?:en)?|hinweis|quelle|nota)\s*:\s.*", re.I | re.S
)
_NUMBER = re.compile(r"[\d.,\s%]*")
ROWS_BELOW = re.compile(
    r"\(\d+ rows?(?: affected)?\)|\d+ rows? in set.*|\d+ rows? selected\.?"
)  # as databases write it


def describe_footer(cells: Sequence[Any]) -> str:
    """What a row at the end of a table is, if it is no video: the total of a column, or a remark; else empty."""
    texts = ["" if is_nothing(cell) else str(cell).strip() for cell in cells]
    filled = [text for text in texts if text]
    totals = [text for text in filled if _TOTAL.fullmatch(text) and not text.isdecimal()]
    if totals and all(text in totals or _NUMBER.fullmatch(text) for text in filled):
        return "a total"
    is_note = len(filled) == 1 < len(texts) and _NOTE.fullmatch(filled[0])
    is_remark = filled and any(pattern.fullmatch(filled[0]) for pattern in (_REMARK, _SENTENCE))
    return "a remark" if is_note or is_remark else ""


def is_header(cells: Sequence[Any], columns: Sequence[str]) -> bool:
    """Whether the cells of a row are the names of its columns, or other names with the same meanings."""
    names = [str(cell).strip("\ufeff \t") for cell in cells]
    if len(names) < 2 or not any(names):
        return False
    if all(normalized(name) == normalized(column) for name, column in zip(names, columns, strict=True)):
        return True
    meanings = [plain_meaning(name) for name in names]
    return meanings == [plain_meaning(column) for column in columns] and {"id", "labels"} <= set(meanings)


def refuse_odd_rows(source: Source, values: Mapping[str, Sequence[Any]]) -> None:
    """Raises `UsageError` if a row is the header again, or a total or a remark below the table.

    Args:
      values: {column: its different values, in the order of their first rows}.
    """
    names = list(values)[:_COLUMNS]
    firsts = {value for name in names[:1] for value in values[name] if _may_be_header(value, name)}
    lasts = {str(value) for name in names for value in values[name][-LAST:]}
    labels = {value for name in names[1:] for value in values[name] if isinstance(value, str)}
    counted = {text for name in names[:1] for value in values[name][-LAST:] if (text := str(value)) in labels}
    is_odd = any(pattern.fullmatch(text) for text in lasts for pattern in (_TOTAL, _REMARK, _NOTE))
    if not (firsts and len(names) > 1) and not counted and not is_odd:
        return
    for rows in source.batches(ROWS_AT_ONCE, 0, names):
        for number, cells in enumerate(zip(*(rows.cells[name] for name in names), strict=True), rows.first):
            if cells[0] in firsts and is_header(cells, names):
                raise UsageError(_message(source, number, "the header again, as in files that were joined"))
            if cells[0] in counted and _are_numbers(cells[1:]):
                raise UsageError(_message(source, number, f"a count of a label and no video: {_shown(cells)}"))
            if not lasts.isdisjoint(map(str, cells)) and (kind := describe_footer(cells)):
                raise UsageError(_message(source, number, f"{kind} below the table and no video: {_shown(cells)}"))


def _are_numbers(cells: Sequence[Any]) -> bool:
    texts = [str(cell) for cell in cells if not is_nothing(cell)]
    return bool(texts) and all(map(_NUMBER.fullmatch, texts))


def mark_odd_rows(rows: Rows, columns: Sequence[str], bad: dict[int, str]) -> None:
    """Marks such rows in a batch, the last of which may be the last of the table, also far below its beginning.

    Args:
      columns: the column of the ids, and those of the labels.
    """
    ids = rows.cells[columns[0]]
    if columns[0] in ids:
        bad.setdefault(rows.first + list(ids).index(columns[0]), "the row is the header again; delete it")
    for place in range(max(len(ids) - LAST, 0), len(ids)):
        if kind := describe_footer([rows.cells[name][place] for name in columns]):
            bad.setdefault(rows.first + place, f"the row seems to be {kind} below the table and no video; delete it")


def _may_be_header(value: Any, column: str) -> bool:
    if not isinstance(value, str) or len(value) > 40:
        return False
    name = value.strip("\ufeff \t").lower()
    return name == column.strip().lower() or is_column_name(name)


def _shown(cells: Sequence[Any]) -> str:
    return repr(", ".join(str(cell) for cell in cells if not is_nothing(cell))[:60])


def _message(source: Source, number: int, finding: str) -> str:
    line = f" (line {line})" if (line := source.line_of(number)) else ""
    return f"{source.path}, row {number}{line} is {finding}. Delete this row, and others like it."
