"""Rows, columns and sheets that Excel hides: cells are read as programs that save CSV read them, and all are said."""

from __future__ import annotations

import pathlib
import zipfile
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


def test_hidden_columns_are_read_and_said(tmp_path: pathlib.Path) -> None:
    book = workbook(names="hidden")
    book["may"].column_dimensions["B"].hidden = book["may"].column_dimensions["D"].hidden = True
    book.save(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx") == SORTED
    said = 'the sheet "may", 1 of whose columns Excel hides; they are read too: "labels"; passed'
    assert said in said_of(tmp_path / "t.xlsx")


def test_hidden_columns_of_ods_are_read_and_said(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("python_calamine")
    save_ods(tmp_path / "t.ods", (3,), '<table:table-column/><table:table-column table:visibility="collapse"/>')
    assert read(tmp_path / "t.ods") == SORTED
    assert '1 of whose columns LibreOffice hides; they are read too: "labels"' in said_of(tmp_path / "t.ods")
    shown = '<table:table-column table:number-columns-repeated="2"/>'
    save_ods(tmp_path / "u.ods", (), f'{shown}<table:table-column table:visibility="collapse"/>')
    assert "hides" not in said_of(tmp_path / "u.ods")


def save_ods(path: pathlib.Path, hidden: tuple[int, ...], columns: str = "") -> None:
    """A workbook of LibreOffice with the sheets `notes` and `may`; a filter hides the rows with these numbers."""
    rows = [("id", "labels"), *((video, ";".join(labels)) for video, labels in MADE.items())]
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    tags = [' table:visibility="filter"' if number in hidden else "" for number in range(1, len(rows) + 1)]
    lines = [
        f"<table:table-row{tag}>{''.join(map(cell.format, row))}</table:table-row>"
        for tag, row in zip(tags, rows, strict=True)
    ]
    first = '<table:table-row table:number-rows-repeated="3"><table:table-cell/></table:table-row>'
    last = '<table:table-row table:number-rows-repeated="1048535" table:visibility="collapse"><table:table-cell/>'
    names = {kind: f"urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0" for kind in ("office", "table", "text")}
    empty = '<table:table table:name="notes"><table:table-row><table:table-cell/></table:table-row></table:table>'
    sheet = f'<table:table table:name="may">{columns}{first}{"".join(lines)}{last}</table:table-row></table:table>'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
        archive.writestr("META-INF/manifest.xml", f'<m:manifest xmlns:m="{manifest}"></m:manifest>')
        spaces = " ".join(f'xmlns:{kind}="{name}"' for kind, name in names.items())
        body = f"<office:body><office:spreadsheet>{empty}{sheet}</office:spreadsheet></office:body>"
        archive.writestr("content.xml", f"<office:document-content {spaces}>{body}</office:document-content>")


def test_hidden_rows_of_ods_are_read_and_counted_too(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("python_calamine")
    save_ods(tmp_path / "t.ods", (3, 4, 41, 1))
    assert read(tmp_path / "t.ods") == SORTED
    assert "3 of whose 40 rows LibreOffice hides, as by a filter; they are read too" in said_of(tmp_path / "t.ods")
    save_ods(tmp_path / "u.ods", (1,))
    assert "hides" not in said_of(tmp_path / "u.ods")
