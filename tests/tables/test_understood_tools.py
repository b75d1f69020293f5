"""Exports of programs for labels, and tables drawn or named otherwise, beside those of test_understood_exports.py."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from table_files import NAMES, SHORT, Form, Truth, joined, read, text_of, truth, write, write_json

from yt8m.errors import RunError, UsageError

Made = tuple[pathlib.Path, Truth]
FORMS: dict[str, Form] = {}


def form(function: Form) -> Form:
    FORMS[function.__name__] = function
    return function


def write_lines(path: pathlib.Path, values: list[Any]) -> pathlib.Path:
    path.write_text("".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values))
    return path


@form
def prodigy_choices(folder: pathlib.Path) -> Made:
    made = truth(fewest=0, end=".mp4")
    tasks = [{"video": n, "accept": x, "answer": "accept", "_task_hash": k} for k, (n, x) in enumerate(made.items())]
    ignored = {"video": "other.mp4", "accept": ["cat"], "answer": "ignore", "_task_hash": 99}
    return write_lines(folder / "t.jsonl", [*tasks, ignored]), made


@form
def prodigy_yes_or_no(folder: pathlib.Path) -> Made:
    made = truth(fewest=0, end=".mp4")
    tasks = [
        {"video": n, "label": name, "answer": "accept" if name in x else "reject", "_task_hash": len(name)}
        for n, x in made.items()
        for name in NAMES
    ]
    return write_lines(folder / "t.jsonl", tasks), made


@form
def ground_truth_with_several_labels(folder: pathlib.Path) -> Made:
    made = {f"s3://b/{name}.mp4": x for name, x in truth(fewest=0).items()}
    tasks = [
        {
            "source-ref": name,
            "job": [NAMES.index(label) for label in x],
            "job-metadata": {"class-map": {str(NAMES.index(label)): label for label in x}},
        }
        for name, x in made.items()
    ]
    return write_lines(folder / "output.manifest", tasks), made


@form
def ground_truth_with_one_label(folder: pathlib.Path) -> Made:
    made = {f"s3://b/{name}.mp4": x for name, x in truth(most=1).items()}
    tasks = [{"source-ref": n, "job": 0, "job-metadata": {"class-name": x[0]}} for n, x in made.items()]
    return write_lines(folder / "t.jsonl", tasks), made


@form
def labelme(folder: pathlib.Path) -> Made:
    made = truth(fewest=0, end=".jpg")
    values = [
        {
            "imagePath": name,
            "flags": {label: label in x[:1] for label in NAMES},
            "shapes": [{"label": label} for label in x[1:]],
            "imageHeight": 1,
        }
        for name, x in made.items()
    ]
    return write_json(folder / "t.json", values), made


@form
def darwin(folder: pathlib.Path) -> Made:
    made = {f"clips/{name}": x for name, x in truth(fewest=0, end=".mp4").items()}
    values = [
        {
            "item": {"name": name.split("/")[1], "path": "/clips"},
            "annotations": [{"name": label, "tag": {}} for label in x],
        }
        for name, x in made.items()
    ]
    return write_lines(folder / "t.jsonl", values), made


@form
def samples_of_fiftyone(folder: pathlib.Path) -> Made:
    made = truth(fewest=0, end=".mp4")
    samples = [
        {
            "_id": {"$oid": str(k)},
            "filepath": name,
            "tags": ["train"],
            "ground_truth": {
                "_cls": "Classifications",
                "classifications": [{"label": label, "tags": []} for label in x],
            },
        }
        for k, (name, x) in enumerate(made.items())
    ]
    return write_json(folder / "samples.json", {"samples": samples}), made


@form
def via_3(folder: pathlib.Path) -> Made:
    made = truth(fewest=0, end=".mp4")
    value = {
        "project": {"pname": "x"},
        "attribute": {"1": {"aname": "what", "options": {str(k): name for k, name in enumerate(NAMES)}}},
        "file": {str(k): {"fid": str(k), "fname": name} for k, name in enumerate(made, 1)},
        "view": {str(k): {"fid_list": [str(k)]} for k in range(1, len(made) + 1)},
        "metadata": {
            f"{k}_{label}": {"vid": str(k), "z": [1.0, 2.0], "av": {"1": str(NAMES.index(label))}}
            for k, x in enumerate(made.values(), 1)
            for label in x
        },
    }
    return write_json(folder / "t.json", value), made


def regions_of(labels: list[str]) -> list[dict[str, Any]]:
    return [{"shape_attributes": {}, "region_attributes": {"class": label}} for label in labels]


@form
def regions_of_via(folder: pathlib.Path) -> Made:
    made = truth(fewest=0, end=".jpg")
    value = {f"{n}9": {"filename": n, "regions": regions_of(x), "file_attributes": {}} for n, x in made.items()}
    return write_json(folder / "t.json", value), made


@form
def regions_of_via_in_a_table(folder: pathlib.Path) -> Made:
    made = truth(end=".jpg")
    header = ("filename", "file_size", "file_attributes", "region_count", "region_id", "region_attributes")
    rows = [(n, 9, "{}", len(x), k, json.dumps({"class": label})) for n, x in made.items() for k, label in enumerate(x)]
    return write(folder / "t.csv", [header, *rows]), made


@form
def doccano_table(folder: pathlib.Path) -> Made:
    made = truth(end=".mp4")
    rows = [(k, name, "#".join(x)) for k, (name, x) in enumerate(made.items())]
    return write(folder / "t.csv", [("id", "data", "label"), *rows]), made


@form
def answers_of_youtube(folder: pathlib.Path) -> Made:
    items = [{"kind": "youtube#video", "id": n, "snippet": {"title": "A", "tags": x}} for n, x in truth().items()]
    return write_json(folder / "t.json", {"kind": "youtube#videoListResponse", "items": items}), truth()


@form
def vertex_segments_of_whole_videos(folder: pathlib.Path) -> Made:
    made = {f"gs://b/{name}.mp4": x for name, x in truth().items()}
    return write_lines(folder / "t.csv", [f"training,{n},{label},0,inf" for n, x in made.items() for label in x]), made


@form
def boxes_of_pictures(folder: pathlib.Path) -> Made:
    made = truth(end=".jpg")
    header = ("filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax")
    rows = [(n, 9, 9, label, k, 0, 9, 9) for n, x in made.items() for k, label in enumerate([*x, x[0]])]
    return write(folder / "t.csv", [header, *rows]), made


@form
def behaviours_of_boris(folder: pathlib.Path) -> Made:
    header = ("Observation id", "Media file name", "FPS", "Behavior", "Behavior type", "Time")
    rows = [(n, f"{n}.mp4", 25, label, "POINT", k * 2.5) for n, x in truth().items() for k, label in enumerate(x)]
    return write(folder / "t.csv", [header, *rows]), truth()


@form
def answers_of_a_form(folder: pathlib.Path) -> Made:
    header = ("Timestamp", "Which video did you watch?", "What do you see?")
    rows = [(f"1/2/2024 10:{k:02}:00", n, ", ".join(x)) for k, (n, x) in enumerate(truth().items())]
    return write(folder / "t.csv", [header, *rows]), truth()


@form
def findings_of_patients(folder: pathlib.Path) -> Made:
    made = truth(["Mass", "Edema", "Hernia"], end=".png")
    rows = [(n, "|".join(x), k % 3, k // 2, 50 + k) for k, (n, x) in enumerate(made.items())]
    header = ("Image Index", "Finding Labels", "Follow-up #", "Patient ID", "Patient Age")
    return write(folder / "t.csv", [header, *rows]), made


@form
def vgg_sound(folder: pathlib.Path) -> Made:
    made = truth(["dog barking, growling", "playing banjo"], most=1)
    return write(
        folder / "t.csv", [(n, 30 + k, x[0], ("train", "test")[k % 2]) for k, (n, x) in enumerate(made.items())]
    ), made


@form
def rows_of_different_lengths(folder: pathlib.Path) -> Made:
    lines = [",".join([name, *labels]) for name, labels in truth(SHORT).items()]
    return write_lines(folder / "t.csv", ["id,label_1,label_2,label_3", *lines]), truth(SHORT)


@form
def a_table_in_markdown(folder: pathlib.Path) -> Made:
    lines = [f"| {name} | {', '.join(x)} |" for name, x in truth().items()]
    return write_lines(folder / "t.txt", ["| id | labels |", "|----|:------:|", *lines]), truth()


@form
def a_table_of_psql(folder: pathlib.Path) -> Made:
    lines = [f" {name}  | {', '.join(x):16} " for name, x in truth().items()]
    return write_lines(
        folder / "t.txt", ["  id  |      labels      ", "------+------------------", *lines, "(40 rows)"]
    ), truth()


@form
def a_table_of_mysql(folder: pathlib.Path) -> Made:
    border = "+------+------------------+"
    lines = [f"| {name}  | {', '.join(x):16} |" for name, x in truth().items()]
    return write_lines(folder / "t.txt", [border, "| id   | labels           |", border, *lines, border]), truth()


@form
def german_words(folder: pathlib.Path) -> Made:
    path = folder / "t.csv"
    path.write_bytes(text_of(joined(truth(), ", ", ("Datei", "Schlagw\u00f6rter")), ";").encode("cp1252"))
    return path, truth()


@form
def a_stream_of_arrow(folder: pathlib.Path) -> Made:
    arrow, made = pytest.importorskip("pyarrow"), truth(fewest=0)
    table = arrow.table({"file_name": list(made), "labels": list(made.values())})
    with arrow.ipc.new_stream(folder / "t.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=15)
    return folder / "t.arrow", made


@form
def a_matrix_beside_names(folder: pathlib.Path) -> Made:
    made = truth(fewest=0)
    marks = np.array([[name in x for name in NAMES] for x in made.values()], np.uint8)
    np.savez(folder / "t.npz", ids=list(made), labels=marks, classes=NAMES)
    return folder / "t.npz", made


@form
def json_called_txt(folder: pathlib.Path) -> Made:
    return write_json(folder / "t.txt", [{"id": n, "labels": x} for n, x in truth().items()]), truth()


@form
def csv_called_xls(folder: pathlib.Path) -> Made:
    return write(folder / "t.xls", joined(truth(), ";"), delimiter="\t"), truth()


@form
def parquet_called_csv(folder: pathlib.Path) -> Made:
    arrow = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    arrow.write_table(pyarrow.table({"id": list(truth()), "labels": list(truth().values())}), folder / "t.csv")
    return folder / "t.csv", truth()


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_as_it_is_meant(name: str, tmp_path: pathlib.Path) -> None:
    table, made = FORMS[name](tmp_path)
    assert read(table) == {video: sorted(labels) for video, labels in made.items()}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv.bz2", b"BZh91AY&SY\x00\x01", "bzip2.*bunzip2"),
        ("t.csv", b"PK\x03\x04" + bytes(26) + b"t.csv", "zip.*unzip"),
        ("t.csv", b"\x00\x00\x00\x18ftypmp42", "MP4"),
        ("t.xls", b"<html><table>", "HTML.*xlsx"),
        ("t.dat", b"\x01\x02id,labels\n", "ends in .csv"),
    ],
)
def test_other_files_are_known_by_their_first_bytes(
    name: str, content: bytes, message: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read(tmp_path / name)


def test_several_jobs_of_ground_truth_are_refused(tmp_path: pathlib.Path) -> None:
    task = {"source-ref": "a", "x": 0, "x-metadata": {"class-name": "cat"}, "y": 0, "y-metadata": {"class-name": "a"}}
    with pytest.raises((UsageError, RunError), match="x, y"):
        read(write_lines(tmp_path / "t.jsonl", [task]))


def test_rows_that_lack_fields_are_bad_rows_where_rows_are_merged(tmp_path: pathlib.Path) -> None:
    from yt8m.tables.understood import TableFlags, understand

    path = write_lines(
        tmp_path / "t.csv", ["id,path,label", "a,a.npy,cat", "a,a.npy,dog", "b,b.npy", "c,c.npy,cat", "d"]
    )
    rows = next(understand("--table", str(path), TableFlags()).batches(10))
    assert list(rows.cells["id"]) == ["a", "c", "", ""]
    assert {number: "fields" in why for number, why in rows.bad.items()} == {3: True, 4: True}
