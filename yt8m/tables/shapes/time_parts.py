"""Times whose hours, minutes, seconds and milliseconds stand in columns of their own: `start_min,start_sec`.

Two columns of one time may also be the same time in two units, such as `start_sec,start_ms`. The cells say which it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.sources.rewritten import RewrittenSource, place_of, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized, words
from yt8m.tables.words.time_columns import meaning_of_span, meaning_of_time
from yt8m.tables.words.times import NotATimeError, is_empty, parse_time

# {unit: its seconds}
_SECONDS = {
    word: seconds
    for seconds, listed in (
        (3600.0, "h hh hr hrs hour hours"),
        (60.0, "m mm min mins minute minutes"),
        (1.0, "s ss sec secs second seconds"),
        (1e-3, "ms msec msecs millis millisecond milliseconds"),
    )
    for word in words(listed)
}
_ROUNDING = 1e-6


class _TimePart(NamedTuple):
    column: str
    seconds: float


def refuse_parts(source: Source, chosen: Mapping[str, str]) -> None:
    """Refuses parts of times in a table whose rows are videos."""
    groups = {name: group for name, group in _groups(source.columns, chosen).items() if meaning_of_time(name)}
    used = [part.column for group in groups.values() for part in group]
    if groups and _are_parts(source, groups, *read_all(source, used)):
        name, columns = next(iter(groups.items()))
        raise UsageError(
            f"{source.path}: {_listed(columns)} seem to be parts of one time. Write the whole time into one column, as "
            f"seconds or as 1:02.5, or leave these columns out by --columns={meaning_of_span(name)}=."
        )


def joined(source: Source, chosen: Mapping[str, str]) -> Source:
    """The source with one column for each time whose parts have columns of their own.

    Args:
      chosen: {meaning: column} as the user names them; chosen times are left as they are.
    """
    groups = _groups(source.columns, chosen)
    if not groups:
        return source
    cells, bad = read_all(source, list(source.columns))
    if not _are_parts(source, groups, cells, bad):
        return source
    used = {part.column for group in groups.values() for part in group}
    columns = {name: values for name, values in cells.items() if name not in used}
    columns |= {name: _sums(group, cells) for name, group in groups.items()}
    remarks = [f"{name} from {' + '.join(part.column for part in group)}" for name, group in groups.items()]
    numbers = range(1, len(cells[source.columns[0]]) + 1)
    return RewrittenSource(source, columns, numbers, bad, ", ".join(remarks))


def _listed(group: Sequence[_TimePart]) -> str:
    return " and ".join(f'"{part.column}"' for part in group)


def _groups(columns: Sequence[str], chosen: Mapping[str, str]) -> dict[str, list[_TimePart]]:
    """{name of the whole time: its parts, the largest unit first} of times that have several columns."""
    groups: dict[str, list[_TimePart]] = {}
    for column in columns:
        bare, seconds = _divided(normalized(column))
        if seconds and (meaning := meaning_of_span(bare)) and meaning not in chosen:
            groups.setdefault(bare, []).append(_TimePart(column, seconds))
    for column in columns:  # `start`, beside `start_ms`, has the seconds
        bare = normalized(column)
        if bare in groups and not any(part.seconds >= 1 for part in groups[bare]):
            groups[bare].append(_TimePart(column, 1.0))
    several = {bare: sorted(group, key=lambda part: -part.seconds) for bare, group in groups.items()}
    return {bare: group for bare, group in several.items() if len({part.seconds for part in group}) == len(group) > 1}


def _divided(name: str) -> tuple[str, float]:
    """(the name of a time, the seconds of the unit that stands before or after it), 0 for names without a unit."""
    first, _, after = name.partition("_")
    begin, _, last = name.rpartition("_")
    if last in _SECONDS and meaning_of_span(begin):
        return begin, _SECONDS[last]
    return (after, _SECONDS[first]) if first in _SECONDS and meaning_of_span(after) else (name, 0.0)


def _are_parts(
    source: Source,
    groups: Mapping[str, Sequence[_TimePart]],
    cells: Mapping[str, Sequence[Any]],
    bad: Mapping[int, str],
) -> bool:
    """Whether columns are parts of times; False if they are times in several units, or no numbers."""
    no_parts, no_wholes, is_any = list[int](), list[int](), False
    for group in groups.values():
        try:
            rows = _numbers(group, cells)
        except NotATimeError:
            return False
        for number, values in enumerate(rows, 1):
            if number in bad or None in values or not any(values[:-1]):
                continue  # both readings are the same
            times = [(value or 0.0) * part.seconds for value, part in zip(values, group, strict=True)]
            is_any = True
            no_parts += [number] if not _fit_as_parts(times, group) else []
            no_wholes += [number] if not _fit_as_wholes(times, group) else []
    if not no_parts and (no_wholes or not is_any):
        return True
    if no_parts and not no_wholes:
        return False
    group = next(iter(groups.values()))
    reason = (
        f": {place_of(source, no_parts[0])} is not the former, {place_of(source, no_wholes[0])} not the latter"
        if no_parts
        else ""
    )
    raise UsageError(
        f"{source.path}: {_listed(group)} are either parts of one time, or one time in several units{reason}. Write "
        "one column in seconds, or name the columns that count, as in --columns=start=COLUMN,end=COLUMN."
    )


def _numbers(group: Sequence[_TimePart], cells: Mapping[str, Sequence[Any]]) -> list[tuple[float | None, ...]]:
    columns = [[None if is_empty(cell) else parse_time(cell, 1.0) for cell in cells[part.column]] for part in group]
    return list(zip(*columns, strict=True))


def _fit_as_parts(times: Sequence[float], group: Sequence[_TimePart]) -> bool:
    """Whether each smaller unit stays below one of the next larger unit, of which there are whole numbers."""
    are_whole = all(
        abs(time - part.seconds * round(time / part.seconds)) < _ROUNDING
        for time, part in zip(times[:-1], group, strict=False)
    )
    return are_whole and all(time < part.seconds - _ROUNDING for time, part in zip(times[1:], group, strict=False))


def _fit_as_wholes(times: Sequence[float], group: Sequence[_TimePart]) -> bool:
    """Whether all columns have the same time, which the larger units round."""
    return all(
        abs(time - times[-1]) < part.seconds / 2 or 0 <= times[-1] - time < part.seconds
        for time, part in zip(times[:-1], group, strict=False)
    )


def _sums(group: Sequence[_TimePart], cells: Mapping[str, Sequence[Any]]) -> list[float | None]:
    """The whole times, in seconds; None where all parts are empty."""
    return [
        None
        if all(value is None for value in values)
        else sum((value or 0.0) * part.seconds for value, part in zip(values, group, strict=True))
        for values in _numbers(group, cells)
    ]
