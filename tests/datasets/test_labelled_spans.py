"""Spans go into records and come out of them as they went in, to the cells of the grid, in every form."""

from __future__ import annotations

import csv
import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from own_clips import read, write_table
from reader_records import frame_record, video_record, write_shard

from yt8m.command_line import cli
from yt8m.datasets import ground_truth
from yt8m.errors import RunError, UsageError
from yt8m.records import shards
from yt8m.records.opened_data import open_data

_NAMES = ("weld", "cut", "bend")
_LISTS = (*shards.RATING_LISTS, *shards.ANNOTATED_LISTS)
Span = tuple[str, str, float, float]


def planted(folder: pathlib.Path, cell: int, unit: float, seed: int) -> list[Span]:
    """Random spans, and arrays of the frames of their videos, of which the last has no span.

    Ends are multiples of `unit`; there is a cell between two spans of a class.
    """
    draw, spans = np.random.default_rng(seed), []
    for number in range(5):
        count = int(draw.integers(30, 60))
        np.save(folder / f"v{number}.npy", np.zeros((count, 2), np.float32))
        for name in _NAMES if number < 4 else ():
            start = int(draw.integers(0, 3)) * cell
            while start + 4 * cell < count:
                end = start + max(cell, float(draw.integers(1, int(2 * cell / unit))) * unit)
                spans.append((f"v{number}", name, float(start), end))
                start = int(-(-end // cell) + draw.integers(1, 3)) * cell
    return spans


def make(folder: pathlib.Path, out: str, source: list[str], cell: int) -> dict[str, dict[str, Any]]:
    """Makes records; returns {video: {name of a list: its values}}."""
    words = [*source, f"--out={folder / out}", "--level=frame", "--rows=spans", "--shards=1", f"--segment_size={cell}"]
    assert cli.call("make-records", words) == 0
    made = read(folder / out / "frame")
    return {video: {name: record.values(name) for name in _LISTS} for video, (_, record) in made.items()}


def written(folder: pathlib.Path, out: str, name: str, *flags: str) -> pathlib.Path:
    """The file of the spans of records."""
    pattern = f"{folder / out}/frame/*/*.tfrecord"
    assert cli.call("inspect", [f"--spans={folder / name}", *flags, pattern]) == 0
    return folder / name


def table_of(path: pathlib.Path) -> list[Span]:
    """The spans in a table."""
    rows = csv.DictReader(path.open())
    return sorted((row["video"], row["class"], float(row["start"]), float(row["end"])) for row in rows if row["class"])


def make_table(folder: pathlib.Path, spans: list[Span]) -> str:
    rows = [(video, f"{video}.npy", name, start, end, "train") for video, name, start, end in spans]
    return write_table(
        folder / "spans.csv", [*rows, ("v4", "v4.npy", "", "", "", "train")], "video,path,label,start,end,split"
    )


@pytest.mark.parametrize("cell", [1, 4])
def test_spans_on_the_grid_come_out_of_records_as_they_went_in(tmp_path: pathlib.Path, cell: int) -> None:
    spans = planted(tmp_path, cell, cell, 1)
    make(tmp_path, "made", [f"--table={make_table(tmp_path, spans)}"], cell)
    path = written(tmp_path, "made", "again.csv")
    assert table_of(path) == sorted(spans)
    assert len(spans) > 20
    assert "v4,,," in path.read_text()


@pytest.mark.parametrize("form", ["csv", "label-studio", "activitynet"])
def test_other_spans_come_out_rounded_to_the_grid_and_stay_so(tmp_path: pathlib.Path, form: str) -> None:
    spans = planted(tmp_path, 2, 0.25, 2)
    first = make(tmp_path, "made", [f"--table={make_table(tmp_path, spans)}"], 2)
    for video, name, start, end in table_of(written(tmp_path, "made", "grid.csv")):
        (true,) = [s for s in spans if s[:2] == (video, name) and abs(s[2] - start) < 2 and abs(s[3] - end) <= 1]
        assert true[2] == start
    name = "again.csv" if form == "csv" else "again.json"
    again = written(tmp_path, "made", name, f"--spans_format={form}", *(["--frame_rate=25"] * (form == "label-studio")))
    flags = [f"--table={again}", f"--array={tmp_path}", *(["--frame_rate=25"] * (form == "label-studio"))]
    assert make(tmp_path, "second", flags, 2) == first


def test_label_studio_gets_the_annotations_that_it_gave(tmp_path: pathlib.Path) -> None:
    tasks, spans = [], planted(tmp_path, 1, 1, 3)
    for video in (f"v{number}" for number in range(5)):
        results = [
            {
                "value": {"ranges": [{"start": int(start * 25) + 1, "end": int(end * 25)}], "timelinelabels": [name]},
                "id": f"x{number}",
                "from_name": "timeline",
                "to_name": "video",
                "type": "timelinelabels",
            }
            for number, (of, name, start, end) in enumerate(spans)
            if of == video
        ]
        tasks.append({"data": {"video": video}, "annotations": [{"completed_by": 1, "result": results}]})
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    make(tmp_path, "made", [f"--table={tmp_path}/export.json", f"--array={tmp_path}", "--frame_rate=25"], 1)
    flags = ("--spans_format=label-studio", "--frame_rate=25")
    found = json.loads(written(tmp_path, "made", "again.json", *flags).read_text())
    assert _ranges(found) == _ranges(tasks)
    assert all("predictions" not in task for task in found)


def _ranges(tasks: list[Any]) -> dict[str, list[Any]]:
    """{video: its sorted (class, first frame, last frame)}."""
    return {
        task["data"]["video"]: sorted(
            (result["value"]["timelinelabels"], part["start"], part["end"])
            for result in task["annotations"][0]["result"]
            for part in result["value"]["ranges"]
        )
        for task in tasks
    }


def test_ranked_segments_are_not_compared_with_spans(tmp_path: pathlib.Path) -> None:
    make(tmp_path, "made", [f"--table={make_table(tmp_path, planted(tmp_path, 2, 2, 4))}"], 2)
    (path,) = (tmp_path / "made" / "frame").glob("*/*.tfrecord")
    with pytest.raises(RunError, match=r"record 0: .*segments .*from spans.*yt8m eval"):
        ground_truth.ratings(open_data(str(path)))


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"segment_start_times": [1, 2], "segment_labels": [0], "segment_scores": [1.0]}, "2 segment_start_times; 1"),
        ({"segment_start_times": [0], "segment_labels": [7], "segment_scores": [1.0]}, "segment_labels has 7"),
        ({"segment_start_times": [0], "segment_labels": [0], "segment_scores": [3.0]}, "segment_scores has 3"),
    ],
)
def test_damaged_ratings_are_named_by_both_readers(tmp_path: pathlib.Path, lists: Any, message: str) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [frame_record({"id": [b"a"], **lists}, {"x": [[0.0]]})])
    words = [f"--spans={tmp_path / 'a.csv'}", "--num_classes=3", path]
    with pytest.raises(RunError, match=f"record 0: {message}"):
        cli.call("inspect", words)
    if "7" not in message:
        with pytest.raises(RunError, match=f"record 0: {message}"):
            ground_truth.ratings(open_data(path))
    assert not (tmp_path / "a.csv").exists()


