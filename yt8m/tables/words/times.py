"""Times in the cells of a table: seconds, `mm:ss.s`, `hh:mm:ss`, or numbers of frames; and spans of time.

A cell may have several spans: `12.4-31.0; 40-52`, `[[12.4, 31.0], [40, 52]]`.
"""

from __future__ import annotations

import ast
import datetime
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from yt8m.tables.words.numbers import WRITTEN_NUMBER, with_point

_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,4}):(\d{1,2}(?:[.,]\d*)?)", re.ASCII)
# As in 1h2m3.5s, 12.4 s and 500 ms.
_WITH_UNITS = re.compile(
    r"(?:(\d+) ?h(?:ours?)? ?)?(?:(\d+) ?m(?:in|inutes?)? ?)?(?:(\d+[.,]?\d*) ?(ms|msec|s|secs?|seconds?))?",
    re.ASCII | re.IGNORECASE,
)
# As pandas writes a duration, 0 days 00:00:12.4, and as ISO 8601 does, PT1M2.5S.
_DAYS = re.compile(r"(\d+) days?,? (?=\d+:\d+:\d)", re.ASCII)
_ISO = re.compile(r"PT(?=\d)((?:\d+H)?(?:\d+M)?(?:\d+(?:[.,]\d+)?S)?)", re.ASCII)
_TIMECODE = re.compile(r"(\d+):(\d{2}):(\d{2})[:;](\d{2,3})", re.ASCII)  # hours, minutes, seconds and frames
_TIME = r"\d[\d:.,]*(?: ?(?:h|m|min|s|sec|ms)\b ?\d?[\d.]*(?: ?s)?)?"
_RANGE = re.compile(rf"[\[(]?\s*({_TIME})\s*(?:-->|->|-|\u2013|\u2014|\u2192|~|\.\.+|to\b|bis\b)\s*({_TIME})\s*[\])]?")
_LATEST = 1e9  # seconds; a later time is no time of a video
_EXPECTED = "expected seconds from 0, or a time such as 1:02.5 or 0:01:02"
_EARLIEST_MOMENT, _UNITS_OF_MOMENTS = 1e9, 1e3  # a number of Unix time, and the most of its units in a second
_MOMENT = "a moment such as Unix time counts it; subtract the moment at which the video begins"
Range = tuple[Any, Any]  # the cells of a start and an end


class NotATimeError(ValueError):
    """A cell holds no time; the text says what it holds and what is expected."""


class Span(NamedTuple):
    """A part of a video that shows some classes.

    Attributes:
      start, end: seconds; the end does not belong to the span.
      labels: empty for a part of the video that people have looked at.
      row: the number of its row in the table, from 1; 0 if there is none.
      is_part: whether people have looked at this part, and others that are given so, of the video alone.
      denied: the labels of which people say that this part does not show them; it has no others then.
    """

    start: float
    end: float
    labels: tuple[str, ...]
    row: int = 0
    is_part: bool = False
    denied: tuple[str, ...] = ()


def is_empty(cell: Any) -> bool:
    """Whether a cell has no time."""
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell != cell


def parse_time(cell: Any, frame_rate: float = 0.0) -> float:
    """The seconds of a cell.

    Args:
      cell: a number, a text, or a time or duration as a workbook has it.
      frame_rate: how many are a second, if the cells count frames or another unit; 0 if they are times.
    """
    text, second = str(cell).strip(), _clock_seconds(cell)
    if second is None and WRITTEN_NUMBER.fullmatch(text):
        if frame_rate and "," in text:  # in 1,200 it is no decimal point, though it would be one of seconds
            raise NotATimeError(f"{text[:40]!r}; expected a number of frames, or of another unit, without a comma")
        number = with_point(text)
        if number >= _EARLIEST_MOMENT and (frame_rate <= _UNITS_OF_MOMENTS or number >= _LATEST * frame_rate):
            raise NotATimeError(f"{text[:40]!r}, {_MOMENT}")
        second = number / (frame_rate or 1.0)
    if second is None:
        second = _seconds_with_units(text)
    if second is None:
        second = _timecode_seconds(text, frame_rate)
    if second is None:
        raise NotATimeError(f"{text[:40]!r}; {_EXPECTED}")
    if not 0 <= second < _LATEST:
        raise NotATimeError(f"{str(cell)[:40]!r}; {_EXPECTED}")
    return second


