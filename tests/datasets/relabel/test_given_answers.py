"""`yt8m relabel --labels`: the answers of people, from Label Studio, in place of the labels of records."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from own_clips import read
from relabelled_data import clips, decide, films

from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest


def task(video: str, *people: list[str], control: str = "classes") -> dict[str, Any]:
    """A task of `yt8m select` with the classes that each person has chosen."""
    annotations = [
        {
            "completed_by": number,
            "result": [
                {"from_name": control, "to_name": "video", "type": "choices", "value": {"choices": names}}
                for _ in names[:1]
            ],
        }
        for number, names in enumerate(people)
    ]
    return {"data": {"video": f"{video}.mp4", "id": video}, "annotations": annotations}


def export(folder: pathlib.Path, *tasks: dict[str, Any]) -> str:
    (folder / "tasks.json").write_text(json.dumps(tasks))
    return str(folder / "tasks.json")


def relabel(data: pathlib.Path, out: pathlib.Path, *flags: str) -> int:
    return cli.call("relabel", [f"--data={data}", f"--out={out}", *flags])


def labels_in(folder: pathlib.Path) -> dict[str, list[str]]:
    names = ["weld", "cut"]  # in the order in which the table has them
    return {video: [names[k] for k in record.values("labels")] for video, (_, record) in read(folder).items()}


def test_answers_replace_the_labels_of_their_videos_alone(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = clips(tmp_path, "frame")
    before = labels_in(data)
    answered = export(
        tmp_path,
        task("v0", ["cut"]),
        task("v2", ["weld"], ["weld", "cut"], ["weld"]),
        task("v3", []),
        task("v4"),  # nobody has answered
        task("v7", ["weld", "cut"]),
    )
    assert relabel(data, tmp_path / "new", f"--labels={answered}") == 0
    expected = before | {"v0": ["cut"], "v2": ["weld"], "v3": [], "v7": ["weld", "cut"]}
    assert labels_in(tmp_path / "new/frame") == expected
    assert f"4 videos answered in {answered}" in capsys.readouterr().out
    summary = json.loads((tmp_path / "new/frame/summary.json").read_text())
    assert (summary["answers"], summary["decisions"]) == (4, 0)
    assert summary["labels corrected"] == {"added": 2, "removed": 3}
    entry = manifest.read(str(tmp_path / "new/frame/train/manifest.json")).corrections
    assert entry["answers"]["file"] == "tasks.json"
    assert (entry["labels added"], entry["labels removed"]) == (1, 3)
    assert (tmp_path / "new/answers.csv").read_text().splitlines()[:3] == [
        "video,labels,people,disagreement",
        "v0,cut,1,0.000",
        "v2,weld,3,0.333",
    ]


def test_make_records_takes_the_same_answers(tmp_path: pathlib.Path) -> None:
    data = clips(tmp_path, "video")
    answered = export(tmp_path, task("v1", ["cut"]), task("v5", ["cut", "weld"]))
    decisions = decide(tmp_path, "1,v1,weld,missing,.9,,,yes", "2,v2,cut,wrong,.9,,,yes")
    flags = [f"--labels={answered}", f"--corrections={decisions}"]
    assert relabel(data, tmp_path / "new", *flags) == 0
    assert labels_in(tmp_path / "new/video") == labels_in(data) | {
        "v1": ["weld", "cut"], "v2": ["weld"], "v5": ["weld", "cut"],
    }  # fmt: skip
    words = [f"--table={tmp_path}/clips.csv", f"--out={tmp_path}/remade", "--level=video", "--shards=2", *flags]
    assert cli.call("make-records", words) == 0
    assert labels_in(tmp_path / "remade/video") == labels_in(tmp_path / "new/video")


def test_a_table_of_answers_does_as_well(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = clips(tmp_path, "frame")
    (tmp_path / "answers.csv").write_text("id,labels\nv0,cut\nv1,\nv2,(none)\nv7,weld;cut\n")
    assert relabel(data, tmp_path / "new", f"--labels={tmp_path}/answers.csv") == 0
    assert labels_in(tmp_path / "new/frame") == labels_in(data) | {"v0": ["cut"], "v2": [], "v7": ["weld", "cut"]}
    assert "has 1 video without a label" in capsys.readouterr().err
    (tmp_path / "answers.csv").write_text("id,labels\nv0,sand\n")
    with pytest.raises(UsageError, match=r"'sand', .* 'v0', is not.*\b2 classes"):
        relabel(data, tmp_path / "other", f"--labels={tmp_path}/answers.csv")
    (tmp_path / "answers.csv").write_text("id,labels\nv0,\n")
    with pytest.raises(UsageError, match=r"--labels=.*no video.*answered"):
        relabel(data, tmp_path / "other", f"--labels={tmp_path}/answers.csv")


def test_other_answers_are_no_repetition(tmp_path: pathlib.Path) -> None:
    data = clips(tmp_path, "video")
    assert relabel(data, tmp_path / "new", f"--labels={export(tmp_path, task('v0', ['cut']))}") == 0
    assert relabel(data, tmp_path / "new", f"--labels={tmp_path}/tasks.json") == 0  # it has all records already
    export(tmp_path, task("v0", ["cut", "weld"]))
    with pytest.raises(UsageError, match="overwrite"):
        relabel(data, tmp_path / "new", f"--labels={tmp_path}/tasks.json")


def test_what_cannot_be_applied_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = clips(tmp_path, "video")

    def refused(match: str, *tasks: dict[str, Any], error: type[Exception] = UsageError) -> None:
        with pytest.raises(error, match=match):
            relabel(data, tmp_path / "new", f"--labels={export(tmp_path, *tasks)}")
        assert not (tmp_path / "new/video").exists()

    refused(r"--labels=.*'cutt', .* 'v0', is not.*\b2 classes.*relabel adds no class", task("v0", ["cutt"]))
    refused(r"no video is answered", task("v0"))
    refused(r"\b1 of 1 answers .*'x'", task("x", ["cut"]))
    refused(r"none of .*\bclasses\b", task("v0", ["cut"], control="other"), error=RunError)
    with pytest.raises(UsageError, match="--corrections or --labels is missing"):
        relabel(data, tmp_path / "new")
    assert relabel(data, tmp_path / "new", f"--labels={export(tmp_path, task('v0', ['cut']), task('x', ['cut']))}") == 0
    assert "Warning: 1 of 2 answers" in capsys.readouterr().err


def test_spans_have_no_labels_of_whole_videos(tmp_path: pathlib.Path) -> None:
    films(tmp_path)
    with pytest.raises(UsageError, match=r"start, end and labels\b.*<TimelineLabels>"):
        relabel(tmp_path / "data/frame", tmp_path / "new", f"--labels={export(tmp_path, task('a', ['cut']))}")
