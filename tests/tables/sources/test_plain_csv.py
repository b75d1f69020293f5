"""Plain CSV files by Arrow: the rows are those that Python's `csv` reads, or the file is said not to be plain."""

from __future__ import annotations

import csv
import pathlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_files import read

from yt8m.errors import RunError
from yt8m.tables.sources import plain_csv
from yt8m.tables.sources.csv_source import CsvSource

_PIECES = ["a", "b c", "é", '"', '""', ",", ";", "\n", "\r\n", "\r", " ", "\u2028", "\x0b", "#", "nan", "0"]
_CELLS = st.text(alphabet='ab;,"é\u2028\n', max_size=4) | st.just("plain")


def _by_arrow(path: pathlib.Path, size: int, skip: int) -> list[tuple[str, ...]]:
    dialect = CsvSource(str(path)).dialect
    columns = [name for name in dialect.header if name]
    batches = plain_csv.read_batches(str(path), dialect, size, skip, columns)
    found = list[tuple[str, ...]]()
    for rows in batches:
        assert rows.first == skip + 1 + len(found)
        assert 0 < rows.size <= size
        found += zip(*(rows.cells[name] for name in columns), strict=True)
    return found


def _by_csv(path: pathlib.Path, skip: int) -> list[tuple[str, ...]]:
    source = CsvSource(str(path))
    batches = source.batches(1000, skip, source.columns)
    return [row for rows in batches for row in zip(*(rows.cells[name] for name in source.columns), strict=True)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.lists(st.sampled_from(_PIECES), max_size=30).map("".join), st.integers(1, 4), st.integers(0, 3))
def test_any_text_is_read_alike_or_is_not_plain(tmp_path: pathlib.Path, body: str, size: int, skip: int) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(("id,labels\nx,y\n" + body).encode())
    try:
        if not plain_csv.is_readable(CsvSource(str(path)).dialect, "utf-8"):
            return
        by_arrow = _by_arrow(path, size, skip)
    except (plain_csv.NotPlainError, RunError):
        return
    assert by_arrow == _by_csv(path, skip)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(_CELLS, _CELLS), min_size=1, max_size=9),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_csv_writes_is_plain_without_line_breaks_in_cells(
    tmp_path: pathlib.Path, rows: list[tuple[str, str]], delimiter: str, quoting: int, end: str
) -> None:
    rows = [(f"v{number}{first}", second) for number, (first, second) in enumerate(rows)]
    path = tmp_path / "t.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
        writer.writerows([("id", "labels"), *rows])
    if any("\n" in cell for row in rows for cell in row):
        with pytest.raises(plain_csv.NotPlainError):
            _by_arrow(path, 3, 0)
    else:
        assert _by_arrow(path, 3, 0) == _by_csv(path, 0) == rows


def _write_large(path: pathlib.Path, last: str = "") -> dict[str, list[str]]:
    truth = {f"video{number:06d}": sorted({f"class {number % 7}", f"class {number % 5}"}) for number in range(20_000)}
    lines = (f"{video},{'|'.join(labels)}\n" for video, labels in truth.items())
    path.write_text("video,tags\n" + "".join(lines) + last, encoding="utf-8")
    assert path.stat().st_size > 1 << 18  # large enough for Arrow
    return truth


def test_a_large_table_is_read_whole(tmp_path: pathlib.Path) -> None:
    truth = _write_large(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv") == truth


def test_a_large_table_goes_on_with_csv_where_it_is_not_plain(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    truth = _write_large(path, '"of two\nlines",class 1|class 2\nlast,\n')
    assert read(path) == truth | {"of two\nlines": ["class 1", "class 2"], "last": []}


def test_a_bad_row_of_a_large_table_has_its_number(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    _write_large(path, "short\nlast,class 1\n")
    source = CsvSource(str(path))
    bad = {number: text for rows in source.batches(8192, 0, source.columns) for number, text in rows.bad.items()}
    assert list(bad) == [20_001]
    assert source.line_of(20_001) == 20_002


@pytest.mark.parametrize("row", ["\ufeffv,cat,x\n", f"v,cat,{'x' * csv.field_size_limit()}x\n"])
def test_a_mark_and_a_field_too_long_for_csv_are_not_plain(tmp_path: pathlib.Path, row: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"id,labels,note\n{row}" + "w,dog,y\n" * 9)
    with pytest.raises(plain_csv.NotPlainError):
        _by_arrow(path, 4, 0)
