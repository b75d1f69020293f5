"""Tables in Parquet, Arrow and Feather files, as pandas, Spark and the library datasets write them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError, first_line, missing_extra, refusing
from yt8m.tables.sources.encodings import open_bytes
from yt8m.tables.sources.source import LinelessSource, Rows, refuse_repeated_columns

_IPC_MARK, _PARQUET_MARK = b"ARROW1", b"PAR1"  # the first bytes of the files
_ROWS_AT_ONCE = 8192
_ARROW_ENDINGS = (".arrow", ".feather", ".ipc")


class ArrowSource(LinelessSource):
    """A Parquet, Arrow or Feather file. A column of lists of numbers is in `arrays` as well as in `columns`."""

    def __init__(self, path: str) -> None:
        try:
            import pyarrow
            import pyarrow.compute
            import pyarrow.ipc
            import pyarrow.parquet
        except ImportError as error:
            raise missing_extra(f"--table={path}", "pyarrow", "data", ", or write the table as CSV") from error
        self.path, self._arrow = path, pyarrow
        with open_bytes(path) as start:
            mark = start.read(len(_IPC_MARK))
        self._is_ipc = mark == _IPC_MARK or (mark[:4] != _PARQUET_MARK and path.lower().endswith(_ARROW_ENDINGS))
        self._is_stream = self._is_ipc and mark != _IPC_MARK  # as the library datasets writes it
        self.form = "Arrow" if self._is_ipc else "Parquet"
        with self._open_file() as file:
            schema = file.schema if self._is_ipc else file.schema_arrow
        self.columns: Sequence[str] = schema.names
        refuse_repeated_columns(path, self.columns)
        self.arrays: Sequence[str] = [field.name for field in schema if self._is_list_of_numbers(field.type)]
        self._maps = {field.name for field in schema if pyarrow.types.is_map(field.type)}
        self.hints = _hints(self.columns)
        self._class_names = _class_names(schema.metadata or {})

    def batches(
        self, size: int, skip: int = 0, columns: Sequence[str] = (), arrays: Sequence[str] = ()
    ) -> Iterator[Rows]:
        """See `Source`."""
        first = 1
        with self._open_file() as file:
            for batch in self._record_batches(file, size, list(dict.fromkeys([*columns, *arrays]))):
                rows, first = batch.slice(max(skip + 1 - first, 0)), first + len(batch)
                if len(rows):
                    cells = {name: self._convert_cells(name, rows[name]) for name in columns}
                    yield Rows(first - len(rows), cells, {name: self._convert_lists(rows[name]) for name in arrays}, {})

    def rows_of_objects(self) -> list[dict[str, Any]]:
        """All rows as objects, if a column has lists of objects, such as spans; else none."""
        types = self._arrow.types
        with self._open_file() as file:
            schema = file.schema if self._is_ipc else file.schema_arrow
            kinds = [field.type for field in schema]
            if not any(
                (types.is_list(kind) or types.is_large_list(kind)) and types.is_struct(kind.value_type)
                for kind in kinds
            ):
                return []
            batches = self._record_batches(file, _ROWS_AT_ONCE, [*self.columns])
            return [row for batch in batches for row in batch.to_pylist()]

    def _record_batches(self, file: Any, size: int, columns: list[str]) -> Iterator[Any]:
        if not self._is_ipc:
            yield from file.iter_batches(batch_size=size, columns=columns)
            return
        numbers = () if self._is_stream else range(file.num_record_batches)
        for batch in file if self._is_stream else map(file.get_batch, numbers):
            batch = batch.select(columns)
            for start in range(0, len(batch), size):
                yield batch.slice(start, size)

    def _convert_cells(self, name: str, column: Any) -> list[Any]:
        values = list(map(as_cell, column.to_pylist()))
        if name in self._maps:
            return [dict(value) if value else value for value in values]
        names = self._class_names.get(name)
        return [_name_classes(value, names) for value in values] if names else values

    def _convert_lists(self, column: Any) -> NDArray[Any]:
        """Converts a column of lists to float32 [n, D]; a list that is null becomes an empty one.

        If the lists differ in length, or hold lists of their own, returns an array [n] of float32 arrays instead, so
        that the caller can tell which rows have another length than the first video.
        """
        compute, types = self._arrow.compute, self._arrow.types
        if types.is_fixed_size_list(column.type):
            column = column.cast(self._arrow.list_(column.type.value_type))
        if not (types.is_floating(column.type.value_type) or types.is_integer(column.type.value_type)):
            return as_arrays(column.to_pylist())
        lengths = np.asarray(compute.fill_null(compute.list_value_length(column), 0))
        floats = column.flatten().cast(self._arrow.float32(), safe=False)
        values = compute.fill_null(floats, float("nan")).to_numpy(zero_copy_only=False)
        if (lengths == lengths[0]).all():
            return np.asarray(values.reshape(len(lengths), lengths[0]))
        rows = np.empty(len(lengths), object)
        rows[:] = np.split(values, np.cumsum(lengths)[:-1])
        return rows

    def _is_list_of_numbers(self, kind: Any) -> bool:
        """Whether a type is a list of numbers, or of lists of numbers: the frames of a video."""
        types = self._arrow.types
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            return False
        item = kind.value_type
        return bool(types.is_floating(item) or types.is_integer(item) or self._is_list_of_numbers(item))

    @contextlib.contextmanager
    def _open_file(self) -> Iterator[Any]:
        """Opens the file; yields a reader of pyarrow. Whatever pyarrow raises in the block is raised as `RunError`."""

        def refusal(error: Exception) -> RunError:
            return RunError(f"{self.path} is no {self.form} file that can be read: {first_line(error)}")

        with open_bytes(self.path) as file, refusing(refusal):
            if self._is_stream:
                yield self._arrow.ipc.open_stream(file)
            elif self._is_ipc:
                yield self._arrow.ipc.open_file(file)
            else:
                yield self._arrow.parquet.ParquetFile(file, pre_buffer=False)


def as_cell(value: Any) -> Any:
    """The cell of a value in a Parquet or NPZ file; bytes, as which NumPy and Spark may store texts, become text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return [item if item is None else as_cell(item) for item in value]
    if isinstance(value, dict) and value.keys() == {"bytes", "path"}:  # as the library datasets keeps files
        return value["path"] or ""
    # An empty cell is null or, if pandas wrote the file, NaN, the only value that differs from itself.
    return "" if value is None or value != value else value


