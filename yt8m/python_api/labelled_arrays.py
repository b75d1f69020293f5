"""Arrays with their labels, for an evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError
from yt8m.records.record_parser import NumpyBatch
from yt8m.tables.words.class_names import clean_name

_FORMS = "for each video the name of its label or a list of names, or 0 and 1, [videos, classes]"


def with_labels(batches: Sequence[NumpyBatch], labels: Any, classes: Iterable[Any]) -> Iterator[NumpyBatch]:
    """Yields batches with the labels of their N videos.

    Args:
      labels: for each video a list of names; or 0 and 1 [N, C], as an array or as a DataFrame.
      classes: the C classes of the model, by names if labels are.
    """
    matrix = _matrix_of(labels, {name: index for index, name in enumerate(classes)})
    if (videos := sum(map(len, batches))) != len(matrix):
        raise UsageError(f"the data have {videos} videos, but labels has {len(matrix)}: give the labels of each.")
    start = 0
    for batch in batches:
        yield dataclasses.replace(batch, labels=matrix[start : start + len(batch)])
        start += len(batch)


def _matrix_of(labels: Any, index_of: Mapping[Any, int]) -> NDArray[np.bool_]:
    """The labels as bool [N, C]."""
    if hasattr(labels, "columns") and hasattr(labels, "to_numpy"):
        return _of_frame(labels, index_of)
    if getattr(labels, "ndim", 0) == 1 and hasattr(labels, "tolist"):  # an array, or a column of a DataFrame
        labels = labels.tolist()
    if isinstance(labels, list | tuple) and all(map(_are_names, labels)):
        matrix = np.zeros((len(labels), len(index_of)), np.bool_)
        for row, names in enumerate(labels):
            listed = [names] if isinstance(names, str) else names
            matrix[row, [_index(name, index_of, f"labels[{row}]") for name in listed]] = True
        return matrix
    return _checked(labels.toarray() if hasattr(labels, "toarray") else labels, len(index_of))


def _are_names(row: Any) -> bool:
    return isinstance(row, str) or (
        isinstance(row, list | tuple | set | frozenset) and all(isinstance(name, str) for name in row)
    )


def _of_frame(frame: Any, index_of: Mapping[Any, int]) -> NDArray[np.bool_]:
    """The labels of a DataFrame with a column for each class."""
    matrix = np.zeros((len(frame), len(index_of)), np.bool_)
    places = [_index(str(name), index_of, "labels") for name in frame.columns]
    if missing := [name for name, index in index_of.items() if index not in places]:
        raise UsageError(
            f"labels has no column for {len(missing)} of the {len(index_of)} classes, such as {missing[0]!r}; give one "
            "of 0 if no video has the class."
        )
    matrix[:, places] = _checked(frame.to_numpy(), len(places))
    return matrix


def _index(name: str, index_of: Mapping[Any, int], where: str) -> int:
    index = index_of.get(clean_name(name))
    if index is None:
        raise UsageError(f"{where} has the class {name!r}, which the model does not have: expected {_FORMS}.")
    return index


def _checked(values: Any, columns: int) -> NDArray[np.bool_]:
    """0 and 1, [N, columns], as bool."""
    try:
        array = np.asarray(values)
    except ValueError:  # the rows have different lengths
        raise UsageError(f"labels: expected {_FORMS}.") from None
    if array.ndim != 2 or array.shape[1] != columns or array.dtype.kind not in "biuf":
        raise UsageError(
            f"labels is {array.dtype} {list(array.shape)}: expected {_FORMS}; there are {columns} classes."
        )
    if not np.isin(array, (0, 1)).all():
        raise UsageError(f"labels holds other values than 0 and 1: expected {_FORMS}.")
    return np.asarray(array > 0)
