"""Tables whose rows say in other ways which spans show which class."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand


def test_columns_of_classes_beside_times(tmp_path: pathlib.Path) -> None:
    text = "video,start,end,weld,cut\na,1,3,1,1\na,4,6,0,1\nb,1,3,0,0\nc,1,2,1,0\n"
    expected = {"a": [(1, 3, "weld+cut"), (4, 6, "cut")], "b": [(1, 3, "")], "c": [(1, 2, "weld")]}
    assert spans_of(tmp_path, text) == expected
    (tmp_path / "t.csv").write_text(text.replace("4,6,0,1", "4,6,0,2"))
    with pytest.raises(UsageError):
        understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans"))


_HACS = (
    "classname,youtube_id,subset,start,end,label\n"
    "Jump,a,training,1,3,1\nJump,a,training,9,11,-1\nRun,b,training,2,4,1\n"
)


@pytest.mark.parametrize("columns", [(), ("labels=classname",)])
def test_rows_of_hacs_may_deny_a_class(columns: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    expected = {"a": [(1.0, 3.0, "Jump"), (9.0, 11.0, "not Jump")], "b": [(2.0, 4.0, "Run")]}
    assert spans_of(tmp_path, _HACS, columns=columns) == expected
    segments = _HACS.replace(",label\n", ",label_type\n").replace("classname", "label")
    assert spans_of(tmp_path, segments) == expected
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans"))
    assert '2 spans, where "label_type" is 1, and where it is -1, the class is absent' in "; ".join(table.describe())
    zeros = _HACS.replace("-1", "0")
    unclear = r"--columns=present=label" if columns else r"several columns may have the labels"  # 0 and 1 are classes?
    with pytest.raises(UsageError, match=unclear):
        spans_of(tmp_path, zeros, columns=columns)
    chosen = ("labels=classname", "present=label")
    assert spans_of(tmp_path, zeros, columns=chosen)["a"] == [(1.0, 3.0, "Jump")]
    without_times = _HACS.replace("9,11,-1", ",,-1")
    assert spans_of(tmp_path, without_times, columns=chosen)["a"] == [(1.0, 3.0, "Jump")]


def test_times_with_frames_need_their_rate_whatever_their_name(tmp_path: pathlib.Path) -> None:
    for names in ("start,end", "tc_in,tc_out", "timecode_start,timecode_end"):
        text = f"video,label,{names}\na,weld,00:00:12:10,00:00:31:00\n"
        assert spans_of(tmp_path, text, frame_rate=25.0) == {"a": [(12.4, 31.0, "weld")]}


def test_a_table_without_a_header_is_refused_with_the_flag(tmp_path: pathlib.Path) -> None:
    text = "a,weld,12.4,31.0\na,cut,40,52\nb,cut,5,9\n"
    flag = "id=column 1,labels=column 2,start=column 3,end=column 4"
    with pytest.raises(UsageError, match=rf"--columns='{flag}'"):
        spans_of(tmp_path, text)
    spans = spans_of(tmp_path, text, columns=tuple(flag.split(",")))
    assert spans == {"a": [(12.4, 31.0, "weld"), (40.0, 52.0, "cut")], "b": [(5.0, 9.0, "cut")]}


def test_the_place_of_a_bad_row_is_that_of_the_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,time\na,weld,1-3;4-9\nb,weld,1-3\nb,cut,9-3\n")
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans"))
    assert table.where(2) == "row 2 (line 3)"
    (rows,) = table.batches(9)
    assert rows.bad == {2: "its span in row 3 (line 4): the end, 3, is before the start, 9"}


def test_the_table_that_predict_writes_is_read_again(tmp_path: pathlib.Path) -> None:
    text = "video,start,end,class,score\na,9.000,13.000,weld,0.99\na,11.000,15.000,cut,0.79\nb,0.000,2.000,cut,0.89\n"
    expected = {"a": [(9.0, 13.0, "weld"), (11.0, 15.0, "cut")], "b": [(0.0, 2.0, "cut")]}
    assert spans_of(tmp_path, text) == expected
    with pytest.raises(UsageError, match=r'a column "confidence".*--columns=unused=confidence'):
        spans_of(tmp_path, text.replace("score", "confidence"))
