"""Tables: cells of CSV files are those that Python's `csv` reads; damaged rows are refused with their line.

Rows of Parquet tables whose features have another length are bad.
"""

from __future__ import annotations

import csv
import pathlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own_clips import read

from yt8m.datasets.make_records import RecordsConfig, make
from yt8m.datasets.make_records.tables import CsvTable
from yt8m.errors import RunError, UsageError
from yt8m.records import vocabulary

_CELLS = st.text(alphabet="ab;\"é,\u2028\x0b'", max_size=4) | st.just("plain")
_ROWS = st.lists(st.tuples(_CELLS, _CELLS), max_size=9)


def _read(path: pathlib.Path, size: int, skip: int = 0) -> list[tuple[str, str]]:
    found, expected = [], skip + 1
    for rows in CsvTable(str(path), ()).batches(size, skip):
        assert rows.first == expected
        assert not rows.bad
        assert 0 < rows.size <= size
        expected += rows.size
        found += zip(rows.cells["id"], rows.cells["labels"], strict=True)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_ROWS, st.integers(1, 4), st.integers(0, 5), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_cells_are_those_of_csv(
    tmp_path: pathlib.Path, rows: list[tuple[str, str]], size: int, skip: int, end: str, has_last_end: bool
) -> None:
    path = tmp_path / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator=end).writerows([("id", "other", "labels"), *((a, "x", b) for a, b in rows)])
    if not has_last_end:
        path.write_bytes(path.read_bytes().removesuffix(end.encode()))
    assert _read(path, size, skip) == rows[skip:]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("id,labels\n\na,b\n\n\nc,d\n\n", [("a", "b"), ("c", "d")]),
        ('id,labels\na,b\nc,"d\ne"\nf,g\n', [("a", "b"), ("c", "d\ne"), ("f", "g")]),
        ('\ufeffid,"labels\n"\na,b', [("a", "b")]),
        ("id,labels\n", []),
    ],
)
def test_blank_lines_and_cells_of_several_lines(
    tmp_path: pathlib.Path, content: str, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(content, encoding="utf-8")
    for size in (1, 2, 100):
        assert _read(path, size) == rows


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'id,labels\na,b\nc,d\n"e"x,f\n', "line 4: this is not CSV"),
        (b"id,labels\na,b\n" + b"c" * 200_000 + b",d\n", "line 3: this is not CSV .field larger than"),
        (b"id,labels\n" + b"a,b\n" * 9000 + b"c,\xff\n", "line 9002: this is not UTF-8"),
        (b"id,labels\na,b\nc,caf\xe9\nd,e\n", "line 3: this is not UTF-8"),
        ("id,labels\na,b\n".encode("utf-16"), "line 1: this is not UTF-8"),
    ],
)
def test_damage_is_refused_with_its_line(tmp_path: pathlib.Path, content: bytes, what: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(RunError, match=what):
        _read(path, 5000)


def test_rows_with_other_numbers_of_fields_are_bad(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("id,labels\na,b\nc\nd,e,f\ng,h\n")
    (rows,) = CsvTable(str(path), ()).batches(10)
    assert rows.cells == {"id": ("a", "", "", "g"), "labels": ("b", "", "", "h")}
    assert rows.bad == {
        2: "the row has 1 fields, but the header has 2; put a text with a comma in quotes",
        3: "the row has 3 fields, but the header has 2; put a text with a comma in quotes",
    }


@pytest.mark.parametrize("others", [{0: None}, {5: [1.0]}, {0: [], 3: None, 5: [1.0], 7: [1.0, 2.0, 3.0]}])
def test_lists_of_a_parquet_table_with_another_length_are_bad_rows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, others: dict[int, list[float] | None]
) -> None:
    import pyarrow
    import pyarrow.parquet

    monkeypatch.setattr("yt8m.datasets.make_records._MOST_ROWS", 2)  # in some batches no list has the right length
    lists = [others.get(number, [number, 0.5]) for number in range(8)]
    columns = {"id": list("abcdefgh"), "labels": ["cat"] * 8, "clip": lists}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    flags = {"table": str(tmp_path / "t.parquet"), "out": str(tmp_path / "out")}
    first = min(others) + 1
    with pytest.raises(
        RunError, match=rf"row {first}: (feature clip has 1 values, expected 2|.* expected .* not empty)"
    ):
        make(RecordsConfig(**flags))
    summary = make(RecordsConfig(**flags, max_bad_rows=len(others)))
    assert [int(row) - 1 for row in summary["rows left out"]] == list(others)
    found = {name: record.context["clip"].values() for name, (_, record) in read(tmp_path / "out" / "video").items()}
    expected = {name: [number, 0.5] for number, name in enumerate("abcdefgh") if number not in others}
    np.testing.assert_equal(found, expected)


def test_two_columns_of_one_name_are_refused(tmp_path: pathlib.Path) -> None:
    import pyarrow
    import pyarrow.parquet

    (tmp_path / "t.csv").write_text("id,labels,id\na,cat,b\n")
    columns = [pyarrow.array(["a"]), pyarrow.array(["cat"]), pyarrow.array(["b"])]
    table = pyarrow.Table.from_arrays(columns, names=["id", "labels", "id"])
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(UsageError, match="names a column twice: id,labels,id"):
            make(RecordsConfig(table=str(tmp_path / name), out=str(tmp_path / "out")))


def test_texts_that_are_stored_as_bytes(tmp_path: pathlib.Path) -> None:
    """NumPy stores texts as bytes in arrays of the type S, and Spark writes columns of bytes without a type of text."""
    import pyarrow
    import pyarrow.parquet

    ids, labels = ["clip é".encode(), b"b"], [b"cat;dog", b"dog"]
    np.savez(tmp_path / "t.npz", id=np.array(ids), labels=np.array(labels), clip=np.ones((2, 3)))
    columns = {"id": ids, "clip": [[1.0] * 3] * 2}
    lists = pyarrow.array([[b"cat", None, b"dog"], [b"dog"]])
    pyarrow.parquet.write_table(pyarrow.table({**columns, "labels": labels}), tmp_path / "t.parquet")
    pyarrow.parquet.write_table(pyarrow.table({**columns, "labels": lists}), tmp_path / "lists.parquet")
    for name in ("t.npz", "t.parquet", "lists.parquet"):
        make(RecordsConfig(table=str(tmp_path / name), out=str(tmp_path / "out"), overwrite=True))
        found = {
            video: record.context["labels"].values() for video, (_, record) in read(tmp_path / "out/video").items()
        }
        assert found == {"clip é": [0, 1], "b": [0]}
        assert vocabulary.read(str(tmp_path / "out/vocabulary.csv")).names == ("dog", "cat")


@pytest.mark.parametrize("kind", [bool, np.int64, np.float32])
def test_labels_that_are_a_matrix_of_zeros_and_ones_are_refused(tmp_path: pathlib.Path, kind: type) -> None:
    ids, clip = np.array(["a", "b"]), np.ones((2, 3))
    np.savez(tmp_path / "t.npz", id=ids, labels=np.array([[0, 1, 0, 1], [0, 0, 1, 0]], kind), clip=clip)
    flags = {"table": str(tmp_path / "t.npz"), "out": str(tmp_path / "out")}
    with pytest.raises(UsageError, match=r"labels is a matrix \[2, 4\] of only 0 and 1; expected the names or numbers"):
        make(RecordsConfig(**flags))
    np.savez(tmp_path / "t.npz", id=ids, labels=np.array([[0, 3], [2, 2]]), clip=clip)
    make(RecordsConfig(**flags))
    found = {video: record.context["labels"].values() for video, (_, record) in read(tmp_path / "out/video").items()}
    assert found == {"a": [0, 3], "b": [2]}
