"""Tables and JSON as databases, servers, wikis and programs of crowds write them, beside those of the other tests."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from table_files import NAMES, SHORT, read, truth, write, write_json

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

TRUTH, ONE = truth(), truth(SHORT, most=1)
PARTS = (dict(list(TRUTH.items())[:30]), dict(list(TRUTH.items())[30:]))


def json_lines(folder: pathlib.Path, rows: Iterable[Any]) -> pathlib.Path:
    return lines(folder, map(json.dumps, rows), "t.jsonl")


def lines(folder: pathlib.Path, texts: Iterable[str], name: str = "t.txt") -> pathlib.Path:
    (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return folder / name


JSON: dict[str, Callable[[], Any]] = {
    "Kili": lambda: [
        {"externalId": n, "labels": [{"jsonResponse": {"JOB": {"categories": [{"name": x} for x in xs]}}}]}
        for n, xs in TRUTH.items()
    ],
    "Firebase": lambda: {"videos": {n: {"tags": dict.fromkeys(xs, True)} for n, xs in TRUTH.items()}},
    "GraphQL": lambda: {"data": {"videos": [{"id": n, "tags": [{"name": x} for x in xs]} for n, xs in TRUTH.items()]}},
    "Vimeo": lambda: {
        "total": 40,
        "data": [{"uri": n, "name": f"film {n}", "tags": [{"tag": x} for x in xs]} for n, xs in TRUTH.items()],
    },
    "lists by split": lambda: {
        split: [{"id": n, "labels": xs} for n, xs in part.items()]
        for split, part in zip(("train", "val"), PARTS, strict=True)
    },
    "objects by split": lambda: dict(zip(("train", "test"), PARTS, strict=True)),
}
JSON_LINES: dict[str, Callable[[str, list[str]], Any]] = {
    "MongoDB": lambda n, xs: {"_id": {"$oid": f"{int(n[1:]):024x}"}, "video": n, "tags": xs},
    "Elasticsearch": lambda n, xs: {"_index": "videos", "_id": n, "_source": {"tags": xs}},
    "DynamoDB": lambda n, xs: {"Item": {"id": {"S": n}, "tags": {"SS": xs}}},
    "spaCy": lambda n, xs: {"id": n, "cats": {name: float(name in xs) for name in NAMES}},
}
TEXTS: dict[str, Callable[[], list[str]]] = {
    "Jira": lambda: ["||id||labels||", *(f"|{n}|{', '.join(xs)}|" for n, xs in TRUTH.items())],
    "lines with colons": lambda: [f"{n}: {','.join(xs)}" for n, xs in TRUTH.items()],
    "comments between rows": lambda: ["id,labels", "v00,otter", "# by ann", *_rows_of(list(TRUTH.items())[1:])],
    "sets that are frozen": lambda: ["id,labels", *(f'{n},"{frozenset(xs)!r}"' for n, xs in TRUTH.items())],
    "an index without a name": lambda: [",labels", *_rows_of(TRUTH.items())],
}


def _rows_of(items: Iterable[tuple[str, list[str]]]) -> list[str]:
    return [f'{n},"{"|".join(xs)}"' for n, xs in items]


@pytest.mark.parametrize("form", JSON)
def test_json(form: str, tmp_path: pathlib.Path) -> None:
    assert read(write_json(tmp_path / "t.json", JSON[form]())) == {n: sorted(xs) for n, xs in TRUTH.items()}


@pytest.mark.parametrize("form", JSON_LINES)
def test_json_lines(form: str, tmp_path: pathlib.Path) -> None:
    found = read(json_lines(tmp_path, [JSON_LINES[form](n, xs) for n, xs in TRUTH.items()]))
    assert found == {n: sorted(xs) for n, xs in TRUTH.items()}


@pytest.mark.parametrize("form", TEXTS)
def test_texts(form: str, tmp_path: pathlib.Path) -> None:
    found = read(lines(tmp_path, TEXTS[form]()))
    assert found == {n: sorted(xs) for n, xs in TRUTH.items()}


def test_the_splits_of_json_are_read(tmp_path: pathlib.Path) -> None:
    table = understand("--table", str(write_json(tmp_path / "t.json", JSON["lists by split"]())), TableFlags())
    (rows,) = table.batches(100)
    assert rows.cells["split"] == ["train"] * 30 + ["validate"] * 10


def test_questions_and_answers_of_crowds(tmp_path: pathlib.Path) -> None:
    header = ("INPUT:video", "OUTPUT:label", "ASSIGNMENT:status")
    path = write(tmp_path / "t.tsv", [header, *((n, xs[0], "APPROVED") for n, xs in ONE.items())], delimiter="\t")
    assert read(path) == ONE
    cells = [json.dumps([{"task": "T0", "task_label": "What?", "value": xs}]) for xs in TRUTH.values()]
    header = ("classification_id", "subject_ids", "annotations")
    path = write(
        tmp_path / "t.csv", [header, *((str(k), n, c) for k, (n, c) in enumerate(zip(TRUTH, cells, strict=True)))]
    )
    assert read(path) == {n: sorted(xs) for n, xs in TRUTH.items()}


def test_a_header_of_groups_stands_above_that_of_classes(tmp_path: pathlib.Path) -> None:
    cells = [(n, *(int(name in xs) for name in NAMES)) for n, xs in TRUTH.items()]
    path = write(tmp_path / "t.csv", [("", *["label"] * len(NAMES)), ("id", *NAMES), *cells])
    assert read(path) == {n: sorted(xs) for n, xs in TRUTH.items()}


@pytest.mark.parametrize(
    ("name", "rows", "told"),
    [
        ("t.txt", [f"INSERT INTO labels VALUES ('{n}','{xs[0]}');" for n, xs in ONE.items()], "cut within brackets"),
        ("cat.txt", [f"{n} {1 if xs == ['cat'] else -1}" for n, xs in ONE.items()], "labels=column 2'"),
        (
            "t.tab",
            ["id\tlabel", "string\tdiscrete", *(f"{n}\t{xs[0]}" for n, xs in ONE.items())],
            "types of the columns",
        ),
        ("t.csv", ["id,labels", *(f'{n},"{", ".join(x + " x2" for x in xs)}"' for n, xs in TRUTH.items())], "a count"),
        ("t.csv", ["id,labels", *(f'{n},"{dict.fromkeys(xs, 0.93)}"' for n, xs in TRUTH.items())], "such as scores"),
        ("t.csv", ["id,labels", *(f"{n},0b{int(n[1:]) % 8:05b}" for n in TRUTH)], "0/1 vector"),
        ("t.csv", ["id,cat", *(f"{n},{int(n[1:]) % 2}" for n in TRUTH)], "classes are 0 and 1"),
        ("t.yaml", [f"- id: {n}" for n in TRUTH], "Save the table as CSV"),
        ("t.txt", [f"{name}: {' '.join(n for n, xs in ONE.items() if xs == [name])}" for name in SHORT], "'id'"),
    ],
)
def test_what_is_no_table_of_labels_is_refused(
    name: str, rows: Sequence[str], told: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(UsageError) as refusal:
        read(lines(tmp_path, rows, name))
    assert told in str(refusal.value)


@pytest.mark.parametrize(("cell", "told"), [(" {} ", "blank"), ("{}.0", "fraction")])
def test_odd_ids_are_shown(cell: str, told: str, tmp_path: pathlib.Path) -> None:
    rows = [(cell.format(number), SHORT[number % 5]) for number in range(40)]
    table = understand("--table", str(write(tmp_path / "t.csv", [("id", "labels"), *rows])), TableFlags())
    assert told in "; ".join(table.describe())


def test_scores_of_0_and_1_say_which_rows_count(tmp_path: pathlib.Path) -> None:
    rows = [(n, name, int(name in xs)) for n, xs in TRUTH.items() for name in NAMES]
    path = write(tmp_path / "t.csv", [("id", "label", "score"), *rows])
    assert read(path) == {n: sorted(xs) for n, xs in TRUTH.items()}
