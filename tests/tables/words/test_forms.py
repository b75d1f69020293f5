"""Answers to forms, as KoBo and ODK export them: groups before the names of questions, and ids of submissions."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest
from table_files import SHORT, read, truth, write

TRUTH = truth(SHORT, fewest=0)
EXPECTED = {name: sorted(labels) for name, labels in TRUTH.items()}
KOBO, ODK = ("_id", "_uuid", "_submission_time"), ("SubmissionDate", "KEY", "meta-instanceID")
FOXES = ("red-fox", "red-panda", "red-kite")


def written(
    path: pathlib.Path, program: Sequence[str], video: str, question: str, choice: str, names: Sequence[str] = SHORT
) -> pathlib.Path:
    """A table of answers; `choice` is the name of the column of a choice, and `question` of all of them, if any."""
    made = TRUTH if names is SHORT else truth(names)
    header = [*program, video, *filter(None, [question]), *(choice.format(name) for name in names)]
    rows = [
        [f"{start}{n}" for start in ("2026-01-", "uuid:", "x")]
        + [name, *([" ".join(labels)] if question else []), *(int(label in labels) for label in names)]
        for n, (name, labels) in enumerate(made.items())
    ]
    return write(path / "t.csv", [header, *rows])


@pytest.mark.parametrize(
    ("program", "video", "question", "choice"),
    [
        (KOBO, "video", "g1/seen", "g1/seen/{}"),
        (KOBO, "g0/video", "g1/seen", "g1/seen/{}"),
        (KOBO, "g0/video", "", "g1/seen/{}"),
        (KOBO, "video", "", "seen/{}"),
        (KOBO, "video", "seen", "seen.{}"),
        (KOBO, "video", "", "seen.{}"),
        (ODK, "video", "", "g1.seen.{}"),
        (ODK, "g1-video", "g1-seen", "g1-seen/{}"),
        (ODK, "g1-video", "g1-seen", "g1-seen-{}"),
        (ODK, "video", "seen", "seen-{}"),
        (ODK, "video", "", "g1-seen/{}"),
        (ODK, "video", "", "seen-{}"),
        (ODK, "g1-video", "", "g1-seen-{}"),
    ],
)
def test_choices_have_their_own_names(
    program: Sequence[str], video: str, question: str, choice: str, tmp_path: pathlib.Path
) -> None:
    assert read(written(tmp_path, program, video, question, choice)) == EXPECTED


def test_choices_with_the_sign_of_groups(tmp_path: pathlib.Path) -> None:
    expected = {name: sorted(labels) for name, labels in truth(FOXES).items()}
    assert read(written(tmp_path, ODK, "video", "seen", "seen-{}", FOXES)) == expected
    whole = {name: [f"seen-{label}" for label in labels] for name, labels in expected.items()}
    assert read(written(tmp_path, ODK, "video", "", "seen-{}", FOXES)) == whole


def test_a_submission_is_no_video(tmp_path: pathlib.Path) -> None:
    rows = [(f"u{n}", n, "2026-01-01", f"v{n // 2}", ("cat", "dog", "fox")[n % 3]) for n in range(12)]
    path = write(tmp_path / "t.csv", [("_uuid", "_id", "_submission_time", "g1/video", "g1/species"), *rows])
    assert read(path)["v0"] == ["cat", "dog"]
    chosen = read(path, columns=("id=_uuid",))
    assert chosen["u0"] == ["cat"]


@pytest.mark.parametrize("header", [("id", "a/cat", "a/dog"), ("_id", "_index", "a/cat", "a/dog")])
def test_other_tables_keep_the_names_of_their_columns(header: Sequence[str], tmp_path: pathlib.Path) -> None:
    rows = [(f"v{n}", *[n + 7] * (len(header) - 3), n % 2, int(n % 3 == 0)) for n in range(6)]
    assert read(write(tmp_path / "t.csv", [header, *rows]))["v3"] == ["a/cat", "a/dog"]


def test_what_a_program_says_of_the_answers_is_no_label_and_no_time(tmp_path: pathlib.Path) -> None:
    """`_tags` had the labels, by its name, and `start` is when somebody opened the form."""
    moment = "2026-05-01T10:11:12.123+02:00"
    rows = [
        (moment, moment, name, *(int(x in labels) for x in SHORT), n, n, "", "x")
        for n, (name, labels) in enumerate(TRUTH.items())
    ]
    header = (
        "start",
        "end",
        "video",
        *(f"seen/{name}" for name in SHORT),
        "_id",
        "_submission_time",
        "_tags",
        "_status",
    )
    assert read(write(tmp_path / "t.csv", [header, *rows])) == EXPECTED
    assert read(write(tmp_path / "u.csv", [header, *((*row[:-2], "raw", "x") for row in rows)])) == EXPECTED
