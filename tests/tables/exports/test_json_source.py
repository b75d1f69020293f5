"""JSON and Parquet whose rows are written in unusual ways: pairs, objects one after another, maps."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from table_files import NAMES, read, truth, write_json

from yt8m.errors import RunError, UsageError

TRUTH = truth(fewest=0)
EXPECTED = {name: sorted(labels) for name, labels in TRUTH.items()}
RECORDS = [{"id": name, "labels": labels} for name, labels in TRUTH.items()]


def text(path: pathlib.Path, content: str) -> pathlib.Path:
    path.write_text(content)
    return path


def test_lines_of_pairs(tmp_path: pathlib.Path) -> None:
    pairs = [{name: labels} for name, labels in TRUTH.items()]
    assert read(text(tmp_path / "t.jsonl", "\n".join(map(json.dumps, pairs)))) == EXPECTED
    assert read(write_json(tmp_path / "t.json", pairs)) == EXPECTED


@pytest.mark.parametrize("between", ["\n", "", ",\n", "\n\n"])
@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_objects_one_after_another(between: str, name: str, tmp_path: pathlib.Path) -> None:
    objects = [json.dumps(record, indent=2) for record in RECORDS]
    assert read(text(tmp_path / name, between.join(objects))) == EXPECTED


def test_lists_one_after_another(tmp_path: pathlib.Path) -> None:
    lists = [json.dumps(records, indent=1) for records in (RECORDS[:20], RECORDS[20:])]
    assert read(text(tmp_path / "t.json", "\n".join(lists))) == EXPECTED


def test_damage_after_whole_objects_names_the_line(tmp_path: pathlib.Path) -> None:
    objects = "\n".join(json.dumps(record, indent=2) for record in ({"id": "a", "labels": "x"}, RECORDS[1]))
    with pytest.raises(RunError, match="line 5: this is not JSON"):
        read(text(tmp_path / "t.json", objects[:-2]))


def map_table(path: pathlib.Path, cells: list[Mapping[Any, Any]], kind: Any) -> pathlib.Path:
    column = pyarrow.array([list(cell.items()) for cell in cells], kind)
    pyarrow.parquet.write_table(pyarrow.table({"id": list(TRUTH), "labels": column}), path)
    return path


@pytest.mark.parametrize("number", [bool, float])
@pytest.mark.parametrize("has_all", [True, False])
def test_maps_of_classes(number: Any, has_all: bool, tmp_path: pathlib.Path) -> None:
    kind = pyarrow.map_(pyarrow.string(), pyarrow.bool_() if number is bool else pyarrow.float64())
    cells = [{name: number(name in x) for name in NAMES if has_all or name in x} for x in TRUTH.values()]
    assert read(map_table(tmp_path / "t.parquet", cells, kind)) == EXPECTED


def test_maps_of_scores_are_refused(tmp_path: pathlib.Path) -> None:
    kind = pyarrow.map_(pyarrow.string(), pyarrow.float64())
    with pytest.raises(UsageError, match=r"numbers, .*scores and counts"):
        read(map_table(tmp_path / "t.parquet", [dict.fromkeys(x, 0.5) for x in TRUTH.values()], kind))


def test_lists_of_one_size_with_empty_texts(tmp_path: pathlib.Path) -> None:
    column = pyarrow.array([(x + ["", "", ""])[:3] for x in TRUTH.values()], pyarrow.list_(pyarrow.string(), 3))
    pyarrow.parquet.write_table(pyarrow.table({"id": list(TRUTH), "labels": column}), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet") == EXPECTED


PAGE = [{"id": f"v{n}", "labels": [("cat", "dog")[n % 2]]} for n in range(10)]
PAGES: list[dict[str, Any]] = [
    {"count": 400, "next": "https://x?page=2", "previous": None, "results": PAGE},
    {"count": 400, "next": None, "previous": "https://x?page=39", "results": PAGE},
    {"num_rows_total": 400, "num_rows_per_page": 100, "rows": [{"row_idx": 0, "row": row} for row in PAGE]},
    {"data": {"totalCount": 400, "videos": PAGE}},
    {"total": 400, "offset": 0, "limit": 10, "items": PAGE},
]


@pytest.mark.parametrize("value", PAGES)
def test_a_page_of_an_answer_is_not_the_whole(value: dict[str, Any], tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="has 10 of 400 rows, so that 390 are missing"):
        read(write_json(tmp_path / "t.json", value))


def test_an_answer_that_names_a_next_page_is_refused(tmp_path: pathlib.Path) -> None:
    for name, more in (("next", "https://x?page=2"), ("nextPageToken", "CAo"), ("has_more", True)):
        with pytest.raises(UsageError, match=r"\bits \"\w+\" .*more"):
            read(write_json(tmp_path / "t.json", {name: more, "items": PAGE}))
    for value in (
        {"count": 10, "next": None, "results": PAGE},
        {"total": 400, "items": PAGE},
        {"next": "", "rows": PAGE},
    ):
        assert read(write_json(tmp_path / "t.json", value)) == {row["id"]: row["labels"] for row in PAGE}


@pytest.mark.parametrize("yes", [1, True])
def test_a_class_in_an_object_may_be_a_word_for_labels(yes: Any, tmp_path: pathlib.Path) -> None:
    made = {name: [*labels, *(["tag"] if n % 2 else [])] for n, (name, labels) in enumerate(truth().items())}
    rows = [{"id": name, "seen": dict.fromkeys(labels, yes)} for name, labels in made.items()]
    assert read(write_json(tmp_path / "t.json", rows)) == {name: sorted(labels) for name, labels in made.items()}


def test_pictures_with_names_for_labels_are_not_of_hasty(tmp_path: pathlib.Path) -> None:
    images = [{"image_name": name, "labels": labels} for name, labels in TRUTH.items()]
    assert read(write_json(tmp_path / "t.json", {"label_classes": [*NAMES], "images": images})) == EXPECTED


def test_columns_and_lists_may_be_called_cells(tmp_path: pathlib.Path) -> None:
    assert read(write_json(tmp_path / "t.json", {"cells": RECORDS})) == EXPECTED
    rows = [{"cells": n % 2, "nuclei": n // 2 % 2, "id": f"v{n}"} for n in range(8)]
    found = read(text(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows))))
    assert (found["v0"], found["v1"], found["v3"]) == ([], ["cells"], ["cells", "nuclei"])


def test_ids_of_records_beside_names_in_fields_are_asked_about(tmp_path: pathlib.Path) -> None:
    """Airtable's ids of records were those of the videos, and the names that people gave were not used."""
    records = [
        {"id": f"rec{n}", "createdTime": "2026-01-01T00:00:00.000Z", "fields": {"Name": name, "Tags": labels}}
        for n, (name, labels) in enumerate(TRUTH.items())
    ]
    path = write_json(tmp_path / "t.json", {"records": records})
    with pytest.raises(UsageError, match=r'"fields\.Name" .*--columns=id=id or --columns=id=fields\.Name'):
        read(path)
    assert read(path, columns=("id=fields.Name",)) == EXPECTED
    assert read(path, columns=("id=id",)) == {f"rec{n}": labels for n, labels in enumerate(EXPECTED.values())}
