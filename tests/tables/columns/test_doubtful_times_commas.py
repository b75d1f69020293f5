"""Commas in times: decimal ones, those of thousands, and those that may be either."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError
from yt8m.tables.columns.doubtful_times import are_of_thousands, without
from yt8m.tables.understood import TableFlags, understand


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["12.5", "1,100"], True),
        (["1,100.5", "7"], True),
        (["1,234,567"], True),
        (["12,5", "1,100"], False),
        (["0,500", "1,100"], False),
        (["12.5", "7"], False),
        ([12.5, None], False),
    ],
)
def test_the_cells_say_what_a_comma_is(cells: list[object], expected: bool) -> None:
    assert are_of_thousands("t.csv", cells, has_decimal_commas=False) is expected


@pytest.mark.parametrize("cells", [["1,100", "2,500"], ["12,5", "1.5"], ["12,5", "1,100.5"]])
def test_commas_that_may_be_either_are_refused(cells: list[object]) -> None:
    with pytest.raises(UsageError, match=r"decimal comma, .*thousands\. Write"):
        are_of_thousands("t.csv", cells, has_decimal_commas=False)


def test_semicolons_between_cells_stand_beside_decimal_commas(tmp_path: pathlib.Path) -> None:
    assert not are_of_thousands("t.csv", ["1,100", "2,500"], has_decimal_commas=True)
    spans = spans_of(tmp_path, "video;label;start;end\na;x;1,100;2,500\n")
    assert spans == {"a": [(1.1, 2.5, "x")]}


def test_thousands_in_tables_of_spans_and_of_videos(tmp_path: pathlib.Path) -> None:
    text = 'video,label,start,end\na,x,12.5,31.25\nb,y,"1,100","1,200.5"\n'
    assert spans_of(tmp_path, text) == {"a": [(12.5, 31.25, "x")], "b": [(1100.0, 1200.5, "y")]}
    (rows,) = understand("--table", str(tmp_path / "t.csv"), TableFlags()).batches(9)
    assert list(rows.cells["end"]) == ["31.25", "1200.5"]
    assert without("1,200 km") == "1,200 km"
