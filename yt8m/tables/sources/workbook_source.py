"""Tables in workbooks of Excel and LibreOffice: .xlsx, .xls, .ods."""

from __future__ import annotations

import datetime
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

from yt8m.errors import RunError, UsageError, first_line, missing_extra
from yt8m.tables.sources import hidden_cells
from yt8m.tables.sources.dialects import invented_names
from yt8m.tables.sources.encodings import open_bytes
from yt8m.tables.sources.headers import find_header
from yt8m.tables.sources.source import MemorySource, refuse_repeated_columns, with_numbers
from yt8m.tables.words.meanings import is_of_labels
from yt8m.tables.words.numbers import cell_text

ENDINGS = (".xlsx", ".xlsm", ".xls", ".ods")
# python-calamine makes a rectangle of all cells of a sheet, and ends the process if the memory does not suffice.
_MOST_CELLS = 50_000_000
_CELL = re.compile(rb'<c\b[^>]{0,200}?\br="([A-Z]{1,9})([0-9]{1,12})"')
_PIECE, _LONGEST_CELL = 1 << 20, 300  # bytes that are read at a time, and of what begins a cell
# A cell with a formula and without its value; an empty text as the value of a formula has the type `str`.
_WITHOUT_VALUE = re.compile(
    rb'<c\b(?![^>]*\bt="str")[^>]*?\br="([A-Z]+[0-9]+)"[^>]*>\s*<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*'
    rb"(?:<v\s*/>|<v>\s*</v>|</c>)"
)
_LONGEST_FORMULA = 1 << 16  # bytes of a cell with its formula, of at most 8192 characters


def read_workbook(path: str, sheet: str = "", column_names: Sequence[str] = ()) -> MemorySource:
    """Reads the table of a workbook: the only sheet that has cells, or the one that is named."""
    sheets, hidden = _read_sheets(path)
    filled = {name: rows for name, rows in sheets.items() if any(map(any, rows))}
    if not sheet and len(shown := [name for name in filled if name not in hidden]) == 1:
        sheet = shown[0]
    if sheet and sheet not in filled:
        raise UsageError(f"{path} has no sheet {sheet!r} with cells; it has: {', '.join(filled) or 'none'}.")
    if not sheet and len(filled) != 1:
        remedy = f"name one after the path, as in --table='{path}#{next(iter(filled), 'Sheet1')}'"
        raise UsageError(f"{path} has {len(filled)} sheets with cells ({', '.join(filled) or 'none'}); {remedy}.")
    name, rows = (sheet, filled[sheet]) if sheet else next(iter(filled.items()))
    _refuse_formulas_without_value(path, name)
    numbered = [(number, row) for number, row in enumerate(rows, 1) if any(row)]
    header, skipped = find_header([row for _, row in numbered], column_names)
    header = header if skipped else list(invented_names([row for _, row in numbered]))
    header = list(with_numbers([text.strip() for text in header], is_of_labels))
    refuse_repeated_columns(path, header)
    cells = {column: [row[index] for _, row in numbered[skipped:]] for index, column in enumerate(header) if column}
    described = _describe(path, name, [number for number, _ in numbered[skipped:]], header, hidden)
    source = MemorySource(path, cells, described, lines=[number for number, _ in numbered[skipped:]])
    unnamed = [place for place, column in enumerate(header) if place and not column]
    texts = {place + 1: {row[place] for _, row in numbered[skipped:] if row[place]} for place in unnamed}
    source.cells_without_name = lambda: texts
    source.is_workbook = True
    return source


def _describe(
    path: str, name: str, numbers: Sequence[int], header: Sequence[str], hidden_sheets: Collection[str]
) -> str:
    """What is said of a sheet, and of what Excel does not show of the workbook.

    Args:
      numbers: those of the rows of data.
      header: the names of all columns, from the first one of the sheet on.
    """
    hidden = hidden_cells.find(path, name)
    count = len(hidden.rows.intersection(numbers))
    columns = [f'"{column}"' for place, column in enumerate(header, 1) if column and place in hidden.columns]
    remarks = ["which is hidden"] if name in hidden_sheets else []
    if count:
        remarks.append(
            f"{count} of whose {len(numbers)} rows {hidden.program} hides, as by a filter; they are read too"
        )
    if columns:
        names = ", ".join(columns[:4])
        remarks.append(f"{len(columns)} of whose columns {hidden.program} hides; they are read too: {names}")
    others = [f'"{other}"' for other in hidden_sheets if other != name]
    passed_over = f"; passed over, because hidden: {', '.join(others[:4])}" if others else ""
    return ", ".join([f'the sheet "{name}"', *remarks]) + passed_over


