"""Several spans in the cells of one row."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError
from yt8m.tables.shapes.span_ranges import ranges_in
from yt8m.tables.understood import TableFlags, understand

_EXPECTED = {"a": [(12.4, 31.0, "weld"), (40.0, 52.0, "weld")], "b": [(5.0, 9.0, "cut")], "c": []}


@pytest.mark.parametrize(
    ("cell", "ranges"),
    [
        ("12.4-31.0", [("12.4", "31.0")]),
        ("12,4 - 31,0", [("12,4", "31,0")]),
        ("0:05 \u2013 1:09.5; 70 to 80", [("0:05", "1:09.5"), ("70", "80")]),
        ("0-3, 5-9", [("0", "3"), ("5", "9")]),
        ("(1.5, 3)", None),
        ("[[12.4, 31.0], [40, 52]]", [(12.4, 31.0), (40, 52)]),
        ("[(1, 2), (3, 4)]", [(1, 2), (3, 4)]),
        ([1, 2.5], [(1, 2.5)]),
        (["1-2", [3, 4]], [("1", "2"), (3, 4)]),
        ("12s-31s", [("12s", "31s")]),
        ([1, 2, 3], None),
        ("12.4", None),
        ("welding", None),
        (7, None),
    ],
)
def test_a_cell_has_starts_and_ends(cell: Any, ranges: Any) -> None:
    assert ranges_in(cell) == ranges


@pytest.mark.parametrize(
    "text",
    [
        "video,label,time\na,weld,12.4-31.0\na,weld,40-52\nb,cut,0:05-0:09\nc,,\n",
        "video,label,times\na,weld,12.4 - 31.0; 40 to 52\nb,cut,0:05 \u2013 0:09\nc,,\n",
        'video,label,segments\na,weld,"[[12.4,31.0],[40,52]]"\nb,cut,"[[5,9]]"\nc,,[]\n',
        "video,label,interval_ms\na,weld,12400-31000; 40000-52000\nb,cut,5000-9000\nc,,\n",
    ],
)
def test_rows_have_several_spans(text: str, tmp_path: pathlib.Path) -> None:
    assert spans_of(tmp_path, text) == _EXPECTED


def test_any_column_may_be_chosen(tmp_path: pathlib.Path) -> None:
    text = "video,label,when\na,weld,12.4-31.0; 40-52\nb,cut,5-9\nc,,\n"
    assert spans_of(tmp_path, text, columns=("start=when", "end=when")) == _EXPECTED


def test_lists_of_equal_lengths_belong_together(tmp_path: pathlib.Path) -> None:
    rows = [
        {"id": "a", "timestamps": [[1, 3], [4, 9]], "labels": ["weld", "cut"]},
        {"id": "b", "timestamps": [[1, 3]], "labels": ["cut"]},
    ]
    expected = {"a": [(1.0, 3.0, "weld"), (4.0, 9.0, "cut")], "b": [(1.0, 3.0, "cut")]}
    assert spans_of(tmp_path, json.dumps(rows), "t.json") == expected
    captions = {row["id"]: {"timestamps": row["timestamps"], "sentences": row["labels"]} for row in rows}
    assert spans_of(tmp_path, json.dumps(captions), "t.json", columns=("labels=sentences",)) == expected
    rows[0]["labels"] = ["weld", "cut", "bend"]
    with pytest.raises(UsageError, match=r"row 1: 2 spans, .*labels .*not clear which span"):
        spans_of(tmp_path, json.dumps(rows), "t.json")


def test_lists_in_cells_of_csv_are_those_of_json(tmp_path: pathlib.Path) -> None:
    rows = ['a,"[""weld"",""cut""]","[[2,4],[6,8]]"', 'b,"[""cut""]","[[10,20]]"', 'c,"[""weld""]","[[1,2],[3,4]]"']
    rows += ['d,"[""weld"",""cut""]","[[5,6]]"', "e,[],[]"]
    assert spans_of(tmp_path, "\n".join(["video,labels,timestamps", *rows])) == {
        "a": [(2.0, 4.0, "weld"), (6.0, 8.0, "cut")],
        "b": [(10.0, 20.0, "cut")],
        "c": [(1.0, 2.0, "weld"), (3.0, 4.0, "weld")],
        "d": [(5.0, 6.0, "weld+cut")],
        "e": [],
    }


def test_labels_and_times_with_one_sign_between_them_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"row 1 .line 2.: 2 spans, .*'weld;cut'"):
        spans_of(tmp_path, "id,labels,times\na,weld;cut,1-3;4-9\nb,cut,1-3\n")


def test_windows_of_qvhighlights(tmp_path: pathlib.Path) -> None:
    rows = [
        {"qid": 1, "query": "a man welds", "vid": "a_60.0_210.0", "relevant_windows": [[2, 6], [20, 30]]},
        {"qid": 2, "query": "a dog", "vid": "b_60.0_210.0", "relevant_windows": [[2, 4]]},
        {"qid": 3, "query": "a cat", "vid": "c_60.0_210.0", "relevant_windows": [[0, 150]]},
    ]
    spans = spans_of(tmp_path, "\n".join(map(json.dumps, rows)), "t.jsonl", columns=("labels=query",))
    assert spans == {
        "a_60.0_210.0": [(2.0, 6.0, "a man welds"), (20.0, 30.0, "a man welds")],
        "b_60.0_210.0": [(2.0, 4.0, "a dog")],
        "c_60.0_210.0": [(0.0, 150.0, "a cat")],
    }


def test_actions_of_charades(tmp_path: pathlib.Path) -> None:
    text = "id,scene,actions,length\na,Kitchen,c092 11.90 21.20;c147 0.00 12.60,24.83\nb,Kitchen,,24.83\n"
    assert spans_of(tmp_path, text) == {"a": [(11.9, 21.2, "c092"), (0.0, 12.6, "c147")], "b": []}


def test_a_cell_that_is_no_time_makes_its_row_bad(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,time\na,weld,12.4-31.0\nb,cut,5\nb,cut,9-10\n")
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans", columns=("start=time", "end=time")))
    (rows,) = table.batches(9)
    assert rows.bad == {}  # 5 is a time, but its span has no length
    (tmp_path / "t.csv").write_text("video,label,time\na,weld,12.4-31.0\nb,cut,soon\nb,cut,9-10\n")
    (rows,) = understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans")).batches(9)
    assert rows.bad[2].startswith("its span: a time is 'soon'; expected seconds")
