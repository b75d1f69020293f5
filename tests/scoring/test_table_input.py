"""A DataFrame for a trained model: its columns are those of the training, and its cells are numbers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from yt8m.errors import UsageError
from yt8m.records import data_format
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.scoring import table_input
from yt8m.scoring.model_input import ModelInput


def takes(columns: tuple[str, ...] | None) -> ModelInput:
    format_ = DataFormat("video", (FeatureFormat("x", 3),), num_classes=2, columns=columns)
    return ModelInput("m", format_, (), is_own=True, has_own_reader=False)


FRAME = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=list("abc"))


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (FRAME[list("cab")], "in the same order"),
        (FRAME.rename(columns={"b": "other"}), "unseen at fit time:\n- other\n.*missing:\n- b"),
        (FRAME.assign(id=["v0", "v1"]), "unseen at fit time:\n- id"),
    ],
)
def test_columns_that_the_training_did_not_have_are_refused(frame: pd.DataFrame, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        takes(("a", "b", "c")).by_name(frame)


@pytest.mark.parametrize("columns", [None, ("a", "b", "c")])
@pytest.mark.parametrize("frame", [FRAME, FRAME.astype(object), FRAME.astype(int), FRAME.astype("Int64")])
def test_cells_are_read_as_numbers(columns: tuple[str, ...] | None, frame: pd.DataFrame) -> None:
    found = takes(columns).by_name(frame)
    assert list(found) == ["x"]
    np.testing.assert_array_equal(found["x"], FRAME)


def test_columns_count_by_place_if_those_of_the_training_are_not_known() -> None:
    np.testing.assert_array_equal(takes(None).by_name(FRAME[list("cab")])["x"], FRAME[list("cab")])
    unnamed = FRAME.set_axis(range(3), axis=1)
    np.testing.assert_array_equal(takes(("a", "b", "c")).by_name(unnamed)["x"], FRAME)


def test_a_column_that_is_of_no_numbers_is_named_with_its_row() -> None:
    with pytest.raises(UsageError, match="'b' has 'seven' in row 1"):
        takes(None).by_name(FRAME.assign(b=[1, "seven"]))


def test_columns_go_through_a_manifest() -> None:
    written = json.loads(json.dumps(takes(("a", "b", "c")).format.as_json()))
    assert data_format.parse(written).columns == ("a", "b", "c")
    with pytest.raises(ValueError, match="2 columns"):
        data_format.parse(written | {"columns": ["a", "b"]})
    first, other = takes(("a", "b", "c")).format, takes(("c", "a", "b")).format
    assert data_format.joined([("p", takes(None).format), ("q", first)]) == first
    with pytest.raises(Exception, match="columns"):
        data_format.joined([("p", first), ("q", other)])


def test_tables_in_a_dict_have_their_rows_in_one_order() -> None:
    first = pd.DataFrame({"a": [1.0, 2.0]}, index=["v1", "v2"])
    assert list(table_input.index_of({"x": first, "y": np.zeros(2), "z": first.copy()})) == ["v1", "v2"]
    assert table_input.index_of({"x": np.zeros(2)}) is None
    with pytest.raises(UsageError, match=r"the indices of X\['x'\] and X\['z'\] differ: row 0 is 'v1' in X\['x'\]"):
        table_input.index_of({"x": first, "z": first.iloc[::-1]})
