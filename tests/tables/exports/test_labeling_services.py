"""Exports of Hasty, Encord and Scale AI, and data whose pictures were searched for some classes alone."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from table_files import SHORT, read, truth, write_json

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

TRUTH = truth(SHORT, fewest=0)
EXPECTED = {f"{name}.mp4": sorted(labels) for name, labels in TRUTH.items()}


def said_of(path: pathlib.Path) -> str:
    return "; ".join(understand("--table", str(path), TableFlags()).describe())


def hasty(tags: bool, labels: bool, grouped: bool = False, folder: str = "d") -> dict[str, Any]:
    images = [
        {
            "image_id": f"u{n}",
            "image_name": f"{name}.mp4",
            "dataset_name": folder if n % 2 else "d",
            "tags": ([{"group_name": "g", "tags": x}] if grouped else x) if tags else [],
            "labels": [{"class_name": label, "bbox": [0, 1, 2, 3]} for label in x] if labels else [],
        }
        for n, (name, x) in enumerate(TRUTH.items())
    ]
    classes = [{"class_name": name, "class_type": "object"} for name in SHORT]
    return {"project_name": "p", "export_format_version": "1.1", "label_classes": classes, "images": images}


@pytest.mark.parametrize(
    ("tags", "labels", "grouped"), [(True, False, True), (True, False, False), (False, True, False)]
)
def test_hasty_names_files(tags: bool, labels: bool, grouped: bool, tmp_path: pathlib.Path) -> None:
    assert read(write_json(tmp_path / "t.json", hasty(tags, labels, grouped))) == EXPECTED


def test_tags_and_labels_of_hasty_are_refused_with_the_flag(tmp_path: pathlib.Path) -> None:
    value = hasty(True, True)
    value["images"][5]["tags"] = ["night"]
    path = write_json(tmp_path / "t.json", value)
    with pytest.raises(UsageError, match=r"--columns=labels=tags or --columns=labels=labels\b.* all "):
        read(path)
    assert read(path, columns=("labels=labels",)) == EXPECTED
    assert read(path, columns=("labels=tags",))["v05.mp4"] == ["night"]
    assert read(path, columns=("labels=tags+labels",))["v05.mp4"] == sorted(["night", *TRUTH["v05"]])


def test_files_of_one_name_in_two_folders_of_hasty(tmp_path: pathlib.Path) -> None:
    value = hasty(True, False, folder="e")
    value["images"][1]["image_name"] = value["images"][0]["image_name"]
    found = read(write_json(tmp_path / "t.json", value))
    assert found["d/v00.mp4"] == sorted(TRUTH["v00"])
    assert found["e/v00.mp4"] == sorted(TRUTH["v01"])


def encord(objects: bool, answers: bool) -> list[dict[str, Any]]:
    rows = []
    for n, (name, x) in enumerate(TRUTH.items()):
        marks = {str(10 * k): {"objects": [{"name": label}], "classifications": []} for k, label in enumerate(x)}
        unit = {"data_hash": f"d{n}", "data_title": f"{name}.mp4", "labels": marks if objects else {}}
        answer = {"name": "What", "answers": [{"name": label, "value": label} for label in x]}
        rows.append(
            {
                "label_hash": f"h{n}",
                "data_title": f"{name}.mp4",
                "data_units": {f"d{n}": unit},
                "classification_answers": {"c": {"classifications": [answer]}} if answers else {},
                "label_status": "LABELLED",
            }
        )
    return [*rows, {**rows[0], "data_title": "other.mp4", "label_status": "NOT_LABELLED"}]


@pytest.mark.parametrize(("objects", "answers"), [(True, False), (False, True)])
def test_encord(objects: bool, answers: bool, tmp_path: pathlib.Path) -> None:
    path = write_json(tmp_path / "t.json", encord(objects, answers))
    assert read(path) == EXPECTED
    assert "Encord; 1 that nobody" in said_of(path)


def test_objects_and_answers_of_encord_are_refused_with_the_flag(tmp_path: pathlib.Path) -> None:
    path = write_json(tmp_path / "t.json", encord(True, True))
    with pytest.raises(UsageError, match=r"--columns=labels=objects or --columns=labels=What"):
        read(path)
    assert read(path, columns=("labels=What",)) == EXPECTED
    with pytest.raises(UsageError, match=r"Encord .*no 'Who'.*: objects, What"):
        read(path, columns=("labels=Who",))


def scale(response: Any, metadata: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "task_id": f"t{n}",
            "status": "completed",
            "params": {"attachment": f"https://x/{name}.mp4"},
            "response": response(x),
            "metadata": {"id": f"{name}.mp4"} if metadata else {},
        }
        for n, (name, x) in enumerate(TRUTH.items())
    ]


@pytest.mark.parametrize(
    "response",
    [
        lambda x: {"annotations": [{"label": label, "left": 1, "type": "box"} for label in x]},
        lambda x: {"category": x},
        lambda x: {"annotations": {"What": {"response": [x]}}},
    ],
)
@pytest.mark.parametrize("metadata", [True, False])
def test_scale_ai(response: Any, metadata: bool, tmp_path: pathlib.Path) -> None:
    tasks = [*scale(response, metadata), {"task_id": "open", "params": {"attachment": "y"}, "status": "pending"}]
    path = write_json(tmp_path / "t.json", tasks)
    assert read(path) == {name if metadata else f"https://x/{name}": labels for name, labels in EXPECTED.items()}
    assert ('ids from "metadata.id"' in said_of(path)) is metadata
    assert "1 that nobody" in said_of(path)


def test_answers_that_a_reviewer_rejected(tmp_path: pathlib.Path) -> None:
    tasks = scale(lambda x: {"category": x})
    for task in tasks:
        task["customer_review_status"] = "accepted"
    path = write_json(tmp_path / "t.json", tasks)
    assert len(read(path)) == len(EXPECTED)
    tasks[3]["customer_review_status"] = "rejected"
    path = write_json(tmp_path / "u.json", tasks)
    assert "https://x/v03.mp4" not in read(path)
    assert "1 whose answers" in said_of(path)


@pytest.mark.parametrize("response", [None, {"category": "a"}])
def test_tasks_with_labels_of_their_own(response: Any, tmp_path: pathlib.Path) -> None:
    tasks = [
        {"task_id": name, "params": {"x": 1}, "response": response if n else None, "labels": labels}
        for n, (name, labels) in enumerate(EXPECTED.items())
    ]
    assert read(write_json(tmp_path / "t.json", tasks)) == EXPECTED


def test_responses_of_scale_ai_without_labels_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"Scale AI has transcription\b.*no labels"):
        read(write_json(tmp_path / "t.json", scale(lambda x: {"transcription": " ".join(x)})))


def test_classes_that_were_not_looked_for_are_said(tmp_path: pathlib.Path) -> None:
    value: dict[str, Any] = {
        "images": [{"id": n, "file_name": name, "neg_category_ids": [1]} for n, name in enumerate(EXPECTED)],
        "categories": [{"id": n, "name": name} for n, name in enumerate(SHORT)],
        "annotations": [
            {"image_id": n, "category_id": SHORT.index(label)} for n, x in enumerate(TRUTH.values()) for label in x
        ],
    }
    path = write_json(tmp_path / "t.json", value)
    assert read(path) == EXPECTED
    assert "for some classes alone" in said_of(path)
    for image in value["images"]:
        del image["neg_category_ids"]
    assert "searched" not in said_of(write_json(tmp_path / "u.json", value))
