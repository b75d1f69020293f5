"""Times whose hours, minutes, seconds and milliseconds have columns of their own."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

_ONE = {"a": [(72.0, 90.0, "x"), (5.0, 9.0, "y")]}


@pytest.mark.parametrize(
    "text",
    [
        "video,label,start_min,start_sec,end_min,end_sec\na,x,1,12,1,30\na,y,0,5,0,9\n",
        "video,label,min_start,sec_start,min_end,sec_end\na,x,1,12,1,30\na,y,0,5,,9\n",
        "video,label,start_h,start_m,start_s,end_h,end_m,end_s\na,x,0,1,12,0,1,30\na,y,0,0,5,0,0,9\n",
        "video,label,Start (min),Start (s),end\na,x,1,12,90\na,y,0,5,9\n",
        "video,label,start_m,start_s,duration\na,x,1,12,18\na,y,0,5,4\n",
    ],
)
def test_parts_of_a_time_are_added(text: str, tmp_path: pathlib.Path) -> None:
    assert spans_of(tmp_path, text) == _ONE


def test_seconds_and_milliseconds(tmp_path: pathlib.Path) -> None:
    text = "video,label,start,start_ms,end,end_ms\na,x,1,500,3,250\na,y,0,0,5,0\n"
    assert spans_of(tmp_path, text) == {"a": [(1.5, 3.25, "x"), (0.0, 5.0, "y")]}
    described = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans")).describe()
    assert "start from start + start_ms" in described[0]


def test_one_time_in_two_units_is_no_sum(tmp_path: pathlib.Path) -> None:
    text = "video,label,start_sec,end_sec,start_ms,end_ms\na,x,12,30,12400,30900\na,y,5,9,5000,9000\n"
    assert spans_of(tmp_path, text) == {"a": [(12.0, 30.0, "x"), (5.0, 9.0, "y")]}


def test_columns_that_are_neither_are_refused(tmp_path: pathlib.Path) -> None:
    text = "video,label,start_min,start_sec,end_min,end_sec\na,x,1,72,1,90\na,y,5,9,6,9\n"
    with pytest.raises(
        UsageError, match=r'"start_min" and "start_sec" are either parts.*row 1 .line 2..*row 2 .line 3'
    ):
        spans_of(tmp_path, text)


def test_columns_that_may_be_both_are_refused(tmp_path: pathlib.Path) -> None:
    text = "video,label,start_min,start_sec,end_min,end_sec\na,weld,1,50,1,59\n"
    with pytest.raises(UsageError, match=r'"start_min" and "start_sec" .*one time.*several units.*--columns=start='):
        spans_of(tmp_path, text)
    chosen = ("start=start_sec", "end=end_sec")
    assert spans_of(tmp_path, text, columns=chosen) == {"a": [(50.0, 59.0, "weld")]}


def test_parts_of_the_time_of_a_video_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,start_min,start_sec\na,x,1,12\nb,y,0,5\n")
    with pytest.raises(UsageError, match=r'"start_min" and "start_sec" .*parts of one time.*--columns=start='):
        understand("--table", str(tmp_path / "t.csv"), TableFlags())
    assert understand("--table", str(tmp_path / "t.csv"), TableFlags(columns=("start=",))).columns == ["id", "labels"]
