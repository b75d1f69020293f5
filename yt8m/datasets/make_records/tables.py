"""Tables of videos in CSV, Parquet or NPZ files, read in batches of rows. Features may be in an array beside the table.

Rows are numbered from 1; the header of a CSV file does not count. Only NPZ files are read whole; the other readers hold
one batch of rows in memory.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line, missing_extra
from yt8m.storage import copies

# The columns with a fixed meaning. Other arrays of an NPZ file and other list columns of a Parquet file are features.
COLUMNS = ("id", "path", "labels", "split", "start", "end")
# An NPZ file is refused as a zip bomb if its arrays have more than `_BOMB_BYTES` bytes, and more than `_BOMB_FACTOR`
# times the bytes that they take in the file.
_BOMB_BYTES, _BOMB_FACTOR = 1 << 28, 100
# What `np.load` and reading an array raise for a damaged .npy or .npz file.
DAMAGE = (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)
ENDINGS = (".csv", ".parquet")  # the endings of the files that `open_columns` can read
_NO_PATH_REMEDY = (
    " The column path names a file of features for each row; --array=FILE takes the features of all rows from one file."
)
NAMELESS = "features"  # name of the array of a .npy file, unless the user gives it another name


class Rows(NamedTuple):
    """A batch of successive rows of a table.

    Attributes:
      first: number of the first row, from 1.
      cells: {column: one value per row}, for the columns in `COLUMNS` and those that the caller named; a value is a
        text, a number, or a list of texts or numbers.
      arrays: {feature: [n, ...]}, for the features in the table itself or in the file of --array.
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
    """A table with a row for each video.

    Attributes:
      path: path of the table.
      columns: the names of the columns.
      features: the names of the features in the table itself or in the file of --array.
    """

    path: str
    columns: Sequence[str]
    features: Sequence[str]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """Yields the rows after the first `skip`, in batches.

        Args:
          size: largest number of rows of a batch.
          skip: number of rows to leave out at the beginning.
          features: the features to read.
        """


def open_table(path: str, array: str, extra_columns: Sequence[str]) -> Table:
    """Opens a table; the ending of the path determines the format.

    Args:
      path: `.csv`, `.parquet` or `.npz`.
      array: `.npy` or `.npz` file with a row for each row of the table; empty for none.
      extra_columns: columns to read besides `COLUMNS`.

    Raises:
      UsageError: the ending is unknown, or the file or a column is missing.
      RunError: the file cannot be read.
    """
    table = _open_with_ending("--table", path, extra_columns, (*ENDINGS, ".npz"))
    if array:
        _check_file("--array", array)
        table = TableWithArray(table, array)
    needed = ["id", "labels", *extra_columns, *([] if table.features else ["path"])]
    _refuse_missing_columns("--table", table, needed)
    return table


