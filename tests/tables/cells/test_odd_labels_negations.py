"""Labels that are denied within a cell: refused, also with the separator that would make classes of them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

import pytest
from table_files import SHORT, read, truth, write, write_json

from yt8m.errors import UsageError

MADE = {video: sorted(labels) for video, labels in truth(SHORT).items()}


def others(labels: Sequence[str]) -> list[str]:
    """The classes that a video has not."""
    return [name for name in SHORT if name not in labels]


FORMS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "cat: yes; dog: no": lambda labels: [f"{name}: {'yes' if name in labels else 'no'}" for name in SHORT],
    "cat=true; dog=false": lambda labels: [f"{name}={'true' if name in labels else 'false'}" for name in SHORT],
    "cat present; dog absent": lambda x: [f"{name} {'present' if name in x else 'absent'}" for name in SHORT],
    "cat; no dog": lambda labels: [name if name in labels else f"no {name}" for name in SHORT],
    "one denial": lambda labels: [*labels, *(["no fox"] if "fox" not in labels and "cat" in labels else [])],
    "one answer": lambda labels: [*labels, *(f"{name}: no" for name in others(labels)[:1])],
    "cat; not dog": lambda labels: [*labels, f"not {others(labels)[0]}"],
    "cat; !dog": lambda labels: [*labels, f"!{others(labels)[0]}"],
    "cat; dog (absent)": lambda labels: [*labels, f"{others(labels)[0]} (absent)"],
    "cat+; dog-": lambda labels: [f"{name}{'+' if name in labels else '-'}" for name in SHORT],
    "cat ✓; dog ✗": lambda labels: [f"{name} {'✓' if name in labels else '✗'}" for name in SHORT],
    "cat (y); dog (n)": lambda labels: [f"{name} ({'y' if name in labels else 'n'})" for name in SHORT],
    "cat; kein dog": lambda labels: [*labels, f"kein {others(labels)[0]}"],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("separator", [";", ", ", "|"])
def test_denials_in_cells_are_refused(form: str, separator: str, tmp_path: pathlib.Path) -> None:
    cells = {video: FORMS[form](labels) for video, labels in MADE.items()}
    rows = [(video, separator.join(names)) for video, names in cells.items()]
    path = write(tmp_path / "t.csv", [("id", "labels"), *rows])
    for flag in ("auto", separator.strip()):
        with pytest.raises(UsageError, match=r"deny .*label '.*--vocabulary=FILE"):
            read(path, separator=flag)
    names = {name for row in cells.values() for name in row}
    assert read(path, vocabulary=names) == {video: sorted(row) for video, row in cells.items()}
    with pytest.raises(UsageError, match=r"deny .*label '.*--vocabulary=FILE"):
        read(write_json(tmp_path / "t.json", [{"id": video, "labels": row} for video, row in cells.items()]))


@pytest.mark.parametrize(
    "names",
    [
        ["fiction", "non-fiction", "poetry"],
        ["helmet", "no-helmet", "vest", "gloves"],
        ["A+", "A-", "B+", "0-"],
        ["answer: yes", "wide", "plain"],
    ],
)
def test_names_of_one_label_in_each_cell_stay_names(names: list[str], tmp_path: pathlib.Path) -> None:
    rows = [(f"v{number:02}", names[number % len(names)]) for number in range(24)]
    assert read(write(tmp_path / "t.csv", [("id", "label"), *rows])) == {video: [name] for video, name in rows}


@pytest.mark.parametrize(
    "names", [["no smoking", "exit", "stairs"], ["x-ray", "T-", "sea"], ["Yes: live", "no wave", "pop"]]
)
def test_names_that_only_look_like_denials(names: list[str], tmp_path: pathlib.Path) -> None:
    made = {video: sorted(labels) for video, labels in truth(names, most=2).items()}
    path = write(tmp_path / "t.csv", [("id", "labels"), *((video, ";".join(labels)) for video, labels in made.items())])
    assert read(path) == made
