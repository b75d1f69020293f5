"""Labels that are written as texts: names, lists of names, and several names in one text.

They are read by the rules of the tables that `yt8m make-records` takes, so that a column means the same in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import without_numpy
from yt8m.python_api.data_errors import DataError, refusing_arguments
from yt8m.tables.cells import label_lists, separators
from yt8m.tables.cells.label_forms import find_form
from yt8m.tables.cells.splitting import LabelForm, hashable
from yt8m.tables.words.class_names import clean_name, is_nothing

_MOST_SHOWN = 60  # characters of a value in a message
# Keys of an object such as {"label": 3}, whose value may be the number of a class.
_NAME_KEYS = frozenset(label_lists.NAME_KEYS)


class TextLabels(NamedTuple):
    """What texts say of N videos.

    Attributes:
      names: for each video the names of its labels; of vectors of 0 and 1 the numbers of the classes.
      vector_size: C, if each text is a vector of C times 0 or 1; else 0.
      is_single: whether each text is one name.
    """

    names: Sequence[Sequence[Any]]
    vector_size: int = 0
    is_single: bool = False


def read_texts(rows: Sequence[str | list[str]], known_names: Sequence[str], separator: str) -> TextLabels:
    """Reads texts, lists of texts, or both.

    Args:
      known_names: the classes that the classifier has already.
      separator: see `Classifier`.
    """
    if not isinstance(separator, str) or not separator:
        raise DataError(f"label_separator is {separator!r}: expected a text such as ';', 'auto' or 'none'.")
    has_lists = any(isinstance(row, list) for row in rows)
    if has_lists and separator == separators.NONE:
        return TextLabels([row if isinstance(row, list) else [row] for row in rows])
    cells = list(map(hashable, rows))
    with refusing_arguments():
        form = find_form(Counter(cells), separator, known_names, "y")
    if form.has_times:
        raise DataError(
            f"y[0] is {shown(rows[0])}, which may be a name, or a label with its start and end. Choose by "
            "label_separator='none' (one name); a classifier learns labels of whole videos, `yt8m make-records` spans."
        )
    if not has_lists and not form.description:
        return TextLabels([[row] for row in rows], is_single=True)
    names_of: dict[Any, Sequence[Any]] = {}
    for number, (row, cell) in enumerate(zip(rows, cells, strict=True)):
        if cell not in names_of:
            names_of[cell] = _names_in(row, form, number)
    return TextLabels([names_of[cell] for cell in cells], form.vector_size)


def _names_in(row: str | list[str], form: LabelForm, number: int) -> Sequence[Any]:
    if is_nothing(row) and not form.vector_size:
        return []
    try:
        names = form.split(row)
    except (label_lists.NotAListError, SyntaxError) as error:
        raise DataError(
            f"y[{number}] is {shown(row)}, but the other labels are {form.description}: write all in one form, or give "
            "lists of names."
        ) from error
    return (
        list(map(int, names)) if form.vector_size else [name if isinstance(name, str) else str(name) for name in names]
    )


def names_of_object(row: Mapping[Any, Any], number: int) -> list[Any]:
    """The labels of a video that are written as a dict, such as {"cat": 1, "dog": 0}: the names whose value is true."""
    answers = {name: answer.item() if isinstance(answer, np.generic) else answer for name, answer in row.items()}
    is_vector = all(isinstance(answer, bool | int | float) and answer in (0, 1) for answer in answers.values())
    doubtful = next(
        (name for name, answer in answers.items() if name in _NAME_KEYS and not isinstance(answer, bool)), ""
    )
    if is_vector and doubtful:
        raise DataError(
            f"y[{number}] is {shown(row)}: {doubtful!r} may be a class, or the word before the number of one. Give the "
            "names of the classes as a list, or True and False for each."
        )
    try:
        return [name for name, answer in answers.items() if answer] if is_vector else label_lists.flatten(answers)
    except label_lists.NotAListError as error:
        raise DataError(
            f"y[{number}] is {shown(row)}: expected {{class: 0 or 1}}, or a list of the names of the labels."
        ) from error


def spelled(name: Any) -> str:
    """The name of a class as the reader of tables gives it, and 3 for 3.0."""
    if isinstance(name, float) and name.is_integer():
        return str(int(name))
    return clean_name(str(name))


def decoded(value: Any, number: int) -> Any:
    """The text of bytes, as which NumPy and HDF5 may hold texts; other values as they are."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"y[{number}] holds {shown(value)}, which is not UTF-8: give the names as texts.") from error


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or another sign of pandas for a missing value."""
    if value is None:
        return True
    if isinstance(value, str | bytes | list | tuple | set | frozenset | Mapping | np.ndarray):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # what pandas.NA says of its truth
        return True


def shown(value: Any) -> str:
    """A value for a message, not too long."""
    text = without_numpy(repr(value))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def sorted_names(names: set[Any]) -> NDArray[Any]:
    """The different names in order."""
    try:
        return np.asarray(sorted(names))
    except TypeError as error:
        kinds = ", ".join(sorted({type(name).__name__ for name in names}))
        raise DataError(f"y has names of different types ({kinds}): give texts, or numbers.") from error
