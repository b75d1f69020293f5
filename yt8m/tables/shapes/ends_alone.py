"""Ends beside lengths, without starts; and ends that may be lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.sources.rewritten import RewrittenSource, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized
from yt8m.tables.words.time_columns import (
    COUNTERS,
    END,
    FRAMES,
    START,
    divided,
    in_seconds,
    is_duration,
    meaning_in_spans,
    meaning_of_time,
    starts_beside_others,
)
from yt8m.tables.words.times import NotATimeError, Span, is_empty, parse_time

_FEWEST, _FEWEST_STARTS = 5, 3  # numbers of spans, and of times at which they begin, that are no chance


def with_starts(source: Source, chosen: Mapping[str, str]) -> Source:
    """The source with starts, if a table of spans has ends and lengths alone."""
    names = [name for name in source.columns if name not in chosen.values()]
    ends = [chosen[END]] if chosen.get(END) else [name for name in names if _meaning(name) == END]
    lengths = [name for name in names if is_duration(normalized(name))]
    has_starts = START in chosen or START in source.hints or any(_meaning(name) == START for name in source.columns)
    columns = [*ends, *lengths]
    if has_starts or not (len(ends) == len(lengths) == 1) or any(map(_counts_frames, columns)):
        return source
    cells, bad = read_all(source, list(source.columns))
    pairs = list(map(_start, *(_seconds(name, cells[name]) for name in columns)))
    if starts_beside_others(names) == ends != [chosen.get(END)]:
        if any(isinstance(start, float) and start < 0 for start, _ in pairs):
            return source  # it has the starts
        raise UsageError(_two_readings(source.path, *columns))
    others = {name: values for name, values in cells.items() if name not in columns}
    times = {START: [pair[0] for pair in pairs], END: [pair[1] for pair in pairs]}
    remark = f'starts from "{ends[0]}" - "{lengths[0]}"'
    return RewrittenSource(source, others | times, range(1, len(pairs) + 1), bad, remark)


def _two_readings(path: str, times: str, lengths: str) -> str:
    return (
        f'{path}: "{times}" beside "{lengths}" may have the starts of spans, or, as beside onsets, their ends. Choose '
        f"by --columns={START}={times} or --columns={END}={times}."
    )


def refuse_counters(source: Source, chosen: Mapping[str, str]) -> None:
    """Refuses starts by a name such as `position` whose cells are 1, 2, 3 and so on, which may count the spans."""
    names = [name for name in source.columns if divided(normalized(name)).bare in COUNTERS]
    starts = [name for name in starts_beside_others(source.columns) if name in names]
    if not starts or START in chosen:
        return
    cells = read_all(source, starts[:1])[0][starts[0]]
    values = {str(cell).strip().removesuffix(".0") for cell in cells if not is_empty(cell)}
    if len(values) > 1 and any(values == set(map(str, range(first, first + len(values)))) for first in (0, 1)):
        raise UsageError(
            f'{source.path}: "{starts[0]}" has the numbers from {min(map(int, values))} to {max(map(int, values))}, '
            f"which may be the starts of spans, or count them. If they are starts, say --columns={START}={starts[0]}; "
            "else write the starts into a column called start."
        )


def _meaning(name: str) -> str:
    time = meaning_of_time(normalized(name)) or meaning_in_spans(normalized(name))
    return time[0] if time else ""


def _counts_frames(name: str) -> bool:
    return divided(normalized(name)).unit == FRAMES


def _seconds(name: str, cells: Sequence[Any]) -> list[Any]:
    return [in_seconds(cell, divided(normalized(name)).unit) for cell in cells]


def _start(end: Any, length: Any) -> tuple[Any, Any]:
    """The start and the end of a span; cells that hold no times stay, so that their row is refused."""
    if is_empty(end) and is_empty(length):
        return None, None
    try:
        return round(parse_time(end) - parse_time(length), 6), end
    except NotATimeError:
        return length, end


def refuse_lengths(path: str, column: str, videos: Iterable[Sequence[Span]]) -> None:
    """Refuses a column of ends that has one value for spans that begin at different times, as lengths have.

    Args:
      videos: the spans of each video, with the cells of the column as their ends.
    """
    spans = [span for of_video in videos for span in of_video if not span.is_part]
    ends, starts = {span.end for span in spans}, {span.start for span in spans}
    if len(spans) < _FEWEST or len(ends) > 1 or len(starts) < _FEWEST_STARTS or max(starts) >= max(ends):
        return
    end, start = max(ends), max(starts)
    raise UsageError(
        f'{path}: "{column}" is {end:g} for all {len(spans)} spans, which begin at {len(starts)} different times: '
        f"either all of them end at {end:g}, or each lasts so long, such as from {start:g} to {start + end:g}. Say "
        f"--columns=end={column} if it has ends, or call the column duration if it has lengths."
    )
