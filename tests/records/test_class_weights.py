"""Weights of classes in the loss, as a table gives them."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.errors import UsageError
from yt8m.records.class_weights import read_class_weights
from yt8m.records.vocabulary import of_names

NAMES = of_names(["cat", "dog, big", "7", "fish"])


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("class,weight\nfish,2.5\n1,0\n", (1, 0, 1, 2.5)),
        ("Weight;Class\r\n0.5;dog, big\r\n", (1, 0.5, 1, 1)),
        ("class,weight\n7,4\n", (1, 1, 4, 1)),  # a class of this name
        ("class,weight\n", (1, 1, 1, 1)),
    ],
)
def test_a_class_is_named_or_numbered(tmp_path: pathlib.Path, text: str, weights: tuple[float, ...]) -> None:
    path = tmp_path / "weights.csv"
    path.write_text(text)
    assert read_class_weights(str(path), NAMES, 4) == weights


def test_without_names_a_class_has_its_number(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "weights.csv"
    path.write_text("class,weight\n2,3\n")
    assert read_class_weights(str(path), of_names([]), 3) == (1, 1, 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("class,weight\nfsh,1\n", "line 2: no class is 'fsh'.*0 to 3; did you mean fish"),
        ("class,weight\ncat,1\n4,1\n", "line 3: no class is '4'"),
        ("class,weight\ncat,1\n0,2\n", "line 3: the class '0' has a weight already"),
        ("class,weight\ncat,-1\n", "line 2: the weight is '-1'"),
        ("class,weight\ncat,nan\n", "line 2: the weight is 'nan'"),
        ("class,weight\ncat,inf\n", "line 2: the weight is 'inf'"),
        ("class,weight\ncat,\n", "line 2: the weight is ''"),
        ("class,weight\n0,0\n1,0\n2,0\n3,0\n", "all weights are 0"),
        ("class,value\ncat,1\n", "no column 'weight'"),
        ('class,weight\ncat,"1,000"\n', "line 2: the weight is '1,000'"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: pathlib.Path, text: str, told: str) -> None:
    path = tmp_path / "weights.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=rf"--class_weights=.*{told}"):
        read_class_weights(str(path), NAMES, 4)


def test_a_file_that_is_missing_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"--class_weights=.*no such file"):
        read_class_weights(str(tmp_path / "none.csv"), NAMES, 4)
