"""Tables in text files: CSV in any dialect, .tsv, .txt, perhaps compressed by gzip."""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from yt8m.errors import RunError
from yt8m.tables.sources import dialects, encodings, footers, plain_csv
from yt8m.tables.sources.source import Rows, refuse_repeated_columns, with_numbers
from yt8m.tables.words.meanings import NUMBERED, is_of_labels, meaning_of

_SAMPLE = 1 << 18  # characters from which the dialect is found
_LOOKED_AT = 10_000  # rows in which texts of columns without a name are looked for
_TEXT_FORMULA = re.compile('="(.*)"', re.DOTALL)  # how programs keep a spreadsheet from changing a text


class CsvSource:
    """A CSV file. Every cell is text.

    If rows may lack their last fields (`pads_rows`), these are empty. If the last column may hold fields that its
    delimiter has cut (`joins_last`), the fields beyond the header are joined to it; else a row with too many fields is
    bad. `has_long_rows` says whether a row that was read had such fields.
    """

    arrays: Sequence[str] = ()
    hints: Mapping[str, str] = {}

    def __init__(self, path: str, column_names: Collection[str] = ()) -> None:
        self.path, self._encoding = path, encodings.detect(path)
        with encodings.open_text(path, self._encoding.name) as text:
            sample = text.read(_SAMPLE)
            sample += text.readline() if sample else ""
        self.dialect = dialects.sniff(sample, column_names)
        header = with_numbers(self.dialect.header, is_of_labels)
        self.dialect = self.dialect._replace(header=header)
        refuse_repeated_columns(path, header)
        self.columns: Sequence[str] = [name for name in header if name]
        # Arrow is worth its import for files beyond the sample.
        self._has_formulas = '="' in sample
        self._is_plain = (
            not self._has_formulas
            and len(sample) >= _SAMPLE
            and plain_csv.is_readable(self.dialect, self._encoding.name)
        )
        self.joins_last = self.dialect.is_headerless
        self.pads_rows = self.has_long_rows = False
        self._fewest = _fewest_fields(header)
        self.form = self._describe()

    def take_header_as_row(self) -> None:
        """Reads the line that was taken for a header as the first row."""
        header = dialects.invented_names([self.dialect.header])
        skipped = self.dialect.skipped - 1
        self.dialect = self.dialect._replace(header=header, skipped=skipped, is_headerless=True)
        self.columns, self.joins_last, self._is_plain = list(header), True, False
        self.form = self._describe()

    def _describe(self) -> str:
        delimiter = self.dialect.sign
        separated = "" if delimiter == "," else f" separated by {dialects.NAMES.get(delimiter, repr(delimiter))}"
        header = " without a header" if self.dialect.is_headerless else ""
        return " ".join(filter(None, [f"CSV{separated}{header}", self._encoding.description]))

    def batches(
        self, size: int, skip: int = 0, columns: Sequence[str] = (), arrays: Sequence[str] = ()
    ) -> Iterator[Rows]:
        """See `Source`."""
        if self._is_plain and columns:
            try:
                for plain_rows in plain_csv.read_batches(self.path, self.dialect, size, skip, columns):
                    yield plain_rows
                    skip += plain_rows.size
                return
            except plain_csv.NotPlainError:
                self._is_plain = False
        yield from self._parsed_batches(size, skip, columns)

    def _parsed_batches(self, size: int, skip: int, columns: Sequence[str]) -> Iterator[Rows]:
        """The rows after the first `skip`, as Python's `csv` parses them."""
        with self._open_rows() as (rows, _):
            rows = itertools.islice(rows, skip, None)
            while batch := list(itertools.islice(rows, size)):
                yield self._parse_batch(skip + 1, batch, columns)
                skip += len(batch)

    def line_of(self, row: int) -> int:
        """See `Source`."""
        return next(itertools.islice(self.lines(), row - 1, None), 0)

    def lines(self) -> Iterator[int]:
        """See `Source`. A row of several lines has the number of its first line."""
        with self._open_rows() as (rows, lines):
            for row in rows:
                line_ends = sum(len(field.splitlines()) - 1 for field in row if "\n" in field or "\r" in field)
                yield int(lines.line_num) - line_ends + self.dialect.first_line

    def _parse_batch(self, first: int, batch: list[list[str]], columns: Sequence[str]) -> Rows:
        """Converts the fields of rows to columns of cells; `first` is the number of the first row."""
        width, bad = len(self.dialect.header), dict[int, str]()
        for number, row in enumerate(batch, first) if set(map(len, batch)) != {width} else ():
            self.has_long_rows |= len(row) > width
            if len(row) > width and (self.joins_last or not any(row[width:])):
                last = self.dialect.delimiter.join(row[width - 1 :]) if any(row[width:]) else row[width - 1]
                batch[number - first] = [*row[: width - 1], last]
            elif len(row) < width and (self.pads_rows or self.dialect.is_headerless or len(row) >= self._fewest):
                batch[number - first] = row + [""] * (width - len(row))
            elif len(row) != width:
                bad[number] = self._describe_bad_row(row)
                batch[number - first] = [""] * width
        columns_of_cells: Iterable[tuple[str, ...]] = zip(*batch, strict=True)
        if self.dialect.skips_blanks:  # what has blanks after a delimiter may have them before it too
            columns_of_cells = (tuple(map(str.strip, cells)) for cells in columns_of_cells)
        if self._has_formulas:
            columns_of_cells = (tuple(map(_without_formula, cells)) for cells in columns_of_cells)
        cells = dict(zip(self.dialect.header, columns_of_cells, strict=True))
        return Rows(first, {name: cells[name] for name in columns}, {}, bad)

    def _describe_bad_row(self, row: list[str]) -> str:
        if kind := footers.describe_footer(row):
            return f"the row seems to be {kind} below the table and no video, {row[0][:60]!r}; delete it"
        return (
            f"the row has {len(row)} fields, but the header has {len(self.dialect.header)}; put a text with a "
            f"{_name_of(self.dialect.sign)} in quotes"
        )

    def cells_without_name(self) -> dict[int, set[str]]:
        """{number of a column without a name: the texts in it}, of the first rows; the first column has an index."""
        places = [place for place, name in enumerate(self.dialect.header) if place and not name]
        cells: dict[int, set[str]] = {place + 1: set() for place in places}
        with self._open_rows() as (rows, _):
            for row in itertools.islice(rows, _LOOKED_AT) if places else ():
                for place in places:
                    cells[place + 1].update(row[place : place + 1])
        return cells

    @contextlib.contextmanager
    def _open_rows(self) -> Iterator[tuple[Iterator[list[str]], Any]]:
        """Opens the file; yields an iterator over the rows of data, and the reader, which counts lines."""
        dialect = self.dialect
        with encodings.open_text(self.path, self._encoding.name) as text:
            for _ in range(dialect.first_line):
                text.readline()
            lines, ends = dialect.reader(iter(text)), [0]
            try:
                rows = filter(any, _noting_ends(lines, ends))  # rows without any text are no rows
                yield itertools.islice(self._without_comments(rows), dialect.skipped, None), lines
            except csv.Error as error:
                is_open = "unexpected end" in str(error)  # then a quote is open since the row began
                number = (ends[0] + 1 if is_open else lines.line_num) + dialect.first_line
                raise RunError(f"{self.path}, line {number}: this is not CSV ({error}).") from error

    def _without_comments(self, rows: Iterator[list[str]]) -> Iterator[list[str]]:
        if len(self.dialect.header) > 1:  # what databases write below a table is no row
            rows = itertools.filterfalse(lambda row: len(row) == 1 and footers.ROWS_BELOW.fullmatch(row[0]), rows)
        if not self.dialect.has_comments:  # but a line such as `# by ann` alone in a table of several columns is one
            if len(self.dialect.header) < 2:
                return rows
            return itertools.filterfalse(lambda row: row[0].startswith("#" if len(row) == 1 else "# "), rows)
        return itertools.filterfalse(lambda row: row[0].startswith("#"), rows)


def _noting_ends(lines: Any, ends: list[int]) -> Iterator[list[str]]:
    """Yields the rows of a reader; `ends` holds the number of lines up to the end of the last one."""
    for row in lines:
        yield row
        ends[0] = lines.line_num


def _without_formula(cell: str) -> str:
    """The text of a cell such as `="007"`; any other cell as it is."""
    match = _TEXT_FORMULA.fullmatch(cell)
    return match[1] if match else cell


def _fewest_fields(header: Sequence[str]) -> int:
    """The fields that a row needs: without the last columns if these are `label_2`, `label_3` and so on."""
    fewest = len(header)
    while fewest > 1 and all(map(_is_numbered_label, header[fewest - 2 : fewest])):
        fewest -= 1
    return fewest


def _is_numbered_label(name: str) -> bool:
    return NUMBERED.fullmatch(name) is not None and (meaning_of(name) or "")[:1] == ("labels",)


def _name_of(delimiter: str) -> str:
    return dialects.NAMES.get(delimiter, repr(delimiter)).removesuffix("s")
