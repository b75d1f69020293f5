"""Every reader of a table takes the same dialects, encodings and kinds of files."""

from __future__ import annotations

import gzip
import io
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest

from yt8m.datasets import ground_truth
from yt8m.datasets.extract.video_table import open_videos
from yt8m.datasets.make_records.human_labels import read_decisions
from yt8m.export.ensembles import side_by_side
from yt8m.labels import folds, label_audit
from yt8m.records import prediction_files, thresholds, vocabulary
from yt8m.records.class_weights import read_class_weights
from yt8m.records.vocabulary import read_renames
from yt8m.reports import media_links
from yt8m.tables.understood import TableFlags, understand
from yt8m.training.text_run import read_prompts

Rows = Sequence[Sequence[str]]
NAMES = vocabulary.of_names(("cat", "red fox"))
SEGMENTS = {3, 17}


def joined(rows: Rows, delimiter: str, end: str = "\n") -> str:
    return "".join(delimiter.join(row) + end for row in rows)


def plain(rows: Rows) -> bytes:
    return joined(rows, ",").encode()


def records(rows: Rows) -> list[dict[str, str]]:
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def workbook(rows: Rows) -> bytes:
    content, book = io.BytesIO(), openpyxl.Workbook()
    for row in rows:
        book.active.append([float(cell) if re.fullmatch(r"[\d.]+", cell) else cell for cell in row])
    book.save(content)
    return content.getvalue()


def parquet(rows: Rows) -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records(rows)), content)
    return content.getvalue()


# {dialect: (ending, content of a table)}
DIALECTS: dict[str, tuple[str, Callable[[Rows], bytes]]] = {
    "commas": (".csv", plain),
    "a mark and CRLF": (".csv", lambda rows: joined(rows, ",", "\r\n").encode("utf-8-sig")),
    "semicolons": (".csv", lambda rows: joined(rows, ";").encode()),
    "tabs": (".tsv", lambda rows: joined(rows, "\t").encode()),
    "bars": (".txt", lambda rows: joined(rows, "|").encode()),
    "UTF-16": (".csv", lambda rows: joined(rows, "\t", "\r\n").encode("utf-16")),
    "capitals": (".csv", lambda rows: joined([[name.upper() for name in rows[0]], *rows[1:]], ",").encode()),
    "quotes": (".csv", lambda rows: joined([[f'"{cell}"' for cell in row] for row in rows], ",").encode()),
    "empty columns": (".csv", lambda rows: joined([[*row, "", ""] for row in rows], ",").encode()),
    "empty lines": (".csv", lambda rows: (joined(rows, ",") + "\n\n").encode()),
    "gzip": (".csv.gz", lambda rows: gzip.compress(plain(rows))),
    "a workbook": (".xlsx", workbook),
    "a workbook named .csv": (".csv", workbook),
    "Parquet": (".parquet", parquet),
    "JSON": (".json", lambda rows: json.dumps(records(rows)).encode()),
    "JSON lines": (".jsonl", lambda rows: "".join(json.dumps(row) + "\n" for row in records(rows)).encode()),
}


def read_table(path: str) -> Any:
    table = understand("--table", path, TableFlags())
    return [(list(rows.cells["id"]), list(map(list, rows.cells["labels"]))) for rows in table.batches(100)]


def read_videos(path: str) -> Any:
    table = open_videos(path, "column", TableFlags())
    return [(list(rows.cells["id"]), rows.cells["path"]) for rows in table.batches(100)]


READERS: dict[str, tuple[Rows, Callable[[str], Any]]] = {
    "make-records --table": ([("id", "labels"), ("v1", "cat"), ("v2", "red fox"), ("v3", "cat")], read_table),
    "extract --videos": ([("id", "path", "labels"), ("v1", "a.mp4", "cat"), ("v2", "b.mp4", "cat")], read_videos),
    "make-records --corrections": (
        [("video", "class", "kind", "decision"), ("v1", "cat", "missing", "yes"), ("v2", "cat", "wrong", "no")],
        lambda path: [decision[1:] for decision in read_decisions(path)],
    ),
    "audit --table": ([("id", "film"), ("v1", "one"), ("v2", "two")], lambda path: folds.read_groups(path, "film")),
    "tables of an audit": ([("rank", "video", "class"), ("1", "v1", "cat")], label_audit.read_rows),
    "--vocabulary": ([("index", "name"), ("0", "cat"), ("1", "red fox")], lambda path: vocabulary.read(path).names),
    "train --class_weights": (
        [("class", "weight"), ("cat", "2"), ("red fox", "3.5")],
        lambda path: list(read_class_weights(path, NAMES, 2)),
    ),
    "train --rename": ([("old", "new"), ("cat", "Cat"), ("red fox", "fox")], read_renames),
    "from-text --classes": (
        [("name", "prompt"), ("cat", "a cat"), ("fox", "red")],
        lambda path: read_prompts(path, "{}"),
    ),
    "--media": (
        [("id", "address"), ("v1", "https://a.b/c"), ("v2", "d.mp4")],
        lambda path: media_links.read_addresses(path, ["v1", "v2"]),
    ),
    "--thresholds": (
        [("index", "threshold"), ("0", "0.5"), ("1", "0.25")],
        lambda path: thresholds.read(path, 2).thresholds.tolist(),
    ),
    "--segment_label_ids_file": ([("Index",), ("3",), ("17",)], vocabulary.read_segment_classes),
    "predictions": (
        [("VideoId", "LabelConfidencePairs"), ("v1", "3 0.5 1 0.25"), ("v2", "0 1")],
        lambda path: [(row.video_id, row.classes.tolist(), row.scores.tolist()) for row in predictions(path)],
    ),
    "predictions side by side": (
        [("VideoId", "LabelConfidencePairs"), ("v1", "3 0.5 1 0.25"), ("v2", "0 1")],
        lambda path: [[row.scores.tolist() for row in rows] for rows in side_by_side([path, path], 4)],
    ),
    "ranked segments": (
        [("Class", "Segments"), ("3", "a:0 b:5"), ("17", "b:10")],
        lambda path: [line.ranks for line in prediction_files.read_segments(path, SEGMENTS)],
    ),
    "ratings": (
        [("segment", "class", "score"), ("v1:5", "3", "1"), ("v2:10", "4", "0")],
        lambda path: [list(column) for column in ground_truth.read_ratings(path)],
    ),
}


def predictions(path: str) -> Iterator[prediction_files.PredictionRow]:
    return prediction_files.read_predictions(path, 4)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("reader", READERS)
def test_a_table_is_read_in_any_dialect(reader: str, dialect: str, tmp_path: pathlib.Path) -> None:
    (rows, read), (ending, content) = READERS[reader], DIALECTS[dialect]
    expected, path = tmp_path / "plain.csv", tmp_path / f"t{ending}"
    expected.write_bytes(plain(rows))
    path.write_bytes(content(rows))
    found = read(str(path))
    assert found
    if reader == "tables of an audit":
        found = [{name: cell for name, cell in row.items() if name} for row in found]
    assert found == read(str(expected))


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfv1:5,3,1.0\r\nv2:10,4,0\r\n", b"v1:5;3;1.0\nv2:10;4;0\n", b"v1:5,3,1.0,,\nv2:10,4,0,,\n"]
)
def test_ratings_are_read_in_any_dialect(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(content)
    ratings = ground_truth.read_ratings(str(path))
    assert ratings.segments == [b"v1:5", b"v2:10"]
    assert ratings.classes.tolist() == [3, 4]
    assert ratings.scores.tolist() == [1.0, 0.0]
