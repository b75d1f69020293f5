"""CSV files: cells are those that Python's `csv` reads, in any dialect; damaged rows are refused with their line."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yt8m.errors import RunError
from yt8m.tables.sources import encodings
from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.understood import TableFlags, understand

_CELLS = st.text(alphabet="ab;\"é,\u2028\x0b'", max_size=4) | st.just("plain")
_ROWS = st.lists(st.tuples(_CELLS, _CELLS), max_size=9)


def _read(path: pathlib.Path, size: int, skip: int = 0) -> list[tuple[str, str]]:
    found, expected = [], skip + 1
    for rows in CsvSource(str(path)).batches(size, skip, ("id", "labels")):
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
        (b"id,labels\na,b\nc,\x8e\nd,e\n", "line 3: this is not UTF-8"),
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
    (rows,) = CsvSource(str(path)).batches(10, 0, ("id", "labels"))
    assert rows.cells == {"id": ("a", "", "", "g"), "labels": ("b", "", "", "h")}
    assert rows.bad == {
        2: "the row has 1 fields, but the header has 2; put a text with a comma in quotes",
        3: "the row has 3 fields, but the header has 2; put a text with a comma in quotes",
    }


@pytest.mark.parametrize("content", ["id,labels\na,b".encode("utf-16")[:-1], b"\xff\xfeid,labels"])
@pytest.mark.parametrize("read", [lambda path: CsvSource(str(path)), lambda path: encodings.read_text(str(path))])
def test_a_text_of_utf16_that_was_cut_in_a_character_is_named(
    tmp_path: pathlib.Path, content: bytes, read: Callable[[pathlib.Path], Any]
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"t\.csv.* (damaged|truncated|UTF-16)"):
        read(path)


@pytest.mark.parametrize(("header", "width"), [("id,label_1", 2), ("id,label_1,label_2,label_3", 2), ("id,x_1,x_2", 3)])
def test_only_further_labels_may_be_missing(header: str, width: int, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    filled = ["v1", *["a"] * header.count(",")]
    path.write_text("\n".join([header, *[",".join(filled)] * 3, ",".join(filled[: width - 1])]))
    (rows,) = CsvSource(str(path)).batches(10)
    assert list(rows.bad) == [4]
    path.write_text("\n".join([header, *[",".join(filled)] * 3, ",".join(filled[:width])]))
    (rows,) = CsvSource(str(path)).batches(10)
    assert rows.bad == {}


def test_a_quote_that_is_never_closed_is_reported_where_it_opens(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('id,labels\na,cat\nb,"dog\nc,cat\nd,dog\n')
    with pytest.raises(RunError, match=r"line 3: this is not CSV"):
        list(CsvSource(str(path)).batches(10, 0, ["id"]))


@pytest.mark.parametrize("comment", ["# by ann", "#by ann", "# by ann, and bob", "# a, b, c"])
def test_a_comment_below_the_header_is_no_row(comment: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"id,labels\n{comment}\na,cat\n#1,dog\n")
    (rows,) = CsvSource(str(path)).batches(10, 0, ["id", "labels"])
    assert (list(rows.cells["id"]), rows.bad) == (["a", "#1"], {})


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_number_sign_names_the_column_of_numbers(sign: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    rows = [("#", "video", "cat", "dog"), *((n, f"v{n}", n % 2, 1 - n % 2) for n in range(1, 9))]
    path.write_text("".join(sign.join(map(str, row)) + "\n" for row in rows))
    table = understand("--table", str(path), TableFlags())
    (found,) = table.batches(10)
    assert list(found.cells["id"]) == [f"v{n}" for n in range(1, 9)]
    assert [list(labels) for labels in found.cells["labels"]] == [["cat"] if n % 2 else ["dog"] for n in range(1, 9)]
    rows[1:] = [
        (f"x{n}f", f"v{n}", *(("cat", "") if n % 2 else ("", "dog"))) for n in range(1, 9)
    ]  # as Typeform writes them
    path.write_text("".join(sign.join(map(str, row)) + "\n" for row in rows))
    (found,) = understand("--table", str(path), TableFlags()).batches(10)
    assert list(found.cells["id"]) == [f"v{n}" for n in range(1, 9)]
    assert ["".join(labels) for labels in found.cells["labels"]] == ["cat" if n % 2 else "dog" for n in range(1, 9)]
    path.write_text(f"#{sign}made by{sign}ann\nid{sign}label\n" + "".join(f"v{n}{sign}cat\n" for n in range(9)))
    assert CsvSource(str(path)).columns == ["id", "label"]
