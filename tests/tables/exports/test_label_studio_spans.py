"""Exports with spans in their less usual forms: several tasks of a film, controls, attributes, and parts of films."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from span_exports import sound, task, timeline
from table_files import write_json

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand


def read(path: pathlib.Path, **flags: Any) -> dict[str, list[tuple[float, float, tuple[str, ...]]]]:
    """{video: (start, end, labels) of its spans} of an export."""
    table = understand("--table", str(path), TableFlags(**({"rows": "spans"} | flags)))
    (rows,) = table.batches(100)
    pairs = zip(rows.cells["id"], rows.cells["spans"], strict=True)
    return {name: [(span.start, span.end, span.labels) for span in spans] for name, spans in pairs}


def test_an_annotation_of_ground_truth_counts_alone(tmp_path: pathlib.Path) -> None:
    tasks = [task("a.mp4", [timeline("weld", 1, 50)], [timeline("weld", 26, 75)])]
    assert read(write_json(tmp_path / "t.json", tasks), frame_rate=25.0) == {"a.mp4": [(1.0, 2.0, ("weld",))]}
    tasks[0]["annotations"][1]["ground_truth"] = True
    assert read(write_json(tmp_path / "t.json", tasks), frame_rate=25.0) == {"a.mp4": [(1.0, 3.0, ("weld",))]}


def test_several_tasks_of_a_film_add_their_spans(tmp_path: pathlib.Path) -> None:
    tasks = [task("a.mp4", [sound("x", 1, 2)]), task("b.mp4", []), task("a.mp4", [sound("x", 5, 6), sound("y", 5, 7)])]
    path = write_json(tmp_path / "t.json", tasks)
    assert read(path) == {"a.mp4": [(1, 2, ("x",)), (5, 6, ("x",)), (5, 7, ("y",))], "b.mp4": []}
    described = understand("--table", str(path), TableFlags(rows="spans")).describe()[0]
    assert "further tasks of a video, whose spans are added: 1" in described
    tasks[2]["annotations"][0]["completed_by"] = 7
    with pytest.raises(UsageError, match=r"task 3: .*earlier task of 'a\.mp4' .*'x'.*other people"):
        read(write_json(tmp_path / "t.json", tasks))


def test_several_controls_may_be_taken_together(tmp_path: pathlib.Path) -> None:
    other = {**timeline("night", 1, 100), "from_name": "light"}
    tasks = [task("a.mp4", [timeline("weld", 1, 50), other]), task("b.mp4", [timeline("cut", 1, 50)])]
    path = write_json(tmp_path / "t.json", tasks)
    with pytest.raises(UsageError, match=r"several controls.*take several by --columns=labels=light\+timeline"):
        read(path, frame_rate=25.0)
    spans = read(path, frame_rate=25.0, columns=("labels=light+timeline",))
    assert spans == {"a.mp4": [(0.0, 2.0, ("weld",)), (0.0, 4.0, ("night",))], "b.mp4": [(0.0, 2.0, ("cut",))]}
    assert read(path, frame_rate=25.0, columns=("labels=light",))["b.mp4"] == []


def test_choices_of_regions_are_no_second_control(tmp_path: pathlib.Path) -> None:
    region = {**sound("speech", 1, 5), "id": "r1"}
    choice = {"id": "r1", "from_name": "mood", "type": "choices", "value": {"start": 1, "end": 5, "choices": ["glad"]}}
    path = write_json(tmp_path / "t.json", [task("a.wav", [region, choice]), task("b.wav", [sound("music", 1, 6)])])
    assert read(path) == {"a.wav": [(1, 5, ("speech",))], "b.wav": [(1, 6, ("music",))]}
    assert read(path, columns=("labels=mood",)) == {"a.wav": [(1, 5, ("glad",))], "b.wav": []}


@pytest.mark.parametrize("parts", ["from 3 to 9", "9-3", "3-", [3], "0-3, x-9"])
def test_parts_of_a_task_that_are_no_times_are_refused(parts: object, tmp_path: pathlib.Path) -> None:
    tasks = [{**task("a", [sound("x", 1, 2)]), "data": {"video": "a.mp4", "id": "a", "parts": parts}}]
    with pytest.raises(UsageError, match=r't\.json, task 1: "parts" .*seconds'):
        read(write_json(tmp_path / "t.json", tasks))


@pytest.mark.parametrize("parts", ["0-3, 5.5-9", "0-3;5.5-9", [[0, 3], [5.5, 9]], "0:00-0:03, 0:05.5-0:09"])
def test_parts_of_a_task_may_be_written_in_several_ways(parts: object, tmp_path: pathlib.Path) -> None:
    tasks = [{**task("a", [sound("x", 1, 2)]), "data": {"video": "a.mp4", "id": "a", "parts": parts}}]
    table = understand("--table", str(write_json(tmp_path / "t.json", tasks)), TableFlags(rows="spans"))
    ((spans,),) = (rows.cells["spans"] for rows in table.batches(9))
    assert [span[:2] for span in spans if span.is_part] == [(0, 3), (5.5, 9)]


def test_a_film_with_a_task_of_the_whole_was_seen_as_a_whole(tmp_path: pathlib.Path) -> None:
    tasks = [
        {**task("a", [sound("x", 1, 2)]), "data": {"video": "a.mp4", "parts": "0-3"}},
        {**task("a", []), "data": {"video": "a.mp4"}},
    ]
    table = understand("--table", str(write_json(tmp_path / "t.json", tasks)), TableFlags(rows="spans"))
    ((spans,),) = (rows.cells["spans"] for rows in table.batches(9))
    assert not any(span.is_part for span in spans)


def test_attributes_of_files_in_via_are_no_spans(tmp_path: pathlib.Path) -> None:
    project: dict[str, Any] = {
        "project": {},
        "attribute": {"1": {"aname": "act", "options": {"0": "weld"}}, "2": {"aname": "scene", "options": {}}},
        "file": {"1": {"fname": "a.mp4"}},
        "metadata": {"m": {"vid": "1", "z": [1, 3], "av": {"1": "0"}}, "f": {"vid": "1", "z": [], "av": {"2": "in"}}},
        "view": {"1": {"fid_list": ["1"]}},
    }
    assert read(write_json(tmp_path / "t.json", project)) == {"a.mp4": [(1.0, 3.0, ("weld",))]}
    project["metadata"]["n"] = {"vid": "1", "z": [4, 6], "av": {"2": "slow"}}
    path = write_json(tmp_path / "t.json", project)
    with pytest.raises(
        UsageError, match=r"attributes act, scene.*--columns=labels=act, or --columns=labels=act\+scene"
    ):
        read(path)