def _clock_seconds(cell: Any) -> float | None:
    """The seconds of a time with colons, or of a time of a workbook; None for other cells."""
    if isinstance(cell, datetime.timedelta):
        return cell.total_seconds()
    if isinstance(cell, datetime.time):
        return cell.hour * 3600 + cell.minute * 60 + cell.second + cell.microsecond / 1e6
    text = cell.strip() if isinstance(cell, str) else ""
    days = _DAYS.match(text)
    match = _CLOCK.fullmatch(text[days.end() if days else 0 :])
    if match is None:
        return None
    hours, minutes, seconds = (with_point(text or "0") for text in match.groups())
    if seconds >= 60 or (match[1] and minutes >= 60):
        raise NotATimeError(f"{cell[:40]!r}; minutes and seconds are below 60")
    return int(days[1] if days else 0) * 86400 + hours * 3600 + minutes * 60 + seconds


def _seconds_with_units(text: str) -> float | None:
    """The seconds of a text such as `1h2m3.5s`, `500 ms` or `PT12.4S`; None for other texts."""
    iso = _ISO.fullmatch(text)
    match = _WITH_UNITS.fullmatch(iso[1].lower() if iso else text)
    if match is None or not any(match.groups()):
        return None
    hours, minutes, number, unit = match.groups()
    second = with_point(number or "0") / (1000 if (unit or "").lower().startswith("m") else 1)
    return float(hours or 0) * 3600 + float(minutes or 0) * 60 + second


def _timecode_seconds(text: str, frame_rate: float) -> float | None:
    """The seconds of a time code such as 00:01:02:12, whose last number counts frames; None for other texts."""
    match = _TIMECODE.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds, frames = map(int, match.groups())
    if not frame_rate:
        raise NotATimeError(f"{text!r}, which ends in a number of frames; say how many are a second by --frame_rate")
    if minutes >= 60 or seconds >= 60 or frames >= frame_rate:
        raise NotATimeError(f"{text!r}; minutes and seconds are below 60, and frames below {frame_rate:g}")
    return hours * 3600 + minutes * 60 + seconds + frames / frame_rate


def is_bare(cell: Any) -> bool:
    """Whether a cell holds a number without a unit, other than 0, which is the same in all units."""
    text = str(cell).strip()
    return WRITTEN_NUMBER.fullmatch(text) is not None and with_point(text) != 0


def is_clock(cell: Any) -> bool:
    """Whether a cell holds a time with colons, or a time of a workbook, which is no number of frames."""
    return _clock_seconds(cell) is not None


def are_times(cells: Iterable[Any]) -> bool:
    """Whether every cell holds a time."""
    try:
        for cell in cells:
            parse_time(cell)
    except NotATimeError:
        return False
    return True


def ranges_in(cell: Any) -> list[Range] | None:
    """The starts and ends in a cell; None if it holds anything else."""
    value = listed(cell)
    if value is not None:
        if len(value) == 2 and all(isinstance(item, int | float) for item in value):
            return [(value[0], value[1])]
        pairs = [ranges_in(item) for item in value]
        if any(pair is None or len(pair) != 1 for pair in pairs):
            return None
        return [pair[0] for pair in pairs if pair]
    if not isinstance(cell, str):
        return None
    texts = [part for part in re.split(r"\s*[;|\n]\s*", cell.strip()) if part]
    matches = [_RANGE.fullmatch(part) for part in texts]
    if not all(matches):
        matches = [_RANGE.fullmatch(part.strip()) for part in cell.split(",")]
    return [(match[1].strip(), match[2].strip()) for match in matches if match] if matches and all(matches) else None


def listed(cell: Any) -> list[Any] | None:
    """The list in a cell, which may be written as JSON or as Python writes it; None for other cells."""
    if isinstance(cell, list | tuple):
        return list(cell)
    if not isinstance(cell, str) or not cell.strip().startswith(("[", "((")):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(cell.strip())
        except (ValueError, SyntaxError):
            continue
        return list(value) if isinstance(value, list | tuple) else None
    return None


def union(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The intervals in order, with those that overlap or touch joined."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def shared_by_most(people: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The times that more than half of the people have marked, in order."""
    changes = [
        change for spans in people for start, end in union(spans) for change in ((start, 1), (end, -1)) if end > start
    ]
    shared, count, begin = list[tuple[float, float]](), 0, math.nan
    for time, change in sorted(changes):
        was_shared, count = 2 * count > len(people), count + change
        if 2 * count > len(people) and not was_shared:
            begin = time
        elif was_shared and 2 * count <= len(people):
            shared.append((begin, time))
    return union(shared)
