"""Labels of which each stands in brackets, behind a prefix, or behind a word."""

from __future__ import annotations

import pathlib

import pytest
from table_files import NAMES, SHORT, joined, read, truth, write

from yt8m.errors import UsageError


@pytest.mark.parametrize("brackets", ["<>", "[]", "()", "{}"])
@pytest.mark.parametrize("between", ["", " ", ", "])
def test_labels_in_brackets_of_their_own(brackets: str, between: str, tmp_path: pathlib.Path) -> None:
    made = truth()
    rows = [(name, between.join(f"{brackets[0]}{x}{brackets[1]}" for x in labels)) for name, labels in made.items()]
    assert read(write(tmp_path / "t.csv", [("id", "tags"), *rows])) == {n: sorted(x) for n, x in made.items()}


def test_single_labels_in_angles(tmp_path: pathlib.Path) -> None:
    made = truth(most=1)
    assert read(write(tmp_path / "t.csv", [("id", "tags"), *((n, f"<{x[0]}>") for n, x in made.items())])) == made


def test_hashtags_with_commas(tmp_path: pathlib.Path) -> None:
    made = truth()
    rows = [(name, ", ".join(f"#{x}" for x in labels)) for name, labels in made.items()]
    assert read(write(tmp_path / "t.csv", [("id", "tags"), *rows])) == {n: sorted(x) for n, x in made.items()}


def test_labels_with_numbers_of_sharepoint_are_refused(tmp_path: pathlib.Path) -> None:
    rows = [(n, ";#".join(f"{c};#{NAMES.index(c)}" for c in x)) for n, x in truth().items()]
    with pytest.raises(UsageError, match=r"\"Tags\".*number beside each label.*SharePoint"):
        read(write(tmp_path / "t.csv", [("Name", "Tags"), *rows]))


def test_labels_with_the_prefix_of_fasttext(tmp_path: pathlib.Path) -> None:
    made = truth(SHORT)
    rows = [(name, " ".join(f"__label__{x}" for x in labels)) for name, labels in made.items()]
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *rows])) == {n: sorted(x) for n, x in made.items()}


@pytest.mark.parametrize("word", ["und", "et", "y", "and", "&", "oraz", "och"])
def test_words_between_labels_that_recur(word: str, tmp_path: pathlib.Path) -> None:
    made = truth(NAMES, most=2)
    rows = [(name, f" {word} ".join(labels)) for name, labels in made.items()]
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *rows])) == {n: sorted(x) for n, x in made.items()}


@pytest.mark.parametrize("word", ["AND", "with", "sowie", "plus"])
def test_other_words_between_labels_are_asked_for(word: str, tmp_path: pathlib.Path) -> None:
    made = truth(SHORT, most=2)
    path = write(tmp_path / "t.csv", [("id", "labels"), *((n, f" {word} ".join(x)) for n, x in made.items())])
    with pytest.raises(UsageError, match=f"--label_separator=none .*--label_separator=' {word} '"):
        read(path)
    assert read(path, separator=f" {word} ") == {n: sorted(x) for n, x in made.items()}


def test_names_that_share_a_word_are_names(tmp_path: pathlib.Path) -> None:
    names = ("dog on grass", "cat on sofa", "grass", "bird on tree", "man with hat")
    made = truth(names, most=1)
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *((n, x[0]) for n, x in made.items())])) == made


@pytest.mark.parametrize("last", [", and ", ", und ", "; & "])
def test_a_word_before_the_last_label_is_refused(last: str, tmp_path: pathlib.Path) -> None:
    made, sign = truth(), last[:2]
    rows = [(n, sign.join(x[:-1]) + (last if len(x) > 1 else "") + x[-1]) for n, x in made.items()]
    with pytest.raises(UsageError, match=r"\"labels\".*word before.*--vocabulary=FILE"):
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows]))


@pytest.mark.parametrize("form", ["{0}x {1}", "{0} {1}", "{0}\u00d7 {1}", "{0}*{1}", "{1} ({0})", "{1} x{0}"])
@pytest.mark.parametrize("as_list", [True, False])
def test_counts_beside_labels_are_refused(form: str, as_list: bool, tmp_path: pathlib.Path) -> None:
    cells = {n: [form.format(k, label) for k, label in enumerate(x, 1)] for n, x in truth().items()}
    rows = [(name, str(cell) if as_list else ", ".join(cell)) for name, cell in cells.items()]
    with pytest.raises(UsageError, match="a count"):
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows]))


@pytest.mark.parametrize("form", ["{0}x {1}", "{1} ({0})"])
def test_counts_beside_some_labels_are_refused(form: str, tmp_path: pathlib.Path) -> None:
    cells = {n: [form.format(2, label) if k else label for k, label in enumerate(x)] for n, x in truth().items()}
    with pytest.raises(UsageError, match="with a count"):
        read(write(tmp_path / "t.csv", [("id", "labels"), *((n, ", ".join(x)) for n, x in cells.items())]))


def test_numbers_that_belong_to_names_are_no_counts(tmp_path: pathlib.Path) -> None:
    names = ("2 door car", "4 door sedan", "1 cat", "3 point shot", "100 m", "200 m")
    made = truth(names, most=1)
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *((n, x[0]) for n, x in made.items())])) == made


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("separator", [", ", ";", "|"])
def test_quotes_around_whole_cells_are_taken_away(quote: str, separator: str, tmp_path: pathlib.Path) -> None:
    """Cells such as `"cat,dog"` of a table that was written twice were classes of their own."""
    made = truth(SHORT, fewest=0)
    cells = {name: [f"{quote}{separator.join(labels)}{quote}"] if labels else [] for name, labels in made.items()}
    assert read(write(tmp_path / "t.csv", joined(cells, ""))) == {name: sorted(x) for name, x in made.items()}


def test_quotes_around_names_with_commas(tmp_path: pathlib.Path) -> None:
    names = ('"Animal, wild"', '"Animal, domestic"', '"Tool"')
    rows = [("id", "labels"), *((f"v{n}", names[n % 3]) for n in range(12))]
    assert read(write(tmp_path / "t.csv", rows))["v0"] == ["Animal, wild"]