def test_records_without_times_and_a_wrong_name_are_refused(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [video_record(id=[b"a"], x=[1.0])])
    with pytest.raises(RunError, match="record 0 has no frames"):
        cli.call("inspect", [f"--spans={tmp_path / 'a.csv'}", "--num_classes=3", path])
    with pytest.raises(UsageError, match=r"a\.json: .* \.csv\b"):
        cli.call("inspect", [f"--spans={tmp_path / 'a.json'}", "--num_classes=3", path])
    with pytest.raises(UsageError, match="--num_classes"):
        cli.call("inspect", [f"--spans={tmp_path / 'a.csv'}", path])


@pytest.mark.parametrize("form", ["csv", "label-studio", "activitynet"])
def test_videos_stay_in_their_splits(tmp_path: pathlib.Path, form: str) -> None:
    splits = dict(
        zip((f"v{number}" for number in range(5)), ("test", "train", "train", "validate", "test"), strict=True)
    )
    for video in splits:
        np.save(tmp_path / f"{video}.npy", np.zeros((20, 2), np.float32))
    rows = [(video, f"{video}.npy", "weld", 3, 9, split) for video, split in splits.items() if video != "v4"]
    table = [*rows, ("v4", "v4.npy", "", "", "", splits["v4"])]
    make(tmp_path, "made", [f"--table={write_table(tmp_path / 'a.csv', table, 'video,path,label,start,end,split')}"], 1)
    assert splits_of(tmp_path / "made") == splits
    name = "again.csv" if form == "csv" else "again.json"
    again = written(tmp_path, "made", name, f"--spans_format={form}")
    rate = ["--frame_rate=24"] * (form == "label-studio")
    make(tmp_path, "second", [f"--table={again}", f"--array={tmp_path}", *rate], 1)
    assert splits_of(tmp_path / "second") == splits
    if form == "activitynet":
        subsets = {video: entry["subset"] for video, entry in json.loads(again.read_text())["database"].items()}
        assert (subsets["v0"], subsets["v3"]) == ("testing", "validation")


