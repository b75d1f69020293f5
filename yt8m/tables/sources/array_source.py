"""Tables in NPZ files: arrays with one row for each video."""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import file_kinds, storage
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.tables.sources.arrow_source import as_cell
from yt8m.tables.sources.encodings import open_bytes
from yt8m.tables.sources.source import LinelessSource, Rows

_CLASS_ARRAYS = ("classes", "class_names", "label_names", "target_names", "names", "vocabulary")
# An NPZ file is refused as a zip bomb if its arrays have more than `_BOMB_BYTES` bytes, and more than `_BOMB_FACTOR`
# times the bytes that they take in the file.
_BOMB_BYTES, _BOMB_FACTOR = 1 << 28, 100


class ArraySource(LinelessSource):
    """An NPZ file of arrays with one row for each video, all held in memory. Arrays of numbers are in `arrays` too."""

    form = "NPZ"

    def __init__(self, path: str) -> None:
        self.path, self._arrays = path, _with_named_classes(load_arrays(path))
        check_lengths(path, self._arrays)
        self.columns: Sequence[str] = list(self._arrays)
        self.arrays: Sequence[str] = [
            name for name, array in self._arrays.items() if array.ndim > 1 and array.dtype.kind in "biuf"
        ]

    def batches(
        self, size: int, skip: int = 0, columns: Sequence[str] = (), arrays: Sequence[str] = ()
    ) -> Iterator[Rows]:
        """See `Source`."""
        for start in range(skip, len(next(iter(self._arrays.values()))), size):
            rows = slice(start, start + size)
            cells = {name: list(map(as_cell, self._arrays[name][rows].tolist())) for name in columns}
            yield Rows(start + 1, cells, {name: self._arrays[name][rows] for name in arrays}, {})


def describe_no_array(path: str) -> str:
    """The part of a message about a file that NumPy cannot load; it says what the file is, if its bytes do."""
    kind = storage.kind_of(path)
    if kind and kind not in (file_kinds.NPY, file_kinds.NPZ):
        return f"{path} is not a .npy or .npz file of numbers: {kind}"
    return f"{path} is not a .npy or .npz file of numbers, or is damaged"


def load_arrays(path: str) -> dict[str, NDArray[Any]]:
    """Loads {name: array} of an NPZ file; raises `RunError` if it is damaged, no NPZ file, or a zip bomb."""
    with open_bytes(path) as file, refusing(functools.partial(_refusal, path)):
        with zipfile.ZipFile(file) as archive:  # raises for a file that is no NPZ file; `np.load` accepts others
            if problem := describe_zip_bomb(archive):
                raise RunError(f"{path} {problem}.")
        return {name: as_array(array) for name, array in np.load(file, allow_pickle=False).items()}


def _refusal(path: str, error: Exception) -> RunError:
    return RunError(f"{describe_no_array(path)} ({first_line(error)}).")


def as_array(loaded: object) -> NDArray[Any]:
    """What NumPy loaded; raises `ValueError` if it is no array, or one whose elements have no bytes.

    NumPy loads a member of an NPZ file that is no array as bytes.
    """
    if not isinstance(loaded, np.ndarray):
        raise ValueError("it is no array of NumPy")
    if loaded.size and not loaded.dtype.itemsize:
        raise ValueError("its elements have no bytes")
    return loaded


def _with_named_classes(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays, with a column for each class in place of a matrix of 0 and 1 beside the names of its columns."""
    names = next((name for name in _CLASS_ARRAYS if name in arrays and arrays[name].dtype.kind in "US"), "")
    matrices = [
        name
        for name, array in arrays.items()
        if names and array.ndim == 2 and array.shape[1:] == arrays[names].shape and np.isin(array, (0, 1)).all()
    ]
    if len(matrices) != 1 or len({array.shape[0] for array in arrays.values()} - {len(arrays[names])}) != 1:
        return arrays
    columns = dict(zip(map(as_cell, arrays[names].tolist()), arrays[matrices[0]].astype(np.int64).T, strict=True))
    others = {name: array for name, array in arrays.items() if name not in (names, matrices[0])}
    return others if set(columns) & set(others) else {**others, **columns}


def check_lengths(path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raises `UsageError` if arrays differ in their numbers of rows, or one of them is a single number."""
    rows = {array.shape[:1] for array in arrays.values()}
    if len(rows) != 1 or () in rows:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items()) or "nothing"
        raise UsageError(f"{path} holds {shapes}; expected arrays that all have one row for each video.")


def describe_zip_bomb(archive: zipfile.ZipFile) -> str:
    """The end of an error message if the arrays of an NPZ file are far larger than the file; otherwise empty."""
    entries = archive.infolist()
    packed, size = (sum(getattr(entry, name) for entry in entries) for name in ("compress_size", "file_size"))
    if size <= max(_BOMB_BYTES, _BOMB_FACTOR * packed):
        return ""
    return f"has {packed} bytes that unpack to {size >> 20} MB; write the arrays without compression"
