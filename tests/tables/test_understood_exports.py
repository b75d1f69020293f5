"""Labels in JSON, Parquet, workbooks and exports of other programs: each form is read as it is meant."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from table_files import NAMES, Form, Truth, joined, read, truth, write, write_json

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

FORMS: dict[str, Form] = {}


def form(function: Form) -> Form:
    FORMS[function.__name__] = function
    return function


@form
def json_records(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    return write_json(
        folder / "t.json", [{"id": n, "labels": x, "seconds": 3} for n, x in truth(fewest=0).items()]
    ), truth(fewest=0)


@form
def json_by_id(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    return write_json(folder / "t.json", truth(fewest=0)), truth(fewest=0)


@form
def json_by_id_with_columns(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    value = {name: {"tags": labels, "split": "train"} for name, labels in truth().items()}
    return write_json(folder / "t.json", value), truth()


@form
def json_by_id_with_classes(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    value = {name: {x: int(x in labels) for x in NAMES} for name, labels in truth(fewest=0).items()}
    return write_json(folder / "t.json", value), truth(fewest=0)


@form
def json_of_pandas(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth()
    value = {"id": dict(enumerate(made)), "labels": dict(enumerate(made.values()))}
    return write_json(folder / "t.json", value), made


@form
def json_split_of_pandas(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    data = [[name, ",".join(labels)] for name, labels in truth().items()]
    return write_json(folder / "t.json", {"columns": ["id", "tags"], "index": list(range(40)), "data": data}), truth()


@form
def json_inside_an_object(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    """As MSR-VTT has its videos beside its sentences."""
    videos = [
        {"video_id": n, "category": x[0], "split": "train", "start time": 1.0, "id": k}
        for k, (n, x) in enumerate(truth(most=1).items())
    ]
    return write_json(folder / "t.json", {"info": {}, "videos": videos, "sentences": [{"caption": "a"}]}), truth(most=1)


@form
def metadata_of_hugging_face(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(end=".mp4")
    path = folder / "metadata.jsonl"
    path.write_text("".join(json.dumps({"file_name": n, "labels": x}) + "\n" for n, x in made.items()))
    return path, made


@form
def doccano(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path = folder / "all.jsonl"
    path.write_text(
        "".join(
            json.dumps({"id": 7 + k, "text": n, "label": x}) + "\n" for k, (n, x) in enumerate(truth(fewest=0).items())
        )
    )
    return path, truth(fewest=0)


@form
def coco(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(fewest=0, end=".jpg")
    images = [{"id": 100 + k, "file_name": name, "width": 3} for k, name in enumerate(made)]
    annotations = [
        {"id": 7 * k + NAMES.index(x), "image_id": 100 + k, "category_id": 3 * NAMES.index(x) + 1, "bbox": [0, 0, 1, 1]}
        for k, labels in enumerate(made.values())
        for x in labels
    ]
    categories = [{"id": 3 * k + 1, "name": name} for k, name in enumerate(NAMES)]
    return write_json(folder / "t.json", {"images": images, "annotations": annotations, "categories": categories}), made


def label_studio_result(kind: str, labels: list[str]) -> list[dict[str, Any]]:
    if kind == "taxonomy":
        value: dict[str, Any] = {"taxonomy": [["animal", name] for name in labels]}
    else:
        value = {"start": 0, "end": 1, kind: labels}
    return [{"from_name": "tag", "to_name": "video", "type": kind, "value": value}] if labels else []


def label_studio(kind: str) -> Form:
    def make(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
        made = truth()
        tasks = [
            {
                "id": k,
                "data": {"video": name},
                "annotations": [{"completed_by": 1, "result": label_studio_result(kind, x)}],
            }
            for k, (name, x) in enumerate(made.items())
        ]
        if kind == "taxonomy":
            made = {name: [f"animal/{x}" for x in labels] for name, labels in made.items()}
        return write_json(folder / "t.json", tasks), made

    return make


for _kind in ("choices", "labels", "timelinelabels", "taxonomy"):
    FORMS[f"Label Studio with {_kind}"] = label_studio(_kind)


@form
def label_studio_min(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    rows = [
        {
            "video": n,
            "id": 30 + k,
            "choice": x[0] if len(x) == 1 else {"choices": x},
            "annotator": 1,
            "annotation_id": k,
        }
        | {"created_at": "2026-01-01T10:00:00Z", "updated_at": "2026-01-01T10:00:00Z", "lead_time": 3.5}
        for k, (n, x) in enumerate(truth().items())
    ]
    return write_json(folder / "t.json", rows), truth()


@form
def label_studio_table(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    header = ("annotation_id", "annotator", "video", "created_at", "id", "lead_time", "sound", "updated_at")
    rows = [
        (k, 1, name, "2026-01-01", 90 + k, 3.5, json.dumps({"choices": x}) if len(x) > 1 else x[0], "2026-01-02")
        for k, (name, x) in enumerate(truth().items())
    ]
    return write(folder / "t.csv", [header, *rows]), truth()


@form
def via(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(fewest=0, end=".jpg")
    value = {
        f"{n}123": {"filename": n, "size": 1, "regions": [], "file_attributes": {"kind": dict.fromkeys(x, True)}}
        for n, x in made.items()
    }
    return write_json(folder / "t.json", {"_via_settings": {}, "_via_img_metadata": value}), made


@form
def via_table(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(most=1, end=".jpg")
    header = (
        "filename",
        "file_size",
        "file_attributes",
        "region_count",
        "region_id",
        "region_shape_attributes",
        "region_attributes",
    )
    rows = [(n, 9, json.dumps({"kind": x[0]}), 0, 0, "{}", "{}") for n, x in made.items()]
    return write(folder / "t.csv", [header, *rows]), made


@form
def cvat(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(fewest=0, end=".jpg")
    images = "".join(
        f'<image id="{k}" name="{n}" width="1" height="1">'
        + "".join(f'<tag label="{y}" source="manual"></tag>' for y in x)
        + "</image>"
        for k, (n, x) in enumerate(made.items())
    )
    path = folder / "annotations.xml"
    path.write_text(f'<?xml version="1.0" encoding="utf-8"?><annotations><version>1.1</version>{images}</annotations>')
    return path, made


@form
def labelbox(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    path, lines = folder / "t.ndjson", []
    for name, labels in truth(fewest=0).items():
        answers = [{"name": label, "value": label.replace(" ", "_")} for label in labels]
        annotations = {"classifications": [{"name": "what", "value": "what", "checklist_answers": answers}]}
        project = {"name": "p", "labels": [{"annotations": annotations}]}
        lines.append({"data_row": {"id": "c" + name, "external_id": name}, "projects": {"p1": project}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path, truth(fewest=0)


@form
def workbook(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    for row in [("Labels of May",), (), *joined(truth(), "; ", ("Video ID", "Label(s)"))]:
        sheet.append(row)
    book.create_sheet("empty")
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx", truth()


def arrow(folder: pathlib.Path, name: str, **columns: Any) -> pathlib.Path:
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    table = pyarrow.table(columns)
    writer = pyarrow.feather.write_feather if name.endswith("feather") else pyarrow.parquet.write_table
    writer(table, folder / name)
    return folder / name


@form
def lists_in_parquet(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(fewest=0)
    return arrow(folder, "t.parquet", id=list(made), labels=list(made.values())), made


@form
def feather(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(fewest=0)
    return arrow(folder, "t.feather", video_id=list(made), tags=list(made.values())), made


@form
def vectors_in_parquet(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    made = truth(["0", "1", "2"], fewest=0)
    vectors = [[float(str(x) in labels) for x in range(3)] for labels in made.values()]
    return arrow(folder, "t.parquet", id=list(made), labels=vectors), made


@form
def class_labels_of_hugging_face(folder: pathlib.Path) -> tuple[pathlib.Path, Truth]:
    import pyarrow
    import pyarrow.parquet

    made = truth(most=1)
    feature = {"label": {"names": list(NAMES), "_type": "ClassLabel"}, "id": {"dtype": "string", "_type": "Value"}}
    metadata = {"huggingface": json.dumps({"info": {"features": feature}})}
    numbers = [NAMES.index(labels[0]) for labels in made.values()]
    table = pyarrow.table({"id": list(made), "label": numbers}).replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    return folder / "t.parquet", made


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_as_it_is_meant(name: str, tmp_path: pathlib.Path) -> None:
    path, expected = FORMS[name](tmp_path)
    assert read(path) == {video: sorted(labels) for video, labels in expected.items()}


def test_a_task_of_label_studio_without_an_answer_is_no_video_without_labels(tmp_path: pathlib.Path) -> None:
    answer = {"from_name": "tags", "to_name": "video", "type": "choices", "value": {"choices": ["cat"]}}
    answers = {
        "a": [{"result": [answer]}],
        "empty": [{"result": []}],
        "skipped": [{"was_cancelled": True, "result": []}],
        "new": [],
        "b": [{"result": [answer]}],
    }
    tasks = [{"data": {"video": name}, "annotations": annotations} for name, annotations in answers.items()]
    (tmp_path / "t.json").write_text(json.dumps(tasks))
    table = understand("--table", str(tmp_path / "t.json"), TableFlags())
    assert [list(rows.cells["id"]) for rows in table.batches(9)] == [["a", "empty", "b"]]
    assert "left out: 2" in table.describe()[0]


def test_people_who_disagree_leave_a_video_without_labels_out(tmp_path: pathlib.Path) -> None:
    def annotation(person: int, *choices: str) -> dict[str, Any]:
        result = {"from_name": "c", "to_name": "v", "type": "choices", "value": {"choices": list(choices)}}
        return {"completed_by": person, "result": [result]}

    answers = {"a": [("cat",), ("dog",)], "b": [("cat",), ("cat", "dog")], "c": [()], "d": [("dog",)]}
    tasks = [
        {"data": {"id": name}, "annotations": [annotation(who, *choices) for who, choices in enumerate(of)]}
        for name, of in answers.items()
    ]
    path = write_json(tmp_path / "t.json", tasks)
    assert read(path) == {"b": ["cat"], "c": [], "d": ["dog"]}
    phrases = understand("--table", str(path), TableFlags()).describe()
    assert any("majority: 1, such as a" in phrase for phrase in phrases)


def test_an_export_of_predictions_alone(tmp_path: pathlib.Path) -> None:
    prediction = {"result": [{"from_name": "c", "to_name": "v", "type": "choices", "value": {"choices": ["cat"]}}]}
    tasks = [{"data": {"id": name}, "annotations": [], "predictions": [prediction]} for name in "ab"]
    with pytest.raises(UsageError, match=r"predictions of .*model.*Label Studio"):
        read(write_json(tmp_path / "t.json", tasks))


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ({"image_id": 1}, "annotation 0 has no category_id"),
        ({"image_id": 2, "category_id": 1}, "annotation 0 has the image_id 2, which is not listed"),
        ({"image_id": 1, "category_id": 7}, "annotation 0 has the category_id 7, which is not listed"),
    ],
)
def test_an_annotation_of_coco_that_lacks_a_number(
    annotation: dict[str, int], message: str, tmp_path: pathlib.Path
) -> None:
    value = {"images": [{"id": 1}], "categories": [{"id": 1, "name": "cat"}], "annotations": [annotation]}
    with pytest.raises(UsageError, match=message):
        read(write_json(tmp_path / "t.json", value))
