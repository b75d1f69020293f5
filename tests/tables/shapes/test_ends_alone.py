"""Ends beside lengths, without starts; and ends that may be lengths."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

_EQUAL = [("a", 1, 10), ("a", 3, 10), ("b", 0, 10), ("b", 8, 10), ("c", 6, 10)]


@pytest.mark.parametrize(
    ("header", "row"),
    [("end,duration", "0:12.5,2.5"), ("end_ms,duration_ms", "12500,2500"), ("duration,end (s)", "2.5,12.5")],
)
def test_starts_are_ends_without_lengths(header: str, row: str, tmp_path: pathlib.Path) -> None:
    text = f"video,label,{header}\na,weld,{row}\nb,,,\n"
    assert spans_of(tmp_path, text) == {"a": [(10.0, 12.5, "weld")], "b": []}


def test_an_offset_beside_a_length_is_a_start_or_an_end(tmp_path: pathlib.Path) -> None:
    """Programs for sound call the start so, those for psychology the end; only a start is below its length."""
    header = "video,label,offset,length\n"
    assert spans_of(tmp_path, f"{header}a,weld,0,3\na,cut,12.5,2.5\n") == {"a": [(0, 3, "weld"), (12.5, 15, "cut")]}
    with pytest.raises(UsageError, match=r'"offset" beside "length" may.*--columns=start=offset or --columns=end=off'):
        spans_of(tmp_path, f"{header}a,weld,12.5,2.5\n")
    for column, expected in (("start", (12.5, 15.0)), ("end", (10.0, 12.5))):
        table = understand("--table", str(tmp_path / "t.csv"), TableFlags((f"{column}=offset",), rows="spans"))
        ((spans,),) = (rows.cells["spans"] for rows in table.batches(9))
        assert [(span.start, span.end) for span in spans] == [expected]


def test_a_length_that_reaches_before_the_video_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError, match=r"a time is '-4\.0'"):
        spans_of(tmp_path, "video,label,end,duration\na,weld,6,10\n")


def table(rows: list[tuple[str, int, int]]) -> str:
    return "\n".join(["video,label,start,end", *(f"{name},x,{start},{end}" for name, start, end in rows)])


def test_one_end_for_all_spans_may_be_a_length(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"10 for all 5 spans.*\b10\b.*from 8 to 18\b.*--columns=end=end"):
        spans_of(tmp_path, table(_EQUAL))
    assert spans_of(tmp_path, table(_EQUAL), columns=("end=end",))["c"] == [(6, 10, "x")]
    lengths = spans_of(tmp_path, table(_EQUAL).replace("end", "duration"))
    assert lengths["c"] == [(6, 16, "x")]


@pytest.mark.parametrize("rows", [_EQUAL[:4], [*_EQUAL, ("d", 2, 11)], [(name, 0, 10) for name, _, _ in _EQUAL]])
def test_ends_that_differ_or_are_few_are_ends(rows: list[tuple[str, int, int]], tmp_path: pathlib.Path) -> None:
    found = spans_of(tmp_path, table(rows))
    assert sum(map(len, found.values())) == len(rows)


def test_a_position_beside_a_length_is_a_start_or_counts_the_spans(tmp_path: pathlib.Path) -> None:
    header = "video,label,position,length\n"
    assert spans_of(tmp_path, f"{header}a,weld,0,3\na,cut,12.5,2.5\n") == {"a": [(0, 3, "weld"), (12.5, 15, "cut")]}
    with pytest.raises(UsageError, match=r'"position" has the numbers from 1 to 3, which may.*--columns=start=pos'):
        spans_of(tmp_path, f"{header}a,weld,1,3\na,cut,2,2\nb,cut,1,4\nb,weld,3,2\n")
    counted = spans_of(tmp_path, f"{header}a,weld,1,3\na,cut,2,2\n", columns=("start=position",))
    assert counted == {"a": [(1, 4, "weld"), (2, 4, "cut")]}
    timed = spans_of(tmp_path, "video,label,position,time,length\na,weld,1,30,3\na,cut,2,40,2\n")
    assert timed == {"a": [(30, 33, "weld"), (40, 42, "cut")]}
