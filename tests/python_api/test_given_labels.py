"""All forms of `y` say the same labels; what is ambiguous or wrong is refused with its place."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from yt8m import UsageError
from yt8m.python_api.data_errors import DataError
from yt8m.python_api.given_labels import labels_of
from yt8m.tables.cells.label_forms import find_form

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
        pd.DataFrame(MATRIX.astype(str), columns=CLASSES),
        pd.DataFrame(np.where(MATRIX, "yes", "no"), columns=CLASSES),
        pd.DataFrame(np.where(MATRIX, "x", None), columns=CLASSES),
        pd.DataFrame(MATRIX, columns=CLASSES).to_dict("records"),
        [dict.fromkeys(names, True) for names in NAMES],
        [dict(zip(CLASSES, row, strict=True)) for row in MATRIX],
        [[" cat", "dog ", ""], [""], ["dog", "dog"], ["ant", "\tcat"]],
        [["cat\u200b", "dog"], [], ["\ufeffdog"], ["ant", "cat"]],
        [[name.encode() for name in names] for names in NAMES],
        ["cat;dog", "", "dog", "ant;cat"],
        pd.Series(["['cat', 'dog']", "[]", "['dog']", "['ant', 'cat']"]),
        ['["cat", "dog"]', "[]", '["dog"]', '["ant", "cat"]'],
        [["cat", "dog"], [], "dog", ["ant", "cat"]],
        np.array([b"cat|dog", b"", b"dog", b"ant|cat"]),
        ["#cat #dog", "", "#dog", "#ant #cat"],
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
        scipy.sparse.dok_matrix(MATRIX),
        MATRIX.astype(str),
        MATRIX.astype(bool).astype(str),
        MATRIX.astype(str).tolist(),
        [" ".join(row) for row in MATRIX.astype(str)],
        [str(row.tolist()) for row in MATRIX],
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
        (np.array([["dog"], ["cat"], ["dog"]]), ["cat", "dog"]),
        (np.array([b"dog", b"cat", b"dog"]), ["cat", "dog"]),
        (["1", "0", "1"], ["0", "1"]),
        (["red fox", "New York", "red fox"], ["New York", "red fox"]),
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
    ("separator", "classes"),
    [("none", ["cat", "cat,dog", "dog"]), (",", ["cat", "dog"]), (";", ["cat", "cat,dog", "dog"])],
)
def test_the_user_chooses_between_two_readings(separator: str, classes: list[str]) -> None:
    assert labels_of(["cat,dog", "cat", "dog"], separator=separator).classes.tolist() == classes


def test_lists_are_taken_as_they_are_without_a_separator() -> None:
    assert labels_of([["a,b"], ["b"]], separator="none").classes.tolist() == ["a,b", "b"]


@pytest.mark.parametrize("separator", ["", None, 3])
def test_a_wrong_separator(separator: object) -> None:
    with pytest.raises(DataError, match="label_separator"):
        labels_of(["cat", "dog"], separator=separator)  # type: ignore[arg-type]


def test_composed_and_decomposed_letters_are_one() -> None:
    assert labels_of([["caf\u00e9"], ["cafe\u0301"], []]).matrix.tolist() == [[True], [True], [False]]


def test_a_single_class_keeps_its_spelling_for_scikit_learn_and_gets_a_clean_name() -> None:
    labels = labels_of([" cat", "dog", " cat"])
    assert labels.classes.tolist() == [" cat", "dog"]
    assert labels.names == ["cat", "dog"]
    assert labels_of(["cat"], labels.classes).matrix.tolist() == [[True, False]]
    assert labels_of([2.0, 1.0]).names == ["1", "2"]


CELLS = st.lists(
    st.lists(st.sampled_from(["cat", "dog", "red fox", "ant"]), min_size=1, max_size=3, unique=True).map(";".join),
    min_size=2,
    max_size=12,
)


@given(cells=CELLS)
def test_texts_are_read_as_in_a_table(cells: list[str]) -> None:
    counts = Counter(cells)
    try:
        form = find_form(counts, "auto", (), "table")
    except UsageError:
        with pytest.raises(DataError):
            labels_of(cells)
        return
    labels = labels_of(cells)
    names = [{str(labels.classes[place]) for place in np.flatnonzero(row)} for row in labels.matrix]
    assert names == [set(map(str.strip, form.split(cell))) for cell in cells]


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        (None, "requires y"),
        ([[], []], "no video"),
        (np.array([[0, 2], [1, 0]]), r"y\[0, 1\] is 2"),
        (np.array([[0, np.nan], [1, 0]]), r"y\[0, 1\] is nan"),
        (pd.DataFrame({"a": [1, 0], "b": ["x", "y"]}), r"'b'.*'x' in row 0"),
        ([0.5, 1.0], "fractions"),
        ([np.nan, 1.0], r"y\[0\] is nan"),
        (["cat", None], r"y\[1\] is None"),
        (["cat", 3.5], "different types"),
        ([["a\nb"]], "line break"),
        ([[1, "1"]], "different types"),
        ([[["a"]]], "nested|different|unhashable"),
        ("cat", "one"),
        ([], "empty"),
        (np.array(3), "one value"),
        # Neither names nor rows in an order.
        ({"a": ["cat"], "b": ["dog"]}, r"dict.*\['a', 'b'\]"),
        ({"cat": [0, 1], "dog": [1, 1]}, "DataFrame"),
        ({"cat", "dog"}, "set"),
        ([{"cat": 0.5}], r"y\[0\]"),
        ([{"cat": 1}, {"cat": float("nan")}], r"y\[1\]"),
        ([{"label": 1}, {"label": 0}], "'label' may be a class"),
        # Missing labels, with the row.
        ([["cat"], None, ["dog"]], r"y\[1\] is None"),
        ([["cat"], float("nan"), ["dog"]], r"y\[1\] is nan"),
        (pd.Series([["cat"], float("nan"), ["dog", "cat"]]), r"y\[1\] is nan"),
        (pd.Series(["a", pd.NA], dtype="string"), r"y\[1\] is <NA>"),
        ([["cat"], ["dog", None]], r"y\[1\] has None"),
        ([["cat"], [float("nan")]], r"y\[1\] has nan"),
        (["cat", ""], r"y\[1\] is ''"),
        (["cat", "NA"], r"y\[1\] is 'NA'"),
        ([["cat"], ["None"]], r"y\[1\] has 'None'"),
        (pd.DataFrame({"cat": pd.array([True, None], dtype="boolean"), "dog": [True, False]}), r"'cat'.*row 1"),
        (pd.DataFrame({"cat": [1, np.nan], "dog": [1.0, 0.0]}), r"'cat' of y .*\bnan\b.* row 1\b"),
        (pd.DataFrame({"cat": ["yes", None, "no"], "dog": ["no", "no", "yes"]}), r"'cat'.*row 1"),
        # Two readings, and the arguments that choose one.
        (["cat,dog", "cat", "dog"], r"label_separator='none' .*label_separator=','"),
        ([["a,b"], ["b"]], r"label_separator='none' .*label_separator=','"),
        (["010", "110", "001"], "label_separator='none'"),
        ([["0", "1"], ["1", "0"]], "0 and a 1"),
        (["Boeing 737 800", "Airbus 320 200"], "label_separator='none'"),
        (pd.DataFrame({"label": [0, 1]}), r"y\['label'\]"),
        (["['cat', 'dog']", "cat;dog", "fox"], "lists"),
        # Items that are no names.
        ([["a", 1], ["b"]], r"y\[0\] has 1"),
        ([[0, 3], 1], r"y\[1\] is 1"),
        ([[True], [False]], r"y\[0\] has True"),
        ([[0.5], [1.0]], "fractions"),
        ([b"\xff"], "UTF-8"),
        ([["\ud800"], ["b"]], "surrogate"),
        (["cat", " cat"], "same name"),
        (pd.DataFrame([[0, 1], [1, 0]], columns=["a", "a "]), "same name"),
        (pd.DataFrame(), "without columns"),
    ],
)
def test_refusals(y: object, problem: str) -> None:
    with pytest.raises(DataError, match=problem) as caught:
        labels_of(y)
    assert "--" not in str(caught.value)  # the words of Python


def test_data_errors_are_usage_errors_and_value_errors() -> None:
    assert issubclass(DataError, UsageError)
    assert issubclass(DataError, ValueError)


@pytest.mark.parametrize("name", [0, "target", "cat"])
def test_one_column_of_the_numbers_0_and_1_is_refused_with_both_readings(name: object) -> None:
    frame = pd.DataFrame({name: [0, 1, 1]})
    with pytest.raises(DataError, match=rf"number of .* class {name!r}.*y\[{name!r}\].*astype\(bool\)"):
        labels_of(frame)
    assert labels_of(frame[name]).is_single
    assert labels_of(frame.astype(bool)).matrix.tolist() == [[False], [True], [True]]
    assert labels_of(pd.DataFrame({name: [0, 1, 2]})).is_single


def test_a_part_without_labels_is_read_where_the_classes_are_known() -> None:
    known = labels_of([["cat"], ["dog"]]).classes
    assert labels_of([[], []], known).matrix.tolist() == [[False, False], [False, False]]
