"""A DataFrame as the input of a model: its columns are compared with those of the training, and its cells read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError


def of_table(frame: Any, expected: Sequence[str] | None) -> NDArray[np.float32] | dict[str, list[Any]]:
    """The numbers of a DataFrame, float32 [rows, columns]; {column: list of arrays} if it has arrays in its cells.

    Args:
      expected: the columns that the model was trained on; None if they are unknown, then columns count by their place.
    """
    columns = list(frame.columns)
    if any(holds_arrays(frame[name]) for name in columns):
        return {str(name): frame[name].to_list() for name in columns}
    if expected is not None and all(isinstance(name, str) for name in columns) and columns != list(expected):
        raise UsageError(column_difference(columns, expected))
    return (
        np.stack([_numbers(frame[name], name) for name in columns], axis=1)
        if columns
        else np.zeros((len(frame), 0), np.float32)
    )


def index_of(values: Any) -> Any:
    """The index of a DataFrame or a Series of pandas, or of all that a dict has; None if there is none.

    Raises `UsageError` if tables in a dict, whose rows belong together, have different indices.
    """
    if isinstance(values, Mapping) and not hasattr(values, "toarray"):
        tables = [(f"X[{name!r}]", each) for name, each in values.items() if index_of(each) is not None]
        for name, each in tables[1:]:
            if difference := index_difference(tables[0][1], each, name=tables[0][0], other=name):
                raise UsageError(difference)
        return index_of(tables[0][1]) if tables else None
    index = getattr(values, "index", None)
    return None if index is None or callable(index) else index


def ids_of(values: Any) -> list[str] | None:
    """The ids of videos, from the index of their table; None if it has none, or one that only counts the rows."""
    index = index_of(values)
    if index is None or type(index).__name__ == "RangeIndex" or getattr(index, "nlevels", 1) > 1:
        return None
    return list(map(str, index.tolist()))


def index_difference(videos: Any, others: Any, *, name: str, other: str) -> str:
    """How the rows of two tables differ that are to belong together; empty if they do not, or if one has no index."""
    first, second = index_of(videos), index_of(others)
    if first is None or second is None or len(first) != len(second) or first.equals(second):
        return ""
    row = next((row for row, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]), 0)
    return (
        f"the indices of {name} and {other} differ: row {row} is {first[row]!r} in {name} and {second[row]!r} in "
        f"{other}. Give {other}.loc[{name}.index] if rows with the same index belong together, or {other}.to_numpy() "
        "if they are in the same order."
    )


def holds_masked(values: Any, depth: int = 2) -> bool:
    """Whether an array, or one in a list or a dict, has masked values: these would be taken for numbers."""
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.is_masked(values))
    if isinstance(values, np.ndarray):
        return values.dtype == object and any(holds_masked(item, depth - 1) for item in values.ravel().tolist())
    if isinstance(values, Mapping):
        return any(holds_masked(item, depth) for item in values.values())
    if not isinstance(values, list | tuple) or not depth or isinstance(next(iter(values), 0), int | float | str):
        return False
    return any(holds_masked(item, depth - 1) for item in values)


def column_difference(columns: Sequence[str], expected: Sequence[str]) -> str:
    """How the columns of a DataFrame differ from those of the training, in the words of scikit-learn."""
    unseen, missing = sorted(set(columns) - set(expected)), sorted(set(expected) - set(columns))
    lines = ["The feature names should match those that were passed during fit."]
    lines += _listed("Feature names unseen at fit time:", unseen)
    lines += _listed("Feature names seen at fit time, yet now missing:", missing)
    if not unseen and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    return "\n".join([*lines, ""])


def _listed(title: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield from (title, *(f"- {name}" for name in names[:5]))


def holds_arrays(column: Any) -> bool:
    """Whether the first cell of a column is an array or a list."""
    first = column.to_list()[:1]
    return bool(first) and isinstance(first[0], np.ndarray | list | tuple)


def _numbers(column: Any, name: Any) -> NDArray[np.float32]:
    """The numbers of a column, float32 [rows]."""
    try:
        return np.asarray(column, np.float32)
    except (TypeError, ValueError) as error:
        row, cell = next((pair for pair in enumerate(column.to_list()) if not _is_number(pair[1])), (0, None))
        raise UsageError(
            f"the column {name!r} has {str(cell)[:40]!r} in row {row}, which is no number: leave it out, or make it a "
            "number."
        ) from error


def _is_number(cell: Any) -> bool:
    try:
        np.float32(cell)
    except (TypeError, ValueError):
        return False
    return True
