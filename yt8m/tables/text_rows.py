"""The rows of a small CSV text in any dialect: vocabularies and thresholds, which are also read from archives."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from yt8m.errors import RunError
from yt8m.tables.dialects import Dialect, sniff

Fields = list[str]


def parse_rows(text: str, path: str, column_names: Sequence[str]) -> tuple[Fields, Iterator[tuple[int, Fields]]]:
    """Parses a CSV text with a header.

    Args:
      column_names: names of columns that the header must have, in lower case; without them it has commas.

    Returns:
      (the names of the columns, in lower case; an iterator over the line and the fields of each row with any text).
      Empty fields at the end of a row, beyond the header, are left out.
    """
    text = text.removeprefix("\ufeff")
    first_names = [name.strip().strip('"').lower() for name in text.partition("\n")[0].split(",")]
    dialect = Dialect(",") if set(column_names) <= set(first_names) else sniff(text, column_names)
    if not set(column_names) <= {name.strip().lower() for name in dialect.header}:
        dialect = Dialect(",")
    body = "".join(text.splitlines(keepends=True)[dialect.first_line :]) if dialect.first_line else text
    rows = _numbered(dialect, body, path)
    header = next(rows, (0, []))[1]
    names = [name.strip().lower() for name in header]
    while names and not names[-1]:
        names.pop()
    return names, ((line, _cut(fields, len(names))) for line, fields in rows)


def _cut(fields: Fields, width: int) -> Fields:
    return fields[:width] if not any(fields[width:]) else fields


def _numbered(dialect: Dialect, body: str, path: str) -> Iterator[tuple[int, Fields]]:
    """Yields (number of its first line, fields) of each row that has any text."""
    reader = dialect.reader(iter(io.StringIO(body, newline="")))
    end = dialect.first_line
    try:
        for fields in reader:
            if any(fields):
                yield end + 1, fields
            end = reader.line_num + dialect.first_line
    except csv.Error as error:
        raise RunError(f"{path}, line {end + 1}: this is not CSV ({error}).") from error
