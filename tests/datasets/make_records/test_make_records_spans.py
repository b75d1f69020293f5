"""`yt8m make-records --rows=spans`: records, manifest, what inspect and verify count, what is refused."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from own_clips import read, write_table

from yt8m.command_line import cli
from yt8m.datasets.inspect_shards import InspectConfig, summaries_of
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, vocabulary
from yt8m.tables.understood import SPANS, TableFlags, understand

_SPANS = [
    ("a", "weld", 10, 24),
    ("a", "cut", "0:12.4", "0:31"),
    ("b", "weld", 0, 3),
    ("b", "weld", 55, 90),
    ("c", "", "", ""),
]


@pytest.fixture
def table(tmp_path: pathlib.Path) -> str:
    """A table of spans, with features of 60, 63 and 8 frames."""
    for name, count in (("a", 60), ("b", 63), ("c", 8)):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(count).normal(size=(count, 4)).astype(np.float32))
    rows = [(video, f"{video}.npy", label, start, end, "train") for video, label, start, end in _SPANS]
    return write_table(tmp_path / "spans.csv", rows, "video,path,label,start,end,split")


def make(table: str, *flags: str) -> int:
    """Makes records of frames beside the table."""
    out = pathlib.Path(table).parent / "out"
    return cli.call("make-records", [f"--table={table}", f"--out={out}", "--level=frame", "--shards=1", *flags])


def stored(table: str) -> dict[str, dict[str, Any]]:
    """{video: {name of a list: its values}} of the records."""
    names = ("labels", "segment_start_times", "segment_labels", "segment_scores")
    ranges = ("annotated_start_times", "annotated_end_times")
    made = read(pathlib.Path(table).parent / "out" / "frame")
    return {video: {name: record.values(name) for name in (*names, *ranges)} for video, (_, record) in made.items()}


def test_records_have_positive_cells_and_annotated_ranges(
    table: str, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    assert make(table, "--rows=spans") == 0
    names = vocabulary.read(str(tmp_path / "out" / "vocabulary.csv")).names
    weld, cut = names.index("weld"), names.index("cut")
    found = stored(table)
    # 12.4 to 31 covers more than half of the cells 10-15 (2.6 s), 15, 20 and 25, and 1 s of 30-35.
    cells = sorted([(10, weld), (15, weld), (20, weld), (10, cut), (15, cut), (20, cut), (25, cut)])
    assert list(zip(found["a"]["segment_start_times"], found["a"]["segment_labels"], strict=True)) == cells
    assert found["a"]["segment_scores"] == [1.0] * 7
    assert found["b"]["segment_start_times"] == [0, 55, 60]
    assert found["b"]["annotated_start_times"] == [0]
    assert found["b"]["annotated_end_times"] == [63]
    assert found["c"]["labels"] == []
    assert found["c"]["annotated_end_times"] == [8]
    text = capsys.readouterr()
    assert "4 spans, 10 positive cells, 27 annotated cells" in text.out
    assert "1 spans cut" in text.out
    assert 'times from "start" and "end"' in text.err
    data = manifest.read(str(tmp_path / "out" / "frame" / "train" / "manifest.json")).data
    assert data is not None
    assert (data.segment_labels, data.segment_size, data.frames_per_second, data.annotated) == (True, 5, 1.0, "whole")
    pattern = str(tmp_path / "out" / "frame" / "train" / "*.tfrecord")
    (summary,) = summaries_of(InspectConfig(), [pattern])
    assert (summary["level"], summary["damages"]) == ("segment", 0)
    assert summary["ratings"]["positive"] == 10
    assert summary["ratings"]["annotated"] == 27
    assert cli.call("verify", ["--deep", pattern]) == 0
    assert "10 positive segments, 27 annotated segments, sound" in capsys.readouterr().out
    assert make(table, "--rows=spans") == 0
    assert "nothing was written" in capsys.readouterr().err


def test_annotated_spans_leave_the_rest_unrated_and_cells_may_be_fine(table: str) -> None:
    assert make(table, "--rows=spans", "--annotated=spans", "--segment_size=2", "--frames_per_second=2") == 0
    found = stored(table)
    # At two frames a second, the video of 60 frames has 30 seconds; a cell has 4 frames.
    assert (found["a"]["annotated_start_times"], found["a"]["annotated_end_times"]) == ([20], [60])
    assert (found["b"]["annotated_start_times"], found["b"]["annotated_end_times"]) == ([0], [8])
    assert found["c"]["annotated_start_times"] == []


def test_parts_of_a_selection_are_all_that_people_have_seen(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `yt8m select --format=label-studio` writes the data of its tasks, and people answer them."""
    value = {"ranges": [{"start": 251, "end": 375}], "timelinelabels": ["weld"]}
    result = {"value": value, "from_name": "timeline", "to_name": "video", "type": "timelinelabels"}
    tasks = []
    for name, parts, results in (("a", "10-15, 30-35", [result]), ("b", "0-5", []), ("c", "", [result])):
        np.save(tmp_path / f"{name}.npy", np.zeros((40, 4), np.float32))
        data = {"video": f"{name}.mp4", "id": name, **({"parts": parts} if parts else {})}
        tasks.append({"data": data, "annotations": [{"completed_by": 1, "result": results}]})
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    assert make(str(tmp_path / "export.json"), f"--array={tmp_path}", "--frame_rate=25") == 0
    assert "of 2 videos, people have seen" in capsys.readouterr().err
    found = stored(str(tmp_path / "export.json"))
    ranges = {
        video: list(zip(lists["annotated_start_times"], lists["annotated_end_times"], strict=True))
        for video, lists in found.items()
    }
    assert ranges == {"a": [(10, 15), (30, 35)], "b": [(0, 5)], "c": [(0, 40)]}
    assert {video: lists["segment_start_times"] for video, lists in found.items()} == {"a": [10], "b": [], "c": [10]}


