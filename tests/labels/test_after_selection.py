"""The next command that `yt8m select` prints."""

from __future__ import annotations

import types
from typing import Any

import pytest

from yt8m.labels import after_selection
from yt8m.records.rated_cells import Cells


def data(*extractors: str) -> Any:
    return types.SimpleNamespace(manifest=types.SimpleNamespace(extractors=extractors), format=None)


def test_answers_on_whole_videos_go_into_the_records() -> None:
    text, command = after_selection.for_videos("films/*.tfrecord")
    assert "export them as JSON, EXPORT.json" in text
    assert command == "  yt8m relabel --data='films/*.tfrecord' --labels=EXPORT.json --out=FOLDER"
    text, command = after_selection.for_videos("films/*.tfrecord", "my next.csv")
    assert text.startswith("Write the classes of each video into a column label, or (none) if it shows none;")
    assert command == "  yt8m relabel --data='films/*.tfrecord' --labels='my next.csv' --out=FOLDER"


@pytest.mark.parametrize(
    ("table", "extractors", "cells", "expected"),
    [
        ("", (), Cells(2, 1.0), "make-records --table=EXPORT.json --array=FOLDER_OF_ARRAYS --out=FOLDER "
         "--level=frame --rows=spans --segment_size=2 --frame_rate=25"),
        ("", ("inception",), Cells(5, 10.0), "extract --videos=EXPORT.json --extractors=... --out=FOLDER "
         "--level=frame --rows=spans --segment_size=0.5 --frames_per_second=10 --frame_rate=25"),
        ("my parts.csv", ("inception",), Cells(1, 1.0), "extract --videos='my parts.csv' "
         "--extractors=... --out=FOLDER --level=frame --rows=spans --segment_size=1 --columns=labels=label"),
    ],
)  # fmt: skip
def test_records_of_parts_are_made_as_the_others_were(
    table: str, extractors: tuple[str, ...], cells: Cells, expected: str
) -> None:
    text, command = after_selection.for_parts(data(*extractors), cells, table=table, frame_rate=25.0)
    assert command == f"  yt8m {expected}"
    assert ("path" in text) == bool(extractors and table)
