"""Small tables whose columns have fixed names: decisions, classes, renames, groups, links."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.exports.json_source import KEY, VALUE
from yt8m.tables.opening import is_text_table, open_pairs, open_source
from yt8m.tables.sources import encodings
from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.sources.source import ROWS_AT_ONCE, Rows, Source
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import INVENTED, meaning_of, other_names
from yt8m.tables.words.numbers import cell_text

_CELL = re.compile(r"[+-]?\d+([.,]\d+)?|\w+://.*")  # what the name of a column is not


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

    def column_of(self, name: str) -> str:
        """The column of the table that a name of the caller stands for; empty if there is none."""
        return self._names.get(name, "")

    def line_of(self, row: int) -> int:
        """The line of a row in the file; 0 if the file has no lines."""
        return self._source.line_of(row)

    def rows(self) -> Iterator[Row]:
        """Yields the rows one by one."""
        lines = self._source.lines()
        for rows in self.batches(ROWS_AT_ONCE):
            for place, cells in enumerate(zip(*rows.cells.values(), strict=True)):
                number, line = rows.first + place, next(lines, 0)
                where = f"line {line}" if line else f"row {number}"
                if number in rows.bad:
                    raise UsageError(f"{self.path}, {where}: {rows.bad[number]}.")
                texts = {name: cell_text(cell) for name, cell in zip(rows.cells, cells, strict=True)}
                yield Row(where, texts, line or number)


def open_columns(flag: str, path: str, columns: Sequence[str], optional: Sequence[str] = ()) -> ColumnTable:
    """Opens a table to read some of its columns, which may also have other usual names.

    Case, blanks and signs in the names do not matter. In a table without names, as in a JSON object of pairs or in
    lines without a header, the columns have the order of the arguments.
    """
    wanted = [*columns, *optional]
    source = open_pairs(flag, path) or open_source(flag, path, [*wanted, *itertools.chain(*map(other_names, wanted))])
    if isinstance(source, CsvSource):
        source.pads_rows = True
        _take_cells_as_row(source, len(columns), wanted)
    names = _by_position(source, len(columns), wanted) or _by_name(source, wanted)
    missing = [name for name in columns if name not in names]
    if missing:
        listed = ", ".join(source.columns) or "none"
        raise UsageError(
            f"{flag}={path} has no column {missing[0]!r}; it has: {listed[:300]}. Expected {', '.join(columns)}."
        )
    return ColumnTable(source, names)


def csv_text(flag: str, path: str) -> str:
    """The text of a small table: that of a file of CSV as it is, of any other file of rows as CSV with commas."""
    if is_text_table(flag, path):
        return encodings.read_text(path)
    source = open_source(flag, path)
    columns = list(source.columns)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for rows in source.batches(ROWS_AT_ONCE, 0, columns):
        writer.writerows(map(cell_text, cells) for cells in zip(*rows.cells.values(), strict=True))
    return text.getvalue()


def _take_cells_as_row(source: CsvSource, fewest: int, wanted: Sequence[str]) -> None:
    """Takes the first line for a row if it is no header: no name is known, and a cell is a number or an address."""
    fits = fewest <= len(source.columns) <= len(wanted) and not _by_name(source, wanted)
    if fits and (len(source.columns) == 1 or any(map(_CELL.fullmatch, source.columns))):
        source.take_header_as_row()


def _by_position(source: Source, fewest: int, wanted: Sequence[str]) -> dict[str, str]:
    """{name: column} of a table whose columns have no names; empty if it has, or has not as many as are wanted."""
    are_invented = all(name.startswith(INVENTED) or name in (KEY, VALUE) for name in source.columns)
    fits = are_invented and fewest <= len(source.columns) <= len(wanted)
    return dict(zip(wanted, source.columns, strict=False)) if fits else {}


def _by_name(source: Source, wanted: Sequence[str]) -> dict[str, str]:
    """{name: column} of the names that a table has, each column once."""
    names: dict[str, str] = {}
    for find in (_find_alike, find_column):
        for name in wanted:
            unclaimed = [column for column in source.columns if column not in names.values()]
            if name not in names and (column := find(name, unclaimed)):
                names[name] = column
    return names


def find_column(name: str, columns: Sequence[str]) -> str:
    """The column with this name, or with this meaning; empty if there is none."""
    if column := _find_alike(name, columns):
        return column
    known_names = [(meaning[1], column) for column in columns if (meaning := meaning_of(column)) and meaning[0] == name]
    if known_names:
        return min(known_names)[1]
    places = {normalized(column): column for column in reversed(columns)}
    return next((places[other] for other in other_names(name) if other in places), "")


def _find_alike(name: str, columns: Sequence[str]) -> str:
    alike = [column for column in columns if normalized(column) == normalized(name)]
    return name if name in columns else next(iter(alike), "")
