"""Labels and ids that a program garbled are refused; signs around labels, and settings around rows, are taken away."""

from __future__ import annotations

import pathlib
import re
import uuid
from collections.abc import Sequence
from typing import Any

import cases
import numpy as np
import pytest
from table_files import SHORT, joined, read, truth, write, write_json

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

MADE = truth(SHORT)
SORTED = {video: sorted(labels) for video, labels in MADE.items()}


def labels_of(path: pathlib.Path, **flags: Any) -> dict[str, list[str]]:
    """As `read`, with the check that comes after all rows."""
    found = read(path, **flags)
    understand("--table", str(path), TableFlags(**flags)).refuse_combinations(
        {name for labels in found.values() for name in labels}
    )
    return found


def written(path: pathlib.Path, form: str, separator: str, names: Sequence[str] = SHORT) -> pathlib.Path:
    made = truth(names)
    return write(path / "t.csv", joined({v: [form.format(name) for name in made[v]] for v in made}, separator))


@pytest.mark.parametrize(("form", "separator"), [("`{}`", ", "), ("**{}**", ", "), ("*{}*", ";"), (":{}:", " ")])
def test_signs_around_all_labels_are_taken_away(form: str, separator: str, tmp_path: pathlib.Path) -> None:
    assert labels_of(written(tmp_path, form, separator)) == SORTED


def test_signs_around_some_labels_belong_to_them(tmp_path: pathlib.Path) -> None:
    names = ("`cat`", "dog", "fox")
    assert labels_of(written(tmp_path, "{}", ";", names)) == {v: sorted(labels) for v, labels in truth(names).items()}


@pytest.mark.parametrize(
    ("form", "separator", "names", "words"),
    [
        ("{}", "\x1f", SHORT, "cannot be printed"),
        ("{}", "%2C", SHORT, "escaped as in addresses, and means"),
        ("red%20{}", ";", SHORT, "means 'red bird'"),
        ("r\\u00f6d {}", ";", SHORT, "means 'r\u00f6d bird'"),
        ("<Label.{}: 2>", ";", SHORT, "a member of an enumeration"),
        ("{}", ";", ("K\u00c3\u00a4se", "Brot", "\u00c3\u2013l"), "'K\u00e4se' in UTF-8 which was read in another"),
    ],
)
def test_garbled_labels_are_refused(
    form: str, separator: str, names: Sequence[str], words: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(UsageError) as refusal:
        labels_of(written(tmp_path, form, separator, names))
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "names",
    [
        ("50% off", "100%"),
        ("0%FAT", "70%CACAO", "100%ACRYLIC"),
        ("K\u00e4se", "\u00d6l", "na\u00efve"),
        ("\u00c3", "\u00a4"),
        ("NESTL\u00c9\u00ae", "CAF\u00c9\u2019S", "Fu\u00df\u2013Rad"),
        ("J45.0: asthma", "S01.E02: Pilot", "Mr.Bean: the movie"),
        (":)", ":(", ":D"),
        (":Cat", ":Dog"),
    ],
)
def test_names_with_such_signs_are_names(names: Sequence[str], tmp_path: pathlib.Path) -> None:
    made = {video: sorted(labels) for video, labels in truth(names, most=len(names)).items()}
    assert labels_of(write(tmp_path / "t.csv", joined(made, ";"))) == made


def test_a_vocabulary_says_that_they_are_names(tmp_path: pathlib.Path) -> None:
    names = ("a%20b", "c%20d")
    made = {video: sorted(labels) for video, labels in truth(names, most=2).items()}
    path = write(tmp_path / "t.csv", joined(made, ";"))
    vocabulary = {name: number for number, name in enumerate(names)}
    assert labels_of(path, vocabulary=vocabulary) == made


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("1.2{:02}E+11", "was rounded by a spreadsheet"),
        ("1,2{:02}E+11", "was rounded by a spreadsheet"),
        ("b'v{:02}'", "how Python or a database prints an id"),
        ("ObjectId('{:024x}')", "how Python or a database prints an id"),
        ("v\x00{}", "cannot be printed"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_garbled_ids_are_refused(form: str, words: str, kind: str, tmp_path: pathlib.Path) -> None:
    rows = [(form.format(number), ";".join(labels)) for number, labels in enumerate(MADE.values())]
    if kind == "csv":
        path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    else:
        path = write_json(tmp_path / "t.json", [dict(zip(("id", "labels"), row, strict=True)) for row in rows])
    with pytest.raises(UsageError) as refusal:
        read(path)
    assert words in str(refusal.value)
    assert '"id"' in str(refusal.value)


@pytest.mark.parametrize("form", cases.all_of(["1.2{:02}E+11"], heavy=["b'v{:02}'", "UUID('{}')", "v\x00{}"]))
def test_ids_that_are_garbled_after_many_others_are_refused(form: str, tmp_path: pathlib.Path) -> None:
    ids = [*(f"a_long_id_of_a_video_{number}" for number in range(40_000)), form.format(7)]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((name, SHORT[n % 2]) for n, name in enumerate(ids))])
    table = understand("--table", str(path), TableFlags())
    with pytest.raises(UsageError, match=re.escape(repr(form.format(7)))):
        list(table.batches(8192))


