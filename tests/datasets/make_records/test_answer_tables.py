"""Answers of people in a table, which `make-records --labels` and `relabel --labels` take: what a row says."""

from __future__ import annotations

import json
import pathlib

import pyarrow as pa
import pytest
from made_records import labels_of
from pyarrow import parquet

from yt8m.datasets.make_records.human_labels import read_answers, write_answers
from yt8m.errors import RunError, UsageError
from yt8m.tables.exports.label_studio import Answer

NAMES = frozenset(["cat", "dog", "rest, break"])


def read(folder: pathlib.Path, text: str, name: str = "answers.csv") -> dict[str, tuple[str, ...]]:
    (folder / name).write_text(text)
    return {video: answer.labels for video, answer in read_answers(str(folder / name), NAMES).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('id,labels\na,dog;cat\nb,"rest, break"\n', {"a": ("cat", "dog"), "b": ("rest, break",)}),
        ("video,label\na,cat\na,dog\nb,cat\n", {"a": ("cat", "dog"), "b": ("cat",)}),
        ("id,cat,dog\na,1,0\nb,0,0\nc,1,1\n", {"a": ("cat",), "b": (), "c": ("cat", "dog")}),
        ("id;labels\na;cat|dog\n", {"a": ("cat", "dog")}),
        ("id,labels\n7,cat\n", {"7": ("cat",)}),
    ],
)
def test_forms_of_tables_are_those_of_make_records(
    text: str, expected: dict[str, tuple[str, ...]], tmp_path: pathlib.Path
) -> None:
    assert read(tmp_path, text) == expected


def test_other_files_of_rows_are_read_too(tmp_path: pathlib.Path) -> None:
    assert read(tmp_path, json.dumps({"a": ["cat"], "b": []}), "a.json") == {"a": ("cat",), "b": ()}
    assert read(tmp_path, '{"id": "a", "labels": ["cat"]}\n', "a.jsonl") == {"a": ("cat",)}
    table = pa.table({"id": ["a", "b", "c"], "labels": [["dog", "cat"], [], None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    answers = read_answers(str(tmp_path / "a.parquet"), NAMES)
    assert {video: answer.labels for video, answer in answers.items()} == {"a": ("cat", "dog"), "b": ()}


def test_an_empty_row_is_no_answer_and_none_is_one(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(tmp_path, "id,labels\na,cat\nb,\nc,(none)\nd,todo\n") == {"a": ("cat",), "c": ()}
    said = capsys.readouterr().err
    assert "has 2 videos without a label, such as 'b'" in said
    assert "Write (none) if" in said
    rows = "id,labels\na,cat\na,dog\nb,\nc,(none)\n"  # a row for each label
    assert read(tmp_path, rows) == {"a": ("cat", "dog"), "c": ()}
    assert "has 1 video without a label" in capsys.readouterr().err


def test_what_select_has_chosen_is_answered_in_the_column_label(tmp_path: pathlib.Path) -> None:
    text = (
        "rank,video,value,distance,classes,label\n"
        "1,'-a,1.9,0.3,cat 0.412; dog 0.3,dog\n"
        "2,b,1.7,0.2,cat 0.4; dog 0.2,\n"
        "3,''=c,1.7,0.2,cat 0.4; dog 0.2,(none)\n"
    )
    assert read(tmp_path, text) == {"-a": ("dog",), "'=c": ()}


def test_joint_answers_are_read_back(tmp_path: pathlib.Path) -> None:
    answers = {"a": Answer(("cat", "dog"), 3, 0.333), "-b": Answer((), 2, 1.0), "c": Answer(("rest, break",), 1, 0.0)}
    write_answers(str(tmp_path / "answers.csv"), answers, ";")
    assert read_answers(str(tmp_path / "answers.csv"), NAMES) == answers
    (tmp_path / "answers.csv").write_text("video,labels,people,disagreement\na,cat,many,0\n")
    with pytest.raises(RunError, match=r"row 1 \(line 2\): .*number of people.*share"):
        read_answers(str(tmp_path / "answers.csv"), NAMES)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("video,label,start,end\na,cat,1,2\nb,cat,1,2\n", r"--labels=.* parts of videos.*--rows=spans"),
        ("video,label,start,end\na,cat,1,2\na,dog,2,3\n", "--rows=spans.* These flags are for --table"),
        ("a,cat\nb,dog\n", "columns id and labels"),
        ("id,labels\na,cat\nb,cat\nc,dog\nd,cat\na,cat\n", r"row 5 \(line 6\): row 1 \(line 2\) has the same id, 'a'"),
        ("id,labels\na,cat\n,cat\n", r"row 2 \(line 3\): the id is empty"),
        ("", "is empty"),
    ],
)
def test_what_is_no_answer_is_refused(text: str, match: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises((UsageError, RunError), match=match):
        read(tmp_path, text)


def test_answers_in_a_table_replace_labels_of_the_table(tmp_path: pathlib.Path, run: object) -> None:
    assert callable(run)
    before = labels_of(run())
    (tmp_path / "answers.csv").write_text("id,labels\nclip 001,dog\nclip 002,(none)\nclip 003,\n")
    made = run(out=str(tmp_path / "answered"), labels=str(tmp_path / "answers.csv"))
    assert labels_of(made) == before | {"clip 001": {"dog"}, "clip 002": set()}
