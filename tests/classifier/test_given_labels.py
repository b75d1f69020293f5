"""All forms of `y` say the same labels; what is ambiguous or wrong is refused with its place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from yt8m.classifier.data_errors import DataError
from yt8m.classifier.given_labels import labels_of

NAMES = [["cat", "dog"], [], ["dog"], ["ant", "cat"]]
MATRIX = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 1], [1, 1, 0]])
CLASSES = ["ant", "cat", "dog"]


@pytest.mark.parametrize(
    "y",
    [
        NAMES,
        [tuple(names) for names in NAMES],
        [set(names) for names in NAMES],
        np.array([np.array(names) for names in NAMES], dtype=object),
        pd.Series(NAMES),
        pd.Series(NAMES, index=[7, 3, 9, 1]),
        pd.DataFrame({"labels": NAMES}),
        pd.DataFrame(MATRIX, columns=CLASSES),
        pd.DataFrame(MATRIX.astype(bool), columns=CLASSES),
        pd.DataFrame(MATRIX.astype(float), columns=CLASSES),
    ],
    ids=lambda y: type(y).__name__,
)
def test_forms_with_names(y: object) -> None:
    labels = labels_of(y)
    assert labels.classes.tolist() == CLASSES
    assert labels.matrix.dtype == bool
    assert labels.matrix.astype(int).tolist() == MATRIX.tolist()
    assert not labels.is_single


@pytest.mark.parametrize(
    "y",
    [
        MATRIX,
        MATRIX.astype(bool),
        MATRIX.astype(np.float32),
        MATRIX.tolist(),
        scipy.sparse.csr_matrix(MATRIX),
        scipy.sparse.csr_array(MATRIX),
    ],
    ids=lambda y: type(y).__name__,
)
def test_matrices_number_their_classes(y: object) -> None:
    labels = labels_of(y)
    assert labels.classes.tolist() == [0, 1, 2]
    assert labels.matrix.astype(int).tolist() == MATRIX.tolist()
    assert labels_of(y, np.array(CLASSES)).classes.tolist() == CLASSES


def test_two_columns_of_lists_are_a_matrix_as_for_scikit_learn() -> None:
    assert labels_of([[0, 1], [1, 0]]).matrix.tolist() == [[False, True], [True, False]]
    assert labels_of([[0, 1], [1]]).matrix.tolist() == [[True, True], [False, True]]  # the numbers of classes


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["dog", "cat", "dog"], ["cat", "dog"]),
        (np.array(["dog", "cat", "dog"]), ["cat", "dog"]),
        (pd.Series(["dog", "cat", "dog"]), ["cat", "dog"]),
        (pd.DataFrame({"label": ["dog", "cat", "dog"]}), ["cat", "dog"]),
        ([5, 2, 5], [2, 5]),
        (np.array([[5], [2], [5]]), [2, 5]),
        ([1, 0, 1], [0, 1]),
    ],
)
def test_one_class_a_video(y: object, classes: list[object]) -> None:
    labels = labels_of(y)
    assert labels.is_single
    assert labels.classes.tolist() == classes
    assert labels.matrix.tolist() == [[False, True], [True, False], [False, True]]


def test_known_classes_keep_their_order_and_others_are_refused() -> None:
    known = np.array(["dog", "cat", "emu"])
    assert labels_of([["cat"], []], known).matrix.tolist() == [[False, True, False], [False, False, False]]
    with pytest.raises(DataError, match="newt"):
        labels_of([["newt"]], known)
    with pytest.raises(DataError, match=r"2 columns.* 3 classes"):
        labels_of(np.eye(2, dtype=int), known)
    assert labels_of([2, 1], np.array([1, 2, 3])).matrix.tolist() == [[False, True, False], [True, False, False]]


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        (None, "requires y"),
        ([[], []], "no video"),
        (np.array([[0, 2], [1, 0]]), r"y\[0, 1\] is 2"),
        (np.array([[0, np.nan], [1, 0]]), r"y\[0, 1\] is nan"),
        (pd.DataFrame({"a": [1, 0], "b": ["x", "y"]}), "columns"),
        ([0.5, 1.0], "fractions"),
        ([np.nan, 1.0], "NaN"),
        (["cat", None], r"y\[1\] is None"),
        (["cat;dog", "cat"], r"y\[0\] is 'cat;dog'"),
        (["cat", 3.5], "different types"),
        ([["a\nb"]], "line break"),
        ([[1, "1"]], "different types"),
        ([[["a"]]], "nested|different|unhashable"),
        ("cat", "one"),
    ],
)
def test_refusals(y: object, problem: str) -> None:
    with pytest.raises((DataError, TypeError), match=problem):
        labels_of(y)


def test_data_errors_are_usage_errors_and_value_errors() -> None:
    from yt8m import UsageError

    assert issubclass(DataError, UsageError)
    assert issubclass(DataError, ValueError)
