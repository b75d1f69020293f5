"""Tables and exports with a row for each span, as the programs that write them document their files."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any

import pytest
from span_exports import sound, task, timeline
from table_files import write_json

from yt8m.errors import RunError, UsageError
from yt8m.tables.understood import TableFlags, understand

Found = dict[str, list[tuple[float, float, tuple[str, ...]]]]


def read(path: pathlib.Path, **flags: Any) -> Found:
    """{video: (start, end, labels) of its spans} of a table of spans."""
    table = understand("--table", str(path), TableFlags(**({"rows": "spans"} | flags)))
    assert {"id", "labels", "spans"} <= set(table.columns) <= {"id", "labels", "spans", "path", "split"}
    found: Found = {}
    for rows in table.batches(2):
        assert not rows.bad
        for video, labels, spans in zip(*(rows.cells[name] for name in ("id", "labels", "spans")), strict=True):
            found[str(video)] = [
                (round(span.start, 6), round(span.end, 6), tuple(map(table.clean_label, span.labels))) for span in spans
            ]
            assert set(labels) == {name for span in spans for name in span.labels}
    return found


def problems(path: pathlib.Path) -> dict[int, str]:
    """{number of a video's row: what is wrong with it}."""
    table = understand("--table", str(path), TableFlags(rows="spans"))
    return {number: why for rows in table.batches(10) for number, why in rows.bad.items()}


_EXPECTED: Found = {"a": [(12.4, 31.0, ("weld",)), (5.0, 62.5, ("cut",))], "b": [(3.0, 4.0, ("weld",))], "c": []}
_TABLES = {
    "seconds": "video,label,start,end\na,weld,12.4,31\na,cut,5,62.5\nb,weld,3,4\nc,,,\n",
    "clock": "video,label,start,end\na,weld,0:12.4,00:00:31\na,cut,5,1:02.5\nb,weld,3,4\nc,,,\n",
    "numbered": "id,video,label,start,end\n1,a,weld,12.4,31\n2,a,cut,5,62.5\n3,b,weld,3,4\n4,c,,,\n",
    "scattered": "video;label;t0;t1\na;weld;12,4;31\nb;weld;3;4\na;cut;5;62,5\nc;;;\n",
    "sound events": "filename\tonset\toffset\tevent_label\na\t12.4\t31\tweld\na\t5\t62.5\tcut\n"
    "b\t3\t4\tweld\nc\t\t\t\n",
    "durations": "video,label,start,duration\na,weld,12.4,18.6\na,cut,0:05,57.5\nb,weld,3,1\nc,,,\n",
    "german": "Datei;Klasse;Anfang;Ende\na;weld;12,4;31\na;cut;5;62,5\nb;weld;3;4\nc;;;\n",
    "french": "Vidéo;Étiquette;Début;Fin\na;weld;12,4;31\na;cut;5;62,5\nb;weld;3;4\nc;;;\n",
    "short rows": "video,label,start,end\na,weld,12.4,31\na,cut,5,62.5\nb,weld,3,4\nc\n",
    "marked": "video,label,start,end,present\na,weld,12.4,31,1\na,cut,5,62.5,1\nb,weld,3,4,1\nb,cut,3,4,0\nc,,,,0\n",
}


@pytest.mark.parametrize("text", _TABLES.values(), ids=_TABLES)
def test_rows_of_spans_become_videos(text: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert read(tmp_path / "t.csv") == _EXPECTED


def test_frames_with_a_rate_and_several_labels_of_a_span(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,labels,start_frame,end_frame\na,weld;cut,25,100\na,cut;bend,100,125\n")
    spans = [(1.0, 4.0, ("weld", "cut")), (4.0, 5.0, ("cut", "bend"))]
    assert read(tmp_path / "t.csv", frame_rate=25.0) == {"a": spans}


def test_columns_that_count_frames_need_their_rate(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("video,labels,start_frame,end_frame\na,weld,25,100\na,cut,100,125\n")
    with pytest.raises(UsageError, match=r'"start_frame" counts frames.*--frame_rate=25.*--columns=start='):
        read(path)
    path.write_text("video,labels,start_frame,end_frame\na,weld,0:01,0:04\na,cut,0:04,0:05\n")
    assert read(path) == {"a": [(1.0, 4.0, ("weld",)), (4.0, 5.0, ("cut",))]}


def test_each_row_may_have_a_rate_of_frames(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("video,label,start_frame,end_frame,fps\na,weld,25,100,25\nb,cut,30,150,30\nc,,,,\n")
    assert read(path) == {"a": [(1.0, 4.0, ("weld",))], "b": [(1.0, 5.0, ("cut",))], "c": []}
    with pytest.raises(UsageError, match=r'row 2 .line 3.: "fps" is 30, but --frame_rate is 25'):
        read(path, frame_rate=25.0)
    path.write_text("video,label,start_frame,end_frame,fps\na,weld,25,100,25\nb,cut,30,150,\n")
    with pytest.raises(UsageError, match=r'"start_frame" counts frames'):
        read(path)
    path.write_text("video,label,start,end,fps\na,weld,1,4,25\nb,cut,1,5,30\n")
    assert read(path)["b"] == [(1.0, 5.0, ("cut",))], "they are seconds"


def test_results_of_activitynet_are_no_labels(tmp_path: pathlib.Path) -> None:
    found = {"results": {"a": [{"label": "x", "segment": [5, 20], "score": 0.9}]}, "external_data": {}}
    with pytest.raises(UsageError, match=r"results of a model.*--spans_format=csv"):
        read(write_json(tmp_path / "t.json", found))


@pytest.mark.parametrize("times", ["onset,offset", "start_frame,end_frame", "tmin,tmax", "from,to"])
def test_repeated_ids_with_times_of_spans_are_refused_without_the_flag(tmp_path: pathlib.Path, times: str) -> None:
    (tmp_path / "t.csv").write_text(f"filename,{times},event_label\na,5,9,weld\na,12.5,31,cut\nb,1,2,cut\n")
    with pytest.raises(UsageError, match=r"line 3.*of 'a' differs.*--rows=spans;.*--columns=start=,end="):
        understand("--table", str(tmp_path / "t.csv"), TableFlags())
    chosen = TableFlags(columns=("start=", "end="))
    assert "spans" not in understand("--table", str(tmp_path / "t.csv"), chosen).columns


def test_segments_of_audioset_as_it_writes_them(tmp_path: pathlib.Path) -> None:
    draw, names = random.Random(4), ["/m/068hy", "/m/07q6cd_", "/m/0bt9lr", "/m/0jbk", "/m/03l9g", "/t/dd00001"]
    rows = [
        (f"--4gqAR{number:04}", 10 * number, ",".join(draw.sample(names, draw.randint(1, 4)))) for number in range(60)
    ]
    header = "# Segments csv created Sun Mar  5 10:54:31 2017\n# num_ytids=6, num_segs=6, num_unique_labels=11\n"
    lines = [f'{name}, {start:.3f}, {start + 10:.3f}, "{labels}"\n' for name, start, labels in rows]
    text = header + "# YTID, start_seconds, end_seconds, positive_labels\n" + "".join(lines)
    (tmp_path / "t.csv").write_text(text)
    expected = {name: [(start, start + 10, tuple(labels.split(",")))] for name, start, labels in rows}
    assert read(tmp_path / "t.csv") == expected


def test_strong_labels_of_audioset(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.tsv").write_text(
        "segment_id\tstart_time_seconds\tend_time_seconds\tlabel\n"
        "b0RFKhbpFJA_30000\t0.000\t10.000\t/m/03m9d0z\nb0RFKhbpFJA_30000\t4.753\t5.720\t/m/05zppz\n"
    )
    spans = [(0.0, 10.0, ("/m/03m9d0z",)), (4.753, 5.72, ("/m/05zppz",))]
    assert read(tmp_path / "t.tsv") == {"b0RFKhbpFJA_30000": spans}


@pytest.mark.parametrize("times", [("0:12", "0:31"), ("12", "31")])
def test_repeated_ids_with_times_are_refused_with_all_readings(times: tuple[str, str], tmp_path: pathlib.Path) -> None:
    text = f"video,label,start_time,end_time\na,weld,{times[0]},{times[1]}\na,cut,0:40,0:50\n"
    (tmp_path / "t.csv").write_text(text if ":" in times[0] else text.replace("0:40", "40").replace("0:50", "50"))
    with pytest.raises(UsageError, match=r"line 3.*start_time of 'a'.*--rows=spans;.*\bid .*own; or .*=start=,end="):
        understand("--table", str(tmp_path / "t.csv"), TableFlags())
    assert understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans")).columns[-1] == "spans"


def test_wrong_spans_are_named_by_their_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("video,label,start,end\na,x,5,3\na,y,soon,9\nb,x,1,\nc,,1,2\nd,x,2,2\n")
    found = problems(path)
    assert found == {
        1: "its span: the end, 3, is before the start, 5",
        2: "its span: a span needs a start and an end",
        3: 'its span: the span has no label; write "(none)" if people have looked there and seen no class',
    }
    path.write_text("video,label,start,end\na,x,1,2\na,y,soon,9\n")
    assert "row 2 (line 3): a time is 'soon'; expected seconds" in problems(path)[1]


def test_a_table_without_times_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,when\na,x,5\nb,y,6\n")
    with pytest.raises(UsageError, match=r"start and end cannot .*: video, label, when.*--columns=start="):
        read(tmp_path / "t.csv")


def test_timeline_labels_count_frames_from_one(tmp_path: pathlib.Path) -> None:
    tasks = [task("a.mp4", [timeline("weld", 1, 50), timeline("cut", 26, 100)]), task("b.mp4", [])]
    path = write_json(tmp_path / "t.json", tasks)
    assert read(path, frame_rate=25.0) == {"a.mp4": [(0.0, 2.0, ("weld",)), (1.0, 4.0, ("cut",))], "b.mp4": []}
    with pytest.raises(UsageError, match=r"t.json, task 1: its spans count frames.*--frame_rate=24"):
        read(path)
    path = write_json(tmp_path / "u.json", [task("a.mp4", [timeline("weld", 1, 50, framesCount=250, duration=10.0)])])
    assert read(path) == {"a.mp4": [(0.0, 2.0, ("weld",))]}


def test_timeline_labels_may_have_seconds_and_none_without_times_is_lost(tmp_path: pathlib.Path) -> None:
    seconds = timeline("cut", 0, 0)
    seconds["value"] = {"start": 10.0, "end": 20.5, "timelinelabels": ["cut"]}
    path = write_json(tmp_path / "t.json", [task("a.mp4", [timeline("weld", 1, 50), seconds])])
    assert read(path, frame_rate=25.0) == {"a.mp4": [(0.0, 2.0, ("weld",)), (10.0, 20.5, ("cut",))]}
    untimed = timeline("cut", 0, 0)
    untimed["value"] = {"timelinelabels": ["cut"]}
    path = write_json(tmp_path / "t.json", [task("a.mp4", [timeline("weld", 1, 50)]), task("b.mp4", [untimed])])
    with pytest.raises(UsageError, match=r't.json, task 2: a result of "timeline" has no times .*cut'):
        read(path, frame_rate=25.0)


def test_labels_on_sound_have_seconds_whatever_the_rate(tmp_path: pathlib.Path) -> None:
    path = write_json(tmp_path / "t.json", [task("a.mp4", [sound("Kickflip", 3.25, 8.5)])])
    assert read(path) == read(path, frame_rate=25.0) == {"a.mp4": [(3.25, 8.5, ("Kickflip",))]}


def test_boxes_are_seen_between_their_keyframes(tmp_path: pathlib.Path) -> None:
    keyframes = [(1, True, 0.04), (50, False, 2.0), (100, True, 4.0)]
    sequence = [{"frame": frame, "enabled": enabled, "time": time, "x": 1} for frame, enabled, time in keyframes]
    value = {"framesCount": 250, "duration": 10.0, "sequence": sequence, "labels": ["Car"]}
    result = {"value": value, "from_name": "box", "to_name": "video", "type": "videorectangle"}
    path = write_json(tmp_path / "t.json", [task("a.mp4", [result])])
    assert read(path) == {"a.mp4": [(0.04, 2.0, ("Car",)), (4.0, 10.0, ("Car",))]}


def test_several_people_are_joined_where_most_of_them_agree(tmp_path: pathlib.Path) -> None:
    people = [[sound("a", 0, 10)], [sound("a", 4, 12)], [sound("a", 8, 20), sound("b", 0, 9)]]
    path = write_json(tmp_path / "t.json", [task("v", *people)])
    assert read(path) == {"v": [(4.0, 12.0, ("a",))]}
    (description, *_) = understand("--table", str(path), TableFlags(rows="spans")).describe()
    assert description.endswith("most people have not marked, left out: 1")  # b, which one of three has marked


def test_ranges_of_several_people_that_are_no_time_are_not_lost(tmp_path: pathlib.Path) -> None:
    people = [[sound("a", 0, 10), sound("b", 7, 7)], [sound("a", 4, 12)], [sound("a", 8, 20)]]
    path = write_json(tmp_path / "t.json", [task("v", *people), task("w", [sound("a", 9, 3)], [sound("a", 1, 3)])])
    assert "the end, 3, is before the start, 9" in problems(path)[2]
    assert read(write_json(tmp_path / "u.json", [task("v", *people)])) == {
        "v": [(4.0, 12.0, ("a",)), (7.0, 7.0, ("b",))]
    }


def test_a_range_that_starts_at_frame_0_is_said(tmp_path: pathlib.Path) -> None:
    path = write_json(
        tmp_path / "t.json", [task("a.mp4", [timeline("weld", 1, 50)]), task("b.mp4", [timeline("x", 0, 9)])]
    )
    with pytest.raises(UsageError, match=r"t\.json, task 2: .*frame 0\b.* from 1\b"):
        read(path, frame_rate=25.0)


def test_what_a_model_has_found_is_no_answer(tmp_path: pathlib.Path) -> None:
    prediction = {"score": 0.9, "result": [timeline("weld", 1, 50)]}
    for others in ({}, {"annotations": []}):
        found = [{"data": {"video": name}, "predictions": [prediction], **others} for name in ("a.mp4", "b.mp4")]
        path = write_json(tmp_path / "t.json", found)
        for flags in ({"rows": "spans", "frame_rate": 25.0}, {"rows": ""}):
            with pytest.raises(UsageError, match=r"t\.json .*predictions of .*model.*Label Studio"):
                read(path, **flags)


def test_only_the_parts_that_a_task_names_were_looked_at(tmp_path: pathlib.Path) -> None:
    tasks = [
        {**task("a", [sound("x", 13, 14)]), "data": {"video": "a.mp4", "id": "a", "parts": "12-15, 20.5-23.5"}},
        {**task("b", []), "data": {"video": "b.mp4", "id": "b", "parts": "0-3"}},
        {**task("a", []), "data": {"video": "a.mp4", "id": "a", "parts": "40-43"}},  # chosen later
        {**task("b", [], was_cancelled=True), "data": {"video": "b.mp4", "id": "b", "parts": "90-93"}},
    ]
    tasks[3]["annotations"][0]["was_cancelled"] = True
    table = understand("--table", str(write_json(tmp_path / "t.json", tasks)), TableFlags(rows="spans"))
    (rows,) = table.batches(9)
    parts = [[span[:2] for span in spans if span.is_part] for spans in rows.cells["spans"]]
    assert parts == [[(12, 15), (20.5, 23.5), (40, 43)], [(0, 3)]]
    assert [[span[:3] for span in spans if not span.is_part] for spans in rows.cells["spans"]] == [
        [(13, 14, ("x",))],
        [],
    ]
    assert "of 2 videos, people have seen" in table.describe()[0]
    foreign = [{**task("a", [sound("x", 13, 14)]), "data": {"video": "a.mp4", "parts": "wheel, axle"}}]
    assert read(write_json(tmp_path / "u.json", foreign)) == {"a.mp4": [(13, 14, ("x",))]}


def test_spans_of_people_who_do_not_agree_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("video,label,start,end,annotator\na,x,5,20,ann\na,x,10,30,bob\nb,y,1,2,ann\n")
    with pytest.raises(
        UsageError, match=r'"annotator".*x from 5 to 20 \(ann\) and x from 10 to 30 \(bob\).*delete the'
    ):
        read(path)
    path.write_text(
        "video,label,start,end,annotator\na,x,5,20,ann\na,x,5,20,bob\nb,y,1,2,ann\nb,z,1,2,ann\nc,y,1,2,bob\n"
    )
    assert read(path)["b"] == [(1, 2, ("y",)), (1, 2, ("z",))]


def test_spans_that_people_may_have_rejected_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,start,end,status\na,x,5,20,done\nb,y,1,2,rejected\n")
    with pytest.raises(UsageError, match=r'"status" (?:that )?may say .*done.*rejected'):
        read(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("video,label,start,end,status\na,x,5,20,done\nb,y,1,2,done\n")
    assert set(read(tmp_path / "t.csv")) == {"a", "b"}


def test_people_may_say_that_they_saw_no_class(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,start,end\na,weld,1,2\na,(none),5,9\nb,No labels,0,4\n")
    assert read(tmp_path / "t.csv") == {"a": [(1, 2, ("weld",)), (5, 9, ())], "b": [(0, 4, ())]}
    (tmp_path / "t.csv").write_text("video,label,start,end\na,weld,1,2\na,nan,5,9\n")  # a label that is missing
    assert r'write "(none)" if people' in problems(tmp_path / "t.csv")[1]


@pytest.mark.parametrize(
    ("header", "rows", "are_clips"),
    [
        ("YTID,start_seconds,end_seconds,positive_labels", [("a", 0, 10, "x"), ("b", 30, 36.5, "y")], True),
        ("youtube_id,time_start,time_end,label", [("a", 0, 10, "x"), ("b", 30, 40, "y")], True),
        ("youtube_id,time_start,time_end,label", [("a", 0, 10, "x"), ("a", 30, 34, "y")], False),
        ("video,start,end,label", [("a", 0, 10, "x"), ("b", 30, 40, "y")], False),
        (
            "rank,video,start,end,value,distance,label",
            [(1, "a", 0, 5, 0.4, 0.1, "x"), (2, "a", 9, 14, 0.3, 0, "y")],
            True,
        ),
    ],
)
def test_clips_of_longer_videos_are_known(
    header: str, rows: list[tuple[Any, ...]], are_clips: bool, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "t.csv").write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    assert understand("--table", str(tmp_path / "t.csv"), TableFlags(rows="spans")).are_clips == are_clips


def test_the_length_of_a_video_is_kept(tmp_path: pathlib.Path) -> None:
    spans = [{"segment": [0.5, 8.25], "label": "Polo"}]
    database = {"v1": {"duration": 82.7, "subset": "training", "annotations": spans}}
    database["v2"] = {"subset": "validation", "annotations": spans}
    of_sound = [task("v1", [sound("a", 0, 1)])]
    (tmp_path / "t.csv").write_text("video,label,start,end,video_duration_ms\nv1,x,1,2,98700\nv2,x,1,2,\n")
    for path, expected in (
        (write_json(tmp_path / "t.json", {"version": "1.3", "database": database}), [82.7, 0.0]),
        (write_json(tmp_path / "u.json", of_sound), [98.7]),
        (tmp_path / "t.csv", [98.7, 0.0]),
    ):
        (rows,) = understand("--table", str(path), TableFlags(rows="spans")).batches(9)
        assert list(rows.cells["seconds"]) == expected


def test_the_small_exports_of_label_studio_are_named(tmp_path: pathlib.Path) -> None:
    answer = [{"ranges": [{"start": 25, "end": 250}], "timelinelabels": ["a"]}]
    small = [{"id": number, "video": f"v{number}", "tl": answer, "annotator": 1} for number in range(3)]
    quoted = json.dumps(answer).replace('"', '""')
    lines = [f'{row["id"]},{row["video"]},"{quoted}"' for row in small]
    (tmp_path / "t.csv").write_text("\n".join(["id,video,tl", *lines]))
    for path in (write_json(tmp_path / "t.json", small), tmp_path / "t.csv"):
        with pytest.raises(UsageError, match=r"TimelineLabels.*JSON-MIN.*as JSON"):
            read(path)


def test_ids_of_topics_have_commas_between_them_in_few_rows_too(tmp_path: pathlib.Path) -> None:
    lines = ["# YTID, start_seconds, end_seconds, positive_labels", 'v0, 10.000, 20.000, "/m/09x0r,/t/dd00088"']
    (tmp_path / "t.csv").write_text("\n".join([*lines, 'v1, 0.000, 10.000, "/m/09x0r"', 'v2, 3.0, 9.0, "/m/04rlf"']))
    assert read(tmp_path / "t.csv")["v0"] == [(10.0, 20.0, ("/m/09x0r", "/t/dd00088"))]


def test_equal_times_of_a_video_have_two_readings_too(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("video,label,start,end\na,weld,5,20\na,cut,5,20\nb,weld,3,9\n")
    with pytest.raises(UsageError, match=r"row 2 .line 3.*start of 'a' is given again.*--rows=spans.*--rows=videos"):
        understand("--table", str(tmp_path / "t.csv"), TableFlags(can_have_spans=True))
    for flags in (TableFlags(), TableFlags(can_have_spans=True, rows="videos")):
        (rows,) = understand("--table", str(tmp_path / "t.csv"), flags).batches(9)
        assert list(rows.cells["start"]) == ["5", "3"] or list(map(float, rows.cells["start"])) == [5.0, 3.0]


def test_an_export_of_spans_alone_is_read_as_spans_only_for_frames(tmp_path: pathlib.Path) -> None:
    path = write_json(tmp_path / "t.json", [task("a.mp4", [sound("x", 0, 4)]), task("b.mp4", [sound("y", 0, 4)])])
    assert read(path, rows="", can_have_spans=True)["a.mp4"] == [(0.0, 4.0, ("x",))]
    for flags in (TableFlags(), TableFlags(rows="videos", can_have_spans=True)):
        assert "spans" not in understand("--table", str(path), flags).columns


def test_activitynet_with_its_splits(tmp_path: pathlib.Path) -> None:
    spans = [{"segment": [0.5, 8.25], "label": "Polo"}, {"segment": [2.0, 3.0], "label": "Archery"}]
    database = {
        "v1": {"duration": 82.7, "subset": "training", "annotations": spans, "url": "https://example.org/v1"},
        "v2": {"duration": 10.0, "subset": "testing", "annotations": []},  # as published: the answers are withheld
        "v3": {"duration": 10.0, "subset": "validation", "annotations": spans[:1]},
        "v4": {"duration": 10.0, "subset": "validation", "annotations": []},
    }
    path = write_json(tmp_path / "t.json", {"version": "VERSION 1.3", "taxonomy": [], "database": database})
    assert read(path) == {
        "v1": [(0.5, 8.25, ("Polo",)), (2.0, 3.0, ("Archery",))],
        "v3": [(0.5, 8.25, ("Polo",))],
        "v4": [],
    }
    table = understand("--table", str(path), TableFlags(rows="spans"))
    assert [list(rows.cells["split"]) for rows in table.batches(5)] == [["train", "validate", "validate"]]
    assert "videos of testing" in table.describe()[0]


def test_marks_of_via_3_and_spans_of_prodigy_have_seconds(tmp_path: pathlib.Path) -> None:
    attribute = {"1": {"aname": "act", "type": 4, "options": {"0": "weld", "1": "cut"}}}
    files = {str(number): {"fid": str(number), "fname": f"{name}.mp4", "type": 4} for number, name in enumerate("abc")}
    views = {number: {"fid_list": [number]} for number in files}
    marks = [("0", [5.5, 20.0], "0"), ("0", [7.0, 9.25], "0,1"), ("1", [1.0, 2.0], "1")]
    metadata = {
        f"m{place}": {"vid": vid, "z": z, "xy": [], "av": {"1": av}} for place, (vid, z, av) in enumerate(marks)
    }
    via = {"project": {}, "config": {}, "attribute": attribute, "file": files, "view": views, "metadata": metadata}
    expected = {
        "a.mp4": [(5.5, 20.0, ("weld",)), (7.0, 9.25, ("weld", "cut"))],
        "b.mp4": [(1.0, 2.0, ("cut",))],
        "c.mp4": [],
    }
    path = write_json(tmp_path / "via.json", via)
    assert read(path) == read(path, rows="", can_have_spans=True) == expected
    assert "spans" not in understand("--table", str(path), TableFlags()).columns
    metadata["m0"]["z"] = [5.5]  # a picture of the video
    with pytest.raises(UsageError, match="start and end cannot"):
        read(write_json(tmp_path / "via.json", via))
    tasks = [
        {"audio": f"{name}.mp4", "audio_spans": spans, "_input_hash": 1, "_task_hash": 2, "answer": answer}
        for name, spans, answer in [
            ("a", [{"start": 5.5, "end": 20.0, "label": "weld"}, {"start": 7, "end": 9.25, "label": "cut"}], "accept"),
            ("b", [{"start": 1, "end": 2, "label": "cut"}], "reject"),
            ("c", [], "accept"),
        ]
    ]
    found = read(write_json(tmp_path / "prodigy.json", tasks))
    assert found == {"a.mp4": [(5.5, 20.0, ("weld",)), (7.0, 9.25, ("cut",))], "c.mp4": []}


def test_a_damaged_span_of_an_export_names_its_task(tmp_path: pathlib.Path) -> None:
    broken = timeline("weld", 1, 5)
    broken["value"]["ranges"] = [{"start": 1}]
    (tmp_path / "t.json").write_text(json.dumps([task("a.mp4", [timeline("weld", 1, 5)]), task("b.mp4", [broken])]))
    with pytest.raises(RunError, match=r"t\.json, task 2: .*span cannot.*: KeyError"):
        read(tmp_path / "t.json", frame_rate=25.0)


@pytest.mark.parametrize("rows", [["v1,0,5,cat", ",5,10,dog"], [",0,5,cat", "v2,0,5,dog"]])
def test_a_span_without_the_id_of_its_video_is_refused(rows: list[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["id,start,end,labels", *rows, "v2,0,5,dog"]))
    with pytest.raises(UsageError, match=r"t\.csv, row \d .*id is empty"):
        understand("--table", str(path), TableFlags(rows="spans"))
