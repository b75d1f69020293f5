"""Labels beside arrays: names, matrices and DataFrames of 0 and 1, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import yt8m
from yt8m.python_api.labelled_arrays import _matrix_of

CLASSES = {"cat": 0, "dog": 1, "fox": 2}
MATRIX = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
NAMES = ["cat", "dog", "fox"]


@pytest.mark.parametrize(
    "labels",
    [
        NAMES,
        np.array(NAMES),
        np.array(NAMES, object),
        pd.Series(NAMES),
        pd.Series([[name] for name in NAMES], index=[7, 3, 9]),
        MATRIX,
        pd.DataFrame(MATRIX[:, ::-1], columns=NAMES[::-1]),
    ],
)
def test_labels_are_a_matrix(labels: Any) -> None:
    np.testing.assert_array_equal(_matrix_of(labels, CLASSES), MATRIX > 0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (pd.DataFrame(MATRIX[:, :2], columns=NAMES[:2]), "no column for 1 of the 3 classes, such as 'fox'"),
        (["cat", "bird"], "the class 'bird', which the model does not have"),
        (np.array([0, 1, 2]), "expected for each video"),
        (MATRIX[:, :2], "there are 3 classes"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(yt8m.UsageError, match=message):
        _matrix_of(labels, CLASSES)
