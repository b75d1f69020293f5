"""Columns of times by their names, and the units that these say."""

from __future__ import annotations

import itertools
import pathlib

import pytest

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import meaning_of
from yt8m.tables.words.time_columns import divided, in_seconds, meaning_in_spans

# {how many of a unit are a second: how names of columns say it}
_UNITS = {
    1000: ["{}_ms", "{} (ms)", "{}Ms", "{}_msec", "{} [milliseconds]", "{}_in_ms", "ms_{}"],
    1000000: ["{}_us", "{}_microseconds"],
    1: ["{}", "{}_s", "{}_sec", "{} (s)", "{} - ss.msec", "{}_seconds"],
}
_CLOCKS = ["{} (hh:mm:ss)", "{} mm.ss", "{}_mmss", "{} (hms)", "{}_hhmm", "{} - hh:mm:ss.ms"]
_NAMES = [
    "start end",
    "start_time end_time",
    "begin end",
    "begin_time end_time",
    "onset offset",
    "t_start t_end",
    "t0 t1",
]
_NAMES += ["from to", "segment_start segment_end", "start_timestamp end_timestamp", "time_start time_stop", "tmin tmax"]


@pytest.mark.parametrize("form", _CLOCKS)
def test_bare_numbers_are_no_times_where_the_name_says_minutes_and_seconds(form: str, tmp_path: pathlib.Path) -> None:
    """0.30 may be 30 seconds or 0.3 of one, and 0130 a minute and a half."""
    header = ",".join([form.format(name) for name in ("start", "end")])
    for number, (times, is_read) in enumerate({"0,0:31.5": True, "0.10,0:31.5": False, "0:05,0130": False}.items()):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"video,label,{header}\na,weld,{times}\n")
        table = understand("--table", str(path), TableFlags(rows="spans"))
        ((spans, bad),) = [(rows.cells["spans"], rows.bad) for rows in table.batches(9)]
        assert [(span.start, span.end) for of_video in spans for span in of_video] == [(0, 31.5)] * is_read
        assert is_read or "as hours, minutes and seconds'; expected seconds from 0, or a time such as" in bad[1]
    assert in_seconds("0.10", "milliseconds") == 0.0001


@pytest.mark.parametrize(("rate", "form"), [(rate, form) for rate, forms in _UNITS.items() for form in forms])
@pytest.mark.parametrize("names", _NAMES)
def test_spans_are_seconds_whatever_their_columns_count(
    names: str, rate: int, form: str, tmp_path: pathlib.Path
) -> None:
    header = [form.format(name) for name in names.split()]
    times = [(12.5, 31), (5, 62.25)]
    rows = [
        f"a,weld,{start * rate:g},{end * rate:.0f}" if rate > 1 else f"a,weld,{start},{end}" for start, end in times
    ]
    (tmp_path / "t.csv").write_text("\n".join([f"video,label,{','.join(header)}", *rows]))
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans"))
    ((spans,),) = (rows.cells["spans"] for rows in table.batches(9))
    ends = [(start, round(end * rate) / rate if rate > 1 else end) for start, end in times]
    assert [(span.start, span.end) for span in spans] == ends
    if rate > 1:
        assert "in m" in str(table.describe())  # milliseconds, microseconds


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *[
            ("start_frame", "frames"),
            ("Frame start", "frames"),
            ("end_frame_number", "frames"),
            ("start_min", "minutes"),
        ],
        *[("min", ""), ("start_id", ""), ("seconds", ""), ("frame", ""), ("tmin", ""), ("t_min", "")],
    ],
)
def test_units_are_parts_of_names(name: str, unit: str) -> None:
    assert divided(normalized(name)).unit == unit


def test_numbers_of_frames_and_names_of_spans_mean_nothing_elsewhere() -> None:
    for name in ("start_frame", "onset_ms", "from"):
        assert meaning_of(name) is None
        assert meaning_in_spans(name) is not None
    assert [meaning_of(name) for name in ("start_ms", "End (ms)")] == [("start", 0), ("end", 0)]


