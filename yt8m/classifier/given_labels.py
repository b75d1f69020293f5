"""The argument `y` of the classifier: the labels of videos, in the forms in which people have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.classifier.data_errors import DataError
from yt8m.records.vocabulary import has_control_character

_SEPARATORS = ";|"  # a text with one of these is probably several names


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """The labels of N videos.

    Attributes:
      classes: [C], what the user calls the classes, in their order.
      matrix: bool [N, C].
      is_single: whether `y` has exactly one class for each video, [N].
      is_numbered: whether `y` is a matrix, whose classes have no names.
    """

    classes: NDArray[Any]
    matrix: NDArray[np.bool_]
    is_single: bool = False
    is_numbered: bool = False

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def names(self) -> list[str]:
        """The names of the classes as texts."""
        return list(map(str, self.classes.tolist()))

    def take(self, rows: NDArray[np.int64]) -> GivenLabels:
        """The labels of the videos in these rows."""
        return replace(self, matrix=self.matrix[rows])


def labels_of(y: Any, classes: NDArray[Any] | None = None) -> GivenLabels:
    """Reads `y`.

    Args:
      y: see `Classifier.fit`.
      classes: [C], the classes that are known already; None to take those of `y`.
    """
    if isinstance(y, str | bytes):
        raise DataError(f"y is one text, {y!r}: expected the labels of each video.")
    if y is None:
        raise DataError(
            "a classifier requires y to be passed, but the target y is None: give the labels of the videos."
        )
    read = _read(y)
    read = read if classes is None else _in_order(read, classes)
    _refuse_bad_names(read.names)
    return read


def _read(y: Any) -> GivenLabels:
    if hasattr(y, "columns") and hasattr(y, "to_numpy"):  # a DataFrame of pandas or polars
        if len(y.columns) > 1 or _is_zero_or_one(y.to_numpy()):
            return _of_matrix(y.to_numpy(), np.asarray(list(y.columns), dtype=object))
        return _read(y.to_numpy()[:, 0])
    if hasattr(y, "toarray"):  # a sparse matrix of SciPy
        return _of_matrix(y.toarray())
    if hasattr(y, "__array__"):  # a NumPy array, a Series, a tensor
        y = np.asarray(y)
        if y.ndim == 0:
            raise DataError(f"y is one value, {y}: expected the labels of each video.")
    rows = list(y.tolist() if isinstance(y, np.ndarray) and y.dtype == object else y)
    if any(isinstance(row, str | bytes) or not isinstance(row, Iterable) for row in rows):
        return _of_single(y if isinstance(y, np.ndarray) else rows)
    return _of_rows(y, rows)


def _of_rows(y: Any, rows: list[Any]) -> GivenLabels:
    """The labels of rows, each of which has the names of a video, or 0 and 1 for each class."""
    widths = {len(row) if hasattr(row, "__len__") else -1 for row in rows}
    is_array = isinstance(y, np.ndarray) and y.dtype.kind in "biufc"
    if is_array or (len(widths) == 1 and widths.pop() > 1 and _is_zero_or_one(rows)):
        array = np.asarray(y if is_array else rows)
        return _of_single(array[:, 0]) if array.ndim == 2 and array.shape[1] == 1 else _of_matrix(array)
    return _of_names([row.tolist() if isinstance(row, np.ndarray) else list(row) for row in rows])


def _is_zero_or_one(values: Any) -> bool:
    """Whether all values are numbers that are 0 or 1."""
    try:
        array = np.asarray(values)
        return array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all())
    except (TypeError, ValueError):
        return False


def _of_matrix(matrix: Any, classes: NDArray[Any] | None = None) -> GivenLabels:
    array = np.asarray(matrix)
    if array.ndim != 2 or array.shape[1] < 1 or array.dtype.kind not in "biuf" + "O" * (classes is not None):
        raise DataError(
            f"y is {array.dtype} {list(array.shape)}: expected 0 and 1, [videos, classes]; or lists of names."
        )
    if array.dtype.kind == "O" and not all(isinstance(v, int | float | np.bool_) for v in array.ravel().tolist()):
        raise DataError("the columns of y are not all of 0 and 1: give one column for each class, or a list of names.")
    values = array.astype(np.float64)
    wrong = np.argwhere((values != 0) & (values != 1))
    if len(wrong):
        row, column = wrong[0]
        raise DataError(
            f"y[{row}, {column}] is {array[row, column]}: Unknown label type, expected only 0 and 1, no NaN and no inf."
        )
    names = np.arange(array.shape[1]) if classes is None else classes
    return GivenLabels(names, values > 0, is_numbered=classes is None)


def _of_names(rows: Sequence[Sequence[Any]]) -> GivenLabels:
    """The labels of videos that each have a list of names."""
    if any(isinstance(name, list | dict | np.ndarray) for row in rows for name in row):
        raise DataError("y is nested too deeply: give a list of names for each video.")
    classes = _sorted({name for row in rows for name in row})
    if not len(classes):
        raise DataError("no video of y has a label, so there are no classes.")
    index = {name: number for number, name in enumerate(classes.tolist())}
    matrix = np.zeros((len(rows), len(classes)), np.bool_)
    for row, names in enumerate(rows):
        matrix[row, [index[name] for name in names]] = True
    return GivenLabels(classes, matrix)


def _of_single(values: Any) -> GivenLabels:
    """The labels of videos that have exactly one class each."""
    array = np.asarray(values)
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise DataError("y holds NaN or inf: give each video a class.")
    if array.dtype.kind in "fc" and (array != np.rint(array.real)).any():
        raise DataError("Unknown label type: y holds fractions, which are no classes; give names, or 0 and 1.")
    items = values if isinstance(values, list) else array.tolist()
    for row, name in enumerate(items):
        if name is None or name != name:
            raise DataError(
                f"y[{row}] is {name}, without a class. Give lists of names: an empty one is a video without label."
            )
        if isinstance(name, str) and any(separator in name for separator in _SEPARATORS):
            raise DataError(
                f"y[{row}] is {name!r}, which looks like several names: give a list of names for each video, such as "
                "[text.split(';') for text in y]."
            )
    classes = _sorted(set(items))
    index = {name: number for number, name in enumerate(classes.tolist())}
    matrix = np.zeros((len(items), len(classes)), np.bool_)
    matrix[np.arange(len(items)), [index[name] for name in items]] = True
    return GivenLabels(classes.astype(array.dtype), matrix, is_single=True)


def _sorted(names: set[Any]) -> NDArray[Any]:
    try:
        ordered = sorted(names)
    except TypeError as error:
        kinds = ", ".join(sorted({type(name).__name__ for name in names}))
        raise DataError(f"y has names of different types ({kinds}): give texts, or numbers.") from error
    return np.asarray(ordered)


def _in_order(labels: GivenLabels, classes: NDArray[Any]) -> GivenLabels:
    """The labels by the known classes; a class that is not known is refused."""
    index_of = {name: number for number, name in enumerate(classes.tolist())}
    if labels.is_numbered:
        if len(labels.classes) != len(classes):
            raise DataError(f"y has {len(labels.classes)} columns, but the classifier has {len(classes)} classes.")
        return replace(labels, classes=classes)
    unknown = [name for name in labels.classes.tolist() if name not in index_of]
    if unknown:
        raise DataError(f"y has the class {unknown[0]!r}, which the classifier does not have.")
    matrix = np.zeros((len(labels), len(classes)), np.bool_)
    matrix[:, [index_of[name] for name in labels.classes.tolist()]] = labels.matrix
    return GivenLabels(classes, matrix, labels.is_single)


def _refuse_bad_names(names: Sequence[str]) -> None:
    """Refuses names that the vocabulary of a run cannot hold."""
    if len(set(names)) < len(names):
        raise DataError("two classes of y have the same name: rename one.")
    for name in names:
        if has_control_character(name):
            raise DataError(f"the class {name!r} holds a line break or another control character: rename it.")
