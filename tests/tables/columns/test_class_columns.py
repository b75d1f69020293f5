"""A column for each class: the words that say yes and no, and columns of choices beside their own column."""

from __future__ import annotations

import pathlib

import pytest
from table_files import NAMES, SHORT, read, truth, write

from yt8m.errors import UsageError
from yt8m.tables.words.class_names import FALSE_WORDS, TRUE_WORDS, WORD_PAIRS

TRUTH = truth()
EXPECTED = {name: sorted(labels) for name, labels in TRUTH.items()}


def table(folder: pathlib.Path, yes: str, no: str) -> pathlib.Path:
    rows = [(name, *(yes if label in x else no for label in NAMES)) for name, x in TRUTH.items()]
    return write(folder / "t.csv", [("id", *NAMES), *rows])


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("On", "Off"),
        ("○", "\xd7"),
        ("◯", ""),
        ("はい", "いいえ"),
        ("Evet", "Hay\u0131r"),
        ("Igen", "Nem"),
        ("Kyllä", "Ei"),
    ]
    + [("有", "無"), ("Так", "\u041d\u0456"), ("Selected", ""), ("●", ""), ("[x]", "[ ]"), ("+", "-"), ("V", "")]
    + [("PRAWDA", "FAŁSZ"), ("SAND", "FALSK"), ("ИСТИНА", "ЛОЖЬ"), ("DOĞRU", "YANLIŞ"), ("WAAR", "ONWAAR")],
)
def test_words_and_marks_for_yes_and_no(yes: str, no: str, tmp_path: pathlib.Path) -> None:
    assert read(table(tmp_path, yes, no)) == EXPECTED


@pytest.mark.parametrize(("yes", "no"), [("●", "○"), ("o", "x"), ("P", "A"), ("1", "2")])
def test_marks_that_may_mean_either_are_refused(yes: str, no: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"column for each class .*\b0 and 1\b|write 1 or 0\b"):
        read(table(tmp_path, yes, no))


def test_no_word_says_both_yes_and_no() -> None:
    assert not TRUE_WORDS & FALSE_WORDS
    assert len(set(WORD_PAIRS)) == len(WORD_PAIRS)


@pytest.mark.parametrize("question", ["tags", "species", "group/tags"])
@pytest.mark.parametrize("sign", ["/", "."])
def test_choices_of_forms_beside_their_column(question: str, sign: str, tmp_path: pathlib.Path) -> None:
    rows = [(name, " ".join(x), *(int(label in x) for label in SHORT)) for name, x in truth(SHORT).items()]
    path = write(tmp_path / "t.csv", [("clip", question, *(f"{question}{sign}{label}" for label in SHORT)), *rows])
    assert read(path) == {name: sorted(labels) for name, labels in truth(SHORT).items()}


def test_choices_that_contradict_their_column_are_asked_for(tmp_path: pathlib.Path) -> None:
    rows = [(name, "cat", *(int(label in x) for label in SHORT)) for name, x in truth(SHORT).items()]
    path = write(tmp_path / "t.csv", [("clip", "tags", *(f"tags/{label}" for label in SHORT)), *rows])
    with pytest.raises(UsageError, match=r'either "tags" .*\b0 and 1\b.*tags/'):
        read(path)


@pytest.mark.parametrize(("yes", "no", "odd"), [(1, 0, "maybe"), (1, 0, "1?"), ("yes", "no", "oops"), ("x", "", "x?")])
def test_a_cell_that_says_neither_costs_no_class(yes: object, no: object, odd: str, tmp_path: pathlib.Path) -> None:
    """The column of the cell was no class any more, and not used."""
    rows = [[name, *(yes if label in x else no for label in SHORT)] for name, x in truth(SHORT).items()]
    rows[29][2] = odd
    with pytest.raises(UsageError, match=r"row 30 \(line 31\): the cell of .*--columns=unused=dog") as error:
        read(write(tmp_path / "t.csv", [("id", *SHORT), *rows]))
    assert repr(odd) in str(error.value)
    left_out = read(tmp_path / "t.csv", columns=("unused=dog",))
    assert {label for labels in left_out.values() for label in labels} == {*SHORT} - {"dog"}
    rows[29][2] = no
    remarks = [("id", *SHORT, "remark"), *((*row, ("blurred", "", "x", "dark")[n % 4]) for n, row in enumerate(rows))]
    assert len(read(write(tmp_path / "u.csv", remarks))) == len(rows)