def test_clips_of_longer_videos_say_nothing_of_the_rest(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.zeros((40, 4), np.float32))
    table = write_table(
        tmp_path / "t.csv", [("a", 10, 20, "x"), ("b", 0, 10, "y")], "YTID,start_seconds,end_seconds,positive_labels"
    )
    words = ["--rows=spans", f"--array={tmp_path}"]
    assert make(table, *words) == 0
    assert "clips of longer videos" in capsys.readouterr().err
    found = stored(table)
    assert (found["a"]["annotated_start_times"], found["a"]["annotated_end_times"]) == ([10], [20])
    data = manifest.read(str(next((tmp_path / "out" / "frame").glob("*/manifest.json")))).data
    assert data is not None
    assert data.annotated == "spans"
    assert make(table, *words, "--annotated=whole", "--overwrite") == 0
    assert "--annotated=whole" in capsys.readouterr().err
    assert stored(table)["a"]["annotated_end_times"] == [40]


def test_parts_without_a_class_count_as_looked_at(table: str) -> None:
    text = pathlib.Path(table).read_text().replace("c,c.npy,,,", "c,c.npy,(none),0,5")
    pathlib.Path(table).write_text(text)
    assert make(table, "--rows=spans", "--annotated=spans") == 0
    assert stored(table)["c"]["annotated_end_times"] == [5]
    assert stored(table)["c"]["segment_labels"] == []


def test_features_of_another_rate_than_the_table_says_are_refused(tmp_path: pathlib.Path) -> None:
    database = {}
    for name, count in (("a", 60), ("b", 90)):
        np.save(tmp_path / f"{name}.npy", np.zeros((count, 4), np.float32))
        entries = [{"segment": [2.0, 12.0], "label": "Polo"}]
        database[name] = {"duration": count / 3 + 0.4, "subset": "training", "annotations": entries}
    (tmp_path / "t.json").write_text(json.dumps({"version": "1.3", "database": database}))
    words = [str(tmp_path / "t.json"), f"--array={tmp_path}", "--rows=spans", "--segment_size=1"]
    with pytest.raises(
        RunError,
        match=r"annotation 0 of 'a': it has 60 frames.*lasts 20.4 s.*2.941.*--frames_per_second.*--max_bad_rows",
    ):
        make(*words)
    assert make(*words, "--frames_per_second=3") == 0
    assert stored(words[0])["a"]["segment_start_times"] == list(range(6, 36, 3))
    assert make(*words, "--max_frames=20", "--overwrite") == 0, "cut videos are shorter"
    np.save(tmp_path / "b.npy", np.zeros((31, 4), np.float32))
    with pytest.raises(RunError, match="annotation 0 of 'a': it has 60"):
        make(*words, "--overwrite")
    assert make(*words, "--overwrite", "--max_bad_rows=1") == 0
    assert set(stored(words[0])) == {"b"}