def open_columns(flag: str, path: str, columns: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Opens a table to read only some of its columns.

    Args:
      flag: the flag that names the table, with its dashes, for error messages.
      path: `.csv` or `.parquet`.
      columns: the columns that are needed.
      optional: columns that may be missing.

    Raises:
      UsageError: the ending is unknown, or the file or a column is missing.
      RunError: the file cannot be read.
    """
    table = _open_with_ending(flag, path, [*columns, *optional], ENDINGS)
    _refuse_missing_columns(flag, table, columns)
    return table


def _open_with_ending(flag: str, path: str, extra_columns: Sequence[str], endings: Sequence[str]) -> Table:
    """Opens a table, and does not check its columns.

    Args:
      flag: the flag that names the table, with its dashes, for error messages.
      path: path of the table.
      extra_columns: columns to read besides `COLUMNS`.
      endings: the endings that are allowed.

    Raises:
      UsageError: the path has another ending, or there is no such file.
      RunError: the file cannot be read.
    """
    kinds: dict[str, Any] = {".csv": CsvTable, ".parquet": ParquetTable, ".npz": NpzTable}
    ending = os.path.splitext(path)[1].lower()
    if ending not in endings:
        raise UsageError(f"{flag}={path}: expected a file that ends in {', '.join(endings)}.")
    _check_file(flag, path)
    table: Table = kinds[ending](path, extra_columns)
    return table


def _refuse_missing_columns(flag: str, table: Table, needed: Sequence[str]) -> None:
    """Raises `UsageError` if a table lacks a column.

    Args:
      flag: the flag that names the table, with its dashes.
      table: the table.
      needed: the columns that it must have.
    """
    missing = [name for name in needed if name not in table.columns]
    if missing:
        columns = ", ".join(table.columns) or "none"
        expected = f"Expected {', '.join(needed)}" + (", separated by commas" if table.path.endswith(".csv") else "")
        remedy = _NO_PATH_REMEDY if flag == "--table" and missing[0] == "path" else ""
        raise UsageError(f"{flag}={table.path} has no column {missing[0]!r}; it has: {columns}. {expected}.{remedy}")


def _refuse_repeated_columns(path: str, columns: Sequence[str]) -> None:
    """Raises `UsageError` if two of the columns of the table at `path` have the same name."""
    if len(set(columns)) < len(columns):
        raise UsageError(f"{path} names a column twice: {','.join(columns)[:200]}; give each its own name.")


def _check_file(flag: str, path: str) -> None:
    """Raises `UsageError` if there is no file at `path`, the value of `flag`, or if it cannot be read twice."""
    if not storage.exists(path):
        raise UsageError(f"{flag}={path}: there is no such file.")
    if storage.is_special(path):
        raise UsageError(f"{flag}={path}: expected a file; a pipe or a device cannot be read a second time.")


def _open_file(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """Opens a file. A file in a bucket is fetched only once, although it is read several times."""
    return storage.open_read(copies.file_copy(path))


class CsvTable:
    """A CSV file in UTF-8 with a header. Every cell is text.

    Raises:
      UsageError: the header names a column twice.
      RunError: the file is not CSV, or not UTF-8; `batches` raises this too.
    """

    features = ()

    def __init__(self, path: str, extra_columns: Sequence[str]) -> None:
        self.path = path
        with self._read_lines() as lines:
            header = [name.strip() for name in next(lines, [])]
        _refuse_repeated_columns(path, header)
        self._header, self._cell_columns = header, (*COLUMNS, *extra_columns)
        self.columns = [name for name in header if name]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        with self._read_lines() as lines:
            next(lines, None)
            rows = itertools.islice(filter(None, lines), skip, None)  # blank lines are no rows
            while batch := list(itertools.islice(rows, size)):
                yield self._parse_batch(skip + 1, batch)
                skip += len(batch)

    def _parse_batch(self, first: int, batch: list[list[str]]) -> Rows:
        """Converts the fields of rows to columns of cells; `first` is the number of the first row.

        A row that has more or fewer fields than the header becomes a bad row with empty cells.
        """
        width, bad = len(self._header), dict[int, str]()
        for number, row in enumerate(batch, first) if set(map(len, batch)) != {width} else ():
            if len(row) != width:
                bad[number] = (
                    f"the row has {len(row)} fields, but the header has {width}; put a text with a comma in quotes"
                )
                batch[number - first] = [""] * width
        columns = zip(self._header, zip(*batch, strict=True), strict=True)
        return Rows(first, {name: column for name, column in columns if name in self._cell_columns}, {}, bad)

    @contextlib.contextmanager
    def _read_lines(self) -> Iterator[Iterator[list[str]]]:
        """Opens the file; yields an iterator over the fields of each line.

        Raises:
          RunError: a line that the block reads is not CSV, or not UTF-8; the message has the number of the line.
        """
        with _open_file(self.path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines = csv.reader(text, strict=True)
            try:
                yield lines
            except csv.Error as error:
                raise RunError(f"{self.path}, line {lines.line_num}: this is not CSV ({error}).") from error
            except UnicodeDecodeError as error:
                number = _line_that_is_not_utf8(self.path)
                raise RunError(
                    f"{self.path}, line {number}: this is not UTF-8 text; save the file as UTF-8."
                ) from error


def _line_that_is_not_utf8(path: str) -> int:
    """The number of the first line that is not UTF-8, or of the last line if all are.

    `csv` cannot tell this number, because the text is decoded in blocks of many lines.
    """
    number = 0
    with _open_file(path) as file:
        for line in file:
            number += 1
            try:
                line.decode()
            except UnicodeDecodeError:
                break
    return number


class ParquetTable:
    """A Parquet file. A column of lists of numbers is a feature, unless its name has a fixed meaning (`COLUMNS`).

    Raises:
      UsageError: the package pyarrow is not installed, or two columns have the same name.
      RunError: the file is damaged; `batches` raises this too.
    """

    def __init__(self, path: str, extra_columns: Sequence[str]) -> None:
        try:
            import pyarrow
            import pyarrow.compute
            import pyarrow.parquet
        except ImportError as error:
            raise missing_extra(f"--table={path}", "pyarrow", "data", ", or write the table as CSV") from error
        self.path, self._arrow = path, pyarrow
        with self._open_file() as file:
            schema = file.schema_arrow
        self.columns = schema.names
        _refuse_repeated_columns(path, self.columns)
        self._cell_columns = [name for name in self.columns if name in {*COLUMNS, *extra_columns}]
        self.features = [
            field.name
            for field in schema
            if field.name not in self._cell_columns and _is_list_of_numbers(pyarrow, field.type)
        ]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        first = 1
        with self._open_file() as file:
            for batch in file.iter_batches(batch_size=size, columns=[*self._cell_columns, *features]):
                rows, first = batch.slice(max(skip + 1 - first, 0)), first + len(batch)
                if len(rows):
                    yield self._parse_batch(first - len(rows), rows, features)

    def _parse_batch(self, first: int, batch: Any, features: Sequence[str]) -> Rows:
        """Converts an Arrow batch to cells and arrays.

        Args:
          first: number of the first row, from 1.
          batch: the `pyarrow.RecordBatch`.
          features: the list columns to convert to arrays.
        """
        cells = {name: list(map(_as_cell, batch[name].to_pylist())) for name in self._cell_columns}
        return Rows(first, cells, {name: self._convert_lists(batch[name]) for name in features}, {})

    def _convert_lists(self, column: Any) -> NDArray[Any]:
        """Converts a column of lists to float32 [n, D]; a list that is null becomes an empty one.

        If the lists differ in length, returns an array [n] of float32 arrays instead, so that the caller can tell which
        rows have another length than the first video.
        """
        compute = self._arrow.compute
        lengths = np.asarray(compute.fill_null(compute.list_value_length(column), 0))
        floats = column.flatten().cast(self._arrow.float32(), safe=False)
        values = compute.fill_null(floats, float("nan")).to_numpy(zero_copy_only=False)
        if (lengths == lengths[0]).all():
            return np.asarray(values.reshape(len(lengths), lengths[0]))
        rows = np.empty(len(lengths), object)
        rows[:] = np.split(values, np.cumsum(lengths)[:-1])
        return rows

    @contextlib.contextmanager
    def _open_file(self) -> Iterator[Any]:
        """Opens the file; yields a `pyarrow.parquet.ParquetFile`. Errors in the block are raised as `RunError`."""
        import pyarrow.parquet

        with _open_file(self.path) as file:
            try:
                yield pyarrow.parquet.ParquetFile(file, pre_buffer=False)
            except (self._arrow.ArrowException, OSError, ValueError) as error:  # a damaged file raises any of these
                raise RunError(f"{self.path} is not a Parquet file that can be read: {first_line(error)}") from error


def _as_cell(value: Any) -> Any:
    """The cell of a value in a Parquet or NPZ file; bytes, as which NumPy and Spark may store texts, become text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return [item if item is None else _as_cell(item) for item in value]
    # An empty cell is null or, if pandas wrote the file, NaN, the only value that differs from itself.
    return "" if value is None or value != value else value


def _is_list_of_numbers(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)))


