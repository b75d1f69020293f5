"""Rows and columns of a sheet that its program does not show: in .xlsx and .ods. The reader of .xls cannot know."""

from __future__ import annotations

import html
import re
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

from yt8m.tables.sources.encodings import open_bytes

_HIDDEN_ROW = re.compile(
    rb'<row\b(?=[^>]{0,300}\bhidden="(?:1|true)")[^>]{0,300}?\br="([0-9]{1,12})"'
)  # by a filter, or by hand
_COLUMNS = re.compile(rb"<col\b[^>]{1,300}>")
_OPEN_DOCUMENT = "content.xml"  # the file of all sheets of an .ods
_TAG_OF_ODS = re.compile(rb"<table:table(?:-row|-column)?(?=[\s/>])[^>]*>")
_HIDDEN_IN_ODS = ("collapse", "filter")
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 14
_PIECE = 1 << 20  # bytes that are read at a time
_LONGEST_TAG = 700
_SHEET = re.compile(r"<sheet\b[^>]*>")
_RELATION = re.compile(r"<Relationship\b[^>]*>")
_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


class HiddenCells(NamedTuple):
    """The numbers of rows and columns, from 1, that a program does not show."""

    rows: set[int]
    columns: set[int]
    program: str


def find(path: str, name: str) -> HiddenCells:
    """What is hidden in a sheet of a workbook; nothing of an .xls."""
    try:
        with open_bytes(path) as file, zipfile.ZipFile(file) as archive:
            if _OPEN_DOCUMENT in archive.namelist():
                return _find_in_ods(archive, name)
            return _find_in_xlsx(archive, name)
    except (zipfile.BadZipFile, KeyError, NotImplementedError, ValueError):
        return HiddenCells(set(), set(), "")  # another kind of workbook


def member_of(archive: zipfile.ZipFile, name: str) -> str:
    """The file of a sheet in an .xlsx. Raises `KeyError` if there is none."""
    sheets = [_attributes(tag) for tag in _SHEET.findall(archive.read("xl/workbook.xml").decode(errors="replace"))]
    relations = archive.read("xl/_rels/workbook.xml.rels").decode(errors="replace")
    targets = {tag["Id"]: tag["Target"] for tag in map(_attributes, _RELATION.findall(relations))}
    target = targets[next((sheet.get("r:id", "") for sheet in sheets if sheet.get("name") == name), "")]
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _find_in_xlsx(archive: zipfile.ZipFile, name: str) -> HiddenCells:
    rows, columns, tail = set[int](), set[int](), b""
    with archive.open(member_of(archive, name)) as sheet:
        while piece := sheet.read(_PIECE):
            rows.update(int(number) for number in _HIDDEN_ROW.findall(tail + piece))
            for tag in map(_attributes, map(bytes.decode, _COLUMNS.findall(tail + piece))):
                if tag.get("hidden") in ("1", "true"):
                    last = min(int(tag["max"]), _MOST_COLUMNS)
                    columns.update(range(int(tag["min"]), last + 1))
            tail = piece[-_LONGEST_TAG:]
    return HiddenCells(rows, columns, "Excel")


def _find_in_ods(archive: zipfile.ZipFile, name: str) -> HiddenCells:
    rows, columns = set[int](), set[int]()
    is_sheet, row, column = False, 0, 0
    for text in _tags_of_ods(archive):
        tag = _attributes(text)
        is_hidden = is_sheet and tag.get("table:visibility") in _HIDDEN_IN_ODS
        if "table:name" in tag:
            is_sheet, row, column = tag["table:name"] == name, 0, 0
        elif text.startswith("<table:table-column"):
            count = int(tag.get("table:number-columns-repeated", 1))
            columns.update(range(column + 1, column + 1 + min(count, _MOST_COLUMNS)) if is_hidden else ())
            column += count
        else:
            count = int(tag.get("table:number-rows-repeated", 1))
            rows.update(range(row + 1, row + 1 + min(count, _MOST_ROWS)) if is_hidden else ())
            row += count
    return HiddenCells(rows, columns, "LibreOffice")


def _tags_of_ods(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yields the tags of sheets, columns and rows."""
    tail = b""
    with archive.open(_OPEN_DOCUMENT) as document:
        while piece := document.read(_PIECE):
            text, _, tail = (tail + piece).rpartition(b"<")  # the last tag may be cut
            tail = b"<" + tail
            yield from map(bytes.decode, _TAG_OF_ODS.findall(text))


def _attributes(tag: str) -> dict[str, str]:
    return {name: html.unescape(first or second) for name, first, second in _ATTRIBUTE.findall(tag)}
