"""The table of `make-records`: rows that the reader of tables understands, and features in it or beside it."""

from __future__ import annotations

import functools
import os
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.records.row_file import ArrayFile
from yt8m.storage import copies
from yt8m.tables.sources.array_source import as_array, check_lengths, describe_no_array, describe_zip_bomb, load_arrays
from yt8m.tables.sources.source import Rows, Table, refuse_unreadable
from yt8m.tables.understood import TableFlags, UnderstoodTable, understand
from yt8m.tables.words.meanings import meaning_of

_NO_PATH_REMEDY = (
    " The column path names a file of features for each row; --array=FILE takes the features of all rows from one "
    "file, and --array=FOLDER from one file for each id. Columns of numbers are a feature if they are called f0, f1, "
    "f2, ... without a gap, and a column of lists such as [0.1, 0.2] is one."
)
NAMELESS = "features"  # name of the array of a .npy file, unless the user gives it another name
_ROWS_AT_ONCE = 8192
_FIRST_IDS = 100  # ids by which an NPZ file is known to have an array for each id
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}$")  # of a file, such as .mp4
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
    remark: str

    def of_rows(self, rows: Rows, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """{feature: [n, ...]} of the rows of a batch."""

    def problems(self, rows: Rows) -> dict[int, str]:
        """{number of a row of a batch: why it has no features}."""


def open_features(table: UnderstoodTable, array: str) -> FeaturesBeside:
    """Opens what --array names."""
    if storage.is_dir(array):
        return _FolderOfFeatures(array)
    feature, _, path = array.partition("=")
    if path and storage.exists(path) and not storage.exists(array):
        raise UsageError(
            f"--array={array}: name the file alone, --array={path}; --feature_names={feature} is its name."
        )
    refuse_unreadable("--array", array)
    if not array.lower().endswith(".npz"):
        return _Array(array, {NAMELESS: _open_array(array)})
    names = _names_in_archive(array)
    first_ids = next((list(map(str, rows.cells["id"])) for rows in table.batches(_FIRST_IDS)), [])
    ids_array = next((name for name in sorted(names) if (meaning_of(name) or ("",))[0] == "id"), "")
    if any(find_name(video, names) for video in first_ids):
        return _FeaturesById(array, names)
    arrays = load_arrays(array)
    check_lengths(array, arrays)
    if ids_array and len(arrays) > 1 and arrays[ids_array].ndim == 1:
        return _ArraysWithIds(array, arrays, ids_array)
    features = _Array(array, arrays)
    if first_ids and len(arrays) > 1:
        features.remark = (
            f" None of its {len(arrays)} arrays, such as {min(arrays)[:60]!r}, is called like an id, such as "
            f"{first_ids[0][:60]!r}, so that its arrays were taken for features of all rows."
        )
    return features


class _Array:
    """Arrays with a row for each row of the table; see `FeaturesBeside`."""

    remark = ""  # the end of the message if the rows of the arrays are not those of the table

    def __init__(self, path: str, arrays: Mapping[str, NDArray[Any] | ArrayFile]) -> None:
        self.path, self._arrays = path, arrays
        self.names: Sequence[str] = tuple(arrays)
        self.length: int | None = len(next(iter(arrays.values())))

    def of_rows(self, rows: Rows, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """See `FeaturesBeside`."""
        return {name: self._arrays[name][rows.first - 1 : rows.first - 1 + rows.size] for name in names}

    def problems(self, rows: Rows) -> dict[int, str]:
        """See `FeaturesBeside`."""
        return {}


class _ByName:
    """Features with one array for each id; see `FeaturesBeside`.

    The name of an array is an id, perhaps without the ending of a video (`v1.mp4`) and without its folders.
    """

    names: Sequence[str] = (NAMELESS,)
    length: int | None = None
    remark = ""
    path: str

    def __init__(self, known_names: Collection[str]) -> None:
        self._known, self._id_of = known_names, dict[str, str]()

    def of_rows(self, rows: Rows, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """See `FeaturesBeside`. An id without an array gets an empty one; its row is bad."""
        values = np.empty(rows.size, object)
        for index, video in enumerate(map(str, rows.cells["id"])):
            key = find_name(video, self._known)
            values[index] = self._array(key) if key else np.zeros(0, np.float32)
        return {NAMELESS: values} if names else {}

    def problems(self, rows: Rows) -> dict[int, str]:
        """See `FeaturesBeside`."""
        problems = ((number, self._problem(str(video))) for number, video in enumerate(rows.cells["id"], rows.first))
        return {number: problem for number, problem in problems if problem}

    def _problem(self, video: str) -> str:
        key = find_name(video, self._known)
        if not key:
            tried = ", ".join(map(repr, dict.fromkeys(_names_of(video))))
            return f"{self.path} has no array of the id {video[:60]!r}: none is called {tried[:200]}"
        if (other := self._id_of.setdefault(key, video)) != video:
            return f"the array {key[:60]!r} in {self.path} is that of the id {other[:60]!r} already"
        return ""

    def _array(self, name: str) -> NDArray[Any]:
        raise NotImplementedError


def _names_of(video: str) -> list[str]:
    """The names that the array of a video may have, the surest first."""
    bare = video.replace("\\", "/").rpartition("/")[2]
    return [video, _ENDING.sub("", video), bare, _ENDING.sub("", bare)]


def find_name(video: str, names: Collection[str]) -> str:
    """The name among these that the array of a video has; empty if there is none."""
    return next((name for name in _names_of(video) if name in names), "")


class _FeaturesById(_ByName):
    """An NPZ file with an array for each id."""

    def __init__(self, path: str, names: frozenset[str]) -> None:
        super().__init__(names)
        self.path, self._archive = path, np.load(copies.file_copy(path), allow_pickle=False)

    def _array(self, name: str) -> NDArray[Any]:
        with refusing(functools.partial(self._refusal, name)):
            return as_array(self._archive[name])

    def _refusal(self, name: str, error: Exception) -> RunError:
        return RunError(f"{self.path}: the array {name[:60]!r} cannot be read: {first_line(error)}.")


class _ArraysWithIds(_ByName):
    """An NPZ file with arrays of rows, and an array of the ids of these rows."""

    def __init__(self, path: str, arrays: Mapping[str, NDArray[Any]], ids: str) -> None:
        self._place = {str(video): place for place, video in enumerate(arrays[ids].tolist())}
        super().__init__(self._place)
        self.path, self._arrays = path, {name: array for name, array in arrays.items() if name != ids}
        self.names = tuple(self._arrays)
        if len(self._place) < len(arrays[ids]):
            raise UsageError(f"--array={path}: the array {ids} has an id twice; expected each id once.")

    def of_rows(self, rows: Rows, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """See `FeaturesBeside`."""
        places = [self._place.get(find_name(str(video), self._place), 0) for video in rows.cells["id"]]
        return {name: self._arrays[name][places] for name in names}


class _FolderOfFeatures(_ByName):
    """A folder with a .npy file for each id."""

    def __init__(self, path: str) -> None:
        folders = storage.tree(path)
        files = [storage.join(folder, name) for folder, names in folders.items() for name in names]
        self._files = {_stem(file, path): file for file in sorted(files) if file.lower().endswith(".npy")}
        super().__init__(self._files)
        self.path = path
        if not self._files:
            raise UsageError(f"--array={path}: the folder has no .npy file; expected one for each id.")

    def _array(self, name: str) -> NDArray[Any]:
        return np.asarray(_load(self._files[name]))


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
        self.are_clips, self.videos_in_parts = table.are_clips, table.videos_in_parts
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
                self._refuse_more(length)
            bad = self._features.problems(rows) | dict(rows.bad)
            yield rows._replace(arrays=self._features.of_rows(rows, features), bad=bad)
        if length is not None and last != length:
            raise RunError(self._lengths(last))

    def _lengths(self, rows: int) -> str:
        """The message about a table and arrays of different lengths."""
        return (
            f"{self._features.path} has {self._features.length} rows and {self.path} {rows}; give each video one row "
            f"in both files.{self._features.remark}"
        )

    def _refuse_more(self, length: int) -> NoReturn:
        """Raises `RunError` with the number of rows of the table, and the first one that is perhaps no video's own."""
        row_of: dict[str, int] = {}
        oddity, last = "", 0
        for rows in self._table.batches(_ROWS_AT_ONCE):
            for number, video in enumerate(map(str, rows.cells["id"]), rows.first):
                other = row_of.setdefault(video, number)
                if number in rows.bad:
                    oddity = oddity or f" See {self._where(number)}: {rows.bad[number]}."
                elif not video.strip() or video == "None":
                    oddity = oddity or f" See {self._where(number)}, which has no id."
                elif other != number:
                    oddity = (
                        oddity or f" See {self._where(number)}, which has the id {video[:60]!r} of row {other} again."
                    )
            last = rows.first + rows.size - 1
        raise RunError(
            self._lengths(last) + (oddity or f" The first row without features is {self._where(length + 1)}.")
        )

    def _where(self, row: int) -> str:
        line = self.line_of(row)
        return f"row {row} (line {line})" if line else f"row {row}"

    def clean_label(self, name: Any) -> str:
        """See `Table`."""
        return self._table.clean_label(name)

    def line_of(self, row: int) -> int:
        """See `UnderstoodTable`."""
        return self._table.line_of(row)

    def where(self, row: int) -> str:
        """See `UnderstoodTable`."""
        return self._table.where(row)

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
