"""Rows and sheets that Excel hides: rows are read as programs that save CSV read them, and both are said."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from table_files import SHORT, read, truth

from yt8m.tables.understood import TableFlags, understand

MADE = truth(SHORT)
SORTED = {video: sorted(labels) for video, labels in MADE.items()}


def workbook(hidden_rows: tuple[int, ...] = (), **states: str) -> Any:
    """A workbook with the sheet `may` and a list of the classes; `states` are those of its sheets."""
    book = pytest.importorskip("openpyxl").Workbook()
    sheet = book.active
    sheet.title = "may"
    sheet.append(["id", "labels"])
    for video, labels in MADE.items():
        sheet.append([video, ";".join(labels)])
    for number in hidden_rows:
        sheet.row_dimensions[number].hidden = True
    names = book.create_sheet("names")
    for name in SHORT:
        names.append([name])
    for name, state in states.items():
        book[name].sheet_state = state
    return book


def said_of(path: pathlib.Path, sheet: str = "") -> str:
    return "; ".join(understand("--table", f"{path}{sheet}", TableFlags()).describe())


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_the_only_sheet_that_is_shown_is_the_table(state: str, tmp_path: pathlib.Path) -> None:
    workbook(names=state).save(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx") == SORTED
    assert 't.xlsx: the sheet "may"; passed over, because hidden: "names"' in said_of(tmp_path / "t.xlsx")
    workbook(may=state).save(tmp_path / "u.xlsx")
    assert read(tmp_path / "u.xlsx#may") == SORTED
    assert 'the sheet "may", which is hidden' in said_of(tmp_path / "u.xlsx", "#may")


def test_hidden_rows_are_read_and_counted(tmp_path: pathlib.Path) -> None:
    workbook((3, 4, 41, 99), names="hidden").save(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx") == SORTED
    assert "3 of whose 40 rows Excel hides, as by a filter; they are read too" in said_of(tmp_path / "t.xlsx")
    workbook((1,), names="hidden").save(tmp_path / "u.xlsx")
    assert "hides" not in said_of(tmp_path / "u.xlsx")
