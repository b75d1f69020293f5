"""JSON in which the names of the columns stand beside rows without names."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from table_files import SHORT, read, truth, write_json

from yt8m.errors import UsageError

TRUTH = truth(SHORT)
EXPECTED = {name: sorted(labels) for name, labels in TRUTH.items()}
JOINED = [[name, ", ".join(labels)] for name, labels in TRUTH.items()]
LISTS = [[name, labels] for name, labels in TRUTH.items()]
CLASSES = [[name, *(int(label in labels) for label in SHORT)] for name, labels in TRUTH.items()]
TYPED = [{"name": "id", "type": "text"}, {"name": "labels", "type": "text"}]
FIELDS = {"fields": [{"name": "id", "type": "STRING"}, {"name": "labels", "type": "STRING", "mode": "REPEATED"}]}
CELLS = [{"f": [{"v": name}, {"v": [{"v": label} for label in labels]}]} for name, labels in TRUTH.items()]
PAGE = {"columns": ["id", "labels"], "rows": JOINED, "truncated": True}


@pytest.mark.parametrize("rows_key", ["rows", "data", "values"])
@pytest.mark.parametrize("header_key", ["columns", "headers", "header", "fields"])
@pytest.mark.parametrize(
    ("header", "rows"),
    [(["id", "labels"], JOINED), (["id", "labels"], LISTS), (["clip", *SHORT], CLASSES), (TYPED, JOINED)],
)
def test_names_beside_rows(
    header_key: str, rows_key: str, header: list[Any], rows: list[Any], tmp_path: pathlib.Path
) -> None:
    assert read(write_json(tmp_path / "t.json", {header_key: header, rows_key: rows})) == EXPECTED
    names = ["id", "labels"] if header is TYPED else header  # some write them above the rows too
    assert read(write_json(tmp_path / "u.json", {header_key: header, rows_key: [names, *rows]})) == EXPECTED


@pytest.mark.parametrize(
    "value",
    [
        {"columns": ["labels"], "index": list(TRUTH), "data": [[labels] for labels in TRUTH.values()]},
        {"database": "d", "table": "t", "rows": JOINED, "columns": ["id", "labels"], "truncated": False},
        {"data": {"rows": JOINED, "cols": [{**column, "base_type": "type/Text"} for column in TYPED]}, "row_count": 40},
        {"kind": "bigquery#queryResponse", "schema": FIELDS, "rows": CELLS, "totalRows": "40"},
    ],
)
def test_programs_for_databases(value: dict[str, Any], tmp_path: pathlib.Path) -> None:
    assert read(write_json(tmp_path / "t.json", value)) == EXPECTED


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"columns": ["id"], "rows": JOINED}, r"row 1 .*\b2 cells.*: id"),
        ({"columns": ["id", "name", "name"], "rows": CLASSES}, "names a column twice"),
        (PAGE, r'"truncated" .*more'),
    ],
)
def test_names_that_do_not_fit_are_refused(value: dict[str, Any], words: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=words):
        read(write_json(tmp_path / "t.json", value))


def test_an_index_without_a_name(tmp_path: pathlib.Path) -> None:
    rows = [[n, ", ".join(labels), name] for n, (name, labels) in enumerate(TRUTH.items())]
    assert read(write_json(tmp_path / "t.json", {"columns": ["", "label", "video"], "data": rows})) == EXPECTED


@pytest.mark.parametrize("odd", [None, 2019, ["a", "b"]])
def test_names_that_are_no_texts_are_refused(odd: Any, tmp_path: pathlib.Path) -> None:
    rows = [[*row, 1] for row in JOINED]
    with pytest.raises(UsageError, match=r'"columns" names .*columns.* one of .*text'):
        read(write_json(tmp_path / "t.json", {"columns": ["id", "labels", odd], "data": rows}))


@pytest.mark.parametrize("key", ["data", "rows"])
@pytest.mark.parametrize("more", [{}, {"index": []}, {"truncated": False}])
def test_no_rows_are_refused(key: str, more: dict[str, Any], tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=f'has no rows: "{key}" is empty'):
        read(write_json(tmp_path / "t.json", {"columns": ["id", "labels"], **more, key: []}))
