"""What the columns of a table mean, by their names."""

from __future__ import annotations

import pytest

from yt8m.tables.words import meanings


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("VideoId", "id"),
        (" File Name ", "id"),
        ("ids", "id"),
        ("label_1", "labels"),
        ("Tag 2", "labels"),
        ("true_label", "labels"),
        ("is_valid", "split"),
        ("startTime", "start"),
        ("views", None),
        ("f12", None),
        ("size_2", None),
    ],
)
def test_case_blanks_and_numbers_do_not_matter(name: str, meaning: str | None) -> None:
    known = meanings.meaning_of(name)
    assert (known[0] if known else None) == meaning


@pytest.mark.parametrize(
    ("cell", "split"),
    [("Val", "validate"), ("nan", ""), ("NA", ""), (None, ""), (float("nan"), ""), ("fold 3", "fold 3")],
)
def test_splits_are_words_or_nothing(cell: object, split: str) -> None:
    assert meanings.split_name("split", cell) == split


@pytest.mark.parametrize(("yes", "no"), [("wahr", "falsch"), ("x", "0"), ("Ja", "Nein"), ("yes", "no")])
def test_flags_of_splits_know_the_words_of_columns_of_classes(yes: str, no: str) -> None:
    assert (meanings.split_name("is_val", yes), meanings.split_name("is_val", no)) == ("validate", "train")
