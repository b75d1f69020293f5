"""Times in workbooks, whose programs take 1:12 for an hour and twelve minutes."""

from __future__ import annotations

import datetime
import pathlib

import openpyxl
import pytest

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand


def times_of(path: pathlib.Path, *times: datetime.time, names: tuple[str, str] = ("start", "end")) -> list[float]:
    rows = [["a", "x", *times[place : place + 2]] for place in range(0, len(times), 2)]
    workbook = openpyxl.Workbook()
    for row in (["video", "label", *names], *rows):
        workbook.active.append(row)
    workbook.save(path)
    table = understand("--table", str(path), TableFlags(rows="spans"))
    return [time for rows in table.batches(9) for spans in rows.cells["spans"] for span in spans for time in span[:2]]


def test_times_without_seconds_are_asked_for(tmp_path: pathlib.Path) -> None:
    times = datetime.time(0, 5), datetime.time(1, 12)
    with pytest.raises(UsageError, match=r"either 1 hours and 12 minutes, or 1 minutes and 12 seconds.*write 72, or"):
        times_of(tmp_path / "t.xlsx", *times)
    names = "start (hh:mm:ss)", "end (hh:mm:ss)"
    assert times_of(tmp_path / "t.xlsx", *times, names=names) == [300.0, 4320.0]


def test_times_with_seconds_are_as_they_are(tmp_path: pathlib.Path) -> None:
    times = datetime.time(0, 0, 12), datetime.time(0, 1, 30), datetime.time(1, 12), datetime.time(1, 13)
    assert times_of(tmp_path / "t.xlsx", *times) == [12.0, 90.0, 4320.0, 4380.0]


def test_fractions_of_seconds_do_not_say_that_hours_were_typed(tmp_path: pathlib.Path) -> None:
    times = datetime.time(0, 0, 12, 400000), datetime.time(1, 12)
    with pytest.raises(UsageError, match=r"either 1 hours and 12 minutes"):
        times_of(tmp_path / "t.xlsx", *times)


def test_dates_of_an_interview_are_no_part_of_a_video(tmp_path: pathlib.Path) -> None:
    when = [(f"2024-01-01T10:{n:02}:00.000+01:00", f"2024-01-01T10:{n + 2:02}:10.000+01:00") for n in range(9)]
    path = tmp_path / "t.csv"
    path.write_text("start,end,video,label\n" + "".join(f"{a},{b},v{n},cat{n % 3}\n" for n, (a, b) in enumerate(when)))
    with pytest.raises(UsageError, match=r'"start" .*dates.* 2024-01-01T10:00.*--columns=start=,end='):
        understand("--table", str(path), TableFlags(can_have_spans=True))
    table = understand("--table", str(path), TableFlags(can_have_spans=True, columns=("start=", "end=")))
    assert [list(labels) for rows in table.batches(9) for labels in rows.cells["labels"]] == [
        [f"cat{n % 3}"] for n in range(9)
    ]
    with pytest.raises(UsageError, match=r'"start" .*dates.* 2024-01-01T10:00.*seconds from the start'):
        understand("--table", str(path), TableFlags(rows="spans"))