def _read_sheets(path: str) -> tuple[dict[str, list[list[str]]], list[str]]:
    """({sheet: its rows}, the sheets with cells that a program hides)."""
    try:
        import python_calamine
    except ImportError as error:
        purpose = f"--table={path}"
        raise missing_extra(purpose, "python-calamine", "data", ", or save the sheet as CSV in UTF-8") from error
    with open_bytes(path) as file:
        _refuse_far_cells(path, file)
        try:
            workbook = python_calamine.load_workbook(file)
            sheets = {
                name: workbook.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in workbook.sheet_names
            }
        except (python_calamine.CalamineError, OSError, ValueError) as error:
            raise RunError(f"{path} is not a workbook that can be read: {first_line(error)}") from error
    shown = python_calamine.SheetVisibleEnum.Visible
    hidden = [sheet.name for sheet in workbook.sheets_metadata if sheet.visible != shown and any(sheets[sheet.name])]
    return {name: [list(map(_text, row)) for row in rows] for name, rows in sheets.items()}, hidden


def _refuse_far_cells(path: str, file: BinaryIO) -> None:
    """Raises `RunError` if cells of an .xlsx lie so far apart that the rectangle around them has too many cells."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
            for name in names:
                places = list(_outer_cells(archive, name))
                rows, columns = ([place[axis] for place in places] for axis in (0, 1))
                count = (max(rows) - min(rows) + 1) * (max(columns) - min(columns) + 1) if places else 0
                if count > _MOST_CELLS:
                    raise RunError(
                        f"{path}: the cells of {name} reach over {max(rows):,} rows and {max(columns):,} columns. "
                        "Delete the stray cell far from the table, or save the sheet as CSV in UTF-8."
                    )
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError):
        pass  # another kind of workbook, or a damaged one, of which the reader says what is wrong
    finally:
        file.seek(0)


def _refuse_formulas_without_value(path: str, name: str) -> None:
    """Raises `UsageError` if a cell of a sheet of an .xlsx has a formula alone, which would be read as empty."""
    try:
        with open_bytes(path) as file, zipfile.ZipFile(file) as archive:
            cell = _formula_without_value(archive, hidden_cells.member_of(archive, name))
    except (zipfile.BadZipFile, KeyError, NotImplementedError):
        return  # another kind of workbook
    if cell:
        raise UsageError(
            f'{path}, the sheet "{name}": the cell {cell} has a formula, but not its value, as programs write it that '
            "do not calculate (openpyxl). Open the workbook in Excel or LibreOffice and save it, which stores the "
            "values, or write the values in place of the formulas."
        )


def _formula_without_value(archive: zipfile.ZipFile, name: str) -> str:
    """The first cell of a sheet with a formula and no value, such as B5; empty if there is none."""
    with archive.open(name) as sheet:
        tail = b""
        while piece := sheet.read(_PIECE):
            text = tail + piece
            if b"<f" in text and (match := _WITHOUT_VALUE.search(text)):
                return match[1].decode()
            tail = text[-_LONGEST_FORMULA:]
    return ""


def _outer_cells(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[int, int]]:
    """Yields the first and the last (row, column) of the cells in each piece of a sheet."""
    with archive.open(name) as sheet:
        tail = b""
        while piece := sheet.read(_PIECE):
            places = [(int(row), _column(letters)) for letters, row in _CELL.findall(tail + piece)]
            if places:
                for corner in (min, max):
                    yield corner(row for row, _ in places), corner(column for _, column in places)
            tail = piece[-_LONGEST_CELL:]


def _column(letters: bytes) -> int:
    """The number of a column from 1, such as 28 for AB."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


def _text(value: Any) -> str:
    """The text of a cell as people see it: whole numbers without a fraction."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return cell_text(value)
