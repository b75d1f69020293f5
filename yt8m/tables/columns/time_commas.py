"""Commas in columns of times: decimal commas, as in 12,5, or those of thousands, as in 1,100.5."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from yt8m.errors import UsageError

_WITH_COMMA = re.compile(r"\d+(,\d+)+(\.\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d+)?", re.ASCII)
_SURE = re.compile(r"\d{1,3}(,\d{3}){2,}(\.\d+)?|\d{1,3}(,\d{3})+\.\d+", re.ASCII)
_POINT = re.compile(r"\d+\.\d+", re.ASCII)


def are_of_thousands(where: str, cells: Iterable[Any], has_decimal_commas: bool) -> bool:
    """Whether the commas in cells of times stand between thousands.

    Args:
      where: the file and its columns, for the error of commas that may be either.
      has_decimal_commas: whether a comma is a decimal comma if the cells may be either, as in files of programs that
        write semicolons between cells.
    """
    texts = [cell.strip() for cell in cells if isinstance(cell, str)]
    with_comma = [text for text in texts if _WITH_COMMA.fullmatch(text)]
    are_decimal = [text for text in with_comma if not _THOUSANDS.fullmatch(text)]
    are_thousands = [text for text in with_comma if _SURE.fullmatch(text)]
    points = [text for text in texts if _POINT.fullmatch(text)]
    if not with_comma or (are_decimal and not are_thousands and not points):
        return False
    if not are_decimal and (are_thousands or points):
        return True
    if has_decimal_commas and not are_thousands and not points:
        return False
    other = (are_thousands or points)[:1] if are_decimal else []
    first = (are_decimal or with_comma)[0]
    beside = f" stands beside {other[0]!r}, so that its comma" if other else ""
    raise UsageError(
        f"{where}: {first!r}{beside} may be a decimal comma, or stand between thousands. Write the times with decimal "
        f"points and without other commas, as in {first.replace(',', '.', 1)} or {first.replace(',', '')}."
    )


def without(cell: Any) -> Any:
    """A cell without the commas between its thousands."""
    return cell.replace(",", "") if isinstance(cell, str) and _WITH_COMMA.fullmatch(cell.strip()) else cell
