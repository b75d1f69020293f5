"""Cells of labels as languages, libraries and people write them, beside those of test_understood_texts.py."""

from __future__ import annotations

import csv
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from table_files import NAMES, SHORT, read, truth, write

from yt8m.errors import UsageError


class Cells(NamedTuple):
    show: Callable[[list[str]], str]
    names: Sequence[str] = NAMES
    fewest: int = 1
    most: int = 3


def in_braces(labels: list[str], quote: Callable[[str], str], brackets: str) -> str:
    return brackets[0] + ", ".join(map(quote, labels)) + brackets[1]


FORMS = {
    "sets of Python": Cells(lambda x: in_braces(x, repr, "{}")),
    "tuples of Python": Cells(lambda x: repr(tuple(x))),
    "a list with nan": Cells(lambda x: in_braces([*map(repr, x), "nan"], str, "[]")),
    "bytes of TensorFlow": Cells(lambda x: repr([name.encode() for name in x])),
    "one text of bytes": Cells(lambda x: repr(x[0].encode()), most=1),
    "slices of Go": Cells(lambda x: "[" + " ".join(x) + "]", SHORT),
    "cells of MATLAB": Cells(lambda x: in_braces(x, repr, "{}").replace(", ", ",")),
    "vectors of R beside single names": Cells(lambda x: f"c({', '.join(map(json.dumps, x))})" if len(x) > 1 else x[0]),
    "numbers of NumPy": Cells(lambda x: "[" + " ".join(x) + "]", ["0", "3", "11", "25"]),
    "tensors of PyTorch": Cells(
        lambda x: "tensor([" + ", ".join("1." if str(n) in x else "0." for n in range(5)) + "])",
        ["0", "1", "2", "3", "4"],
    ),
    "JSON in JSON": Cells(lambda x: json.dumps(json.dumps(x))),
    "objects of true and false": Cells(lambda x: json.dumps({name: name in x for name in NAMES}), fewest=0),
    "objects of 0 and 1": Cells(lambda x: repr({name: int(name in x) for name in NAMES}), fewest=0),
    "objects with names": Cells(lambda x: json.dumps([{"id": len(n), "name": n} for n in x]), fewest=0),
    "names in quotes": Cells(lambda x: ", ".join(f'"{name}"' for name in x)),
    "names in single quotes": Cells(lambda x: ",".join(f"'{name}'" for name in x)),
    "names in quotes of books": Cells(lambda x: "; ".join(f"\u201c{name}\u201d" for name in x)),
    "lines with dashes": Cells(lambda x: "\n".join(f"- {name}" for name in x)),
    "numbered lines": Cells(lambda x: "\n".join(f"{k}. {name}" for k, name in enumerate(x, 1))),
    "bullets between": Cells(" \u2022 ".join),
    "dots between": Cells(" \u00b7 ".join),
    "Arabic commas": Cells("\u060c ".join, ["\u0642\u0637", "\u0643\u0644\u0628", "\u0637\u0627\u0626\u0631"]),
    "line breaks of HTML": Cells("<br>".join),
    "blanks around slashes": Cells(" / ".join),
    "a separator at the end": Cells(lambda x: ";".join(x) + ";"),
    "separators at both ends": Cells(lambda x: "|" + "|".join(x) + "|"),
    "uneven blanks": Cells(lambda x: " ,  ".join(x).replace("  ", "", 1)),
    "a label twice": Cells(lambda x: ", ".join([*x, x[0]])),
    "hashtags without blanks": Cells(lambda x: "".join(f"#{name}" for name in x)),
    "quotes around names with blanks": Cells(lambda x: "|".join(f'"{name}"' if name != "cat" else name for name in x)),
    "a list of one text": Cells(lambda x: json.dumps([";".join(x)])),
    "a list of one list": Cells(lambda x: json.dumps([x])),
    "signs without a width": Cells(lambda x: ";".join(f"{name}\u200b" for name in x)),
    "words for nothing": Cells(lambda x: ";".join(x) or "NONE", fewest=0),
    "steps of a tree": Cells("; ".join, ["Animals > cat", "Animals > dog", "Animals > otter"]),
    "paths of a tree": Cells(",".join, ["animals/cat", "animals/dog", "animals/otter"]),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_as_it_is_meant(name: str, tmp_path: pathlib.Path) -> None:
    form = FORMS[name]
    made = truth(form.names, form.most, form.fewest)
    table = write(tmp_path / "t.csv", [("id", "labels"), *((video, form.show(x)) for video, x in made.items())])
    assert read(table) == {video: sorted(set(labels)) for video, labels in made.items()}


WORDS = [
    ("positive", "negative"),
    ("present", "absent"),
    ("ja", "nee"),
    ("oui", "non"),
    ("\u0434\u0430", "\u043d\u0435\u0442"),
    ("\u662f", "\u5426"),
]


@pytest.mark.parametrize(("yes", "no"), WORDS)
def test_columns_of_classes_say_yes_in_other_words(yes: str, no: str, tmp_path: pathlib.Path) -> None:
    made = truth(fewest=0)
    rows = [(video, *(yes if name in x else no for name in NAMES)) for video, x in made.items()]
    assert read(write(tmp_path / "t.csv", [("id", *NAMES), *rows])) == {n: sorted(x) for n, x in made.items()}


def test_columns_may_repeat_their_names(tmp_path: pathlib.Path) -> None:
    made = truth(fewest=0)
    rows = [(video, *(name if name in x else "" for name in NAMES)) for video, x in made.items()]
    assert read(write(tmp_path / "t.csv", [("id", *NAMES), *rows])) == {n: sorted(x) for n, x in made.items()}


@pytest.mark.parametrize(
    ("show", "message"),
    [
        (">".join, "--label_separator=none .*--label_separator='>'"),
        ("@".join, "--label_separator='@'"),
        ("__".join, "--label_separator='__'"),
        ("\uff5c".join, "--label_separator='\uff5c'"),
        (lambda x: json.dumps(x if len(x) < 3 else [x[0], ";".join(x[1:])]), "--label_separator=';'"),
        (lambda x: " ".join(f"{name} 0.9" for name in x), "'.* 0.9'"),
        (lambda x: ", ".join(f"{name} (95%)" for name in x), "(95%)"),
    ],
)
def test_cells_with_two_readings_or_scores(
    show: Callable[[list[str]], str], message: str, tmp_path: pathlib.Path
) -> None:
    rows = [(video, show(labels)) for video, labels in truth(SHORT).items()]
    with pytest.raises(UsageError, match=message.replace("(", r"\(").replace(")", r"\)")):
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows]))


