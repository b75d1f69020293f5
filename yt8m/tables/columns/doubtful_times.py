"""Cells of times with two readings: commas, hours that workbooks made of minutes, and dates.

A comma is a decimal comma, as in 12,5, or stands between thousands, as in 1,100.5. Programs for workbooks take a 1:12
that people type for an hour and twelve minutes, 01:12:00.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.columns.facts import Facts
from yt8m.tables.sources.source import Source
from yt8m.tables.words.time_columns import CLOCKS, unit_of

_WITH_COMMA = re.compile(r"\d+(,\d+)+(\.\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d+)?", re.ASCII)
_SURE = re.compile(r"\d{1,3}(,\d{3}){2,}(\.\d+)?|\d{1,3}(,\d{3})+\.\d+", re.ASCII)
_POINT = re.compile(r"\d+\.\d+", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d{4}/\d\d?/\d\d?( .*)?", re.ASCII)
_HOURS = re.compile(r"(\d\d):(\d\d):(\d\d)(\.\d+)?", re.ASCII)


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


def have_any(cells: Iterable[Any]) -> bool:
    """Whether a cell has a comma between digits."""
    return any(isinstance(cell, str) and _WITH_COMMA.fullmatch(cell.strip()) for cell in cells)


def can_only_be_thousands(cells: Iterable[Any]) -> bool:
    """Whether cells of whole numbers have commas, all of them between thousands."""
    with_comma = [cell.strip() for cell in cells if isinstance(cell, str) and _WITH_COMMA.fullmatch(cell.strip())]
    return bool(with_comma) and all(map(_THOUSANDS.fullmatch, with_comma))


def without(cell: Any) -> Any:
    """A cell without the commas between its thousands."""
    return cell.replace(",", "") if isinstance(cell, str) and _WITH_COMMA.fullmatch(cell.strip()) else cell


def refuse_unclear_hours(source: Source, facts: Mapping[str, Facts], columns: Sequence[str]) -> None:
    """Refuses columns of times that may be hours and minutes, or minutes and seconds as people typed them.

    Times with whole seconds, such as 00:01:12, were typed with hours; then the others were too.
    """
    names = [name for name in columns if name in facts and unit_of(name) not in CLOCKS]
    if not getattr(source, "is_workbook", False) or not names:
        return
    times = [match for name in names for cell in facts[name].counts if (match := _HOURS.fullmatch(str(cell)))]
    have_seconds = any(time[3] != "00" and not time[4] for time in times)
    without = [time for time in times if time[3] == "00" and not time[4] and time[0] != "00:00:00"]
    if without and not have_seconds:
        shown = next((time for time in without if time[1] != "00"), without[0])
        hours, minutes = int(shown[1]), int(shown[2])
        raise UsageError(
            f'{source.path}: "{names[0]}" has times without seconds, such as {shown[0]}: either {hours} hours and '
            f"{minutes} minutes, or {hours} minutes and {minutes} seconds, which the workbook took for hours. In the "
            f"latter case write {60 * hours + minutes}, or 0:{hours:02}:{minutes:02}; in the former, name the column "
            f'"{names[0]} (hh:mm:ss)".'
        )


def refuse_dates(path: str, facts: Mapping[str, Facts], start: str, end: str, *, are_spans: bool) -> None:
    """Refuses columns of starts and ends that hold dates, as programs for forms write when somebody answered."""
    roles = {
        role: name
        for role, name in (("start", start), ("end", end))
        if name in facts and (cells := facts[name].filled[:1000]) and all(_DATE.fullmatch(str(cell)) for cell in cells)
    }
    if not roles:
        return
    name = next(iter(roles.values()))
    others = (
        "" if are_spans else f"; or they say when somebody worked: --columns={','.join(f'{role}=' for role in roles)}"
    )
    raise UsageError(
        f'{path}: "{name}" has dates, such as {str(facts[name].filled[0])[:40]}, which name no part of a video. Write '
        f"seconds from the start of the video in place of them{others}."
    )