def splits_of(folder: pathlib.Path) -> dict[str, str]:
    """{video: the folder of its split}."""
    return {
        shards.id_text(shards.parse(payload).id()): path.parent.name
        for path in (folder / "frame").glob("*/*.tfrecord")
        for payload in shards.read_shard(str(path))
    }


@pytest.mark.parametrize(("form", "flags"), [("csv", ["--annotated=spans"]), ("label-studio", ["--frame_rate=25"])])
def test_what_nobody_looked_at_stays_unknown(
    form: str, flags: list[str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        np.save(tmp_path / f"{name}.npy", np.zeros((40, 2), np.float32))
    rows = ["a,weld,2,8", "a,(none),20,30", "b,cut,10,20", "c,weld,0,5", "c,(none),5,40"]  # c was seen whole
    (tmp_path / "spans.csv").write_text("\n".join(["video,label,start,end", *rows]))
    array = f"--array={tmp_path}"
    first = make(tmp_path, "made", [f"--table={tmp_path}/spans.csv", array, "--annotated=spans"], 1)
    assert first["a"][next(iter(shards.ANNOTATED_LISTS))] == [2, 20]
    capsys.readouterr()
    rate = ["--frame_rate=25"] * (form == "label-studio")
    again = written(tmp_path, "made", "again" + (".csv" if form == "csv" else ".json"), f"--spans_format={form}", *rate)
    said = capsys.readouterr().err
    assert bool(re.search("all of 2 videos.*--annotated=spans", said)) == (form == "csv")
    assert make(tmp_path, "second", [f"--table={again}", array, *flags], 1) == first


def test_activitynet_cannot_say_what_was_seen_without_a_class(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "a.npy", np.zeros((40, 2), np.float32))
    (tmp_path / "spans.csv").write_text("video,label,start,end\na,weld,2,8\n")
    flags = [f"--array={tmp_path}", "--annotated=spans"]
    first = make(tmp_path, "made", [f"--table={tmp_path}/spans.csv", *flags], 1)
    again = written(tmp_path, "made", "again.json", "--spans_format=activitynet")
    assert re.search("all of 1 video, .*--annotated=spans; this format", capsys.readouterr().err)
    assert make(tmp_path, "second", [f"--table={again}", *flags], 1) == first


@pytest.mark.parametrize("name", ["[x]", "weld 0.5", '["x","y"]', "cut; weld", "(a, b)"])
@pytest.mark.parametrize("annotated", ["whole", "spans"])
def test_names_that_look_like_lists_come_back_from_the_table(name: str, annotated: str, tmp_path: pathlib.Path) -> None:
    for video in ("a", "b"):
        np.save(tmp_path / f"{video}.npy", np.zeros((20, 2), np.float32))
    spans = [{"label": [name], "start": 2, "end": 9}, {"label": ["weld"], "start": 4, "end": 12}]
    spans += [{"label": ["(none)"], "start": 15, "end": 18}] * (annotated == "spans")
    videos = [{"id": "a", "spans": spans}, {"id": "b", "spans": [{"label": ["cut"], "start": 0, "end": 3}]}]
    (tmp_path / "own.json").write_text(json.dumps(videos))
    write_table(tmp_path / "names.csv", [(0, "weld"), (1, name), (2, "cut")], "index,name")
    flags = [f"--array={tmp_path}", f"--annotated={annotated}", f"--vocabulary={tmp_path}/names.csv"]
    first = make(tmp_path, "made", [f"--table={tmp_path}/own.json", *flags], 1)
    again = written(tmp_path, "made", "again.csv")
    assert first["a"]["segment_labels"].count(1) == 7
    assert make(tmp_path, "second", [f"--table={again}", *flags], 1) == first


@pytest.mark.parametrize("form", ["csv", "label-studio", "activitynet"])
def test_what_a_spreadsheet_takes_for_formulas_comes_back(form: str, tmp_path: pathlib.Path) -> None:
    videos, name = ["-a", "'=b", "+c"], "=1+1"
    for video in videos:
        np.save(tmp_path / f"{video}.npy", np.zeros((20, 2), np.float32))
    spans = [{"label": [label], "start": 2, "end": 9} for label in (name, "'-x", "weld")]
    (tmp_path / "own.json").write_text(json.dumps([{"id": video, "spans": spans} for video in videos]))
    flags = [f"--array={tmp_path}", f"--vocabulary={tmp_path}/names.csv"]
    write_table(tmp_path / "names.csv", [(0, "weld"), (1, name), (2, "'-x")], "index,name")
    first = make(tmp_path, "made", [f"--table={tmp_path}/own.json", *flags], 1)
    again = written(tmp_path, "made", f"again.{form[:3]}", f"--spans_format={form}", "--frame_rate=25")
    if form == "csv":
        cells = [cell for row in csv.reader(again.open()) for cell in row]
        assert {"-a", "'=b", "+c", "=1+1", "'-x"} < set(cells), "programs join them with other tables"
    elif form == "label-studio":
        flags.append("--frame_rate=25")
    again = again.rename(again.with_suffix(".csv" if form == "csv" else ".json"))
    assert make(tmp_path, "second", [f"--table={again}", *flags], 1) == first


def test_denied_cells_come_back_from_a_table(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "classname,youtube_id,start,end,label\nweld,v0,1,3,1\nweld,v0,9,11,-1\ncut,v0,10,12,-1\ncut,v1,2,4,1\n"
    text += "bend,v1,8,10,1\n"
    (tmp_path / "t.csv").write_text(text)
    for number in range(2):
        np.save(tmp_path / f"v{number}.npy", np.zeros((20, 2), np.float32))
    source = [f"--table={tmp_path / 't.csv'}", f"--array={tmp_path}"]
    first = make(tmp_path, "first", source, 1)
    rated = sorted(zip(*(first["v0"][name] for name in shards.RATING_LISTS), strict=True))
    assert rated == [(1, 2, 1.0), (2, 2, 1.0), (9, 2, 0.0), (10, 1, 0.0), (10, 2, 0.0), (11, 1, 0.0)]
    assert first["v1"]["segment_scores"] == [1.0] * 4
    path = written(tmp_path, "first", "spans.csv")
    assert path.read_text().splitlines()[:4] == [
        "video,start,end,class,present,split",
        "v0,1.000,3.000,weld,1,train",
        "v0,9.000,11.000,weld,-1,train",
        "v0,10.000,12.000,cut,-1,train",
    ]
    again = make(tmp_path, "again", [f"--table={path}", f"--array={tmp_path}", "--annotated=spans"], 1)
    assert again == first
    capsys.readouterr()
    written(tmp_path, "first", "spans.json", "--spans_format=label-studio")
    assert "lacks 2 spans" in capsys.readouterr().err
