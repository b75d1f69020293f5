"""Names of classes as other programs write them: a name on each line, a JSON list or object, other columns, a workbook.

Numbers count from 0, without gaps. A list that counts from 1 is left to the reader of vocabularies, which refuses it:
the numbers of labels that belong to it would be those of other classes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m import storage
from yt8m.tables import encodings
from yt8m.tables.dialects import sniff
from yt8m.tables.meanings import normalized, words
from yt8m.tables.opening import open_source

_BINARY_ENDINGS = (".xlsx", ".xlsm", ".xls", ".ods", ".parquet", ".pq", ".arrow", ".feather")
_NUMBERS = [normalized(name) for name in words("index id class_id class_index label_id category_id number idx")]
_NAMES = [
    normalized(name)
    for name in words("name display_name class_name label_name category_name label class category labels classes")
]
_NUMBER_FIRST = re.compile(r"(\d+)\s*[\s,;:]\s*(\S.*)")
_MARKUP = re.compile(r"[{}\"\[\]]|^- |:$|: ")  # of YAML, protobuf and quoted texts, which are no lists of names
_ROWS_AT_ONCE = 8192
_SEPARATORS = ("\t", ",", ";")


def read_names(path: str, content: bytes) -> list[str] | None:
    """The names in a file that is no table with the columns index and name; None if it is one, or is not understood."""
    if path.lower().endswith(_BINARY_ENDINGS):
        source = open_source("--vocabulary", path)
        batches = (
            zip(*batch.cells.values(), strict=True) for batch in source.batches(_ROWS_AT_ONCE, 0, source.columns)
        )
        rows = [list(map(_text, row)) for batch in batches for row in batch]
        return _of_columns(list(source.columns), rows)
    if content.lstrip(b"\xef\xbb\xbf").lower().startswith((b"index,name", b"index,trainvideocount")):
        return None
    text = encodings.decode(content, path).removeprefix("\ufeff")
    try:
        if text.lstrip().startswith(("[", "{")):
            return _of_json(storage.parse_json(text))
        return _of_lines([line.strip() for line in text.splitlines() if line.strip()]) or _of_table(text)
    except (ValueError, csv.Error):  # the reader of vocabularies says what is wrong
        return None


def _text(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _of_json(value: Any) -> list[str] | None:
    """The names in a list, or in an object {number: name} or {name: number}."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    if not isinstance(value, dict):
        return None
    if all(isinstance(name, str) for name in value.values()):
        return _in_order([(str(number), name) for number, name in value.items()])
    return _in_order([(str(number), name) for name, number in value.items()])


def _of_lines(lines: Sequence[str]) -> list[str] | None:
    """The names of lines `3 name`, `3,name` or, where no line has a separator, `name`."""
    lines = lines[1:] if len(lines) > 1 and normalized(lines[0]) in _NAMES else lines
    numbered = [match.groups() for line in lines if (match := _NUMBER_FIRST.fullmatch(line))]
    if len(numbered) == len(lines) and not any(separator in name for _, name in numbered for separator in _SEPARATORS):
        return _in_order([(number, name.strip('"')) for number, name in numbered])
    if numbered or any(separator in line for line in lines for separator in _SEPARATORS):
        return None
    is_markup = any(_MARKUP.search(line) for line in lines)
    return None if is_markup or len(set(lines)) < len(lines) else list(lines)


def _of_table(text: str) -> list[str] | None:
    dialect = sniff(text, _NAMES)
    rows = [row for row in dialect.reader(iter(text.splitlines(keepends=True))) if any(row)]
    if not rows or {"index", "name"} <= {name.strip().lower() for name in rows[0]}:
        return None
    return _of_columns(rows[0], rows[1:])


def _of_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str] | None:
    """The names in a table whose columns have other names than usual."""
    lower = {name.strip().lower() for name in header}
    if not lower.isdisjoint(("vertical", "count")):  # these would be lost
        return None
    columns: Mapping[str, int] = {normalized(name): place for place, name in reversed(list(enumerate(header)))}
    names = next((columns[name] for name in _NAMES if name in columns), None)
    numbers = next((columns[name] for name in _NUMBERS if name in columns), None)
    if names is None or not rows or any(len(row) != len(header) for row in rows):
        return None
    if numbers is None:
        return None
    return _in_order([(row[numbers].strip(), row[names].strip()) for row in rows])


def _in_order(numbered: Sequence[tuple[str, str]]) -> list[str] | None:
    """The names by their numbers; None if these are not 0, 1, 2, ... in any order."""
    by_number = {int(number): name for number, name in numbered if number.isascii() and number.isdigit()}
    if sorted(by_number) != list(range(len(numbered))):
        return None
    return [by_number[number] for number in range(len(numbered))]