class NpzTable:
    """An NPZ file of arrays with one row per video: the columns `COLUMNS`, and features. All are held in memory.

    Raises:
      UsageError, RunError: as for `_load_arrays` and `_refuse_indicators`.
    """

    def __init__(self, path: str, extra_columns: Sequence[str]) -> None:
        self.path, self._arrays = path, _load_arrays(path)
        _refuse_indicators(path, self._arrays)
        self.columns = list(self._arrays)
        self._cell_columns = [name for name in self.columns if name in {*COLUMNS, *extra_columns}]
        self.features = [name for name in self.columns if name not in self._cell_columns]

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        for start in range(skip, len(next(iter(self._arrays.values()))), size):
            rows_slice = slice(start, start + size)
            cells = {name: list(map(_as_cell, self._arrays[name][rows_slice].tolist())) for name in self._cell_columns}
            yield Rows(start + 1, cells, {name: self._arrays[name][rows_slice] for name in features}, {})


def _refuse_indicators(path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raises `UsageError` if the labels are a matrix that says of each class whether a video has it.

    Its numbers would be read as those of the classes 0 and 1.
    """
    labels = arrays.get("labels")
    if labels is not None and labels.ndim == 2 and labels.dtype.kind in "biuf" and np.isin(labels, (0, 1)).all():
        raise UsageError(
            f"{path}: the array labels is a matrix {list(labels.shape)} of only 0 and 1; expected the names or numbers "
            "of each video's classes, for example texts such as '0;4'."
        )


def describe_zip_bomb(archive: zipfile.ZipFile) -> str:
    """The end of an error message if the arrays of an NPZ file are far larger than the file; otherwise empty."""
    entries = archive.infolist()
    packed, size = (sum(getattr(entry, name) for entry in entries) for name in ("compress_size", "file_size"))
    if size <= max(_BOMB_BYTES, _BOMB_FACTOR * packed):
        return ""
    return f"has {packed} bytes that unpack to {size >> 20} MB; write the arrays without compression"


def _load_arrays(path: str) -> dict[str, NDArray[Any]]:
    """Loads {name: array} of an NPZ file.

    Raises:
      UsageError: the arrays differ in their numbers of rows, or one of them is a single number.
      RunError: the file is damaged, is not an NPZ file, or is a zip bomb.
    """
    with _open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:  # raises for a file that is no NPZ file; `np.load` accepts others
                if problem := describe_zip_bomb(archive):
                    raise RunError(f"{path} {problem}.")
                arrays: dict[str, NDArray[Any]] = dict(np.load(file, allow_pickle=False))
        except (*DAMAGE, OSError) as error:
            raise RunError(f"{path} is not an NPZ file that can be read: {first_line(error)}.") from error
    rows = {array.shape[:1] for array in arrays.values()}
    if len(rows) != 1 or () in rows:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items()) or "nothing"
        raise UsageError(f"{path} holds {shapes}; expected arrays that all have one row for each video.")
    return arrays


class TableWithArray:
    """A table whose features are in another file: row i of that file has the features of row i of the table.

    Args:
      table: the table.
      array: a `.npy` file, which is memory-mapped, or an NPZ file, whose arrays are held in memory.

    Raises:
      UsageError: the file has no rows of numbers, or a `.npy` file cannot be read.
      RunError: an NPZ file cannot be read.
    """

    def __init__(self, table: Table, array: str) -> None:
        self.path, self.columns, self._table, self._array = table.path, table.columns, table, array
        is_npz = array.lower().endswith(".npz")
        self._arrays = _load_arrays(array) if is_npz else {NAMELESS: _map_array(array)}
        self.features: Sequence[str] = tuple(self._arrays)

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`.

        Raises:
          RunError: the table and the file of features differ in their numbers of rows.
        """
        length, last = len(next(iter(self._arrays.values()))), skip
        for rows in self._table.batches(size, skip):
            last = rows.first + rows.size - 1
            if last > length:
                break
            yield rows._replace(arrays={name: self._arrays[name][rows.first - 1 : last] for name in features})
        if last != length:
            count = "more" if last > length else str(last)
            raise RunError(
                f"{self._array} has {length} rows and {self.path} {count}; give each video one row in both files."
            )


def _map_array(path: str) -> NDArray[Any]:
    """Memory-maps the array of a .npy file; a file in a bucket is fetched first.

    Raises:
      UsageError: the file is no .npy file or is damaged, or the array has fewer than two dimensions.
    """
    try:
        array = np.load(copies.file_copy(path), mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise UsageError(f"--array={path} is not a .npy or .npz file of numbers, or is damaged.") from error
    if array.ndim < 2:
        raise UsageError(f"--array={path} has the shape {list(array.shape)}; expected a row for each video.")
    return np.asarray(array)