def test_a_folder_of_tracks_is_a_table(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tracks").mkdir()
    for name, cue in (("a", "00:05.000 --> 00:10.000\nweld\n"), ("b", "")):
        np.save(tmp_path / f"{name}.npy", np.zeros((20, 4), np.float32))
        (tmp_path / "tracks" / f"{name}.vtt").write_text(f"WEBVTT\n\n{cue}")
    words = [f"{tmp_path}/tracks/", f"--array={tmp_path}", "--rows=spans"]
    for _ in range(2):
        assert (
            cli.call("make-records", [f"--table={words[0]}", f"--out={tmp_path}/out", "--level=frame", *words[1:]]) == 0
        )
    assert "already has all" in capsys.readouterr().err
    found = stored(str(tmp_path / "table"))
    assert {video: lists["segment_start_times"] for video, lists in found.items()} == {"a": [5], "b": []}
    (tmp_path / "tracks" / "b.vtt").write_text("WEBVTT\n\n00:00.000 --> 00:05.000\ncut\n")
    with pytest.raises((UsageError, RunError), match="--overwrite"):
        cli.call("make-records", [f"--table={words[0]}", f"--out={tmp_path}/out", "--level=frame", *words[1:]])


def test_spans_that_show_a_class_nowhere_are_refused(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = pathlib.Path(table).read_text()
    pathlib.Path(table).write_text("video,path,label,start,end\na,a.npy,weld,12400,31000\nb,b.npy,cut,5000,9000\n")
    with pytest.raises(RunError, match=r"2 spans, 0 positive cells.*2 spans after the end.*milliseconds.*--frame_rate"):
        make(table, "--rows=spans")
    assert not (pathlib.Path(table).parent / "out" / "frame").exists()
    pathlib.Path(table).write_text(f"{text.replace('0:12.4,0:31', '70,80').replace('55,90', '70,90')}")
    assert make(table, "--rows=spans") == 0
    assert "most spans begin" not in capsys.readouterr().out
    pathlib.Path(table).write_text(
        f"{text.replace('0:12.4,0:31', '70,80').replace('55,90', '70,90').replace(',10,24', ',90,99')}"
    )
    assert make(table, "--rows=spans", "--overwrite") == 0
    assert "end of their videos" in capsys.readouterr().out


def test_without_the_flag_both_readings_are_named(table: str) -> None:
    with pytest.raises(UsageError, match=r"line 3.*start of 'a' differs.*--rows=spans.*--columns=start=,end="):
        make(table)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--segment_size=2.5"], r"--segment_size=2\.5: .*\b1 frames per second.*\b2\.5 frames"),
        (["--labels=answers.json"], r"--labels=.*answers\.json .*whole videos"),
    ],
)
def test_flags_that_do_not_fit(flags: list[str], message: str, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pathlib.Path(table).parent)
    pathlib.Path("answers.json").write_text(json.dumps([]))
    with pytest.raises(UsageError, match=message):
        make(table, "--rows=spans", *flags)


