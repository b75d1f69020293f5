"""Tables by class: a row for each class with its videos, or a column for each video."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from table_files import NAMES, SHORT, read, truth, write, write_json

from yt8m.errors import UsageError

TRUTH = truth()
EXPECTED = {name: sorted(labels) for name, labels in TRUTH.items()}
VIDEOS = {label: [name for name, labels in TRUTH.items() if label in labels] for label in NAMES}
CELLS = [(label, *(int(label in x) for x in TRUTH.values())) for label in NAMES]


@pytest.mark.parametrize("header", [("label", "video"), ("class", "videos"), ("tag", "video_id"), ("species", "files")])
@pytest.mark.parametrize("join", ["|".join, "; ".join, ", ".join, " ".join, str])
def test_a_row_for_each_class(header: tuple[str, str], join: Callable[..., str], tmp_path: pathlib.Path) -> None:
    assert read(write(tmp_path / "t.csv", [header, *((label, join(x)) for label, x in VIDEOS.items())])) == EXPECTED


def test_a_row_for_each_class_whose_videos_do_not_recur(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("label", "video", "count"), ("cat", "v1|v14", 2), ("dog", "v2|v3", 2)])
    assert read(path) == {"v1": ["cat"], "v14": ["cat"], "v2": ["dog"], "v3": ["dog"]}


def test_records_by_class(tmp_path: pathlib.Path) -> None:
    assert read(write_json(tmp_path / "t.json", [{"label": x, "videos": ids} for x, ids in VIDEOS.items()])) == EXPECTED


def test_ids_that_may_be_one_are_asked_for(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", [("label", "id"), ("cat", "anna|bob"), ("dog", "carl|dora")])
    with pytest.raises(UsageError, match=r"'anna\|bob' .*several videos.*--columns=id=id"):
        read(path)
    assert read(path, columns=["id=id"]) == {"anna|bob": ["cat"], "carl|dora": ["dog"]}


@pytest.mark.parametrize("first", ["class", "label", "Species"])
def test_a_column_for_each_video(first: str, tmp_path: pathlib.Path) -> None:
    assert read(write(tmp_path / "t.csv", [(first, *TRUTH), *CELLS])) == EXPECTED


def test_a_column_for_each_video_and_a_row_of_labels(tmp_path: pathlib.Path) -> None:
    rows = [("id", *TRUTH), ("labels", *(";".join(x) for x in TRUTH.values()))]
    assert read(write(tmp_path / "t.csv", rows)) == EXPECTED


def test_a_table_that_may_be_turned_is_asked_for(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"each row .*a video .*each column .*a class"):
        read(write(tmp_path / "t.csv", [("", *TRUTH), *CELLS]))


def test_ids_with_commas_and_labels_of_their_own_are_no_lists(tmp_path: pathlib.Path) -> None:
    rows = [("id", "label"), ("Smith, 2010", "cat"), ("Smith, 2011", "dog"), ("Jones, 2010", "fox")]
    assert read(write(tmp_path / "t.csv", rows)) == {name: [label] for name, label in rows[1:]}


def test_many_columns_called_like_videos_beside_a_name_for_ids_are_asked_about(tmp_path: pathlib.Path) -> None:
    """The corner named the columns, and each video was a class."""
    made = truth(SHORT)
    rows = [(label, *(int(label in labels) for labels in made.values())) for label in SHORT]
    path = write(tmp_path / "t.csv", [("video_id", *made), *rows])
    with pytest.raises(UsageError, match=r"v00, v01, v02, .*--columns=id=video_id, or write class"):
        read(path)
    assert read(path, columns=("id=video_id",))["cat"][:1] == [next(v for v, x in made.items() if "cat" in x)]
    named = write(tmp_path / "u.csv", [("class", *made), *rows])
    assert read(named) == {name: sorted(labels) for name, labels in made.items()}
    numbered = write(tmp_path / "v.csv", [("id", *(f"label_{n}" for n in range(40))), *rows])
    assert len(read(numbered)) == len(SHORT)
