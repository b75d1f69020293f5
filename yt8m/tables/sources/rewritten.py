"""Rows of a source in another form: with columns made of others, or several rows in place of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.sources.source import ROWS_AT_ONCE, MemorySource, Rows, Source


class RewrittenSource(MemorySource):
    """Rows in memory that were made of those of another source.

    Args:
      cells: {column: one value per row}.
      numbers: the number of the row of the other source that each row was made of; of several, the first.
      bad: {number of a row of the other source: what is wrong with it}.
      remark: what the form of the file adds.
    """

    def __init__(
        self,
        source: Source,
        cells: Mapping[str, Sequence[Any]],
        numbers: Sequence[int],
        bad: Mapping[int, str],
        remark: str = "",
    ) -> None:
        hints = {meaning: name for meaning, name in source.hints.items() if name in cells}
        super().__init__(source.path, cells, f"{source.form}, {remark}" if remark else source.form, hints)
        self._source, self._bad, self._numbers = source, bad, numbers
        for name in ("has_seconds", "is_workbook", "seen_parts", "lengths"):
            if hasattr(source, name):
                setattr(self, name, getattr(source, name))
        self.delimiter = delimiter_of(source)
        if places := getattr(source, "places", ()):
            self.places = [places[number - 1] for number in numbers]

    def batches(
        self, size: int, skip: int = 0, columns: Sequence[str] = (), arrays: Sequence[str] = ()
    ) -> Iterator[Rows]:
        """See `Source`."""
        for rows in super().batches(size, skip, columns, arrays):
            numbers = self._numbers[rows.first - 1 : rows.first - 1 + size]
            bad = {rows.first + place: self._bad[row] for place, row in enumerate(numbers) if row in self._bad}
            yield rows._replace(bad=bad)

    def line_of(self, row: int) -> int:
        """See `Source`."""
        return self._source.line_of(self._numbers[row - 1])

    def lines(self) -> Iterator[int]:
        """See `Source`."""
        lines = list(self._source.lines())
        return (lines[number - 1] for number in self._numbers if lines)

    def number_of(self, row: int) -> int:
        """The number, in the file, of the row that a row was made of."""
        return number_of(self._source, self._numbers[row - 1])


def read_all(source: Source, columns: Sequence[str]) -> tuple[dict[str, list[Any]], dict[int, str]]:
    """({column: its cells}, {number of a bad row: what is wrong with it}) of a whole table."""
    if isinstance(source, CsvSource):
        source.pads_rows = True  # a video without spans may have no further cells
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    bad: dict[int, str] = {}
    for rows in source.batches(ROWS_AT_ONCE, 0, columns):
        bad |= rows.bad
        for name in columns:
            cells[name] += rows.cells[name]
    return cells, bad


def delimiter_of(source: Source) -> str:
    """The sign between the cells of a CSV file, also if its rows are in another form now; empty for other files."""
    return source.dialect.delimiter if isinstance(source, CsvSource) else str(getattr(source, "delimiter", ""))


def number_of(source: Source, row: int) -> int:
    """The number of a row in the file, from 1."""
    return int(getattr(source, "number_of", int)(row))


def place_of(source: Source, row: int) -> str:
    """The number of a row in the file and its line, or its place in an export, for a message."""
    if places := getattr(source, "places", ()):
        return str(places[row - 1])
    line = source.line_of(row)
    return f"row {number_of(source, row)}" + (f" (line {line})" if line else "")
