"""A column that says no of the labels of some rows: it is read by its name or the user's word, or refused."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pytest
from table_files import NAMES, read, truth, write

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

MADE = {video: sorted(labels) for video, labels in truth().items()}
ASKED = [(video, name, name in labels) for video, labels in MADE.items() for name in NAMES]  # each about each class
POSITIVE = [(video, name) for video, labels in MADE.items() for name in labels]
SPELLINGS: list[tuple[Any, Any]] = [
    *((1, 0), (1, -1), ("1.0", "0.0"), ("+1", "-1"), ("yes", "no"), ("ja", "nein"), ("oui", "non"), ("sí", "no")),
    *(("True", "False"), ("T", "F"), ("y", "n"), ("x", ""), ("✓", ""), ("✓", "✗"), ("on", "off"), ("+", "-"), (3, 0)),
    *(
        ("👍", "👎"),
        ("○", "\u00d7"),
        ("1", "2"),
        (10, -10),
        ("P", "A"),
        ("V", "F"),
        ("match", "no match"),
        ("TP", "FP"),
    ),
    *(("accept", "reject"), ("correct", "incorrect"), ("present", "absent"), ("visible", "not visible")),
]


UNKNOWN = [("👍", "👎"), ("P", "A"), ("match", "no match")]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["mark", "detected", "in clip"])
def test_rows_that_deny_are_refused_or_read_as_the_user_says(
    name: str, spelling: tuple[Any, Any], tmp_path: pathlib.Path
) -> None:
    yes, no = spelling
    rows = [(video, label, yes if is_there else no) for video, label, is_there in ASKED]
    path = write(tmp_path / "t.csv", [("id", "label", name), *rows])
    with pytest.raises(UsageError, match=rf"column \"{name}\" .*may say which .*present={name}.*unused={name}"):
        read(path)
    assert read(path, columns=[f"unused={name}"]) == {video: sorted(NAMES) for video in MADE}
    if spelling in UNKNOWN:
        with pytest.raises(UsageError, match=r"yes or no\b"):
            read(path, columns=[f"present={name}"])
    elif spelling != ("1", "2"):  # they are counts, if the user says so
        assert read(path, columns=[f"present={name}"]) == MADE


@pytest.mark.parametrize("cells", [("yes", "no", "unsure"), ("1", "0", "?"), ("agree", "disagree", "unclear")])
def test_doubts_are_no_answer(cells: tuple[str, str, str], tmp_path: pathlib.Path) -> None:
    rows = [(v, x, cells[0] if y else cells[1 + (n % 5 == 0)]) for n, (v, x, y) in enumerate(ASKED)]
    path = write(tmp_path / "t.csv", [("id", "label", "mark"), *rows])
    with pytest.raises(UsageError, match="columns=present=mark"):
        read(path)
    with pytest.raises(UsageError, match=r"yes or no\b|no or not known"):
        read(path, columns=["present=mark"])


@pytest.mark.parametrize(
    "cells", [["low", "high", "none"], ["one", "zero"], [0.0, 2.5, 8.0], [-1.5, 2.25], ["1-5", "0"]]
)
def test_amounts_of_which_some_are_nothing(cells: list[Any], tmp_path: pathlib.Path) -> None:
    rows = [(v, x, cells[(3 * n + n // 7) % len(cells)]) for n, (v, x, _) in enumerate(ASKED)]
    with pytest.raises(UsageError, match=r'"much" .*may say which labels.*unused=much'):
        read(write(tmp_path / "t.csv", [("id", "label", "much"), *rows]))


@pytest.mark.parametrize("cells", [[0.9, 0.2], [0.55, 1.0, 0.05], ["90%", "5 %"]])
def test_scores_of_any_name_are_no_answer(cells: list[Any], tmp_path: pathlib.Path) -> None:
    rows = [(v, x, cells[n % len(cells)]) for n, (v, x, _) in enumerate(ASKED)]
    path = write(tmp_path / "t.csv", [("id", "label", "p"), *rows])
    with pytest.raises(UsageError, match=r"1 or 0 in place of.*scores"):
        read(path)


def _facts() -> dict[str, tuple[str, list[Any]]]:
    draw = random.Random(2)
    return {
        "of the video": ("hd", [int(video[1:]) % 2 for video, _ in POSITIVE]),
        "of the label": ("tame", ["yes" if name in ("cat", "dog") else "no" for _, name in POSITIVE]),
        "number of the label": ("code", [NAMES.index(name) for _, name in POSITIVE]),
        "number of the row": ("k", [MADE[video].index(name) for video, name in POSITIVE]),
        "a box": ("xmin", [draw.choice([0, 0.25, 0.5]) for _ in POSITIVE]),
        "a place in a picture": ("y0", [draw.randint(0, 9) for _ in POSITIVE]),
        "remarks": ("comment", [draw.choice(["", "nice", "far away"]) for _ in POSITIVE]),
        "where": ("camera_id", [draw.randint(0, 1) for _ in POSITIVE]),
        "two words": ("colour", [draw.choice(["red", "blue"]) for _ in POSITIVE]),
        "always the same": ("kind", [1 for _ in POSITIVE]),
        "large numbers": ("bytes", [draw.randint(0, 99999) for _ in POSITIVE]),
    }


@pytest.mark.parametrize("form", _facts())
def test_what_cannot_deny_is_no_answer(form: str, tmp_path: pathlib.Path) -> None:
    name, cells = _facts()[form]
    rows = [(*row, cell) for row, cell in zip(POSITIVE, cells, strict=True)]
    assert read(write(tmp_path / "t.csv", [("id", "label", name), *rows])) == MADE


def test_a_column_that_the_user_names_otherwise_is_no_answer(tmp_path: pathlib.Path) -> None:
    rows = [(video, name, len(name) % 2, "") for video, name in POSITIVE]
    path = write(tmp_path / "t.csv", [("id", "label", "site 2", "note"), *rows])
    table = understand("--table", str(path), TableFlags(columns=["unused=site 2+note"]))
    assert 'not used: "site 2"' in ", ".join(table.describe())


def test_answers_of_one_question_a_video(tmp_path: pathlib.Path) -> None:
    """Ids are not repeated, but the name says that the column is about the label."""
    rows = [(f"v{n}", NAMES[n % 5], ["yes", "no"][n % 3 == 0]) for n in range(20)]
    with pytest.raises(UsageError, match=r"columns=present=observed.*columns=unused=observed"):
        read(write(tmp_path / "t.csv", [("id", "label", "observed"), *rows]))
    expected = {video: [] if answer == "no" else [name] for video, name, answer in rows}
    assert read(tmp_path / "t.csv", columns=["present=observed"]) == expected


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("status", "approved", "rejected"), ("verdict", "true positive", "false positive"), ("deleted_at", "", "May 3")],
)
@pytest.mark.parametrize("rows_of_one_video", [1, 2])
def test_names_that_say_which_labels_are_right(
    name: str, right: str, wrong: str, rows_of_one_video: int, tmp_path: pathlib.Path
) -> None:
    rows = [(f"v{n // rows_of_one_video}", NAMES[n % 5], [right, wrong][n % 3 == 0]) for n in range(20)]
    with pytest.raises(UsageError, match=name):
        read(write(tmp_path / "t.csv", [("id", "label", name), *rows]))
    if name == "deleted_at":
        with pytest.raises(UsageError, match=r"says yes .*labels .*wrong.*--columns=present=COLUMN"):
            read(tmp_path / "t.csv", columns=["present=deleted_at"])


def test_columns_that_say_the_same_of_every_video_are_no_classes_beside_labels(tmp_path: pathlib.Path) -> None:
    rows = [(video, labels[0], "T", 1, "yes") for video, labels in MADE.items()]
    path = write(tmp_path / "t.csv", [("id", "label", "type", "channel", "Consent"), *rows])
    assert read(path) == {video: labels[:1] for video, labels in MADE.items()}


def test_facts_of_few_videos_with_several_rows_are_no_answer(tmp_path: pathlib.Path) -> None:
    rows = [("a", "cat"), ("a", "dog"), ("b", "cat"), ("b", "dog")]
    for name, cells in (("note", ("60.0", "100.0")), ("Observation duration", ("1", "0")), ("Media file", ("p", "q"))):
        path = write(tmp_path / "t.csv", [("id", "label", name), *((*row, cells[row[0] == "b"]) for row in rows)])
        assert read(path) == {"a": ["cat", "dog"], "b": ["cat", "dog"]}
    for cells in (("yes", "no"), ("1", "0")):
        path = write(tmp_path / "t.csv", [("id", "label", "note"), *((*row, cells[row[0] == "b"]) for row in rows)])
        with pytest.raises(UsageError, match=r'"note" .*may say which labels.*unused=note'):
            read(path)


def test_rejected_answers_of_mechanical_turk(tmp_path: pathlib.Path) -> None:
    header = ["HITId", "HITTypeId", "AssignmentStatus", "Input.video_url"]
    for end, cells in (("Answer.label", [0]), ("Answer.cat.on", range(2))):
        columns = [end, "Answer.dog.on"][: len(list(cells))]
        answers = [[NAMES[n % 5]] if len(columns) == 1 else [["true", "false"][n % 2], "false"] for n in range(12)]
        answers[3][-1:] = [answers[3][-1]] if len(columns) == 1 else ["true"]
        rows = [(f"H{n}", "T", "Approved" if n else "Rejected", f"v{n}", *answers[n]) for n in range(12)]
        path = write(tmp_path / "t.csv", [[*header, *columns], *rows])
        with pytest.raises(
            UsageError, match=r"were rejected, by \"AssignmentStatus\".*columns=unused=AssignmentStatus"
        ):
            read(path)
        found = read(path, columns=["unused=AssignmentStatus"])
        assert found["v2"] == (["bird"] if len(columns) == 1 else ["cat"])


def test_the_column_of_answers_needs_rows_of_labels(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("id", "cat", "dog", "ok"), *((f"v{n}", n % 2, n % 3 // 2, 1) for n in range(8))])
    with pytest.raises(UsageError, match=r"--columns=present=ok .*row for each"):
        read(path, columns=["present=ok"])


VERDICTS_ON_LABELS = [
    *(("label_ok", "yes", "no"), ("qa_result", "pass", "fail"), ("review", "ok", "wrong"), ("korrekt", "ja", "nein")),
    *(("is_label_correct", "True", "False"), ("remark", "right", "wrong"), ("Prüfung", "", "falsch")),
]


@pytest.mark.parametrize(("name", "yes", "no"), VERDICTS_ON_LABELS)
def test_a_verdict_on_the_only_label_of_a_video_is_asked_for(
    name: str, yes: str, no: str, tmp_path: pathlib.Path
) -> None:
    rows = [(f"v{n}", NAMES[n % 3], no if n % 7 == 0 else yes) for n in range(30)]
    path = write(tmp_path / "t.csv", [("id", "label", name), *rows])
    with pytest.raises(UsageError, match=rf'column "{name}" .*which labels'):
        read(path)
    assert read(path, columns=[f"unused={name}"]) == {video: [label] for video, label, _ in rows}


def test_hard_negatives_are_asked_for(tmp_path: pathlib.Path) -> None:
    rows = [(video, label, "pos" if is_there else "hard_neg") for video, label, is_there in ASKED]
    with pytest.raises(UsageError, match=r'column "set" .*which labels'):
        read(write(tmp_path / "t.csv", [("id", "label", "set"), *rows]))


def test_ids_that_end_in_the_name_of_a_class_are_refused(tmp_path: pathlib.Path) -> None:
    rows = [(f"ID_{video}_{label.replace(' ', '-')}", int(is_there)) for video, label, is_there in ASKED]
    path = write(tmp_path / "t.csv", [("ID", "Label"), *rows])
    with pytest.raises(UsageError, match=r"one of \d+ names.*--columns=present=Label.*--columns=labels=Label"):
        read(path)
    assert read(path, columns=["labels=Label"]) == {video: [str(label)] for video, label in rows}
    plain = write(tmp_path / "plain.csv", [("ID", "Label"), *((f"clip_a{n}", n % 2) for n in range(30))])
    assert len(read(plain)) == 30
