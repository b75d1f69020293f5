"""Tables whose rows are no spans yet: several spans in a cell, times of each class, events that start and stop.

Each shape becomes rows with a start, an end and labels, which `span_rows` reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from yt8m.tables.shapes import class_times, span_events, span_ranges, time_parts
from yt8m.tables.sources.source import Source


def reshaped(
    source: Source, chosen: Mapping[str, str], are_spans: bool, frame_rate: float
) -> tuple[Source, dict[str, str]]:
    """(the rows of a table with a start and an end, {meaning: column} as the user names them).

    Args:
      are_spans: whether rows are spans; rows of videos stay as they are.
      frame_rate: frames per second, if times count frames; else 0.
    """
    if not are_spans:
        time_parts.refuse_parts(source, chosen)
        return source, dict(chosen)
    source = source if frame_rate else time_parts.joined(source, chosen)
    for shape in (span_events.paired, span_ranges.expanded, class_times.expanded):
        rewritten = shape(source, chosen)
        if rewritten is not source:
            columns = {*rewritten.columns, ""}
            return rewritten, {name: text for name, text in chosen.items() if columns.issuperset(text.split("+"))}
    return source, dict(chosen)
