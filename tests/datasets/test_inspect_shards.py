"""`yt8m inspect`: what it shows of records in the published format, and of damaged ones."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from golden_data import golden
from reader_records import frame_record, video_record, write_shard

from yt8m.command_line import cli


def inspect_as_json(capsys: pytest.CaptureFixture[str], *paths: object, status: int = 0) -> list[dict[str, Any]]:
    assert cli.main(["inspect", *map(str, paths), "--json"]) == status
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_the_summary_of_published_records(capsys: pytest.CaptureFixture[str]) -> None:
    expected = np.load(golden("readers.npz"))
    names = ("tiny_video", "tiny_frame", "tiny_segment")
    video, frame, segment = inspect_as_json(capsys, *(golden(f"{name}.tfrecord") for name in names))
    assert [one["level"] for one in (video, frame, segment)] == ["video", "frame", "segment"]
    assert [one["records"] for one in (video, frame)] == [12, 8]
    assert video["features"]["mean_rgb"]["sizes"] == {"16": 12}
    matrix = expected["video/video_matrix"]
    assert video["features"]["mean_rgb"]["range"] == pytest.approx([matrix[:, :16].min(), matrix[:, :16].max()])
    lengths = expected["frame/true_frames"]
    assert frame["frames"] == {"least": lengths.min(), "mean": lengths.mean(), "most": lengths.max()}
    assert frame["features"]["audio"] == {
        "type": "uint8",
        "bytes_stand_for": [-2.0, 2.0],
        "sizes": {"8": int(lengths.sum())},
        "range": frame["features"]["audio"]["range"],
        "not_finite": 0,
    }
    assert frame["labels"]["records_without"] == 1
    labels = expected["video/labels"].sum(axis=0)
    best = video["labels"]["most_frequent"][0]
    assert best["count"] >= labels.max()
    assert segment["ratings"]["segments"] == len(expected["segment/labels"])
    assert video["ids"][0] == expected["video/video_ids"][0].decode()
    assert video["damages"] == 0


def test_the_table_names_features_ratings_and_classes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(golden("tiny_segment.tfrecord"))]) == 0
    shown = capsys.readouterr().out
    for words in (
        "tiny_segment.tfrecord",
        "segment",
        "rgb",
        "uint8, 16 values",
        "bytes stand for -2 to 2",
        "ratings",
        "Concert (3)",
    ):
        assert words in shown
    assert "DAMAGE" not in shown
    assert cli.main(["inspect", str(golden("tiny_segment.tfrecord")), "--num_classes=20"]) == 0
    shown = capsys.readouterr().out
    assert "class 3 (3)" in shown
    assert "Concert" not in shown


def test_damage_is_listed_and_ends_with_status_1(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    uneven = {"rgb": np.zeros((4, 2), np.uint8), "audio": np.zeros((3, 2), np.uint8)}
    records = [
        frame_record({"id": [b"a"], "labels": [3]}, uneven),
        video_record(id=[b"b"], labels=[5, 4000], mean_rgb=[1.0, float("nan")]),
        video_record(labels=[5]),
        b"\xff\xff\xff",
        video_record(id=[b"b"], segment_start_times=[1], segment_labels=[1, 2]),
    ]
    path = write_shard(tmp_path / "bad.tfrecord", records)
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(data + data[:20])
    (found,) = inspect_as_json(capsys, path, status=1)
    said = "\n".join(found["damage"])
    for words in (
        "record 0: video a: unequal numbers of frames: ",
        "record 2: it has no id",
        "record 3: ",
        "record 4: video b: 1 segment_start_times; 2 segment_labels; 0 segment_scores",
        "record 5: it is cut short",
        "record 4: video b: its id is that of record 1 too",
    ):
        assert words in said, words
    assert found["features"]["mean_rgb"]["not_finite"] == 1
    names = {row["class"]: row["name"] for row in found["labels"]["most_frequent"]}
    assert names[4000] == "class 4000"
    assert cli.main(["inspect", path]) == 1
    assert "DAMAGE" in capsys.readouterr().out


def test_infinite_labels_and_ratings_are_damage(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    infinite = [float("inf")]
    ratings = {"segment_start_times": [1], "segment_labels": infinite, "segment_scores": [1.0]}
    records = [video_record(id=[b"a"], labels=infinite), video_record(id=[b"b"], labels=[1], **ratings)]
    (found,) = inspect_as_json(capsys, write_shard(tmp_path / "a.tfrecord", records), status=1)
    assert found["records"] == 2
    for problem in (
        "record 0: video a: labels holds values of type float; expected whole numbers",
        "record 1: video b: segment_labels holds values of type float; expected whole numbers",
    ):
        assert problem in found["damage"]


def test_names_for_labels_are_damage_once_and_the_rest_is_counted(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [video_record(id=[b"a"], labels=[b"cat"])])
    (found,) = inspect_as_json(capsys, path, status=1)
    assert (found["level"], found["labels"]["records_without"]) == ("video", 1)
    (problem,) = found["damage"]
    assert re.search("labels .*type bytes, such as 'cat'; .*whole numbers", problem)
    assert "make-records" in problem


def test_ids_and_paths_are_shown_as_plain_text(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets are not read as markup, and control characters do not reach the terminal."""
    path = write_shard(tmp_path / "[a].tfrecord", [video_record(id=[b"[/red]\x1b[2J"], labels=[3])])
    assert cli.main(["inspect", path.replace("[", "[[]")]) == 0
    shown = capsys.readouterr().out
    assert "[/red]\\x1b[2J" in shown
    assert "[a].tfrecord" in shown


def test_videos_without_labels_are_counted(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_shard(tmp_path / "a.tfrecord", [video_record(id=[name], labels=[]) for name in (b"a", b"b")])
    assert cli.main(["inspect", path]) == 0
    assert "none; 2 records without" in capsys.readouterr().out


def test_missing_files_and_unknown_flags_are_refused(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["inspect"]) == 2
    assert cli.main(["inspect", f"{tmp_path}/none*"]) == 2
    assert cli.main(["inspect", f"{tmp_path}", "--nonsense"]) == 2
    capsys.readouterr()