_BESIDE_OTHERS = ["timestamp,end_timestamp", "Timestamp (ms),End Timestamp (ms)", "time,end_time", "ts,te", "time,stop"]
_BESIDE_OTHERS += ["timestamp,duration", "start_offset,end_offset", "onset,duration", "begin_ts,dur"]
_BESIDE_OTHERS += ["position,duration", "Position (ms),duration_ms", "start_at,dur", "at,event_duration"]


@pytest.mark.parametrize("header", _BESIDE_OTHERS)
def test_a_time_beside_ends_or_lengths_is_a_start(header: str, tmp_path: pathlib.Path) -> None:
    """Without the flag, rows whose times differ are refused: they were labels of whole videos, in silence."""
    rate, has_lengths = 1000 if "ms" in header else 1, "dur" in header
    ends = (2, 2) if has_lengths else (4, 11)
    rows = [f"a,cat,{2 * rate},{ends[0] * rate}", f"a,dog,{9 * rate},{ends[1] * rate}"]
    (tmp_path / "t.csv").write_text("\n".join([f"video,label,{header}", *rows]))
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans"))
    ((spans,),) = (rows.cells["spans"] for rows in table.batches(9))
    assert [(span.start, span.end, *span.labels) for span in spans] == [(2, 4, "cat"), (9, 11, "dog")]
    with pytest.raises(UsageError, match=r"of 'a' differs .*--rows=spans"):
        understand("--table", str(tmp_path / "t.csv"), TableFlags())


def test_times_of_the_work_on_a_table_are_no_starts(tmp_path: pathlib.Path) -> None:
    """`timestamp` alone, or with dates, says when somebody wrote a row."""
    for header, cells in (("timestamp", "{}"), ("timestamp,duration", "2024-05-0{} 10:11,60"), ("time,n", "{},7")):
        rows = [f"a,{label},{cells.format(number)}" for number, label in enumerate(("cat", "dog"), 1)]
        (tmp_path / "t.csv").write_text("\n".join([f"video,label,{header}", *rows]))
        table = understand("--table", str(tmp_path / "t.csv"), TableFlags())
        assert [rows.cells["labels"] for rows in table.batches(9)] == [[("cat", "dog")]]


def test_columns_of_one_unit_are_taken_together(tmp_path: pathlib.Path) -> None:
    columns = {"start": "1.4", "start_ms": "1000", "end_ms": "2000", "start_frame": "50", "end_frame": "75"}
    for order in itertools.islice(itertools.permutations(columns), 0, 120, 7):
        (tmp_path / "t.csv").write_text(f"video,label,{','.join(order)}\na,x,{','.join(map(columns.get, order))}\n")
        for rate, expected in ((0.0, (1.0, 2.0)), (25.0, (2.0, 3.0))):
            table = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans", frame_rate=rate))
            ((spans,),) = (rows.cells["spans"] for rows in table.batches(9))
            assert [(span.start, span.end) for span in spans] == [expected]


def test_a_rate_of_frames_does_not_fit_to_a_name_that_says_another_unit(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,start_ms,end_ms\na,x,1000,2000\n")
    with pytest.raises(UsageError, match=r'"start_ms" counts milliseconds.*--frame_rate=25.*--columns=start='):
        understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans", frame_rate=25.0))


def test_lengths_of_spans_have_units_too(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,start_ms,duration (s),duration_ms\na,x,1500,0.4,250\n")
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans"))
    ((spans,),) = (rows.cells["spans"] for rows in table.batches(9))
    assert [(span.start, span.end) for span in spans] == [(1.5, 1.75)]


def test_parts_of_videos_are_cut_by_milliseconds_too(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text('id,label,start_ms,end_ms\na,x,1500,9000\nb,y,,2500\nc,x,"12,400",20000\n')
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags())
    (rows,) = table.batches(9)
    assert list(rows.cells["start"]) == [1.5, "", 12.4]
    assert list(rows.cells["end"]) == [9.0, 2.5, 20.0]
    assert in_seconds("12", "") == "12"
