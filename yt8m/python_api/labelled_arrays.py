"""Arrays with their labels, for an evaluation."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError
from yt8m.python_api.given_labels import labels_of, matrix_of
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring.table_input import holds_masked
from yt8m.tables.words.class_names import clean_name

# Where a message on the argument `y` of a classifier names it, and the way out that a model does not have.
_NAME_OF_Y = re.compile(r"(?<![\w'\"])y(?=\[| is | has | holds |: |\.)|(?<=\bof )y\b")
_SEPARATOR = re.compile(r"Choose by label_separator=.*|or choose label_separator=.*", re.DOTALL)


def with_labels(batches: Sequence[NumpyBatch], labels: Any, classes: Iterable[Any]) -> Iterator[NumpyBatch]:
    """Yields batches with the labels of their N videos.

    Args:
      labels: in any form that `Classifier.fit` takes: for each video its names; or 0 and 1 [N, C].
      classes: the C classes of the model, by names if labels are.
    """
    if holds_masked(labels):
        raise UsageError("labels has masked values: leave these videos out, or give 0 or 1.")
    matrix = labels_for_model(labels, list(classes))
    if (videos := sum(map(len, batches))) != len(matrix):
        raise UsageError(f"the data have {videos} videos, but labels has {len(matrix)}: give the labels of each.")
    start = 0
    for batch in batches:
        yield dataclasses.replace(batch, labels=matrix[start : start + len(batch)])
        start += len(batch)


def labels_for_model(labels: Any, classes: Sequence[Any]) -> NDArray[np.bool_]:
    """The labels as bool [N, C], by the classes of a model."""
    is_frame = hasattr(labels, "columns") and hasattr(labels, "to_numpy")
    columns = {clean_name(str(name)) for name in labels.columns} if is_frame else set()
    missing = [name for name in classes if name not in columns] if len(columns) > 1 else []
    if missing and not columns.isdisjoint(classes):
        raise UsageError(
            f"labels has no column for {len(missing)} of the {len(classes)} classes, such as {missing[0]!r}; give one "
            "of 0 if no video has the class."
        )
    array = np.empty(len(classes), object)
    array[:] = classes
    try:
        if len(classes) == 1 and (not is_frame or not columns.isdisjoint(classes)) and _is_column(labels):
            return matrix_of(labels.to_numpy() if is_frame else labels).matrix
        return labels_of(labels, array).matrix
    except UsageError as error:
        text = _SEPARATOR.sub("give lists of names.", _NAME_OF_Y.sub("labels", str(error)))
        raise UsageError(text.replace("the classifier", "the model")) from error


def _is_column(labels: Any) -> bool:
    """Whether labels are a column of numbers, which of a model with one class are 0 and 1."""
    if hasattr(labels, "toarray"):
        return False
    try:
        array = np.asarray(labels)
    except ValueError:  # the rows have different lengths
        return False
    return array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind in "biuf"
