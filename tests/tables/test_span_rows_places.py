"""Where a span that cannot be read is in the export, and what other programs write of times and ids."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand


def problems_of(folder: pathlib.Path, name: str, content: Any) -> str:
    """What is wrong with the first bad row of an export, after its place."""
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    table = understand("--table", str(folder / name), TableFlags(rows="spans"))
    (rows,) = table.batches(100)
    number, problem = next(iter(rows.bad.items()))
    return f"{table.where(number)}: {problem}"


def task(number: int, *times: tuple[float, float]) -> dict[str, Any]:
    results = [
        {"from_name": "t", "type": "timelinelabels", "value": {"start": a, "end": b, "timelinelabels": ["x"]}}
        for a, b in times
    ]
    data = {"id": f"v{number}", "video": f"films/{number}.mp4"}
    return {"data": data, "annotations": [{"completed_by": 1, "result": results}]}


def test_a_reversed_span_of_an_export_has_its_place_there(tmp_path: pathlib.Path) -> None:
    """Not that in the table of all spans, which nobody has seen."""
    tasks = [task(1, (0, 1), (2, 3), (4, 5)), task(2, (1, 2), (9, 3))]
    text = problems_of(tmp_path, "ls.json", tasks)
    assert text == "task 2: its span in task 2: the end, 3, is before the start, 9"
    segments = [{"label": "x", "segment": [1, 2]}, {"label": "x", "segment": [9, 3]}]
    database = {"a": {"subset": "training", "annotations": segments[:1]}, "b": {"annotations": segments}}
    text = problems_of(tmp_path, "an.json", {"database": database})
    assert text == "annotation 0 of 'b': its span in annotation 1 of 'b': the end, 3, is before the start, 9"
    videos = [{"id": "a", "spans": []}, {"id": "b", "spans": [{"label": "x", "start": 9, "end": 3}]}]
    assert problems_of(tmp_path, "own.json", videos).startswith("span 1 of video 2: its span: the end, 3")
    assert problems_of(tmp_path, "b.vtt", "WEBVTT\n\n00:09.000 --> 00:03.000\nweld\n").startswith("label 1 of 'b'")


def test_the_video_of_a_task_has_its_address_beside_the_id(tmp_path: pathlib.Path) -> None:
    (tmp_path / "ls.json").write_text(json.dumps([task(1, (0, 1)), task(2, (1, 2))]))
    for rows in ("spans", "videos"):
        flags = TableFlags(rows=rows, path_endings=(".mp4",), needs_labels=False)
        table = understand("--videos", str(tmp_path / "ls.json"), flags)
        (cells,) = [batch.cells for batch in table.batches(9)]
        assert (list(cells["id"]), list(cells["path"])) == (["v1", "v2"], ["films/1.mp4", "films/2.mp4"])


def test_moments_of_the_calendar_are_no_times_of_a_video(tmp_path: pathlib.Path) -> None:
    for header in ("start,end", "start_ms,end_ms", "start_us,end_us"):
        factor = {"start_ms": 1000, "start_us": 1_000_000}.get(header.partition(",")[0], 1)
        for start in (1_700_000_010, 1_700_000_010 * factor):
            if factor == 1_000_000 and start < 1e15:
                continue  # half an hour
            text = problems_of(tmp_path, f"{factor}.csv", f"video,label,{header}\na,x,{start},{start + 9 * factor}\n")
            assert "such as Unix time" in text
    assert "a moment" in problems_of(tmp_path, "f.csv", "video,label,start,end,fps\na,x,1700000010,1700000020,25\n")


def test_commas_of_milliseconds_stand_between_thousands(tmp_path: pathlib.Path) -> None:
    text = 'video,label,start_ms,end_ms\na,x,"2,000","10,500"\na,x,500,"1,000"\n'
    assert spans_of(tmp_path, text) == {"a": [(2.0, 10.5, "x"), (0.5, 1.0, "x")]}
    with pytest.raises(AssertionError, match="without a comma"):
        spans_of(tmp_path, 'video,label,start_ms,end_ms\na,x,"2,5","10,500"\n')


def test_audacity_writes_the_commas_of_some_countries(tmp_path: pathlib.Path) -> None:
    assert spans_of(tmp_path, "0,500000\t1,200000\tweld\n10,500000\t12,250000\tcut\n", "a.txt") == {
        "a": [(0.5, 1.2, "weld"), (10.5, 12.25, "cut")]
    }


def describe(folder: pathlib.Path, text: str) -> str:
    (folder / "t.csv").write_text(text)
    return "; ".join(understand("--table", str(folder / "t.csv"), TableFlags(rows="spans")).describe())


def test_ids_that_differ_in_blanks_alone_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r"'a ' and 'a' .*blanks"):
        describe(tmp_path, "video,label,start,end\na ,x,1,10\na,x,15,20\nb,y,0,30\n")
    assert "1 ids begin or end" in describe(tmp_path, "video,label,start,end\na ,x,1,10\nb,y,0,30\n")


def test_lists_of_structs_in_parquet_are_spans(tmp_path: pathlib.Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    first = [{"start": 1.0, "end": 4.0, "label": "x"}, {"start": 6.0, "end": 9.5, "label": "y"}]
    table = arrow.table({"video": ["a", "b", "c"], "spans": [first, [{"start": 2.0, "end": 3.0, "label": "y"}], []]})
    parquet.write_table(table, tmp_path / "s.parquet")
    understood = understand("--table", str(tmp_path / "s.parquet"), TableFlags(rows="spans"))
    (cells,) = [batch.cells for batch in understood.batches(9)]
    spans = [[(span.start, span.end, *span.labels) for span in of_video] for of_video in cells["spans"]]
    assert spans == [[(1, 4, "x"), (6, 9.5, "y")], [(2, 3, "y")], []]
    assert understood.describe()[0].startswith("s.parquet: Parquet, spans of each video")
