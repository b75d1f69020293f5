"""Columns of lengths that the user names as the ends of spans."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand


def _read(path: pathlib.Path, end: str = "") -> tuple[list[list[float]], str]:
    flags = TableFlags(rows="spans", columns=(f"end={end}",) if end else ())
    table = understand("--table", str(path), flags)
    spans = [span for rows in table.batches(9) for each in rows.cells["spans"] for span in each]
    return [[span.start, span.end] for span in spans], "; ".join(table.describe())


@pytest.mark.parametrize("name", ["duration", "Dauer", "durée", "duración", "durata", "len", "DURATION", "Länge (s)"])
@pytest.mark.parametrize("is_named", [True, False])
def test_lengths_are_added_to_starts(name: str, is_named: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text(f"video,label,start,{name}\na,x,1.5,10\nb,y,2,5\n")
    spans, description = _read(tmp_path / "t.csv", name if is_named else "")
    assert spans == [[1.5, 11.5], [2.0, 7.0]]
    assert f'ends from "start" + "{name}"' in description


@pytest.mark.parametrize("name", ["clip_duration", "Annotationsdauer", "length_of_clip", "event_length_s"])
def test_lengths_by_a_longer_name(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text(f"video,label,start,{name}\na,x,1.5,10\nb,y,2,5\n")
    assert _read(tmp_path / "t.csv", name)[0] == [[1.5, 11.5], [2.0, 7.0]]


def test_the_length_of_a_video_is_no_end_of_its_spans(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,start,video_duration\na,x,1.5,10\nb,y,2,5\n")
    with pytest.raises(UsageError, match=r'"video_duration" .*lengths.*column called end'):
        _read(tmp_path / "t.csv", "video_duration")


def test_a_length_is_no_end_of_a_video_with_a_start(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("id,label,start,duration\na,x,1.5,10\nb,y,2,5\nc,x,2,9\n")
    with pytest.raises(UsageError, match=r'"duration" .*lengths.*column called end'):
        understand("--table", str(tmp_path / "t.csv"), TableFlags(columns=("end=duration",)))
