"""A DataFrame as `y`: a column for each class, or one column of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from yt8m.python_api.data_errors import DataError
from yt8m.python_api.label_texts import is_missing, shown
from yt8m.tables.columns.facts import Facts
from yt8m.tables.words.class_names import FALSE_WORDS, TRUE_WORDS


def class_columns(frame: Any) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """The names of the classes, and bool [videos, classes]; None if the frame is one column of labels.

    Cells of texts say yes or no in the words of the tables, such as `yes` and `no`, or `x` and nothing.
    """
    names = list(frame.columns)
    if not names:
        raise DataError("y is a DataFrame without columns: expected the labels of each video.")
    array = frame.to_numpy()
    if len(names) == 1:
        values = array[:, 0].tolist()
        if not _is_zero_or_one(values):
            return None
        if not all(isinstance(value, bool | np.bool_) for value in values):
            _refuse_numbers(names[0])
    truths = [_truths(array[:, place], name) for place, name in enumerate(names)]
    classes = np.empty(len(names), object)
    classes[:] = names
    return classes, np.stack(truths, axis=1)


def _is_zero_or_one(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float | np.bool_) and value in (0, 1) for value in values)


def _refuse_numbers(name: Any) -> NoReturn:
    """Refuses a single column of the numbers 0 and 1, which have two readings whatever the name of the column is."""
    raise DataError(
        f"y is one column {name!r} of 0 and 1: either the number of the class of each video, or whether it has the "
        f"class {name!r}. Give y[{name!r}] for the numbers, or the column as True and False, y.astype(bool), for the "
        "class."
    )


def _truths(column: NDArray[Any], name: Any) -> NDArray[np.bool_]:
    """Whether each video has the class of a column."""
    if column.dtype.kind in "biuf":
        is_wrong = ~np.isin(column, (0, 1))
        if is_wrong.any():
            _refuse_cell(name, int(is_wrong.argmax()), column[is_wrong.argmax()].item())
        return np.asarray(column > 0)
    values = column.tolist()
    filled = [value for value in values if not is_missing(value)]
    if filled and all(isinstance(value, str) for value in filled):
        texts = ["" if is_missing(value) else value.strip().lower() for value in values]
        facts = Facts()
        facts.add(texts)
        if facts.is_binary:
            return np.array([text in TRUE_WORDS for text in texts], np.bool_)
        _refuse_cell(name, *_least_usual(values, texts))
    for row, value in enumerate(values):
        if is_missing(value) or not isinstance(value, int | float | np.bool_) or value not in (0, 1):
            _refuse_cell(name, row, value)
    return np.array([bool(value) for value in values], np.bool_)


def _least_usual(values: Sequence[Any], texts: Sequence[str]) -> tuple[int, Any]:
    """(row, value) of the first cell that is no word for yes or no; of the first empty one if there is none."""
    rows = [row for row, text in enumerate(texts) if text and text not in TRUE_WORDS | FALSE_WORDS]
    row = (rows or [row for row, text in enumerate(texts) if not text] or [0])[0]
    return row, values[row]


def _refuse_cell(name: Any, row: int, value: Any) -> NoReturn:
    raise DataError(
        f"the column {name!r} of y has {shown(value)} in row {row}, so the columns are not all of 0 and 1: give "
        "one column of 0 and 1 for each class, or a list of names for each video."
    )
