"""Tables of videos in CSV, Parquet or NPZ files, read in batches of rows. Features may be in an array beside the table.

Rows are numbered from 1; the header of a CSV file does not count. No reader holds more than one batch of rows, except
that the cells of a small CSV file stay in memory after the first reading.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line, missing_extra
from yt8m.storage import copies

# The columns with a fixed meaning. Arrays of an NPZ file and lists of a Parquet file that have none of
# these names are features.
COLUMNS = ("id", "path", "labels", "split", "start", "end")
NAMELESS = "features"  # name of the array of a .npy file, if the user gives it none
HELD_ROWS, _HELD_BYTES = 200_000, 1 << 26  # of a CSV file whose cells stay in memory


class Rows(NamedTuple):
    """A batch of successive rows of a table.

    Attributes:
      first: number of the first row, from 1.
      cells: {column: one value per row}; a value is a text, a number, or a list of those.
      arrays: {feature: [n, ...]}, for features in the table, or in an array beside it.
      bad: {number of a row: what is wrong with it}; the cells of such a row are empty.
    """

    first: int
    cells: Mapping[str, Sequence[Any]]
    arrays: Mapping[str, NDArray[Any]]
    bad: Mapping[int, str]

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(next(iter(self.cells.values())))


class Table(Protocol):
    """A table of videos. `columns` are its columns; `features` are the features that the table itself has, by name."""

    path: str
    columns: Sequence[str]
    features: Sequence[str]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """Yields the rows after the first `skip`, at most `size` at a time, with these features."""


def open_table(path: str, array: str, more: Sequence[str]) -> Table:
    """Opens a table; the ending of its path tells the format.

    Args:
      path: `.csv`, `.parquet` or `.npz`.
      array: `.npy` or `.npz` file with a row for each row of the table; empty for none.
      more: columns to read besides `COLUMNS`.

    Raises:
      UsageError: the ending is unknown, the file or a column is missing.
      RunError: the file cannot be read.
    """
    kinds: dict[str, Any] = {".csv": CsvTable, ".parquet": ParquetTable, ".npz": NpzTable}
    ending = os.path.splitext(path)[1].lower()
    if ending not in kinds:
        raise UsageError(f"--table={path}: expected a file that ends in {', '.join(kinds)}.")
    if not storage.exists(path):
        raise UsageError(f"--table={path}: there is no such file.")
    table: Table = kinds[ending](path, more)
    if array:
        table = WithArray(table, array)
    needed = ["id", "labels", *more, *([] if table.features else ["path"])]
    missing = [name for name in needed if name not in table.columns]
    if missing:
        there = ", ".join(table.columns) or "none"
        expected = f"Expected {', '.join(needed)}" + (", separated by commas" if path.endswith(".csv") else "")
        raise UsageError(f"{path} has no column {missing[0]!r}; it has: {there}. {expected}.")
    return table


def _opened(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """The file; one in a bucket is fetched only once, though it is read several times."""
    return storage.open_read(copies.file_copy(path))


class CsvTable:
    """A CSV file in UTF-8 with a header. Every cell is text."""

    features = ()

    def __init__(self, path: str, more: Sequence[str]) -> None:
        self.path = path
        with self._lines() as lines:
            header = [name.strip() for name in lines.row()]
        if len(set(header)) < len(header):
            raise UsageError(f"{path} names a column twice: {','.join(header)[:200]}; give each its own name.")
        self._header, self._kept = header, (*COLUMNS, *more)
        self.columns = [name for name in header if name]
        self._is_small = storage.size(path) <= _HELD_BYTES
        self._held: dict[str, list[str]] = {}

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        if self._held:
            for start in range(skip, len(next(iter(self._held.values()))), size):
                yield Rows(start + 1, {name: held[start : start + size] for name, held in self._held.items()}, {}, {})
            return
        held: dict[str, list[str]] = {}
        for rows in self._read(size, skip):
            self._is_small &= rows.first + rows.size <= HELD_ROWS
            for name, column in rows.cells.items() if self._is_small and skip == 0 else ():
                held.setdefault(name, []).extend(column)
            yield rows
        self._held = held if self._is_small else {}

    def _read(self, size: int, skip: int) -> Iterator[Rows]:
        with self._lines() as lines:
            lines.row()
            done = 0
            while True:
                count = min(size, max(skip - done, 0)) or size
                rows = self._plain_rows(done + 1, lines, count) or self._rows(done + 1, lines.rows(count))
                if not rows.size:
                    return
                done += rows.size
                if done > skip:
                    yield rows

    def _plain_rows(self, first: int, lines: _Lines, count: int) -> Rows | None:
        """The next rows; None if one of them has a quote or another number of fields, so that `csv` must read them."""
        taken = lines.take(count) if lines.is_plain else []
        columns = _plain_columns(taken, len(self._header)) if taken else None
        if columns is not None:
            cells = zip(self._header, columns, strict=True)
            return Rows(first, {name: column for name, column in cells if name in self._kept}, {}, {})
        if lines.is_plain:
            lines.put_back(taken)
        return None

    def _rows(self, first: int, batch: list[list[str]]) -> Rows:
        width, bad = len(self._header), dict[int, str]()
        for number, row in enumerate(batch, first) if set(map(len, batch)) != {width} else ():
            if len(row) != width:
                bad[number] = f"it has {len(row)} fields, but the header has {width}; put a text with a comma in quotes"
                batch[number - first] = [""] * width
        columns = zip(self._header, zip(*batch, strict=True) if batch else [()] * width, strict=True)
        return Rows(first, {name: column for name, column in columns if name in self._kept}, {}, bad)

    @contextlib.contextmanager
    def _lines(self) -> Iterator[_Lines]:
        """The lines of the file."""
        with _opened(self.path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines = _Lines(text)
            try:
                yield lines
            except csv.Error as error:
                raise RunError(f"{self.path}, line {lines.number}: this is not CSV ({error}).") from error
            except UnicodeDecodeError as error:
                number = _line_that_is_not_utf8(self.path)
                raise RunError(
                    f"{self.path}, line {number}: this is not UTF-8 text; save the file as UTF-8."
                ) from error


def _line_that_is_not_utf8(path: str) -> int:
    """The number of the first such line, or of the last line if there is none.

    The text is decoded in large blocks, so the place of the error in it does not tell the line.
    """
    number = 0
    with _opened(path) as file:
        for line in file:
            number += 1
            try:
                line.decode()
            except UnicodeDecodeError:
                break
    return number


class _Lines:
    """The lines of a CSV file.

    Attributes:
      is_plain: whether no lines were put back.
    """

    def __init__(self, text: Iterator[str]) -> None:
        self._text, self._before = text, 0
        self._reader = csv.reader(text, strict=True)
        self.is_plain = True

    @property
    def number(self) -> int:
        """Number of the last line that was read."""
        return self._before + self._reader.line_num

    def row(self) -> list[str]:
        """The fields of the next line; none at the end of the file."""
        return next(self._reader, [])

    def rows(self, count: int) -> list[list[str]]:
        """The next `count` rows. Blank lines, which have no fields, are no rows."""
        return list(itertools.islice(filter(None, self._reader), count))

    def take(self, count: int) -> list[str]:
        """The next `count` lines."""
        taken: list[str] = []
        try:
            taken.extend(itertools.islice(self._text, count))
        finally:
            self._before += len(taken)
        return taken

    def put_back(self, lines: Sequence[str]) -> None:
        """Reads these lines, which were taken last, once more."""
        self._before = self.number - len(lines)
        self._text = itertools.chain(lines, self._text)
        self._reader = csv.reader(self._text, strict=True)
        self.is_plain = False


def _plain_columns(lines: Sequence[str], width: int) -> list[list[str]] | None:
    """The columns of lines with `width` fields each and without quotes, much faster than by `csv`; None for others."""
    text = "".join(lines).replace("\r\n", "\n")
    if '"' in text or "\r" in text:
        return None
    text = text if text.endswith("\n") else text + "\n"
    letters = np.frombuffer(text.encode(), np.uint8)
    ends = np.flatnonzero((letters == ord(",")) | (letters == ord("\n")))
    is_last = letters[ends] == ord("\n")
    is_regular = len(ends) == width * len(lines) and (np.flatnonzero(is_last) % width == width - 1).all()
    if not is_regular or np.diff(ends, prepend=-1).max(initial=0) > csv.field_size_limit():
        return None
    cells = text[:-1].replace("\n", ",").split(",")
    return [cells[place::width] for place in range(width)]


class ParquetTable:
    """A Parquet file. Columns of lists of numbers, other than labels, are features."""

    def __init__(self, path: str, more: Sequence[str]) -> None:
        try:
            import pyarrow
            import pyarrow.compute
            import pyarrow.parquet
        except ImportError as error:
            raise missing_extra(f"--table={path}", "pyarrow", "data", ", or write the table as CSV") from error
        self.path, self._arrow = path, pyarrow
        with self._opened() as file:
            schema = file.schema_arrow
        self.columns = schema.names
        self._kept = [name for name in (*COLUMNS, *more) if name in self.columns]
        self.features = [
            field.name for field in schema if field.name not in self._kept and _is_list_of_numbers(pyarrow, field.type)
        ]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        first = 1
        with self._opened() as file:
            for batch in file.iter_batches(batch_size=size, columns=[*self._kept, *features]):
                rows, first = batch.slice(max(skip + 1 - first, 0)), first + len(batch)
                if len(rows):
                    yield self._rows(first - len(rows), rows, features)

    def _rows(self, first: int, batch: Any, features: Sequence[str]) -> Rows:
        bad: dict[int, str] = {}
        cells = {name: [_cell(value) for value in batch[name].to_pylist()] for name in self._kept}
        arrays = {name: self._matrix(batch[name], name, first, bad) for name in features}
        return Rows(first, cells, arrays, bad)

    def _matrix(self, column: Any, name: str, first: int, bad: dict[int, str]) -> NDArray[Any]:
        """A column of lists as an array [n, D]. D is the most frequent length; rows of another length are bad."""
        compute = self._arrow.compute
        lengths = np.asarray(compute.fill_null(compute.list_value_length(column), 0))
        size = int(np.bincount(lengths).argmax())
        floats = column.flatten().cast(self._arrow.float32(), safe=False)
        values = compute.fill_null(floats, float("nan")).to_numpy(zero_copy_only=False)
        if (lengths == size).all():
            return np.asarray(values.reshape(-1, size))
        matrix: NDArray[Any] = np.zeros((len(lengths), size), values.dtype)
        matrix[lengths == size] = values[np.repeat(lengths == size, lengths)].reshape(-1, size)
        for place in np.flatnonzero(lengths != size).tolist():
            bad[first + place] = f"feature {name} has {lengths[place]} values, expected {size}"
        return matrix

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        import pyarrow.parquet

        with _opened(self.path) as file:
            try:
                yield pyarrow.parquet.ParquetFile(file, pre_buffer=False)
            except (self._arrow.ArrowException, OSError, ValueError) as error:  # damage raises any of these
                raise RunError(f"{self.path} is not a Parquet file that can be read: {first_line(error)}") from error


def _cell(value: Any) -> Any:
    return "" if value is None or value != value else value  # pandas writes NaN for an empty cell


def _is_list_of_numbers(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)))


class NpzTable:
    """An NPZ file of arrays with one row per video: `id`, `labels` and so on, and the features."""

    def __init__(self, path: str, more: Sequence[str]) -> None:
        self.path = path
        with _members(path) as members:
            shapes = {name: member.shape for name, member in members.items()}
        self._kept = [name for name in shapes if name in {*COLUMNS, *more}]
        self.features = [name for name in shapes if name not in self._kept]
        self.columns = list(shapes)
        rows = {shape[:1] for shape in shapes.values()}
        if len(rows) != 1 or () in rows:
            told = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items()) or "nothing"
            raise UsageError(f"{path} holds {told}; expected arrays with one row a video, as many in each.")
        (self.length,) = rows.pop()

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        with _members(self.path) as members:
            for name in (*self._kept, *features):
                members[name].skip(skip)
            for start in range(skip, self.length, size):
                count = min(size, self.length - start)
                cells = {name: members[name].rows(count).tolist() for name in self._kept}
                yield Rows(start + 1, cells, {name: members[name].rows(count) for name in features}, {})


@dataclass
class _ArrayMember:
    """One array of an NPZ file, read row by row."""

    file: BinaryIO
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def rows(self, count: int) -> NDArray[Any]:
        """Reads the next `count` rows, [count, ...]."""
        content = self.file.read(count * self._row_bytes)
        if len(content) < count * self._row_bytes:
            raise ValueError("an array is cut short")
        return np.frombuffer(content, self.dtype).reshape(count, *self.shape[1:])

    def skip(self, count: int) -> None:
        """Skips the next `count` rows."""
        self.file.seek(count * self._row_bytes, io.SEEK_CUR)

    @property
    def _row_bytes(self) -> int:
        return int(np.prod(self.shape[1:], dtype=np.int64)) * self.dtype.itemsize


@contextlib.contextmanager
def _members(path: str) -> Iterator[dict[str, _ArrayMember]]:
    """{name: array} of an NPZ file, each to be read from its first row."""
    with _opened(path) as file, contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            yield {
                name.removesuffix(".npy"): _member(stack.enter_context(archive.open(name)), name)  # type: ignore[arg-type]
                for name in names
            }
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise RunError(f"{path} is not an NPZ file that can be read: {error}.") from error


def _member(file: BinaryIO, name: str) -> _ArrayMember:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects; save texts as an array of dtype str")
    if is_fortran and len(shape) > 1:
        raise ValueError(f"{name} lies in Fortran order; save np.ascontiguousarray of it")
    return _ArrayMember(file, shape, dtype)


class WithArray:
    """A table and an array, whose row i has the features of row i of the table.

    The array is in a memory-mapped `.npy` file or in an NPZ file.

    Attributes:
      mapped: the array of a `.npy` file, [rows, ...]; None for an NPZ file.

    Raises:
      UsageError: there is no such array, or it has no rows of numbers.
    """

    def __init__(self, table: Table, array: str) -> None:
        if not storage.exists(array):
            raise UsageError(f"--array={array}: there is no such file.")
        self.path, self.columns, self.array = table.path, table.columns, array
        self._table = table
        self._npz = NpzTable(array, ()) if array.lower().endswith(".npz") else None
        self.features: Sequence[str] = self._npz.features if self._npz else (NAMELESS,)
        self.mapped = None if self._npz else _mapped(array)
        self.length = self._npz.length if self._npz else len(self.mapped)  # type: ignore[arg-type]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`.

        Raises:
          RunError: the table and the array differ in their numbers of rows.
        """
        beside = self._npz.batches(size, skip, features) if self._npz and features else None
        last = skip
        for rows in self._table.batches(size, skip):
            last = rows.first + rows.size - 1
            if last > self.length:
                break
            if beside is not None:
                rows = rows._replace(arrays=next(beside).arrays)
            elif features and self.mapped is not None:
                rows = rows._replace(arrays={features[0]: self.mapped[rows.first - 1 : last]})
            yield rows
        if last != self.length:
            more = "more" if last > self.length else str(last)
            raise RunError(f"{self.array} has {self.length} rows and {self.path} {more}; give each video one in both.")


def _mapped(path: str) -> NDArray[Any]:
    try:
        array = np.load(copies.file_copy(path), mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise UsageError(f"--array={path} is not a .npy or .npz file of numbers, or is damaged.") from error
    if array.ndim < 2:
        raise UsageError(f"--array={path} has the shape {list(array.shape)}; expected a row for each video.")
    return np.asarray(array)