def test_many_ids_with_usual_signs_are_taken(tmp_path: pathlib.Path) -> None:
    ids = [f"{name}{number}" for number in range(2000) for name in ("é", "E+", "b'", "a\u00a0b", "x (1E+", "UUID ")]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((name, SHORT[n % 2]) for n, name in enumerate(ids))])
    assert sum(rows.size for rows in understand("--table", str(path), TableFlags()).batches(8192)) == len(ids)


def test_ids_in_bytes_are_refused(tmp_path: pathlib.Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    ids = [uuid.UUID(int=number * 7919 + (5 << 100)).bytes for number in range(len(MADE))]
    table = pyarrow.table({"id": pyarrow.array(ids, pyarrow.binary(16)), "labels": list(MADE.values())})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(UsageError, match=r"text, such as str\(uuid\)"):
        read(tmp_path / "t.parquet")


def test_usual_ids_are_taken(tmp_path: pathlib.Path) -> None:
    names = ["1E5", "b'", "two\nlines", "\u00e9", "3.5", "-x_Y"]
    path = write(tmp_path / "t.csv", [("id", "labels"), *((name, SHORT[n % 2]) for n, name in enumerate(names))])
    assert sorted(read(path)) == sorted(names)


@pytest.mark.parametrize("column", ["label_2nd", "also", "second_kind"])
def test_labels_in_a_column_that_is_not_used_are_not_lost(column: str, tmp_path: pathlib.Path) -> None:
    rows = [(video, labels[0], labels[1] if len(labels) > 1 else "") for video, labels in MADE.items()]
    path = write(tmp_path / "t.csv", [("id", "label", column), *rows])
    with pytest.raises(UsageError) as refusal:
        read(path)
    assert f"--columns=labels=label+{column}" in str(refusal.value)
    assert read(path, columns=(f"unused={column}",)) == {video: labels[:1] for video, labels in MADE.items()}
    assert read(path, columns=(f"labels=label+{column}",)) == {v: sorted(labels[:2]) for v, labels in MADE.items()}
    assert read(path, columns=("labels=label",)) == {video: labels[:1] for video, labels in MADE.items()}


@pytest.mark.parametrize("column", ["place", "camera", "absent", "first", "genre_top", "predicted"])
def test_names_of_classes_in_other_columns_are_no_labels(column: str, tmp_path: pathlib.Path) -> None:
    rows = [(video, ";".join(labels), SHORT[n % 3]) for n, (video, labels) in enumerate(MADE.items())]
    path = write(tmp_path / "t.csv", [("id", "genres", column), *rows])
    if column == "predicted":
        with pytest.raises(UsageError, match="either"):
            read(path)
    else:
        assert read(path) == SORTED


def test_choices_of_a_form_are_named_without_their_question(tmp_path: pathlib.Path) -> None:
    columns = ["_id", "_uuid", "video", "seen", *(f"seen/{name}" for name in SHORT)]
    rows = [
        (1000 + number, f"u-{number}", video, " ".join(labels), *(int(name in labels) for name in SHORT))
        for number, (video, labels) in enumerate(MADE.items())
    ]
    assert read(write(tmp_path / "t.csv", [columns, *rows])) == SORTED


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_choices_without_their_question_keep_their_names(delimiter: str, tmp_path: pathlib.Path) -> None:
    names = ["w/o helmet", "w/o vest", "w/o boots"]
    made = truth(names)
    rows = [(video, *(int(name in labels) for name in names)) for video, labels in made.items()]
    path = write(tmp_path / "t.csv", [("id", *names), *rows], delimiter=delimiter)
    assert read(path) == {video: sorted(labels) for video, labels in made.items()}


@pytest.mark.parametrize("delimiter", [" ", ",", "\t"])
def test_classes_without_names_are_refused(delimiter: str, tmp_path: pathlib.Path) -> None:
    rows = [(f"{video}.mp4", *(int(name in labels) for name in SHORT)) for video, labels in MADE.items()]
    with pytest.raises(UsageError, match="5 columns of 0 and 1 have no names"):
        read(write(tmp_path / "t.csv", rows, delimiter=delimiter))


def test_commas_of_names_beside_commas_between_labels_are_asked_about(tmp_path: pathlib.Path) -> None:
    made = truth(["Speech", "Male speech, man speaking", "Dog", "Inside, small room", "Music"])
    path = write(tmp_path / "t.csv", joined(made, ","))
    with pytest.raises(UsageError, match=r"one name, because '[^']*' .*only there.*--label_separator=','"):
        read(path)
    assert "man speaking" in {name for labels in read(path, separator=",").values() for name in labels}


def test_commas_with_and_without_a_blank_stand_between_labels(tmp_path: pathlib.Path) -> None:
    rows = [(video, (", ", ",")[number % 2].join(labels)) for number, (video, labels) in enumerate(MADE.items())]
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *rows])) == SORTED


