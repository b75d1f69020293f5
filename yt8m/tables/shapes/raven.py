"""Raven's selection tables, whose times may count over a sequence of files, and not in each file.

`Begin Time (s)` counts from the beginning of the first file that was opened; `File Offset (s)` is the time in the file
that `Begin File` names.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.sources.rewritten import RewrittenSource, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import JOIN, plain_meaning
from yt8m.tables.words.time_columns import END, START
from yt8m.tables.words.times import NotATimeError, parse_time

_PATH = "begin_path"  # the file in tables of BirdNET, which Raven opens
_FILE, _BEGIN, _END, _OFFSET = "begin_file", "begin_time_s", "end_time_s", "file_offset_s"


def with_file_times(source: Source, chosen: Mapping[str, str]) -> Source:
    """The source with the times of Raven in each file; another source as it is."""
    names = {normalized(name): name for name in source.columns}
    names = {_FILE: names[_PATH], **names} if _PATH in names else names
    named_columns = {name for text in chosen.values() for name in text.split(JOIN)}
    if not names.keys() >= {_FILE, _BEGIN, _END} or named_columns & {
        names.get(word) for word in (_BEGIN, _END, _OFFSET)
    }:
        return source
    if _OFFSET not in names:
        _refuse_sequence(source, names, chosen)
        return source
    times = [names[word] for word in (_BEGIN, _END, _OFFSET)]
    cells, bad = read_all(source, list(source.columns))
    ends = list(map(_end, *(cells[name] for name in times)))
    table = {name: values for name, values in cells.items() if name not in times}
    table |= {START: cells[names[_OFFSET]], END: ends}
    remark = f'Raven\'s times in each file, from "{names[_OFFSET]}"'
    result = RewrittenSource(source, table, range(1, len(ends) + 1), bad, remark)
    result.hints = {**result.hints, START: START, END: END}
    return result


def _end(begin: Any, end: Any, offset: Any) -> Any:
    """The end of a selection in its file; the cell itself if one of them is no time, so that its row is refused."""
    try:
        return round(parse_time(offset) + parse_time(end) - parse_time(begin), 6)
    except NotATimeError:
        return end


def _refuse_sequence(source: Source, names: Mapping[str, str], chosen: Mapping[str, str]) -> None:
    """Refuses times of several files that may count over all of them: those of no two files overlap."""
    file, begin, end = (names[word] for word in (_FILE, _BEGIN, _END))
    ids = [chosen["id"]] if "id" in chosen else [name for name in source.columns if plain_meaning(name) == "id"]
    if ids != [file]:
        return
    cells, _ = read_all(source, [file, begin])
    times: dict[Any, list[float]] = {}
    for name, cell in zip(cells[file], cells[begin], strict=True):
        try:
            times.setdefault(name, []).append(parse_time(cell))
        except NotATimeError:
            return  # the row is refused later
    if len(times) > 1 and _follow_one_another(list(times.values())):
        raise UsageError(
            f'{source.path}: "{begin}" of Raven may count from the beginning of the first of the {len(times)} files in '
            f'"{file}", or of each. Export the measurement "File Offset (s)" too; or say '
            f"--columns='{START}={begin},{END}={end}' if it counts in each file."
        )


def _follow_one_another(files: Sequence[Sequence[float]]) -> bool:
    ranges = sorted((min(times), max(times)) for times in files)
    return all(before[1] < after[0] for before, after in itertools.pairwise(ranges))
