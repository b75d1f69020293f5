"""Small tables whose columns have fixed names: decisions, classes, renames, groups, links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.csv_source import CsvSource
from yt8m.tables.meanings import MEANINGS, meaning_of, normalized
from yt8m.tables.opening import open_source
from yt8m.tables.sources import Rows, Source

_ROWS_AT_ONCE = 8192


class Row(NamedTuple):
    """One row of a small table.

    Attributes:
      cells: {column, as the caller names it: text of the cell}.
    """

    place: str
    cells: Mapping[str, str]
    number: int


class ColumnTable:
    """A table of which only some columns are read; see `open_columns`."""

    features: Sequence[str] = ()

    def __init__(self, source: Source, names: Mapping[str, str]) -> None:
        self.path, self._source, self._names = source.path, source, names
        self.columns: Sequence[str] = list(names)
        self.source_columns = source.columns

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """Yields the rows after the first `skip`, with cells by the names that the caller gave."""
        for rows in self._source.batches(size, skip, list(dict.fromkeys(self._names.values()))):
            yield rows._replace(cells={name: rows.cells[column] for name, column in self._names.items()})

    def line_of(self, row: int) -> int:
        """The line of a row in the file; 0 if the file has no lines."""
        return self._source.line_of(row)

    def rows(self) -> Iterator[Row]:
        """Yields the rows one by one."""
        lines = self._source.lines()
        for rows in self.batches(_ROWS_AT_ONCE):
            for place, cells in enumerate(zip(*rows.cells.values(), strict=True)):
                number, line = rows.first + place, next(lines, 0)
                where = f"line {line}" if line else f"row {number}"
                if number in rows.bad:
                    raise UsageError(f"{self.path}, {where}: {rows.bad[number]}.")
                texts = {name: _text(cell) for name, cell in zip(rows.cells, cells, strict=True)}
                yield Row(where, texts, line or number)


def _text(cell: Any) -> str:
    return "" if cell is None or cell != cell else str(cell)


def open_columns(flag: str, path: str, columns: Sequence[str], optional: Sequence[str] = ()) -> ColumnTable:
    """Opens a table to read some of its columns. Case, blanks and signs in their names do not matter."""
    source = open_source(flag, path, [*columns, *optional])
    if isinstance(source, CsvSource):
        source.pads_rows = True
    names = {name: column for name in (*columns, *optional) if (column := find_column(name, source.columns))}
    missing = [name for name in columns if name not in names]
    if missing:
        listed = ", ".join(source.columns) or "none"
        raise UsageError(
            f"{flag}={path} has no column {missing[0]!r}; it has: {listed[:300]}. Expected {', '.join(columns)}."
        )
    return ColumnTable(source, names)


def find_column(name: str, columns: Sequence[str]) -> str:
    """The column with this name, or with this meaning; empty if there is none."""
    if name in columns:
        return name
    alike = [column for column in columns if normalized(column) == normalized(name)]
    if alike or name not in MEANINGS:
        return alike[0] if alike else ""
    known_names = [(meaning[1], column) for column in columns if (meaning := meaning_of(column)) and meaning[0] == name]
    return min(known_names)[1] if known_names else ""