def as_arrays(values: Sequence[Any]) -> NDArray[Any]:
    """An array [n] of a float32 array for each value, a list or a list of lists; of what is none, an empty array."""
    rows = np.empty(len(values), object)
    for index, value in enumerate(values):
        try:
            rows[index] = np.asarray(value if isinstance(value, list) else [], np.float32)
        except (ValueError, TypeError):
            rows[index] = np.zeros(0, np.float32)
    return rows


def _hints(columns: Sequence[str]) -> Mapping[str, str]:
    """The index of a data frame, which pandas stores under a name of its own, is the id if no column is."""
    return {"id": "__index_level_0__"} if "__index_level_0__" in columns else {}


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """{column: the names of its classes}, which the library datasets keeps beside columns of class numbers."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        names_of_columns = {}
        for name, feature in features.items():
            item = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
            if item.get("_type") == "ClassLabel" and all(isinstance(text, str) for text in item["names"]):
                names_of_columns[name] = list(item["names"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return {}
    return names_of_columns


def _name_classes(value: Any, names: Sequence[str]) -> Any:
    """The name of the class with a number, or of each class in a list; -1 stands for none."""
    if isinstance(value, list):
        return [_name_classes(item, names) for item in value]
    if isinstance(value, int) and -1 <= value < len(names):
        return names[value] if value >= 0 else ""
    return value