@pytest.mark.parametrize(("most", "message"), [(3, '"bird" has numbers such as 2'), (1, "numbers such as 0, 2, 3, 5")])
def test_votes_are_no_classes(most: int, message: str, tmp_path: pathlib.Path) -> None:
    """For `most` 3, some classes have no more than one vote."""
    votes = (
        {"cat": 1, "dog": 1, "fox": 1, "bird": 2, "otter": 3}
        if most == 3
        else dict(zip(SHORT, (2, 3, 5, 2, 3), strict=True))
    )
    rows = [(video, *(votes[name] * (name in x) for name in SHORT)) for video, x in truth(SHORT).items()]
    with pytest.raises(UsageError, match=message):
        read(write(tmp_path / "t.csv", [("id", *SHORT), *rows]))


@pytest.mark.parametrize("doubt", ["-1", "-1.0", "0.5"])
def test_doubts_beside_columns_of_classes_are_refused(doubt: str, tmp_path: pathlib.Path) -> None:
    """As in CheXpert, whose header also has a name that consists of cells."""
    rows = [
        (f"{video}.jpg", "AP" if k % 2 else "PA", *(int(name in x) for name in SHORT), doubt if k % 5 == 0 else k % 2)
        for k, (video, x) in enumerate(truth(SHORT).items())
    ]
    table = write(tmp_path / "t.csv", [("Path", "AP/PA", *SHORT, "bat"), *rows])
    with pytest.raises(UsageError, match=rf'"bat" .*numbers such as {doubt}\. .*--columns=labels={SHORT[0]}\+'):
        read(table)
    rows = [row[:-1] for row in rows]
    found = read(write(table, [("Path", "AP/PA", *SHORT), *rows]))
    assert {key: sorted(x) for key, x in found.items()} == {f"{k}.jpg": sorted(x) for k, x in truth(SHORT).items()}


def test_remarks_are_no_classes(tmp_path: pathlib.Path) -> None:
    rows = [(video, f"remark {k}", x[0]) for k, (video, x) in enumerate(truth(most=1).items())]
    table = write(tmp_path / "t.csv", [("id", "label", "kind"), *rows])
    with pytest.raises(UsageError, match=r"--columns=labels=COLUMN.*id, label, kind"):
        read(table)
    assert len(read(table, columns=["labels=label"])) == 40


