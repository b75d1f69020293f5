"""JSON whose rows have numbers of classes, ids of tags or 0/1 vectors, with the names of the classes beside them."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from table_files import NAMES, read, truth, write_json

from yt8m.errors import UsageError

TRUTH = truth()
TAGS = [{"id": number, "name": name, "color": "#fff"} for number, name in enumerate(NAMES, 7)]


def vector(labels: Sequence[str]) -> list[int]:
    return [int(name in labels) for name in NAMES]


def numbers(labels: Sequence[str], first: int = 0) -> list[int]:
    return [NAMES.index(name) + first for name in labels]


def rows(column: str, cell: Callable[[Sequence[str]], Any]) -> list[dict[str, Any]]:
    return [{"id": name, column: cell(labels)} for name, labels in TRUTH.items()]


def by_id(cell: Callable[[Sequence[str]], Any]) -> dict[str, Any]:
    return {name: cell(labels) for name, labels in TRUTH.items()}


FORMS: dict[str, Any] = {
    "vectors by id": {"classes": NAMES, "labels": by_id(vector)},
    "vectors in samples": {"classes": NAMES, "samples": rows("labels", vector)},
    "vectors in annotations": {"categories": NAMES, "annotations": rows("label", vector)},
    "vectors of floats": {"class_names": NAMES, "data": rows("target", lambda x: list(map(float, vector(x))))},
    "vectors of true and false": {"classes": NAMES, "videos": rows("labels", lambda x: list(map(bool, vector(x))))},
    "vectors by id below a key": {"classes": NAMES, "videos": by_id(vector)},
    "vectors by id in objects": {"classes": NAMES, "videos": by_id(lambda x: {"labels": vector(x)})},
    "numbers by id below a key": {"classes": NAMES, "annotations": by_id(numbers)},
    "ids of tags": {"tags": TAGS, "videos": rows("tag_ids", lambda x: numbers(x, 7))},
    "ids of labels": {"labels": TAGS, "clips": rows("labels", lambda x: numbers(x, 7))},
    "objects with ids": {"tags": TAGS, "videos": rows("tags", lambda x: [{"id": number} for number in numbers(x, 7)])},
    "ids by number": {
        "genres": {str(number): name for number, name in enumerate(NAMES)},
        "movies": rows("genre_ids", numbers),
    },
    "texts as ids": {
        "tags": [{"id": f"t{number}", "title": name} for number, name in enumerate(NAMES)],
        "videos": rows("tags", lambda x: [f"t{number}" for number in numbers(x)]),
    },
    "vectors beside other keys": {
        "info": {"version": 1},
        "classes": NAMES,
        "users": [{"id": 1, "name": "ann"}],
        "videos": rows("labels", vector),
    },
    "names in the head of a file": {"meta": {"class_names": NAMES}, "annotations": by_id(vector)},
    "vectors of texts": {"classes": NAMES, "videos": rows("labels", lambda x: list(map(str, vector(x))))},
    "vectors in texts": {"classes": NAMES, "videos": rows("labels", lambda x: " ".join(map(str, vector(x))))},
    "numbers as texts": {"classes": NAMES, "videos": rows("labels", lambda x: list(map(str, numbers(x))))},
    "names already": {"classes": NAMES, "videos": rows("labels", list)},
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_have_the_names_that_stand_beside_them(tmp_path: pathlib.Path, form: str) -> None:
    assert read(write_json(tmp_path / "t.json", FORMS[form])) == {name: sorted(x) for name, x in TRUTH.items()}


def test_splits_beside_names_are_rows(tmp_path: pathlib.Path) -> None:
    made = rows("labels", vector)
    path = write_json(tmp_path / "t.json", {"classes": NAMES, "train": made[:30], "val": made[30:]})
    assert read(path) == {name: sorted(x) for name, x in TRUTH.items()}


def refusal(path: pathlib.Path, value: Any) -> str:
    with pytest.raises(UsageError) as refused:
        read(write_json(path / "t.json", value))
    return str(refused.value)


def test_two_classes_of_which_each_video_has_one_are_refused(tmp_path: pathlib.Path) -> None:
    value = {"classes": ["cat", "dog"], "labels": {"v1": [1, 0], "v2": [0, 1]}}
    assert "numbers of two classes" in refusal(tmp_path, value)


def test_vectors_of_another_length_are_refused(tmp_path: pathlib.Path) -> None:
    value = {"classes": NAMES, "videos": [{"id": "v1", "labels": [1, 0, 0]}, {"id": "v2", "labels": [1, 1, 0]}]}
    assert '"classes" names 5 classes' in refusal(tmp_path, value)


def test_null_in_a_vector_is_refused(tmp_path: pathlib.Path) -> None:
    value = {"classes": ["cat", "dog", "fox"], "labels": {"v1": [1, None, 0], "v2": [1, 1, 0]}}
    assert "null in [1, None, 0] may mean" in refusal(tmp_path, value)


@pytest.mark.parametrize("end", ["<pad>", 0])
def test_other_items_that_fill_lists_are_refused(tmp_path: pathlib.Path, end: Any) -> None:
    cells = {n: numbers(x, 1) if end == 0 else list(x) for n, x in TRUTH.items()}
    made = [{"id": n, "labels": [*x, *[end] * (3 - len(x))]} for n, x in cells.items()]
    assert "may fill lists" in refusal(tmp_path, made)


def test_a_number_without_a_name_is_refused(tmp_path: pathlib.Path) -> None:
    value = {"tags": TAGS, "videos": [{"id": "v1", "tag_ids": [7]}, {"id": "v2", "tag_ids": [99]}]}
    assert re.search('"tags" .*class 99', refusal(tmp_path, value))


@pytest.mark.parametrize("end", ["", None, -1])
def test_lists_filled_up_at_their_end(tmp_path: pathlib.Path, end: Any) -> None:
    made = truth(fewest=0)
    cells = {n: numbers(x) if end == -1 else list(x) for n, x in made.items()}
    path = write_json(tmp_path / "t.json", [{"id": n, "labels": [*x, *[end] * (3 - len(x))]} for n, x in cells.items()])
    assert read(path) == {name: sorted(map(str, cell)) for name, cell in cells.items()}


def test_minus_one_that_may_deny_a_class_is_refused(tmp_path: pathlib.Path) -> None:
    assert "-1 in" in refusal(tmp_path, [{"id": "v1", "labels": [1, -1, 1]}, {"id": "v2", "labels": [-1, -1, 1]}])
