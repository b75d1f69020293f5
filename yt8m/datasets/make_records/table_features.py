"""The table of `make-records`: rows that the reader of tables understands, and features in it or beside it."""

from __future__ import annotations

import functools
import os
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.records.row_file import ArrayFile
from yt8m.storage import copies
from yt8m.tables.array_source import as_array, check_lengths, describe_no_array, describe_zip_bomb, load_arrays
from yt8m.tables.sources import Rows, refuse_unreadable
from yt8m.tables.understood import Table, TableFlags, UnderstoodTable, understand

_NO_PATH_REMEDY = (
    " The column path names a file of features for each row; --array=FILE takes the features of all rows from one "
    "file, and --array=FOLDER from one file for each id."
)
NAMELESS = "features"  # name of the array of a .npy file, unless the user gives it another name
FEATURE_ENDINGS = (".npy", ".npz")


def open_table(path: str, array: str, flags: TableFlags) -> UnderstoodTable | TableWithArray:
    """Opens a table, and finds its features.

    Args:
      array: `.npy` or `.npz` file with a row for each row of the table, an NPZ file with an array for each id, or a
        folder with a file for each id; empty for none.
    """
    table = understand("--table", path, flags)
    if array:
        return TableWithArray(table, open_features(table, array))
    if not table.features and "path" not in table.columns:
        columns = ", ".join(table.source_columns) or "none"
        raise UsageError(f"--table={path} has no column 'path'; it has: {columns[:300]}.{_NO_PATH_REMEDY}")
    return table


class FeaturesBeside(Protocol):
    """The features of all videos beside a table.

    Attributes:
      length: number of rows; None if the features are found by id.
    """

    path: str
    names: Sequence[str]
    length: int | None

    def of_rows(self, rows: Rows, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """{feature: [n, ...]} of the rows of a batch."""


def open_features(table: UnderstoodTable, array: str) -> FeaturesBeside:
    """Opens what --array names."""
    if storage.is_dir(array):
        return _FolderOfFeatures(array)
    refuse_unreadable("--array", array)
    if not array.lower().endswith(".npz"):
        return _Array(array, {NAMELESS: _open_array(array)})
    names = _names_in_archive(array)
    first = next((str(cell) for rows in table.batches(1) for cell in rows.cells["id"]), "")
    if first in names and "id" not in names:
        return _FeaturesById(array, names)
    arrays = load_arrays(array)
    check_lengths(array, arrays)
    return _Array(array, arrays)


class _Array:
    """Arrays with a row for each row of the table; see `FeaturesBeside`."""

    def __init__(self, path: str, arrays: Mapping[str, NDArray[Any] | ArrayFile]) -> None:
        self.path, self._arrays = path, arrays
        self.names: Sequence[str] = tuple(arrays)
        self.length: int | None = len(next(iter(arrays.values())))

    def of_rows(self, rows: Rows, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """See `FeaturesBeside`."""
        return {name: self._arrays[name][rows.first - 1 : rows.first - 1 + rows.size] for name in names}


class _ByName:
    """Features with one array for each id; see `FeaturesBeside`."""

    names: Sequence[str] = (NAMELESS,)
    length: int | None = None

    def of_rows(self, rows: Rows, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """See `FeaturesBeside`. An id without an array gets an empty one, which makes its row bad."""
        values = np.empty(rows.size, object)
        for index, name in enumerate(rows.cells["id"]):
            values[index] = self._array(str(name))
        return {NAMELESS: values} if names else {}

    def _array(self, name: str) -> NDArray[Any]:
        raise NotImplementedError


class _FeaturesById(_ByName):
    """An NPZ file with an array for each id."""

    def __init__(self, path: str, names: frozenset[str]) -> None:
        self.path, self._ids = path, names
        self._archive = np.load(copies.file_copy(path), allow_pickle=False)

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self._ids:
            return np.zeros(0, np.float32)
        with refusing(functools.partial(self._refusal, name)):
            return as_array(self._archive[name])

    def _refusal(self, name: str, error: Exception) -> RunError:
        return RunError(f"{self.path}: the array {name[:60]!r} cannot be read: {first_line(error)}.")


class _FolderOfFeatures(_ByName):
    """A folder with a .npy file for each id."""

    def __init__(self, path: str) -> None:
        self.path = path
        folders = storage.tree(path)
        files = [storage.join(folder, name) for folder, names in folders.items() for name in names]
        self._files = {_stem(file, path): file for file in sorted(files) if file.lower().endswith(".npy")}
        if not self._files:
            raise UsageError(f"--array={path}: the folder has no .npy file; expected one for each id.")

    def _array(self, name: str) -> NDArray[Any]:
        file = self._files.get(name) or self._files.get(os.path.splitext(name)[0])
        if file is None:
            return np.zeros(0, np.float32)
        return np.asarray(_load(file))


def _stem(file: str, folder: str) -> str:
    return os.path.splitext(file[len(folder.rstrip("/")) + 1 :])[0]


def _load(path: str) -> NDArray[Any]:
    with refusing(lambda _: RunError(f"{describe_no_array(path)}.")):
        return as_array(np.load(copies.file_copy(path), allow_pickle=False))


def _names_in_archive(path: str) -> frozenset[str]:
    """The names of the arrays of an NPZ file; none if it is damaged, which `load_arrays` then says."""
    try:
        with zipfile.ZipFile(copies.file_copy(path)) as archive:
            if describe_zip_bomb(archive):
                return frozenset()
            return frozenset(name.removesuffix(".npy") for name in archive.namelist())
    except Exception:  # whatever a damaged file makes a parser raise
        return frozenset()


class TableWithArray:
    """A table whose features are beside it: in the order of its rows, or by their ids."""

    def __init__(self, table: UnderstoodTable, features: FeaturesBeside) -> None:
        self.path, self.columns, self._table, self._features = table.path, table.columns, table, features
        self.features: Sequence[str] = features.names
        if table.is_scattered and features.length is not None:
            raise UsageError(
                f"{table.path} has a row for each label, and the rows of a video are not together, so the order of the "
                f"videos in --array={features.path} is not certain. Sort the rows by video, or name an NPZ file with "
                "an array for each id, or a folder with a file for each id."
            )

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        length, last = self._features.length, skip
        for rows in self._table.batches(size, skip):
            last = rows.first + rows.size - 1
            if length is not None and last > length:
                break
            yield rows._replace(arrays=self._features.of_rows(rows, features))
        if length is not None and last != length:
            count = "more" if last > length else str(last)
            raise RunError(
                f"{self._features.path} has {length} rows and {self.path} {count}; give each video one row in both "
                "files."
            )

    def clean_label(self, name: Any) -> str:
        """See `Table`."""
        return self._table.clean_label(name)

    def line_of(self, row: int) -> int:
        """See `UnderstoodTable`."""
        return self._table.line_of(row)

    def describe(self) -> list[str]:
        """See `UnderstoodTable`."""
        return self._table.describe()

    def refuse_combinations(self, names: Collection[str]) -> None:
        """See `UnderstoodTable`."""
        self._table.refuse_combinations(names)


def _open_array(path: str) -> ArrayFile:
    """Opens the array of a .npy file; a file in a bucket is fetched first."""
    with refusing(lambda _: UsageError(f"--array={describe_no_array(path)}.")):
        array = ArrayFile(copies.file_copy(path))
    if len(array.shape) < 2:
        raise UsageError(f"--array={path} has the shape {list(array.shape)}; expected a row for each video.")
    return array


__all__ = ["NAMELESS", "Rows", "Table", "TableWithArray", "open_table"]