def test_an_empty_id_does_not_go_on_with_the_video_above(tmp_path: pathlib.Path) -> None:
    rows = [("id", "label"), ("a", "cat"), ("a", "dog"), ("", "otter"), ("b", "cat")]
    with pytest.raises(UsageError, match=r"row 3 \(line 4\).*empty"):
        read(write(tmp_path / "t.csv", rows))


def test_marks_of_nothing_stand_beside_columns_of_classes(tmp_path: pathlib.Path) -> None:
    rows = [("id", "cat", "dog"), ("a", "x", "-"), ("b", "-", "x"), ("c", "NA", "x")]
    assert read(write(tmp_path / "t.csv", rows)) == {"a": ["cat"], "b": ["dog"], "c": ["dog"]}


@pytest.mark.parametrize("error", ["#VALUE!", "#REF!", "NaT", "\u2013", "n.a."])
def test_errors_of_spreadsheets_are_no_labels(error: str, tmp_path: pathlib.Path) -> None:
    rows = [("id", "labels"), ("a", "cat;dog"), ("b", error), ("c", "dog")]
    assert read(write(tmp_path / "t.csv", rows)) == {"a": ["cat", "dog"], "b": [], "c": ["dog"]}


def test_a_class_of_the_vocabulary_may_be_called_none(tmp_path: pathlib.Path) -> None:
    table = write(tmp_path / "t.csv", [("id", "labels"), ("a", "none"), ("b", "cat"), ("c", "cat")])
    assert read(table)["a"] == []
    assert read(table, vocabulary=["cat", "none"])["a"] == ["none"]


def test_columns_called_as_splits_are_no_classes(tmp_path: pathlib.Path) -> None:
    rows = [("id", "cat", "dog", "train", "val"), ("a", 1, 0, 1, 0), ("b", 0, 1, 0, 1), ("c", 1, 1, 1, 0)]
    with pytest.raises(UsageError, match='"train"'):
        read(write(tmp_path / "t.csv", rows))


def test_an_id_and_a_label_in_one_field_are_refused(tmp_path: pathlib.Path) -> None:
    rows = [(f"v{k} {k % 3}", *([] if k % 2 else [k % 5])) for k in range(20)]
    with pytest.raises(UsageError, match="'v0 0'"):
        read(write(tmp_path / "t.txt", rows))


def test_answers_of_several_people_are_not_united(tmp_path: pathlib.Path) -> None:
    header = ("video", "id", "tags", "annotator", "annotation_id")
    rows = [(f"v{k // 2}", k // 2, ("cat", "dog")[k % 2], k % 2, k) for k in range(8)]
    with pytest.raises(UsageError, match="JSON"):
        read(write(tmp_path / "t.csv", [header, *rows]))


def test_texts_that_are_written_as_formulas_for_a_spreadsheet(tmp_path: pathlib.Path) -> None:
    made = {video: sorted(labels) for video, labels in truth().items()}
    for name, quoting in (("quoted", csv.QUOTE_MINIMAL), ("bare", csv.QUOTE_NONE)):
        rows = [("id", "labels"), *((f'="{video}"', ";".join(labels)) for video, labels in made.items())]
        how = {"escapechar": None, "quotechar": "'"} if quoting == csv.QUOTE_NONE else {}
        assert read(write(tmp_path / f"{name}.csv", rows, quoting=quoting, **how)) == made
    write(tmp_path / "links.csv", [("id", "labels"), ("a", '<a href="x">'), ("b", "cat"), ("c", "cat")])
    assert read(tmp_path / "links.csv")["a"] == ['<a href="x">']


@pytest.mark.parametrize("marks", ["✓✗", "✔✘", "☑☐", "✅❌", "✔✖", ("✔\ufe0f", "✖\ufe0f")])
def test_a_column_for_each_class_with_ticks_and_crosses(marks: tuple[str, str], tmp_path: pathlib.Path) -> None:
    made = {video: sorted(labels) for video, labels in truth(fewest=0).items()}
    yes, no = marks
    rows = [("id", *NAMES), *((video, *(yes if name in x else no for name in NAMES)) for video, x in made.items())]
    assert read(write(tmp_path / "t.csv", rows)) == made
