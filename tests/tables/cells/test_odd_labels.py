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
    with pytest.raises(UsageError, match=r"in place of.* list.*cat;dog"):
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
        (['{"cat": 4}', '{"dog": 2}'], "scores and counts"),
        (['{"cat": 0.4, "dog": 0.6}', '{"cat": 0.5, "dog": 0.5}'], "scores and counts"),
        (['{"cat": null, "dog": true}', '{"cat": true, "dog": true}'], "no names of classes"),
    ],
)
def test_objects_whose_labels_cannot_be_told(cells: list[str], message: str, tmp_path: pathlib.Path) -> None:
    rows = [(f"v{number}", cell) for number, cell in enumerate([*cells, "", *cells])]
    with pytest.raises(UsageError, match=message):
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows]))


@pytest.mark.parametrize("form", ["<b>{}</b>", "<ul><li>{}</li></ul>", 'a:1:{{i:0;s:3:"{}";}}'])
def test_labels_within_markup(form: str, tmp_path: pathlib.Path) -> None:
    rows = [(video, form.format(labels[0])) for video, labels in MADE.items()]
    with pytest.raises(UsageError, match=r"HTML, XML or .*PHP.*cat;dog"):
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows]))


def test_the_lists_of_sharepoint(tmp_path: pathlib.Path) -> None:
    rows = [(video, ";#" + ";#".join(labels) + ";#") for video, labels in MADE.items()]
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *rows])) == MADE
    rows = [(v, ";#".join(f"{NAMES.index(name)};#{name}" for name in labels)) for v, labels in MADE.items()]
    with pytest.raises(UsageError, match=r"number beside each label.*SharePoint"):
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows]))


@pytest.mark.parametrize("names", [("Cat", "Dog", "Bird"), ("A", "B", "C", "D"), ("😀", "🐶", "🐱")])
def test_labels_without_anything_between_them(names: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    rows = [(video, "".join(labels)) for video, labels in truth(names).items()]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    with pytest.raises(UsageError, match=r"without a separator.*--label_separator=none"):
        read(path)
    assert read(path, separator="none") == {video: [cell] for video, cell in rows}


@pytest.mark.parametrize(
    "names",
    [
        ["sun", "flower", "sunflower", "rose", "tulip", "moon"],
        ["A", "B", "AB", "O"],
        ["I", "II", "III", "IV", "V", "VI", "VII", "VIII"],
        ["foot", "ball", "football", "basket", "basketball", "tennis", "golf", "rugby"],
    ],
)
def test_names_that_consist_of_others(names: list[str], tmp_path: pathlib.Path) -> None:
    rows = [(f"v{number:02}", names[number % len(names)]) for number in range(32)]
    assert read(write(tmp_path / "t.csv", [("id", "label"), *rows])) == {video: [name] for video, name in rows}


@pytest.mark.parametrize("cell", ["[0.1, 0.9]", "[0.25 0.75]", "[0.0, 1e-05]"])
def test_lists_of_probabilities(cell: str, tmp_path: pathlib.Path) -> None:
    cells = [cell, "[0.5, 0.5]", "[0.3, 0.7]"]
    rows = [(f"v{number}", cells[number % 3]) for number in range(6)]
    with pytest.raises(UsageError, match=r"such as \['?0\..*may be probabilities"):
        read(write(tmp_path / "t.csv", [("id", "labels"), *rows]))
    with pytest.raises(UsageError, match=r"such as \['?0\..*may be probabilities"):
        read(
            write_json(
                tmp_path / "t.json", [{"id": name, "labels": [n / 8, 1 - n / 8]} for n, (name, _) in enumerate(rows)]
            )
        )


@pytest.mark.parametrize("name", ["labels_corrected", "new_labels", "Label (verified)", "gold label"])
def test_labels_beside_corrected_ones(name: str, tmp_path: pathlib.Path) -> None:
    rows = [(video, "cat", ";".join(labels)) for video, labels in MADE.items()]
    path = write(tmp_path / "t.csv", [("id", "labels", name), *rows])
    with pytest.raises(UsageError, match=r"--columns=labels=labels or --columns='?labels="):
        read(path)
    assert read(path, columns=[f"labels={name}"]) == MADE


@pytest.mark.parametrize("name", ["deleted", "is_removed", "excluded", "invalid"])
def test_rows_of_labels_that_were_deleted(name: str, tmp_path: pathlib.Path) -> None:
    rows = [(v, x, "" if x in labels else "yes") for v, labels in MADE.items() for x in NAMES]
    with pytest.raises(UsageError, match=rf'"{name}" .*may say which labels.*--columns=.*unused={name}'):
        read(write(tmp_path / "t.csv", [("id", "label", name), *rows]))


@pytest.mark.parametrize("form", ["Answer.{}", "Answer.{}.on", "What is shown? [{}]", "Q1[{}]", "label_{}"])
def test_columns_of_classes_with_what_forms_write_around_them(form: str, tmp_path: pathlib.Path) -> None:
    rows = [(v, *(int(name in labels) for name in NAMES)) for v, labels in MADE.items()]
    assert read(write(tmp_path / "t.csv", [("id", *map(form.format, NAMES)), *rows])) == MADE


def test_a_count_of_labels_and_a_fold_are_no_labels(tmp_path: pathlib.Path) -> None:
    rows = [(v, n % 5, len(x), *(int(name in x) for name in NAMES)) for n, (v, x) in enumerate(MADE.items())]
    assert read(write(tmp_path / "t.csv", [("id", "fold", "n_labels", *NAMES), *rows])) == MADE


@pytest.mark.parametrize("name", ["public transport", "active volcano", "private jet", "flag football"])
def test_classes_that_begin_like_remarks(name: str, tmp_path: pathlib.Path) -> None:
    rows = [(f"v{n}", n % 2, n % 3 == 0) for n in range(12)]
    rows = [(video, a, int(b)) for video, a, b in rows]
    truths = {v: sorted([name] * a + ["cat"] * b) for v, a, b in rows}
    assert read(write(tmp_path / "t.csv", [("id", name, "cat"), *rows])) == truths
    path = write(tmp_path / "u.csv", [("id", name, "cat", "dog", "hd"), *((*row, 1 - row[1], row[2]) for row in rows)])
    assert read(path) == {v: sorted([name] * a + ["cat"] * b + ["dog"] * (1 - a)) for v, a, b in rows}


def test_texts_that_a_database_cut_are_refused(tmp_path: pathlib.Path) -> None:
    """`bir`, of cells with at most 11 letters, was a class beside `bird`."""
    whole = [("id", "labels"), *((name, ",".join(labels)) for name, labels in truth(SHORT).items())]
    with pytest.raises(UsageError, match=r"than 11 signs.*ends in 'ott'.*--vocabulary=FILE"):
        read(write(tmp_path / "t.csv", [(name, text[:11]) for name, text in whole]))
    assert read(write(tmp_path / "u.csv", whole)) == {name: sorted(labels) for name, labels in truth(SHORT).items()}
    names = {name for _, text in whole[1:] for name in text[:11].split(",")}
    cut = read(tmp_path / "t.csv", vocabulary=sorted(names))
    assert set(cut) == set(truth(SHORT))
