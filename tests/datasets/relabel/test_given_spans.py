"""`yt8m relabel --labels` for records of spans: what people have marked, in place of the labels of cells."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from own_clips import read, write_table
from relabelled_data import clips, decide, films

from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, shards, vocabulary

RATE = 25


def task(video: str, parts: str, *spans: tuple[float, float, str]) -> dict[str, Any]:
    """A task of `yt8m select --format=label-studio` that somebody has answered; without parts it asks for the whole."""
    results = [
        {
            "from_name": "timeline",
            "to_name": "video",
            "type": "timelinelabels",
            "value": {
                "ranges": [{"start": round(start * RATE) + 1, "end": round(end * RATE)}],
                "timelinelabels": [name],
            },
        }
        for start, end, name in spans
    ]
    data = {"video": f"{video}.mp4", "id": video, **({"parts": parts} if parts else {})}
    return {"data": data, "annotations": [{"completed_by": 1, "result": results}]}


def relabel(folder: pathlib.Path, labels: str | list[dict[str, Any]], *flags: str) -> int:
    """Relabels the records by the text of a table or by tasks."""
    path = folder / ("answers.csv" if isinstance(labels, str) else "answers.json")
    path.write_text(labels if isinstance(labels, str) else json.dumps(labels))
    flags = flags if isinstance(labels, str) else (f"--frame_rate={RATE}", *flags)
    return cli.call("relabel", [f"--data={folder}/data/frame", f"--out={folder}/new", f"--labels={path}", *flags])


def marked(folder: pathlib.Path, name: str = "new") -> dict[str, tuple[list[str], Any, Any]]:
    """{video: its labels, {class: starts of the cells that show it}, annotated ranges}."""
    names = vocabulary.read(str(folder / name / "vocabulary.csv")).names
    result = {}
    for video, (_, record) in read(folder / name / "frame").items():
        cells: dict[str, list[int]] = {}
        for start, number, score in zip(*map(record.values, shards.RATING_LISTS), strict=True):
            cells.setdefault(names[number], []).append(start if score else -start)
        ranges = list(zip(*map(record.values, shards.ANNOTATED_LISTS), strict=True))
        result[video] = sorted(names[number] for number in record.values("labels")), cells, ranges
    return result


def test_parts_that_people_have_seen_are_rated_again_and_others_stay(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    films(tmp_path, "--annotated=spans")  # a shows weld from 10 to 30, and b cut from 0 to 20
    tasks = [task("a", "20-25, 40-50", (21, 25, "cut"), (40, 45, "weld")), task("b", "0-20", (5, 10, "weld"))]
    assert relabel(tmp_path, tasks) == 0
    assert marked(tmp_path) == {
        "a": (["cut", "weld"], {"weld": [10, 15, 25, 40], "cut": [20]}, [(10, 30), (40, 50)]),
        "b": (["weld"], {"weld": [5]}, [(0, 20)]),
    }
    said, err = capsys.readouterr()
    assert "of 2 videos, people have seen" in err
    assert "2 videos answered in" in said
    assert "(2 added, 1 removed)" in said
    assert "3 spans, 3 positive cells, 7 annotated cells" in said
    entry = manifest.read(str(tmp_path / "new/frame/train/manifest.json"))
    assert entry.corrections["answers"]["file"] == "answers.json"
    assert entry.data is not None
    assert entry.data.positives == (1, 2)
    assert cli.call("verify", ["--deep", f"{tmp_path}/new/frame/*/*.tfrecord"]) == 0
    assert relabel(tmp_path, tasks) == 0
    assert "nothing was written" in capsys.readouterr().err
    with pytest.raises(UsageError, match="overwrite"):
        relabel(tmp_path, [task("b", "", (5, 10, "weld"))])


def test_a_film_that_people_have_seen_has_their_spans_alone(tmp_path: pathlib.Path) -> None:
    films(tmp_path)
    assert relabel(tmp_path, [task("a", "", (40, 60, "cut"))]) == 0
    assert marked(tmp_path) == {
        "a": (["cut"], {"cut": [40, 45, 50, 55]}, [(0, 60)]),
        "b": (["cut"], {"cut": [0, 5, 10, 15]}, [(0, 60)]),
    }
    before = read(tmp_path / "data/frame")["b"][1]
    after = read(tmp_path / "new/frame")["b"][1]
    assert before.context == after.context


def test_records_are_those_that_make_records_makes_of_the_spans(tmp_path: pathlib.Path) -> None:
    films(tmp_path)
    rows = [
        ("a", "a.npy", "cut", 3, 18, "train"),
        ("a", "a.npy", "weld", 29, 90, "train"),
        ("b", "b.npy", "", "", "", "train"),
    ]
    table = write_table(tmp_path / "marked.csv", rows, "video,path,label,start,end,split")
    assert relabel(tmp_path, pathlib.Path(table).read_text()) == 0
    words = [f"--table={table}", f"--out={tmp_path}/made", "--level=frame", "--shards=1", "--rows=spans"]
    assert cli.call("make-records", [*words, f"--vocabulary={tmp_path}/new/vocabulary.csv"]) == 0
    found, expected = (tmp_path / name / "frame/train/train0000.tfrecord" for name in ("new", "made"))
    assert list(shards.read_shard(str(found))) == list(shards.read_shard(str(expected)))
    assert marked(tmp_path)["b"] == ([], {}, [(0, 60)])


def test_the_completed_table_of_a_selection_does_as_well(tmp_path: pathlib.Path) -> None:
    films(tmp_path, "--annotated=spans")
    text = "rank,video,start,end,value,distance,classes,label\n1,a,40,45,1.9,0.3,cut 0.4,cut\n"
    text += "2,b,0,5,1.9,0.3,cut 0.4,(none)\n"
    assert relabel(tmp_path, text) == 0
    assert marked(tmp_path) == {
        "a": (["cut", "weld"], {"weld": [10, 15, 20, 25], "cut": [40]}, [(10, 30), (40, 45)]),
        "b": (["cut"], {"cut": [5, 10, 15]}, [(0, 20)]),
    }


def test_decisions_come_after_answers(tmp_path: pathlib.Path) -> None:
    films(tmp_path)
    decisions = decide(tmp_path, "1,a,cut,wrong,.9,40,50,yes", "2,a,weld,missing,.9,0,5,yes")
    assert relabel(tmp_path, [task("a", "", (40, 60, "cut"))], f"--corrections={decisions}") == 0
    assert marked(tmp_path)["a"] == (["cut", "weld"], {"weld": [0], "cut": [50, 55]}, [(0, 60)])


def test_what_is_denied_is_rated_where_people_have_not_seen_all(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    films(tmp_path, "--annotated=spans")
    text = "classname,youtube_id,start,end,label\ncut,a,40,45,-1\ncut,a,12,18,-1\nweld,a,50,60,1\nweld,a,10,15,-1\n"
    assert relabel(tmp_path, text, "--annotated=spans") == 0
    assert "stay (--annotated=spans)" in capsys.readouterr().err
    labels, cells, ranges = marked(tmp_path)["a"]
    assert (labels, ranges) == (["weld"], [(10, 30), (50, 60)])
    assert cells == {"weld": [15, 20, 25, 50, 55], "cut": [-40]}, "absent in annotated cells without a rating"


@pytest.mark.parametrize(
    ("labels", "message", "error"),
    [
        ("video,label,start,end\na,sand,0,5\n", r"'sand', .* 'a', is not.*\b2 classes", UsageError),
        ("video,label,start,end\nx,cut,0,5\n", "1 of 1 answers .* are about videos that .* does not have", UsageError),
        (
            "video,label,start,end\na,cut,9,5\n",
            "answers.csv, row 1 .line 2.: its span: the end, 5, is before",
            RunError,
        ),
        ("video,label,start,end\na,cut,70,75\n", r"no cell .*\b1 spans, 0 positive", RunError),
        (
            "video,label,start,end,video_duration\na,cut,0,5,600\n",
            "of 'a' it has 60 frames.*but lasts 600 s",
            UsageError,
        ),
        ("video,label\na,cut\n", r"start, end and labels.*<TimelineLabels>", UsageError),
        ("video,label,start_frame,end_frame\na,cut,0,5\n", "counts frames.*--frame_rate=25", UsageError),
        ([{"data": {"id": "a"}, "annotations": []}], "no video is answered|nobody|none", UsageError),
    ],
)
def test_what_cannot_be_applied_is_refused(
    labels: Any, message: str, error: type[Exception], tmp_path: pathlib.Path
) -> None:
    films(tmp_path)
    with pytest.raises(error, match=message):
        relabel(tmp_path, labels)
    assert not (tmp_path / "new/frame").exists()


@pytest.mark.parametrize("flag", ["--frame_rate=25", "--annotated=spans"])
def test_flags_of_spans_are_refused_for_records_of_whole_videos(flag: str, tmp_path: pathlib.Path) -> None:
    clips(tmp_path, "frame")
    with pytest.raises(UsageError, match=rf"{flag.partition('=')[0]} .*for spans.*no cells"):
        relabel(tmp_path, "id,labels\nv0,cut\n", flag)
