"""Cells that say more than which labels a video has, or less, are refused: nothing of them becomes a class."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from table_files import NAMES, SHORT, read, truth, write, write_json

from yt8m.errors import UsageError

MADE = {video: sorted(labels) for video, labels in truth().items()}


@pytest.mark.parametrize(
    "cells",
    [
        ["['cat', 'dog', ...]", "['cat']", "['dog', 'fox']"],
        ["['cat' ... 'dog']", "['cat']", "['dog' 'fox']"],
        ["['cat' 'dog' … 'fox']", "['cat']"],
        ["[cat, dog, bi...", "[cat]", "[dog, bird]"],
        ["cat, dog, ...", "cat", "dog", "cat, dog"],
        ["cat; do…", "cat", "dog", "cat; dog"],
        ["cat|dog|...", "cat", "dog"],
        ['c("cat", "dog", ...)', 'c("cat", "dog")'],
        [["cat", "..."], ["dog"]],
    ],
)
def test_lists_that_were_cut_short(cells: list[Any], tmp_path: pathlib.Path) -> None:
    path = tmp_path / ("t.csv" if isinstance(cells[0], str) else "t.json")
    rows = [(f"v{number}", cell) for number, cell in enumerate(cells * 3)]
    if path.suffix == ".csv":
        write(path, [("id", "labels"), *rows])
    else:
        write_json(path, [{"id": name, "labels": cell} for name, cell in rows])
    with pytest.raises(UsageError, match=r"t\.\w+, column \"labels\": .*was cut short.*--label_separator=none"):
        read(path)


@pytest.mark.parametrize("names", [["wait...", "go"], ["to be continued...", "the end..."], ["...and justice", "one"]])
def test_names_with_dots_are_no_lists_cut_short(names: list[str], tmp_path: pathlib.Path) -> None:
    rows = [(f"v{number}", ";".join(names[: 1 + number % 2])) for number in range(12)]
    rows += [(f"w{number}", names[1]) for number in range(4)]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    assert read(path) == {video: sorted(cell.split(";")) for video, cell in rows}


@pytest.mark.parametrize(
    "cell",
    [
        "[object Object]",
        "[object Object],[object Object]",
        "<chr [3]>",
        "<list [2]>",
        "<labels.Label object at 0x7f3a2b>",
        "[Ljava.lang.String;@1b2c3d",
        "System.Collections.Generic.List`1[System.String]",
        "########",
    ],
)
def test_what_programs_write_in_place_of_a_list(cell: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{n}", cell if n % 2 else "cat") for n in range(8))])
    with pytest.raises(UsageError, match="in place of a list"):
        read(path)


@pytest.mark.parametrize("doubtful", ["{}?", "{} (?)", "{} (maybe)", "maybe {}", "possibly {}", "{} (unsure)"])
def test_a_label_of_which_somebody_was_not_sure(doubtful: str, tmp_path: pathlib.Path) -> None:
    rows = [(v, ";".join([doubtful.format(x[0]), *x[1:]]) if v < "v04" else ";".join(x)) for v, x in MADE.items()]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    with pytest.raises(UsageError, match=r"not sure of '.*--vocabulary=FILE"):
        read(path)
    names = {name for _, cell in rows for name in cell.split(";")}
    assert read(path, vocabulary=names) == {video: sorted(cell.split(";")) for video, cell in rows}


def test_a_question_is_a_name(tmp_path: pathlib.Path) -> None:
    rows = [(f"v{number}", ["who is it?", "who"][number % 2]) for number in range(12)]
    assert read(write(tmp_path / "t.csv", [("id", "label"), *rows])) == {name: [cell] for name, cell in rows}


@pytest.mark.parametrize(
    "spelling", [("yes", "no"), ("True", "False"), ("x", ""), ("ja", "nein"), (1, 0), (True, False)]
)
@pytest.mark.parametrize("form", ["JSON in CSV", "Python in CSV", "JSON"])
def test_objects_that_answer_for_each_class(form: str, spelling: tuple[Any, Any], tmp_path: pathlib.Path) -> None:
    yes, no = spelling
    cells = {video: {name: yes if name in labels else no for name in NAMES} for video, labels in MADE.items()}
    if form == "JSON":
        path = write_json(tmp_path / "t.json", [{"id": video, "labels": cell} for video, cell in cells.items()])
    else:
        path = tmp_path / "t.csv"
        text_of = str if form.startswith("Python") else json.dumps
        write(path, [("id", "labels"), *((video, text_of(cell)) for video, cell in cells.items())])
    assert read(path) == MADE


@pytest.mark.parametrize("pair", ["{}: {}", "{}={}"])
def test_objects_without_quotes(pair: str, tmp_path: pathlib.Path) -> None:
    made = {video: sorted(labels) for video, labels in truth(SHORT).items()}
    cells = {v: "{" + ", ".join(pair.format(n, int(n in x)) for n in SHORT) + "}" for v, x in made.items()}
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *cells.items()])) == made


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (['{"primary": "owl","secondary":"bee"}', '{"primary": "bee"}'], "may be 'owl', or 'primary: owl'"),
        (["{'primary': 'owl'}", "{'primary': 'bee', 'secondary': 'owl'}"], "may be 'owl', or 'primary: owl'"),
        (["{place: zoo, time: day}", "{place: park, time: day}"], "may be 'zoo', or 'place: zoo'"),
        (['{"cat": 4}', '{"dog": 2}'], "such as scores and counts"),
        (['{"cat": 0.4, "dog": 0.6}', '{"cat": 0.5, "dog": 0.5}'], "such as scores and counts"),
        (['{"cat": null, "dog": true}', '{"cat": true, "dog": true}'], "no names of classes can be told"),
    ],
)
def test_objects_whose_labels_cannot_be_told(cells: list[str], message: str, tmp_path: pathlib.Path) -> None:
    rows = [(f"v{number}", cell) for number, cell in enumerate([*cells, "", *cells])]
    with pytest.raises(UsageError, match=message):
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows]))
