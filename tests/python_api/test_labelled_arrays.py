"""Labels beside arrays: names, matrices and DataFrames of 0 and 1, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import yt8m
from yt8m.python_api.labelled_arrays import labels_for_model

CLASSES = ["cat", "dog", "fox"]
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
        MATRIX.tolist(),
        [{"cat": 1, "dog": 0, "fox": 0}, ["dog"], {"fox"}],
        ["cat", "['dog']", "fox"],
        np.array(NAMES, "S"),
        pd.DataFrame({"label": NAMES}),
        pd.DataFrame({"cat": ["x", "", ""], "dog": ["", "x", ""], "fox": ["", "", "x"]}),
        pd.DataFrame(MATRIX[:, ::-1], columns=NAMES[::-1]),
    ],
)
def test_labels_are_a_matrix(labels: Any) -> None:
    np.testing.assert_array_equal(labels_for_model(labels, CLASSES), MATRIX > 0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (pd.DataFrame(MATRIX[:, :2], columns=NAMES[:2]), "no column for 1 of the 3 classes, such as 'fox'"),
        (["cat", "bird"], r"class 'bird'.*model"),
        (np.array([0, 1, 2]), r"labels\[0\] .*class 0\b.*model"),
        (MATRIX[:, :2], r"labels .*\b2 columns.*\b3 classes"),
        (MATRIX * 2, r"^labels\[0, 0\] is 2: "),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(yt8m.UsageError, match=message):
        labels_for_model(labels, CLASSES)


@pytest.mark.parametrize(
    "labels", [[[1], [0]], np.array([[True], [False]]), pd.DataFrame({"cat": [1, 0]}), [["cat"], []]]
)
def test_labels_of_a_model_with_one_class(labels: Any) -> None:
    np.testing.assert_array_equal(labels_for_model(labels, ["cat"]), [[True], [False]])


def test_a_separator_between_names_of_the_model_is_found() -> None:
    np.testing.assert_array_equal(
        labels_for_model(["cat;dog", "fox", "", "dog"], CLASSES), [[1, 1, 0], [0, 0, 1], [0, 0, 0], [0, 1, 0]]
    )


def test_a_class_with_a_name_for_nothing_is_a_class_of_a_model_that_has_it() -> None:
    np.testing.assert_array_equal(labels_for_model([["none"], ["cat", "none"]], ["cat", "none"]), [[0, 1], [1, 1]])
    np.testing.assert_array_equal(labels_for_model(["none", "cat"], ["cat", "none"]), [[0, 1], [1, 0]])