@pytest.mark.parametrize("dimension", ["ROWS", "COLUMNS"])
def test_an_answer_of_google_sheets(dimension: str, tmp_path: pathlib.Path) -> None:
    rows = [["id", "labels", "note"], *([video, ", ".join(labels)] for video, labels in MADE.items())]
    values = rows if dimension == "ROWS" else [[row[place] for row in rows] for place in range(2)]
    answer = {"range": "Sheet1!A1:B41", "majorDimension": dimension, "values": values}
    assert read(write_json(tmp_path / "t.json", answer)) == SORTED


@pytest.mark.parametrize("kind", ["edges", "nodes"])
def test_an_answer_of_graphql(kind: str, tmp_path: pathlib.Path) -> None:
    rows = [{"id": video, "labels": labels} for video, labels in MADE.items()]
    found = {"edges": [{"node": row, "cursor": "a"} for row in rows]} if kind == "edges" else {"nodes": rows}
    assert read(write_json(tmp_path / "t.json", {"data": {"videos": found}})) == SORTED


def test_a_page_of_graphql_and_a_graph_are_no_tables(tmp_path: pathlib.Path) -> None:
    rows = [{"id": video, "labels": labels} for video, labels in MADE.items()]
    page = {"nodes": rows, "pageInfo": {"hasNextPage": True}}
    with pytest.raises(UsageError, match=r"one page .*pageInfo"):
        read(write_json(tmp_path / "t.json", {"data": {"videos": page}}))
    edges = [{"id": "e0", "label": "next", "from": "v00", "to": "v01"}]
    with pytest.raises(UsageError):
        read(write_json(tmp_path / "t.json", {"nodes": rows, "edges": edges}))


def test_classes_in_lists_of_lists(tmp_path: pathlib.Path) -> None:
    rows = [["id", *SHORT], *([v, *(("FALSE", "TRUE")[name in MADE[v]] for name in SHORT)] for v in MADE)]
    assert read(write_json(tmp_path / "t.json", rows)) == SORTED
    assert (
        read(write_json(tmp_path / "t.json", {"range": "A1:F41", "majorDimension": "ROWS", "values": rows})) == SORTED
    )


def test_a_list_of_pairs_beside_settings_is_no_table(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError):
        read(write_json(tmp_path / "t.json", {"v1": [["cat", 0.9], ["dog", 0.8]], "model": "x"}))


def test_lines_of_an_id_a_label_and_a_split(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(
        "".join(f"{v} {labels[0]} {('train', 'test')[n % 2]}\n" for n, (v, labels) in enumerate(MADE.items()))
    )
    assert read(path) == {video: labels[:1] for video, labels in MADE.items()}


def test_lines_of_ids_and_labels_without_a_header(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("".join(f"{video} {' '.join(labels)}\n" for video, labels in MADE.items()))
    assert read(path) == SORTED


def test_lists_of_julia_and_files_of_datasets(tmp_path: pathlib.Path) -> None:
    cells = {video: ", ".join(f'"{name}"' for name in labels) for video, labels in MADE.items()}
    rows = [(video, f"String[{cell}]") for video, cell in cells.items()]
    assert read(write(tmp_path / "t.csv", [("id", "labels"), *rows])) == SORTED
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    videos = [{"bytes": None, "path": f"{video}.mp4"} for video in MADE]
    parquet.write_table(pyarrow.table({"video": videos, "labels": list(MADE.values())}), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet") == {f"{video}.mp4": labels for video, labels in SORTED.items()}


def test_an_empty_table_is_called_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(UsageError, match=r"t\.csv is empty"):
        read(tmp_path / "t.csv")
    np.savez(tmp_path / "t.npz", id=list(MADE), categories=[";".join(labels) for labels in MADE.values()])
    assert read(tmp_path / "t.npz") == SORTED
