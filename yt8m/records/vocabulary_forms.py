"""Lists of classes as other programs write them: a name on each line, JSON, other columns, a workbook.

Numbers count from 0, without gaps. A list that counts from 1 is left as it is, and the reader of vocabularies refuses
it: the numbers of labels that belong to it would be those of other classes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m import storage
from yt8m.errors import UsageError
from yt8m.tables.sources import encodings
from yt8m.tables.sources.dialects import sniff
from yt8m.tables.words import normalized, words
from yt8m.tables.words.numbers import cell_text

_NUMBERS = [normalized(name) for name in words("index id class_id class_index label_id category_id number idx")]
_NAMES = [
    normalized(name)
    for name in words("name display_name class_name label_name category_name label class category labels classes")
]
_OTHERS = ("vertical", "count")  # columns that keep their names
_NUMBER_FIRST = re.compile(r"(\d+)\s*[\s,;:]\s*(\S.*)")
_MARKUP = re.compile(r"[{}\"\[\]]|^- |:$|: ")  # of YAML, protobuf and quoted texts, which are no lists of names
_ROWS_AT_ONCE = 8192
_SEPARATORS = ("\t", ",", ";", "|")

_Columns = Mapping[str, Sequence[str]]  # {index, name, and perhaps vertical or count: the cells in order of the index}


def as_csv(path: str, content: bytes) -> bytes:
    """The content of a list of classes as CSV with the columns index and name; unchanged if it is that, or no list."""
    if content.lstrip(b"\xef\xbb\xbf").lower().startswith((b"index,name", b"index,trainvideocount")):
        return content
    from yt8m.tables.opening import is_text_table  # imports the readers of all kinds of tables

    is_json = content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"[", b"{"))
    if not is_json and not is_text_table("--vocabulary", path):
        return _write(_of_workbook(path))
    text = encodings.read_text(path).removeprefix("\ufeff")
    try:
        if is_json:
            columns = _of_json_text(path, text)
        else:
            columns = _of_lines([line.strip() for line in text.splitlines() if line.strip()]) or _of_text_table(text)
    except (ValueError, csv.Error):  # the reader of vocabularies says what is wrong
        return content
    return _write(columns) if columns else content


def _write(columns: _Columns) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([columns.keys(), *zip(*columns.values(), strict=True)])
    return text.getvalue().encode()


def _of_workbook(path: str) -> _Columns:
    from yt8m.tables.opening import open_source  # imports the readers of all kinds of tables

    source = open_source("--vocabulary", path)
    batches = (zip(*batch.cells.values(), strict=True) for batch in source.batches(_ROWS_AT_ONCE, 0, source.columns))
    columns = _of_table(source.columns, [list(map(cell_text, row)) for batch in batches for row in batch])
    if columns is None:
        raise UsageError(
            f"--vocabulary={path}: the columns are {', '.join(source.columns)[:200] or 'missing'}; expected index and "
            "name, with the numbers 0, 1, 2, ..."
        )
    return columns


def _of_json_text(path: str, text: str) -> _Columns | None:
    """The names in a JSON text; those of records and of lines are read as a table."""
    try:
        value = storage.parse_json(text)
    except ValueError:
        return _of_workbook(path) if text.partition("\n")[0].rstrip().endswith("}") else None
    are_records = isinstance(value, list) and any(isinstance(row, dict) for row in value)
    return _of_workbook(path) if are_records else _of_json(value)


def _of_json(value: Any) -> _Columns | None:
    """The names in a list, or in an object {number: name} or {name: number}."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return _of_names(value)
    if not isinstance(value, dict) or not all(isinstance(item, str | int) for item in value.values()):
        return None
    if all(isinstance(name, str) for name in value.values()):
        return _of_pairs(list(value.items()))
    return _of_pairs([(str(number), name) for name, number in value.items()])


def _of_lines(lines: Sequence[str]) -> _Columns | None:
    """The names of lines `3 name`, `3,name` or, where no line has a separator, `name`."""
    lines = lines[1:] if len(lines) > 1 and normalized(lines[0]) in _NAMES else lines
    numbered = [match.groups() for line in lines if (match := _NUMBER_FIRST.fullmatch(line))]
    if len(numbered) == len(lines) and not any(separator in name for _, name in numbered for separator in _SEPARATORS):
        return _of_pairs([(number, name.strip('"')) for number, name in numbered])
    are_numbered = 2 * len(numbered) > len(lines)  # a name may begin with a number
    has_columns = any(separator in line for line in lines for separator in _SEPARATORS)
    is_markup = any(_MARKUP.search(line) for line in lines)
    return None if are_numbered or has_columns or is_markup or len(set(lines)) < len(lines) else _of_names(lines)


def _of_names(names: Sequence[str]) -> _Columns:
    return {"index": list(map(str, range(len(names)))), "name": names}


def _of_pairs(pairs: Sequence[tuple[str, str]]) -> _Columns | None:
    return _of_table(["index", "name"], pairs)


def _of_text_table(text: str) -> _Columns | None:
    dialect = sniff(text, _NAMES)
    rows = [row for row in dialect.reader(iter(text.splitlines(keepends=True))) if any(row)]
    first = max(0, dialect.skipped - 1)  # rows of titles
    return _of_table(rows[first], rows[first + 1 :]) if rows else None


def _of_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> _Columns | None:
    """The columns of a table by their usual names; None if there are none, or the numbers are not 0, 1, 2, ..."""
    places = {normalized(name): place for place, name in reversed(list(enumerate(header)))}
    number = next((places[name] for name in _NUMBERS if name in places), None)
    name = next((places[name] for name in _NAMES if name in places), None)
    if number is None or name is None or any(len(row) != len(header) for row in rows):
        return None
    by_number = {row[number].strip(): row for row in rows}
    if by_number.keys() != set(map(str, range(len(rows)))):
        return None
    chosen = {"index": number, "name": name} | {other: places[other] for other in _OTHERS if other in places}
    in_order = [by_number[str(index)] for index in range(len(rows))]
    return {column: [row[place].strip() for row in in_order] for column, place in chosen.items()}
