"""Numbers in the cells of a table, also with decimal commas, and the texts of numbers."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
# As people write numbers, perhaps with a decimal comma.
WRITTEN_NUMBER = re.compile(NUMBER.pattern.replace(r"\.", "[.,]"), re.ASCII | re.IGNORECASE)
# A number with a decimal comma; 1,234 may be a thousand.
_DECIMAL_COMMA = re.compile(r"[+-]?(0?,\d+|\d+,(\d{1,2}|\d{4,}))(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def float_text(number: float) -> str:
    """The text of a number, of a whole one without a fraction."""
    return str(int(number)) if number.is_integer() else str(number)


def cell_text(cell: Any) -> str:
    """The text of a cell; empty if the cell is."""
    if cell is None or cell != cell:
        return ""
    return float_text(cell) if isinstance(cell, float) else str(cell)


def with_point(text: str) -> float:
    """The number in a text, which may have a decimal comma; raises `ValueError` if there is none."""
    return float(text.replace(",", "."))


def matrix(columns: Sequence[Sequence[Any]], has_decimal_commas: bool) -> NDArray[np.float32]:
    """float32 [rows, columns]; NaN for what is no number."""
    try:
        return np.array(columns, np.float64).T.astype(np.float32)
    except (ValueError, TypeError):
        has_decimal_commas |= any(map(has_decimal_comma, itertools.chain(*columns)))
        return np.array([[number(cell, has_decimal_commas) for cell in column] for column in columns], np.float32).T


def has_decimal_comma(cell: Any) -> bool:
    """Whether a cell has a number with a decimal comma; 1,234 may be a thousand, so it has none."""
    return isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell.strip()) is not None


def number(cell: Any, has_decimal_commas: bool) -> float:
    """The number in a cell; NaN if there is none."""
    text = str(cell).replace(",", ".") if has_decimal_commas else str(cell)
    try:
        return float(text)
    except ValueError:
        return float("nan")


def number_list(cell: Any) -> Any:
    """The list in a cell; text is read as JSON, or as NumPy writes it."""
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except ValueError:
        pass
    try:
        return [float(word) for word in re.split(r"[\s,;]+", cell.strip("[] \n"))]
    except ValueError:
        return None
