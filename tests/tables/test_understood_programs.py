"""Labels as programs, data sets and libraries write them, beside those of test_understood_exports.py."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from table_files import NAMES, SHORT, Truth, joined, read, truth, write, write_json

from yt8m.errors import UsageError

Made = tuple[pathlib.Path, Truth]
FORMS: dict[str, Callable[[pathlib.Path], Made]] = {}


def form(function: Callable[[pathlib.Path], Made]) -> Callable[[pathlib.Path], Made]:
    FORMS[function.__name__] = function
    return function


def with_paths(made: Truth, end: str = ".mp4") -> Truth:
    return {f"gs://bucket/{name}{end}": labels for name, labels in made.items()}


def text(path: pathlib.Path, lines: Sequence[str]) -> pathlib.Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@form
def auto_ml(folder: pathlib.Path) -> Made:
    made = with_paths(truth())
    sets = ("TRAIN", "VALIDATION", "TEST", "UNASSIGNED")
    lines = [f"{sets[k % 4]},{name},{','.join(labels)}" for k, (name, labels) in enumerate(made.items())]
    return text(folder / "t.csv", lines), made


@form
def auto_ml_with_one_label(folder: pathlib.Path) -> Made:
    made = with_paths(truth(most=1))
    return text(folder / "t.csv", [f"TRAIN,{name},{labels[0]}" for name, labels in made.items()]), made


@form
def vertex_with_several_labels(folder: pathlib.Path) -> Made:
    made = with_paths(truth(fewest=0), ".jpg")
    lines = [
        {"imageGcsUri": name, "classificationAnnotations": [{"displayName": label} for label in labels]}
        | {"dataItemResourceLabels": {"aiplatform.googleapis.com/ml_use": "test"}}
        for name, labels in made.items()
    ]
    return text(folder / "t.jsonl", list(map(json.dumps, lines))), made


@form
def vertex_with_one_label(folder: pathlib.Path) -> Made:
    made = with_paths(truth(most=1))
    lines = [{"videoGcsUri": n, "classificationAnnotation": {"displayName": x[0]}} for n, x in made.items()]
    return text(folder / "t.jsonl", list(map(json.dumps, lines))), made


@form
def fifty_one(folder: pathlib.Path) -> Made:
    made = truth()
    numbers = {name: [NAMES.index(label) for label in labels] for name, labels in made.items()}
    return write_json(folder / "labels.json", {"classes": list(NAMES), "labels": numbers}), made


@form
def roboflow(folder: pathlib.Path) -> Made:
    made = truth(fewest=0, end=".jpg")
    header = ", ".join(["filename", *NAMES])
    lines = [", ".join([n, *(str(int(name in x)) for name in NAMES)]) for n, x in made.items()]
    return text(folder / "_classes.csv", [header, *lines]), made


@form
def imdb(folder: pathlib.Path) -> Made:
    made = truth(["Action", "Drama", "Sci-Fi"], fewest=0)
    header = ("tconst", "primaryTitle", "startYear", "endYear", "genres")
    rows = [(n, f"Film {k}", 1990 + k % 9, r"\N", ",".join(x) or r"\N") for k, (n, x) in enumerate(made.items())]
    return write(folder / "t.tsv", [header, *rows], delimiter="\t"), made


def ranges(labels: Sequence[str]) -> list[dict[str, Any]]:
    return [{"ranges": [{"start": 1, "end": 9}], "timelinelabels": [label]} for label in labels]


@form
def label_studio_min_with_a_timeline(folder: pathlib.Path) -> Made:
    rows = [
        {"id": k + 5, "video": name, "tricks": ranges(labels), "annotator": 1, "annotation_id": k, "lead_time": 1.5}
        for k, (name, labels) in enumerate(truth().items())
    ]
    return write_json(folder / "t.json", rows), truth()


@form
def label_studio_table_with_a_timeline(folder: pathlib.Path) -> Made:
    rows = [(k, k + 5, n, json.dumps(ranges(x)), 3.5) for k, (n, x) in enumerate(truth().items())]
    return write(folder / "t.csv", [("annotation_id", "id", "video", "videoLabels", "lead_time"), *rows]), truth()


@form
def blanks_around_commas(folder: pathlib.Path) -> Made:
    lines = [f"{name} , {';'.join(labels)} , train " for name, labels in truth().items()]
    return text(folder / "t.csv", ["\ufeff VIDEO_ID , LaBeLs , Split ", *lines]), truth()


@form
def classes_that_are_numbers(folder: pathlib.Path) -> Made:
    made = truth(["0", "1", "2", "3"], fewest=0)
    rows = [(name, *(int(str(number) in labels) for number in range(4))) for name, labels in made.items()]
    return write(folder / "t.csv", [("id", "0", "1", "2", "3"), *rows]), made


@form
def index_of_pandas_with_ids(folder: pathlib.Path) -> Made:
    made = truth(fewest=0)
    return write(
        folder / "t.csv", [("", *NAMES), *((n, *(int(name in x) for name in NAMES)) for n, x in made.items())]
    ), made


@form
def a_column_called_name(folder: pathlib.Path) -> Made:
    made = truth(fewest=0)
    rows = [(n, *("Yes" if name in x else "No" for name in NAMES)) for n, x in made.items()]
    return write(folder / "t.csv", [("name", *NAMES), *rows]), made


def lists_as(show: Callable[[list[str]], str], names: Sequence[str] = NAMES) -> Callable[[pathlib.Path], Made]:
    def make(folder: pathlib.Path) -> Made:
        made = truth(names)
        rows = [(name, show(labels)) for name, labels in made.items()]
        return write(folder / "t.csv", [("id", "labels"), *rows]), made

    return make


FORMS["texts of NumPy 2"] = lists_as(lambda x: "[" + ", ".join(f"np.str_({name!r})" for name in x) + "]")
FORMS["numbers of NumPy 2"] = lists_as(
    lambda x: "[" + ", ".join(f"np.int64({name})" for name in x) + "]", ["0", "5", "11"]
)
FORMS["an array of NumPy"] = lists_as(lambda x: f"array({x!r}, dtype=object)")
FORMS["ideographic commas"] = lists_as("\u3001".join, ["\u732b", "\u72ac", "\u9ce5", "\u9b5a"])
FORMS["wide commas"] = lists_as("\uff0c".join, ["\u732b", "\u72ac", "\u9ce5", "\u9b5a"])
FORMS["names with signs inside"] = lists_as(";".join, ["Sci-Fi", "Hip-Hop", "v1.0", "red_fox", "Sci"])


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_as_it_is_meant(name: str, tmp_path: pathlib.Path) -> None:
    path, expected = FORMS[name](tmp_path)
    assert read(path) == {video: sorted(labels) for video, labels in expected.items()}


@pytest.mark.parametrize("separator", ["-", "_", ".", "\\"])
def test_signs_that_are_rarely_separators_are_asked_for(separator: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "t.csv", joined(truth(SHORT), separator))
    with pytest.raises(UsageError, match=r"--label_separator=none .*--label_separator='"):
        read(path)
    assert read(path, separator=separator) == {video: sorted(labels) for video, labels in truth(SHORT).items()}


def test_a_mark_beside_the_class_is_no_label(tmp_path: pathlib.Path) -> None:
    """HACS has 1 for a video that shows the action, and -1 for one that does not."""
    rows = [(labels[0], name, 1 if k % 3 else -1) for k, (name, labels) in enumerate(truth(most=1).items())]
    path = write(tmp_path / "t.csv", [("classname", "youtube_id", "label"), *rows])
    with pytest.raises(UsageError, match="--columns=labels=label or --columns=labels=classname"):
        read(path)


def test_digits_without_blanks_may_be_a_vector(tmp_path: pathlib.Path) -> None:
    cells = ["0010", "0011", "1101", "1000"] * 3
    path = write(tmp_path / "t.csv", [("id", "labels"), *((f"v{k}", cell) for k, cell in enumerate(cells))])
    with pytest.raises(UsageError, match=r"'0010'.*--label_separator=none"):
        read(path)
    assert read(path, separator="none")["v0"] == ["0010"]


def test_scores_say_not_which_labels_count(tmp_path: pathlib.Path) -> None:
    made = truth()
    lines = [(name, ", ".join(f"{label}:0.9" for label in labels)) for name, labels in made.items()]
    with pytest.raises(UsageError, match=r"score or .*count, such as '\w+:0\.9'"):
        read(write(tmp_path / "t.csv", [("id", "labels"), *lines]))
    records = [{"id": n, "labels": [{"name": label, "score": 0.3} for label in x]} for n, x in made.items()]
    with pytest.raises(UsageError, match=r"score .*whether"):
        read(write_json(tmp_path / "t.json", records))


def test_an_object_is_no_id(tmp_path: pathlib.Path) -> None:
    records = [{"video": {"id": name}, "labels": labels} for name, labels in truth().items()]
    with pytest.raises(UsageError, match=r'"video" are lists or objects.*--columns=id=COLUMN'):
        read(write_json(tmp_path / "t.json", records))


def test_a_merged_cell_above_the_columns_of_classes_is_no_header(tmp_path: pathlib.Path) -> None:
    rows = [("", "animals", "", ""), ("id", "cat", "dog", "fox"), ("a", 1, 0, 1), ("b", 0, 1, 1)]
    assert read(write(tmp_path / "t.csv", rows)) == {"a": ["cat", "fox"], "b": ["dog", "fox"]}


def test_an_export_without_answers_has_no_labels(tmp_path: pathlib.Path) -> None:
    images = [{"id": k, "file_name": f"{k}.jpg"} for k in range(3)]
    value = {"images": images, "annotations": [], "categories": [{"id": 1, "name": "a"}]}
    assert read(write_json(tmp_path / "t.json", value)) == {"0.jpg": [], "1.jpg": [], "2.jpg": []}


@pytest.mark.parametrize("form", ["results", "a data set with scores"])
def test_results_of_a_model_in_the_form_of_coco_are_no_labels(form: str, tmp_path: pathlib.Path) -> None:
    results = [{"image_id": n, "category_id": n % 3, "bbox": [1, 2, 3, 4], "score": n / 9} for n in range(9)]
    images = [{"id": n, "file_name": f"{n}.jpg"} for n in range(9)]
    names = [{"id": n, "name": name} for n, name in enumerate(("cat", "dog", "fox"))]
    value = results if form == "results" else {"images": images, "annotations": results, "categories": names}
    with pytest.raises(UsageError, match=r"results of .*COCO.*\bscore\b"):
        read(write_json(tmp_path / "t.json", value))
