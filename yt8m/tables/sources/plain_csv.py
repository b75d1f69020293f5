"""Large CSV files whose every row is one plain line: Arrow parses them at several times the rate of Python's `csv`.

Arrow forgives what `csv` refuses, and the other way round. So a file is read here only as far as both must agree; at
the first block of lines where they might not, `NotPlainError` is raised, and the caller goes on with `csv`.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from yt8m.tables.sources import encodings
from yt8m.tables.sources.dialects import Dialect
from yt8m.tables.sources.source import Rows
from yt8m.tables.sources.text_columns import TextColumn

_BLOCK = 1 << 20  # bytes that are parsed at once
_MARK = b"\xef\xbb\xbf"  # UTF-8 with a byte order mark
_QUOTE, _LINE_END = ord('"'), ord("\n")


class NotPlainError(Exception):
    """A block of lines is not as plain as Arrow needs it."""


def is_readable(dialect: Dialect, encoding: str) -> bool:
    """Whether a file of a dialect may be read here."""
    is_usual = dialect.quote == '"' and dialect.escape is None and dialect.delimiter in (",", ";", "\t", "|")
    has_extras = dialect.skips_blanks or dialect.has_comments
    is_text = encoding in ("utf-8", "utf-8-sig")
    return is_usual and is_text and not has_extras and importlib.util.find_spec("pyarrow") is not None


def read_batches(path: str, dialect: Dialect, size: int, skip: int, columns: Sequence[str]) -> Iterator[Rows]:
    """Yields the rows after the first `skip`, in batches of `size`, with these columns.

    After a `NotPlainError`, the rows that were not yielded yet must be read in another way.
    """
    import pyarrow

    first, pending = 1, None  # the number of the first row that is pending
    for table in _tables(path, dialect, columns):
        table = pyarrow.concat_tables([pending, table]) if pending else table
        skipped = min(max(skip + 1 - first, 0), len(table))
        pending, first = table[skipped:], first + skipped
        while len(pending) >= size:
            yield _rows(pending[:size], first, columns)
            pending, first = pending[size:], first + size
    if pending:
        yield _rows(pending, first, columns)


def _rows(table: Any, first: int, columns: Sequence[str]) -> Rows:
    return Rows(first, {name: TextColumn(table[name].combine_chunks()) for name in columns}, {}, {})


def _tables(path: str, dialect: Dialect, columns: Sequence[str]) -> Iterator[Any]:
    """Yields a table of Arrow for each block of lines."""
    import pyarrow.csv

    names = [name or f" {place}" for place, name in enumerate(dialect.header)]  # an index may have no name
    included = list(dict.fromkeys([names[0], *columns]))
    parse = pyarrow.csv.ParseOptions(delimiter=dialect.delimiter)
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(included, pyarrow.string()), include_columns=included, check_utf8=False
    )
    with encodings.open_bytes(path) as file:
        _skip_header(file, dialect)
        for block in _blocks(file):
            _check(block, dialect)
            read = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names)
            try:
                table = pyarrow.csv.read_csv(pyarrow.BufferReader(block), read, parse, convert)
            except pyarrow.ArrowInvalid as error:  # a row has more or fewer fields
                raise NotPlainError from error
            if _has_empty_row(table):  # it is no row, if its other columns are empty too
                raise NotPlainError
            yield table


def _skip_header(file: BinaryIO, dialect: Dialect) -> None:
    """Moves behind the lines above the data: those above the header, then titles and the header itself."""
    if file.read(len(_MARK)) != _MARK:
        file.seek(0)
    for _ in range(dialect.first_line):
        _next_line(file)
    rows = dialect.skipped
    while rows:
        (fields,) = csv.reader([_next_line(file)], delimiter=dialect.delimiter)
        rows -= any(fields)


def _next_line(file: BinaryIO) -> str:
    """The next line, which must be a row of its own."""
    line = file.readline(_BLOCK)
    if not line.endswith(b"\n") or line.count(b'"') % 2 or line.count(b"\r") != line.endswith(b"\r\n"):
        raise NotPlainError
    return line.decode()


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yields the rest of a file in blocks of whole lines."""
    begun_line = b""
    while block := file.read(_BLOCK):
        lines, end, begun_line = (begun_line + block).rpartition(b"\n")
        if len(begun_line) > _BLOCK:
            raise NotPlainError  # a line of megabytes
        if lines:
            yield lines + end
    if begun_line:
        yield begun_line


def _check(block: bytes, dialect: Dialect) -> None:
    """Raises `NotPlainError` unless each line is a row whose quotes, if any, enclose whole fields.

    Quotes are numbered within their line from 0. An even one opens a field, or it is the second of two that stand for
    one; an odd one closes the field, or it is the first of two.
    """
    if block.count(b"\r") != block.count(b"\r\n") or b"\0" in block or block.startswith(_MARK):
        raise NotPlainError  # Arrow leaves out a mark at the start of any block
    signs = np.frombuffer(b"\n" + block + b"\n", np.uint8)
    line_ends = np.flatnonzero(signs == _LINE_END)
    if np.diff(line_ends).max() > csv.field_size_limit():
        raise NotPlainError  # `csv` refuses a field of that length
    if b'"' not in block:
        return
    quotes = np.flatnonzero(signs == _QUOTE)
    before_line = np.searchsorted(quotes, line_ends)  # number of quotes before each line end
    if (np.diff(before_line) % 2).any():
        raise NotPlainError  # a field goes on in the next line
    numbers = np.arange(len(quotes)) - before_line[np.searchsorted(line_ends, quotes) - 1]
    borders = np.frombuffer(dialect.delimiter.encode() + b'\r\n"', np.uint8)
    neighbours = signs[np.where(numbers % 2, quotes + 1, quotes - 1)]
    if not np.isin(neighbours, borders).all():
        raise NotPlainError


def _has_empty_row(table: Any) -> bool:
    """Whether a row is empty in all columns of the table."""
    import pyarrow.compute

    empty = [pyarrow.compute.equal(pyarrow.compute.binary_length(column), 0) for column in table.columns]
    for others in empty[1:]:
        empty[0] = pyarrow.compute.and_(empty[0], others)
    return bool(pyarrow.compute.any(empty[0]).as_py())