def test_videos_get_the_classes_of_their_spans(
    table: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--rows=spans", f"--table={table}", f"--out={tmp_path / 'out'}"]
    assert cli.call("make-records", flags) == 0
    assert "--level=frame stores their times" in capsys.readouterr().err
    names = vocabulary.read(str(tmp_path / "out" / "vocabulary.csv")).names
    found = {video: record for video, (_, record) in read(tmp_path / "out" / "video").items()}
    assert {names[number] for number in found["a"].values("labels")} == {"weld", "cut"}
    assert "segment_labels" not in found["a"].context


def test_a_task_of_label_studio_that_nobody_answered_is_no_video_without_spans(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {"ranges": [{"start": 126, "end": 250}], "timelinelabels": ["weld"]}
    result = {"value": value, "from_name": "timeline", "to_name": "video", "type": "timelinelabels"}
    answers = {
        "a": [{"completed_by": 1, "result": [result]}],
        "empty": [{"completed_by": 1, "result": []}],
        "skipped": [{"completed_by": 1, "was_cancelled": True, "result": []}],
        "new": [],
    }
    for name in answers:
        np.save(tmp_path / f"{name}.npy", np.zeros((20, 4), np.float32))
    tasks = [{"data": {"video": f"{name}.npy"}, "annotations": answer} for name, answer in answers.items()]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    assert make(str(tmp_path / "export.json"), f"--array={tmp_path}", "--frame_rate=25") == 0
    assert "left out: 2" in capsys.readouterr().err
    found = stored(str(tmp_path / "export.json"))
    assert {video: lists["segment_start_times"] for video, lists in found.items()} == {"a.npy": [5], "empty.npy": []}


def test_an_export_of_label_studio_makes_records_of_frames_with_spans(tmp_path: pathlib.Path) -> None:
    tasks = []
    for name, count in (("a.npy", 20), ("b.npy", 30)):
        np.save(tmp_path / name, np.zeros((count, 4), np.float32))
        value = {"ranges": [{"start": 126, "end": 250}], "timelinelabels": ["weld"]}
        result = {"value": value, "from_name": "timeline", "to_name": "video", "type": "timelinelabels"}
        tasks.append({"data": {"video": name}, "annotations": [{"completed_by": 1, "result": [result]}]})
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    words = [str(tmp_path / "export.json"), f"--array={tmp_path}", "--frame_rate=25"]
    assert make(*words) == 0
    assert make(*words, "--rows=spans", "--max_frames=100000") == 0, "they were found without the flag"
    with pytest.raises((UsageError, RunError), match="--overwrite"):
        make(*words, "--max_frames=300")
    found = stored(str(tmp_path / "export.json"))
    assert {video: lists["segment_start_times"] for video, lists in found.items()} == {"a.npy": [5], "b.npy": [5]}
    assert understand("--table", str(tmp_path / "export.json"), TableFlags()).describe()[0].startswith("export.json")


def test_a_wrong_span_makes_its_video_bad(table: str) -> None:
    text = pathlib.Path(table).read_text().replace("weld,10,24", "weld,24,10")
    pathlib.Path(table).write_text(text)
    with pytest.raises(RunError, match=r"spans\.csv, row 1 .line 2.: .*\bend, 10, .*before"):
        make(table, "--rows=spans")
    assert make(table, "--rows=spans", "--max_bad_rows=1") == 0
    assert set(stored(table)) == {"b", "c"}


def test_a_rate_of_frames_is_for_spans(table: str) -> None:
    with pytest.raises(UsageError, match="--frame_rate is for spans"):
        make(table, "--rows=videos", "--frame_rate=25")


@pytest.mark.parametrize("flag", ["--segment_size=1", "--annotated=spans", "--annotated=whole", "--frame_rate=25"])
def test_flags_of_spans_without_a_row_for_each_span_are_refused(flag: str, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((40, 4), np.float32))
    table = write_table(tmp_path / "t.csv", [("a", "a.npy", "x", 3, 300)], "video,path,label,start,end")
    told = rf"{flag} .*for spans.* read as videos: .*--rows=spans"
    with pytest.raises(UsageError, match=told):
        make(table, flag)
    with pytest.raises(UsageError, match=told):
        cli.call("make-records", [f"--table={table}", f"--out={tmp_path}/videos", "--level=video", flag])
    assert make(table, flag, f"--rows={SPANS}") == 0


def test_a_class_whose_spans_were_left_out_is_no_label(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*_SPANS, ("a", "bend", 3, 3), ("b", "bend", 70, 80), ("c", "bend", 0, 0.4), ("c", "weld", 0, 8)]
    made = [(video, f"{video}.npy", label, start, end, "train") for video, label, start, end in rows]
    write_table(pathlib.Path(table), made, "video,path,label,start,end,split")
    assert make(table, "--rows=spans") == 0
    names = vocabulary.read(str(pathlib.Path(table).parent / "out" / "vocabulary.csv")).names
    labels = {video: sorted(names[number] for number in lists["labels"]) for video, lists in stored(table).items()}
    assert labels == {"a": ["cut", "weld"], "b": ["weld"], "c": ["weld"]}
    assert "3 videos, 131 frames, 4 labels" in capsys.readouterr().out
    out = pathlib.Path(table).parent / "out"
    assert cli.call("make-records", [f"--table={table}", f"--out={out}", "--rows=spans", "--shards=1"]) == 0
    made_videos = read(pathlib.Path(table).parent / "out" / "video")
    labels = {video: sorted(names[n] for n in record.values("labels")) for video, (_, record) in made_videos.items()}
    assert labels == {"a": ["cut", "weld"], "b": ["weld"], "c": ["bend", "weld"]}, "a short span shows its class"
