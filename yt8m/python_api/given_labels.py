"""Labels of videos in the forms in which people have them: `y` of the classifier, and `labels` of a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.python_api import label_frames, label_texts
from yt8m.python_api.data_errors import DataError
from yt8m.python_api.label_texts import decoded, is_missing, shown, sorted_names, spelled
from yt8m.records.vocabulary import has_control_character
from yt8m.tables.cells import label_lists
from yt8m.tables.cells.separators import AUTO
from yt8m.tables.words.class_names import is_nothing

_LISTS = "Give lists of names: an empty one is a video without label."


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
        """The names of the classes as the vocabulary of a run has them."""
        return list(map(spelled, self.classes.tolist()))

    def take(self, rows: NDArray[np.int64]) -> GivenLabels:
        """The labels of the videos in these rows."""
        return replace(self, matrix=self.matrix[rows])


def labels_of(y: Any, classes: NDArray[Any] | None = None, separator: str = AUTO) -> GivenLabels:
    """Reads `y`.

    Args:
      y: see `Classifier.fit`.
      classes: [C], the classes that are known already; None to take those of `y`.
      separator: see `Classifier`.
    """
    _refuse_no_rows(y)
    if classes is not None and _is_without_labels(y):
        return GivenLabels(classes, np.zeros((len(y), len(classes)), np.bool_))
    known_names = [] if classes is None else [spelled(name) for name in classes.tolist()]
    labels = _Reader(known_names, separator).read(y)
    _refuse_bad_names(labels)
    return labels if classes is None else _in_order(labels, classes)


def _refuse_no_rows(y: Any) -> None:
    """Refuses what has no labels in an order."""
    if y is None:
        raise DataError(
            "a classifier requires y to be passed, but the target y is None: give the labels of the videos."
        )
    if isinstance(y, str | bytes):
        raise DataError(f"y is one text, {y!r}: expected the labels of each video.")
    if isinstance(y, Mapping) and not hasattr(y, "toarray"):  # one kind of sparse matrix is a dict
        raise DataError(
            f"y is a dict with the keys {shown(list(y))}: expected the labels in the order of the videos of X. Give "
            "[y[id] for id in ids] if the keys are ids of videos, or pandas.DataFrame(y) if they are classes."
        )
    if isinstance(y, set | frozenset):
        raise DataError("y is a set, which has no order: give a list with the labels of each video, in the order of X.")


def _is_without_labels(y: Any) -> bool:
    """Whether `y` has an empty list for each video."""
    return isinstance(y, list | tuple) and bool(y) and all(isinstance(row, list | tuple) and not row for row in y)


class _Reader:
    """Reads `y`; the arguments are those of `label_texts.read_texts`."""

    def __init__(self, known_names: Sequence[str], separator: str) -> None:
        self._known_names, self._separator = known_names, separator

    def read(self, y: Any) -> GivenLabels:
        """The labels in `y`, whatever its form."""
        if hasattr(y, "columns") and hasattr(y, "to_numpy"):  # a DataFrame of pandas or polars
            if matrix := label_frames.class_columns(y):
                return GivenLabels(*matrix)
            return self._of_rows(y.to_numpy()[:, 0].tolist())
        if hasattr(y, "toarray"):  # a sparse matrix of SciPy
            return matrix_of(y.toarray())
        if not hasattr(y, "__array__"):
            return self._of_rows(list(y))
        array = np.asarray(y)  # of a Series or a tensor
        if array.ndim == 0:
            raise DataError(f"y is one value, {array}: expected the labels of each video.")
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim > 1 and (array.dtype.kind in "biufc" or array.ndim > 2):
            return matrix_of(array)
        rows = array.tolist()
        if array.ndim == 2 and all(map(label_lists.is_vector, rows)):  # 0 and 1 as texts, as from a CSV file
            return matrix_of(np.array([[str(cell) in label_lists.ONES for cell in row] for row in rows]))
        return self._of_rows(rows, array)

    def _of_rows(self, rows: list[Any], array: NDArray[Any] | None = None) -> GivenLabels:
        """The labels of videos of which each has a value, or a list of values.

        Args:
          array: what the rows are from, whose type the classes get; None for a list.
        """
        if not rows:
            raise DataError("y is empty, so no video has a label: give the labels of each video of X.")
        if array is None or array.dtype.kind not in "biu":
            rows = [_plain(row, number) for number, row in enumerate(rows)]
        lists = [row for row in rows if isinstance(row, list)]
        if not lists:
            return self._of_single(rows, array)
        if len(lists) == len(rows) and len({len(row) for row in rows}) == 1 < len(rows[0]) and _is_zero_or_one(rows):
            return matrix_of(rows)
        _refuse_odd_items(rows)
        if isinstance(next((name for row in lists for name in row), ""), str):
            return self._of_texts(rows)
        return _of_names(rows)

    def _of_single(self, items: list[Any], array: NDArray[Any] | None) -> GivenLabels:
        """The labels of videos that have one value each: a class, or a text with several."""
        is_numeric = array is not None and array.dtype.kind in "biu"
        for number, name in enumerate(() if is_numeric else items):
            if is_missing(name):
                raise DataError(f"y[{number}] is {name!r}, without a class. {_LISTS}")
        if all(isinstance(name, str) for name in items):
            texts = label_texts.read_texts(items, self._known_names, self._separator)
            if not texts.is_single:
                return _of_text_labels(texts)
        return _of_classes(items, np.asarray(items) if array is None else array, self._known_names)

    def _of_texts(self, rows: list[Any]) -> GivenLabels:
        """The labels of videos that have lists of names, and perhaps some a name alone."""
        cells = [_spelled_cell(row, number, self._known_names) for number, row in enumerate(rows)]
        return _of_text_labels(label_texts.read_texts(cells, self._known_names, self._separator))


def _plain(row: Any, number: int) -> Any:
    """The labels of a video as a list, or as one value."""
    if isinstance(row, Mapping):
        return label_texts.names_of_object(row, number)
    if hasattr(row, "tolist"):
        row = row.tolist()
    if isinstance(row, Iterable) and not isinstance(row, str | bytes):
        return [decoded(item.item() if isinstance(item, np.generic) else item, number) for item in row]
    return decoded(row, number)


def _refuse_odd_items(rows: Sequence[Any]) -> None:
    """Refuses lists with items that are no names, and what is no list between lists."""
    kind: type | None = None
    for number, row in enumerate(rows):
        if is_missing(row):
            raise DataError(
                f"y[{number}] is {row!r}, without labels. Give an empty list for a video without label, and leave out "
                "a video whose labels are not known."
            )
        if not isinstance(row, list | str):
            raise DataError(f"y[{number}] is {shown(row)}, but other videos have lists: give a list of names for each.")
        for item in row if isinstance(row, list) else [row]:
            _refuse_odd_item(item, number)
            kind = kind or (str if isinstance(item, str) else float)
            if isinstance(item, str) != (kind is str):
                raise DataError(f"y[{number}] has {shown(item)}: names of different types; give texts, or numbers.")


def _refuse_odd_item(item: Any, number: int) -> None:
    if isinstance(item, list | tuple | dict | np.ndarray):
        raise DataError(f"y[{number}] is nested too deeply, with {shown(item)}: give a list of names for each video.")
    if is_missing(item):
        raise DataError(f"y[{number}] has {item!r} in its list: leave it out, or give the name of the class.")
    if isinstance(item, bool):
        raise DataError(f"y[{number}] has {item}, which is no name: give as many True and False for each video.")
    if isinstance(item, float) and not item.is_integer():
        raise DataError(f"y[{number}] has {item}: fractions are no classes; give names, or 0 and 1.")


def _spelled_cell(row: Any, number: int, known_names: Collection[str]) -> str | list[str]:
    """A text as it is; the names of a list without blanks around them, and without empty ones."""
    if isinstance(row, str):
        return row
    names = [name for name in map(spelled, row) if name]
    if doubtful := next((name for name in names if is_nothing(name) and name not in known_names), ""):
        raise DataError(
            f"y[{number}] has {doubtful!r} in its list, which may be a class, or say that there is no label. Leave it "
            "out, or rename the class."
        )
    return names


def _is_zero_or_one(values: Any) -> bool:
    """Whether all values are numbers that are 0 or 1."""
    try:
        array = np.asarray(values)
        return array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all())
    except (TypeError, ValueError):
        return False


def matrix_of(matrix: Any) -> GivenLabels:
    """The labels in a matrix of 0 and 1, [videos, classes]."""
    array = np.asarray(matrix)
    if array.ndim != 2 or array.shape[1] < 1 or array.dtype.kind not in "biuf":
        raise DataError(
            f"y is {array.dtype} {list(array.shape)}: expected 0 and 1, [videos, classes]; or lists of names."
        )
    wrong = np.argwhere((array != 0) & (array != 1))
    if len(wrong):
        row, column = wrong[0]
        raise DataError(
            f"y[{row}, {column}] is {array[row, column]}: Unknown label type, expected only 0 and 1, no NaN and no inf."
        )
    return GivenLabels(np.arange(array.shape[1]), array > 0, is_numbered=True)


def _of_text_labels(texts: label_texts.TextLabels) -> GivenLabels:
    """The labels that texts name."""
    if not texts.vector_size:
        return _of_names([[name for name in map(spelled, row) if name] for row in texts.names])
    return _marked(texts.names, np.arange(texts.vector_size), is_numbered=True)


def _of_names(rows: Sequence[Sequence[Any]]) -> GivenLabels:
    """The labels of videos that each have a list of names."""
    classes = sorted_names({name for row in rows for name in row})
    if not len(classes):
        raise DataError("no video of y has a label, so there are no classes.")
    return _marked(rows, classes)


def _marked(rows: Sequence[Sequence[Any]], classes: NDArray[Any], *, is_numbered: bool = False) -> GivenLabels:
    """The labels of videos by the names of the classes of each."""
    index = {name: number for number, name in enumerate(classes.tolist())}
    matrix = np.zeros((len(rows), len(classes)), np.bool_)
    for row, names in enumerate(rows):
        matrix[row, [index[name] for name in names]] = True
    return GivenLabels(classes, matrix, is_numbered=is_numbered)


def _of_classes(items: list[Any], array: NDArray[Any], known_names: Collection[str]) -> GivenLabels:
    """The labels of videos that have exactly one class each.

    Args:
      array: the same, whose type the classes get.
    """
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        raise DataError("y holds NaN or inf: give each video a class.")
    if array.dtype.kind in "fc" and (array != np.rint(array.real)).any():
        raise DataError("Unknown label type: y holds fractions, which are no classes; give names, or 0 and 1.")
    for number, name in enumerate(items):
        if isinstance(name, str) and is_nothing(name) and name not in known_names:
            raise DataError(
                f"y[{number}] is {name!r}, which may be a class, or say that there is no label: rename the class, or "
                "give lists of names, of which an empty one is a video without label."
            )
    classes = sorted_names(set(items))
    index = {name: number for number, name in enumerate(classes.tolist())}
    matrix = np.zeros((len(items), len(classes)), np.bool_)
    matrix[np.arange(len(items)), [index[name] for name in items]] = True
    is_bytes = array.dtype.kind == "S"
    return GivenLabels(classes if is_bytes else classes.astype(array.dtype), matrix, is_single=True)


def _in_order(labels: GivenLabels, classes: NDArray[Any]) -> GivenLabels:
    """The labels by the known classes; a class that is not known is refused."""
    if labels.is_numbered:
        if len(labels.classes) != len(classes):
            raise DataError(f"y has {len(labels.classes)} columns, but the classifier has {len(classes)} classes.")
        return replace(labels, classes=classes)
    index_of = {_key(name): number for number, name in enumerate(classes.tolist())}
    names = labels.classes.tolist()
    unknown = [name for name in names if _key(name) not in index_of]
    if unknown:
        marked = labels.matrix[:, names.index(unknown[0])]
        row = f"[{marked.argmax()}]" if marked.any() else ""
        raise DataError(f"y{row} has the class {unknown[0]!r}, which the classifier does not have.")
    matrix = np.zeros((len(labels), len(classes)), np.bool_)
    matrix[:, [index_of[_key(name)] for name in names]] = labels.matrix
    return GivenLabels(classes, matrix, labels.is_single)


def _key(name: Any) -> Any:
    return spelled(name) if isinstance(name, str) else name


def _refuse_bad_names(labels: GivenLabels) -> None:
    """Refuses names that the vocabulary of a run cannot hold."""
    names, first = labels.names, dict[str, Any]()
    for name, given_name in zip(names, labels.classes.tolist(), strict=True):
        if name in first:
            raise DataError(
                f"two classes of y have the same name, {first[name]!r} and {given_name!r} (blanks around a name do not "
                "count): write one, or rename a class."
            )
        first[name] = given_name
        if not name:
            raise DataError(f"a class of y has an empty name, {given_name!r}: give it a name.")
        if has_control_character(name):
            raise DataError(f"the class {name!r} holds a line break or another control character: rename it.")
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise DataError(f"the class {name!r} holds half of a surrogate pair, which no file can have: rename it.")
