"""Several spans in a cell: `12.4-31.0; 40-52`, `[[12.4, 31.0], [40, 52]]`, `c092 11.90 21.20;c147 0 12`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.sources.rewritten import RewrittenSource, place_of, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.class_names import is_nothing
from yt8m.tables.words.meanings import is_of_labels
from yt8m.tables.words.time_columns import DURATION, END, START, divided, meaning_of_span, unit_of
from yt8m.tables.words.times import listed, ranges_in

_NAMES = word_set(
    "time times timestamp timestamps timecode timecodes range ranges time_range time_ranges timerange time_span "
    "time_spans timespan segment segments interval intervals span spans window windows relevant_windows moment "
    "moments period periods zeit zeiten zeitraum"
)
_LABELLED = re.compile(r"(\S+) (\d+(?:\.\d+)?) (\d+(?:\.\d+)?)")  # as in Charades
_SAMPLE = 200  # rows by which the form of a column is found


def expanded(source: Source, chosen: Mapping[str, str]) -> Source:
    """The source with a row for each span, if a column has the spans of each row."""
    column = _column_of_ranges(source, chosen)
    if column:
        return _rows_of_ranges(source, column)
    column = "" if _has_times(source, chosen) else _column_of_labelled(source, chosen)
    return _rows_of_labelled(source, column) if column else source


def _has_times(source: Source, chosen: Mapping[str, str]) -> bool:
    """Whether columns have starts, and ends or lengths."""
    meanings = {*map(meaning_of_span, source.columns), *chosen, *source.hints}
    return START in meanings and not meanings.isdisjoint((END, DURATION))


def _column_of_ranges(source: Source, chosen: Mapping[str, str]) -> str:
    """The column of which cells have a start and an end; empty if there is none."""
    if chosen.get(START) and chosen.get(START) == chosen.get(END):
        return chosen[START]
    if _has_times(source, chosen):
        return ""
    used = {*chosen.values(), *source.hints.values()}
    names = [name for name in source.columns if divided(normalized(name)).bare in _NAMES and name not in used]
    return next((name for name in names if _most(source, name, lambda cell: ranges_in(cell) is not None)), "")


def _column_of_labelled(source: Source, chosen: Mapping[str, str]) -> str:
    """The column of labels of which cells have a label, a start and an end; empty if there is none."""
    names = [name for name in source.columns if is_of_labels(name)]
    names = [chosen["labels"]] if chosen.get("labels") else names
    return next((name for name in names if _most(source, name, lambda cell: bool(_labelled(cell)))), "")


def _most(source: Source, name: str, fits: Callable[[Any], bool]) -> bool:
    """Whether most of the first cells of a column that are not empty have a form."""
    for rows in source.batches(_SAMPLE, 0, [name]):
        cells = [cell for cell in rows.cells[name] if not _is_empty(cell)]
        if cells:
            return 2 * sum(map(fits, cells)) > len(cells)
    return False


def _is_empty(cell: Any) -> bool:
    return listed(cell) == [] or is_nothing(cell)


def _labelled(cell: Any) -> list[tuple[str, str, str]]:
    """(label, start, end) of each part of a cell such as `c092 11.90 21.20;c147 0 12`; [] for other cells."""
    texts = str(cell).strip().rstrip(";").split(";")
    matches = [_LABELLED.fullmatch(part.strip()) for part in texts]
    return [(match[1], match[2], match[3]) for match in matches if match] if all(matches) else []


def _rows_of_labelled(source: Source, column: str) -> Source:
    cells, bad = read_all(source, list(source.columns))
    spans: list[list[tuple[str, Any, Any]]] = [
        [] if _is_empty(cell) else [*_labelled(cell)] or [(str(cell), cell, cell)] for cell in cells[column]
    ]
    no_span: tuple[str, Any, Any] = ("", None, None)
    rows = [(place, *span) for place, of_row in enumerate(spans) for span in of_row or [no_span]]
    columns = {name: [values[row[0]] for row in rows] for name, values in cells.items()}
    columns |= {column: [row[1] for row in rows], START: [row[2] for row in rows], END: [row[3] for row in rows]}
    return RewrittenSource(source, columns, [row[0] + 1 for row in rows], bad, f'labels with their times in "{column}"')


class _Ranges(RewrittenSource):
    """A row for each span of the rows of another source.

    Attributes:
      unclear: {column: why it is not clear which of its labels which span shows}.
    """

    unclear: Mapping[str, str] = {}


def refuse_unclear(source: Source, names: Sequence[str]) -> None:
    """Refuses columns of labels of which it is not clear which span shows which label."""
    for name in names:
        if name in getattr(source, "unclear", {}):
            raise UsageError(source.unclear[name])  # type: ignore[attr-defined]


def _rows_of_ranges(source: Source, column: str) -> Source:
    cells, bad = read_all(source, list(source.columns))
    unit = unit_of(column)
    start, end = (f"{name}_{unit}" if unit else name for name in (START, END))
    # A time that is none makes the row bad.
    ranges = [[] if _is_empty(cell) else ranges_in(cell) or [(str(cell), str(cell))] for cell in cells[column]]
    numbers = [place + 1 for place, of_row in enumerate(ranges) for _ in range(max(len(of_row), 1))]
    others, unclear = dict[str, list[Any]](), dict[str, str]()
    for name in cells:
        others[name] = []
        if _is_spread(cells[name], [len(of_row) for of_row in ranges]):
            # Beside items of lists, the text of a whole list would be taken for a name.
            cells[name] = [cell if (items := listed(cell)) is None else items for cell in cells[name]]
        for place, of_row in enumerate(ranges):
            of_spans = _cells_of_spans(cells[name][place], cells[column][place], len(of_row))
            others[name] += of_spans or [cells[name][place]] * max(len(of_row), 1)
            if of_spans is None:
                unclear.setdefault(name, _unclear(source, name, cells[name][place], len(of_row), place))
    del others[column]
    times = [pair for of_row in ranges for pair in of_row or [(None, None)]]
    columns = others | {start: [pair[0] for pair in times], end: [pair[1] for pair in times]}
    result = _Ranges(source, columns, numbers, bad, f'starts and ends from "{column}"')
    result.unclear = unclear
    return result


def _is_spread(cells: Sequence[Any], counts: Sequence[int]) -> bool:
    """Whether some cell is a list with an item for each of the spans of its row."""
    lists = ((listed(cell), count) for cell, count in zip(cells, counts, strict=True) if count > 1)
    return any(items is not None and len(items) == count for items, count in lists)


def _cells_of_spans(cell: Any, times: Any, count: int) -> list[Any] | None:
    """The cell of each span of a row: the same for all, or an item of a list each; None if that is not clear."""
    names = listed(cell)
    if count < 2 or (names is not None and len(names) == 1):
        return [cell] * max(count, 1)
    if names is not None:
        return names if len(names) == count else None
    is_unclear = any(_counts(cell, sign) == _counts(times, sign) == count for sign in ";|,\n")
    return None if is_unclear else [cell] * count


def _unclear(source: Source, name: str, cell: Any, count: int, place: int) -> str:
    return (
        f"{source.path}, {place_of(source, place + 1)}: {count} spans, and the labels {str(cell)[:60]!r}; it is not "
        f'clear which span shows which label. Write a row for each span, or lists of equal lengths into "{name}" and '
        "the times."
    )


def _counts(cell: Any, sign: str) -> int:
    """The number of parts of a text."""
    return len([part for part in cell.split(sign) if part.strip()]) if isinstance(cell, str) else 0
