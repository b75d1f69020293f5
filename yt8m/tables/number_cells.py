"""Cells that hold the values of features: a column for each value, or a list of numbers in a cell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def matrix(columns: Sequence[Sequence[Any]], has_decimal_commas: bool) -> NDArray[np.float32]:
    """float32 [rows, columns]; NaN for what is no number."""
    try:
        return np.array(columns, np.float64).T.astype(np.float32)
    except (ValueError, TypeError):
        return np.array([[_number(cell, has_decimal_commas) for cell in column] for column in columns], np.float32).T


def _number(cell: Any, has_decimal_commas: bool) -> float:
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
        return [float(word) for word in cell.strip("[] \n").replace(",", " ").split()]
    except ValueError:
        return None
