"""Reads the spans of small tables, for tests of their shapes."""

from __future__ import annotations

import pathlib
from typing import Any

from yt8m.tables.understood import TableFlags, understand

Spans = dict[str, list[tuple[float, float, str]]]


def spans_of(folder: pathlib.Path, text: str, name: str = "t.csv", **flags: Any) -> Spans:
    """{video: (start, end, its labels with + between them) of each span} of a table of spans with this text.

    Labels that a span denies begin with `not`.
    """
    (folder / name).write_text(text)
    table = understand("--table", str(folder / name), TableFlags(**({"rows": "spans"} | flags)))
    spans: Spans = {}
    for rows in table.batches(100):
        assert not rows.bad, rows.bad
        for video, of_video in zip(rows.cells["id"], rows.cells["spans"], strict=True):
            spans[str(video)] = [
                (
                    *(round(span.start, 6), round(span.end, 6)),
                    "+".join([*span.labels, *(f"not {name}" for name in span.denied)]),
                )
                for span in of_video
            ]
    return spans
