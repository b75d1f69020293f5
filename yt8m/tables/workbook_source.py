"""Tables in workbooks of Excel and LibreOffice: .xlsx, .xls, .ods."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from yt8m.errors import RunError, UsageError, first_line, missing_extra
from yt8m.tables.dialects import find_header, invented_names
from yt8m.tables.encodings import open_bytes
from yt8m.tables.sources import MemorySource, refuse_repeated_columns

ENDINGS = (".xlsx", ".xlsm", ".xls", ".ods")


def read_workbook(path: str, sheet: str = "", column_names: Sequence[str] = ()) -> MemorySource:
    """Reads the table of a workbook: the only sheet that has cells, or the one that is named."""
    sheets = _read_sheets(path)
    filled = {name: rows for name, rows in sheets.items() if any(map(any, rows))}
    if sheet and sheet not in filled:
        raise UsageError(f"{path} has no sheet {sheet!r} with cells; it has: {', '.join(filled) or 'none'}.")
    if not sheet and len(filled) != 1:
        remedy = f"name one after the path, as in --table='{path}#{next(iter(filled), 'Sheet1')}'"
        raise UsageError(f"{path} has {len(filled)} sheets with cells ({', '.join(filled) or 'none'}); {remedy}.")
    name, rows = (sheet, filled[sheet]) if sheet else next(iter(filled.items()))
    numbered = [(number, row) for number, row in enumerate(rows, 1) if any(row)]
    header, skipped = find_header([row for _, row in numbered], column_names)
    header = header if skipped else list(invented_names([row for _, row in numbered]))
    header = [text.strip() for text in header]
    refuse_repeated_columns(path, header)
    cells = {column: [row[index] for _, row in numbered[skipped:]] for index, column in enumerate(header) if column}
    return MemorySource(path, cells, f'the sheet "{name}"', lines=[number for number, _ in numbered[skipped:]])


def _read_sheets(path: str) -> dict[str, list[list[str]]]:
    try:
        import python_calamine
    except ImportError as error:
        purpose = f"--table={path}"
        raise missing_extra(purpose, "python-calamine", "data", ", or save the sheet as CSV in UTF-8") from error
    with open_bytes(path) as file:
        try:
            workbook = python_calamine.load_workbook(file)
            sheets = {
                name: workbook.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in workbook.sheet_names
            }
        except (python_calamine.CalamineError, OSError, ValueError) as error:
            raise RunError(f"{path} is not a workbook that can be read: {first_line(error)}") from error
    return {name: [list(map(_text, row)) for row in rows] for name, rows in sheets.items()}


def _text(value: Any) -> str:
    """The text of a cell as people see it: whole numbers without a fraction."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
