"""Times that are none of a video: hours that workbooks made of minutes, and dates.

Programs for workbooks take a 1:12 that people type for an hour and twelve minutes, 01:12:00.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from yt8m.errors import UsageError
from yt8m.tables.columns.facts import Facts
from yt8m.tables.sources.source import Source
from yt8m.tables.words.meanings import normalized
from yt8m.tables.words.time_columns import CLOCK, divided

_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d{4}/\d\d?/\d\d?( .*)?", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(\.\d+)?", re.ASCII)


def refuse_unclear(source: Source, facts: Mapping[str, Facts], columns: Sequence[str]) -> None:
    """Refuses columns of times that may be hours and minutes, or minutes and seconds as people typed them.

    Times with whole seconds, such as 00:01:12, were typed with hours; then the others were too.
    """
    names = [name for name in columns if name in facts and divided(normalized(name)).unit != CLOCK]
    if not getattr(source, "is_workbook", False) or not names:
        return
    times = [match for name in names for cell in facts[name].counts if (match := _TIME.fullmatch(str(cell)))]
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
