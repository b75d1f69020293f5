"""Headers of two levels, delimiters of two characters, and lists of words whose header is no CSV."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest
from table_files import NAMES, SHORT, read, truth, write

from yt8m.errors import UsageError

TRUTH = truth()
EXPECTED = {name: sorted(labels) for name, labels in TRUTH.items()}
GROUP = ["labels"] * len(NAMES)
CELLS = [(name, *(str(int(label in x)) for label in NAMES)) for name, x in TRUTH.items()]


def text(path: pathlib.Path, lines: Sequence[str]) -> pathlib.Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "header",
    [
        [("id", *GROUP), ("", *NAMES)],
        [("", *GROUP), ("", *NAMES)],
        [("", *GROUP), ("", *NAMES), ("id", *[""] * len(NAMES))],
        [("meta", *GROUP), ("id", *NAMES)],
    ],
)
def test_columns_of_two_levels(header: list[tuple[str, ...]], tmp_path: pathlib.Path) -> None:
    assert read(write(tmp_path / "t.csv", [*header, *CELLS])) == EXPECTED


def test_two_columns_of_one_name_are_still_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="twice: id,source,source"):
        read(write(tmp_path / "t.csv", [("id", "source", "source"), ("v1", "cat", "dog"), ("v2", "dog", "cat")]))


@pytest.mark.parametrize("title", ['"V{} Story" (1995)', "Story, The {} (1995)", "Story {}"])
def test_movielens(title: str, tmp_path: pathlib.Path) -> None:
    lines = [f"{k}::{title.format(k)}::{'|'.join(labels)}" for k, labels in enumerate(TRUTH.values(), 1)]
    expected = {str(k): labels for k, labels in enumerate(EXPECTED.values(), 1)}
    assert read(text(tmp_path / "movies.dat", lines)) == expected
    assert read(text(tmp_path / "t.csv", ["id::title::genres", *lines])) == expected


def test_names_with_two_colons_are_no_columns(tmp_path: pathlib.Path) -> None:
    made = truth(("std::vector", "std::map"), most=1)
    assert (
        read(text(tmp_path / "t.csv", [f"{name},{labels[0]}" for name, labels in made.items()]), separator="none")
        == made
    )


def test_ids_with_two_colons_are_no_columns(tmp_path: pathlib.Path) -> None:
    made = truth(SHORT, most=1)
    lines = [f"fe80::{k},{labels[0]}" for k, labels in enumerate(made.values())]
    assert read(text(tmp_path / "t.csv", lines)) == {f"fe80::{k}": labels for k, labels in enumerate(made.values())}


@pytest.mark.parametrize("sign", [":::", " ==> ", " --> "])
def test_longer_signs_are_not_cut(sign: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="no column 'id'"):
        read(text(tmp_path / "t.txt", [f"{name}{sign}{', '.join(labels)}" for name, labels in TRUTH.items()]))


@pytest.mark.parametrize("first", [["40"], []])
@pytest.mark.parametrize("no", [-1, 0])
def test_lists_of_attributes(first: list[str], no: int, tmp_path: pathlib.Path) -> None:
    names = ("5_o_Clock_Shadow", "Arched_Eyebrows", "Bald", "Bangs")
    made = truth(names, end=".jpg")
    rows = [f"{name} " + " ".join(f"{1 if label in x else no:2d}" for label in names) for name, x in made.items()]
    found = read(text(tmp_path / "list_attr_celeba.txt", [*first, " ".join(names) + " ", *rows]))
    assert found == {name: sorted(labels) for name, labels in made.items()}


@pytest.mark.parametrize("form", ["{1} {0}", "{0} {1}"])
def test_lines_of_fasttext(form: str, tmp_path: pathlib.Path) -> None:
    made = truth(SHORT)
    lines = [form.format(name, " ".join(f"__label__{label}" for label in x)) for name, x in made.items()]
    assert read(text(tmp_path / "t.txt", lines)) == {name: sorted(labels) for name, labels in made.items()}


def test_texts_of_fasttext_are_no_ids(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"line 1: .*fastText .*\bid\b.*'a film'"):
        read(text(tmp_path / "t.txt", ["__label__cat a film", "__label__dog another film"]))


@pytest.mark.parametrize("is_marked", [True, False])
def test_answers_of_qualtrics(is_marked: bool, tmp_path: pathlib.Path) -> None:
    """The numbers of the questions, the questions, and objects above the answers, which repeat the option."""
    numbers = ["ResponseId", "QID9", *(f"QID1_{n}" for n in range(len(NAMES)))]
    header = [
        ("ResponseId", "video", *(f"Q1_{n}" for n in range(len(NAMES)))),
        ("Response ID", "Which one?", *(f"What is shown? - Selected Choice - {name}" for name in NAMES)),
        [f'{{"ImportId":"{number}"}}' for number in numbers],
    ]
    rows = [
        (f"R_{n}", name, *(("1" if is_marked else label) if label in labels else "" for label in NAMES))
        for n, (name, labels) in enumerate(TRUTH.items())
    ]
    assert read(write(tmp_path / "t.csv", [*header, *rows])) == EXPECTED


def test_a_sentence_beside_ids_without_a_header_is_asked_about(tmp_path: pathlib.Path) -> None:
    """The first column was taken, as it differs in all rows."""
    rows = [(f"It is number {n}, so far", ("cat", "dog", "fox")[n % 3], f"ef{n}x") for n in range(9)]
    path = write(tmp_path / "t.tsv", rows, delimiter="\t")
    with pytest.raises(UsageError, match="--columns='id=column 1' or --columns='id=column 3'"):
        read(path)
    assert read(path, columns=("id=column 3", "labels=column 2"))["ef3x"] == ["cat"]
    films = write(tmp_path / "u.tsv", [(f"clip {n}.mp4", ("cat", "dog")[n % 2], str(n)) for n in range(9)])
    assert read(films)["clip 3.mp4"] == ["dog"]
