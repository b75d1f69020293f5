"""Data whose labels nothing can be learned from are named: none, under another name, or vectors of 0 and 1."""

from __future__ import annotations

import json
import pathlib

import pytest
from reader_records import video_record, write_shard

from yt8m.command_line import cli
from yt8m.records import label_check
from yt8m.records.opened_data import OpenedData, open_data


def shard(folder: pathlib.Path, *records: bytes, name: str = "a.tfrecord") -> list[str]:
    folder.mkdir(exist_ok=True)
    return [write_shard(folder / name, list(records))]


def of_files(*files: str) -> OpenedData:
    return open_data(None).of_files(files)


def video(number: int, **features: list) -> bytes:
    return video_record(id=[b"v%d" % number], mean_clip=[0.5, float(number)], **features)


def test_a_label_anywhere_in_the_first_thousand_videos_is_enough(tmp_path: pathlib.Path) -> None:
    files = shard(tmp_path, *map(video, range(999)), video(999, labels=[0]))
    assert label_check.describe_problem(of_files(*files)) == ""
    files = shard(tmp_path, *map(video, range(1000)), video(1000, labels=[0]))
    assert label_check.describe_problem(of_files(*files)) == f"{files[0]}: none of the first 1000 videos has a label"


def test_labels_are_looked_for_in_files_that_are_spread_over_all(tmp_path: pathlib.Path) -> None:
    none = [shard(tmp_path, *map(video, range(200)), name=f"{i:02}.tfrecord")[0] for i in range(20)]
    assert "none of the first 1000 videos" in label_check.describe_problem(of_files(*none))
    some = shard(tmp_path, video(0, labels=[3]), name="18.tfrecord")
    assert label_check.describe_problem(of_files(*none[:18], *some, none[19])) == ""


def test_a_manifest_that_counts_labels_is_believed(tmp_path: pathlib.Path) -> None:
    files = shard(tmp_path, *map(video, range(5)))
    data = {"level": "video", "features": [{"name": "mean_clip", "size": 2}], "num_classes": 3}
    written = {"format": "yt8m manifest 1", "shards": {}, "data": data}
    for positives, problem in (([0, 0, 0], "counts no label"), ([0, 7, 0], ""), (None, "none of the first 5")):
        data |= {"positives": positives} if positives else {}
        if not positives:
            del data["positives"]
        (tmp_path / "manifest.json").write_text(json.dumps(written))
        found = label_check.describe_problem(of_files(*files))
        assert (problem in found) if problem else (found == "")


@pytest.mark.parametrize(
    ("feature", "name"), [({"label": [3]}, "label"), ({"class_index": [1]}, "class_index"), ({"Tags": [b"a"]}, "Tags")]
)
def test_a_feature_with_another_name_is_named(tmp_path: pathlib.Path, feature: dict, name: str) -> None:
    files = shard(tmp_path, *(video(number, **feature) for number in range(3)))
    problem = label_check.describe_problem(of_files(*files))
    assert f"have a feature {name} (" in problem


def test_vectors_of_0_and_1_are_named(tmp_path: pathlib.Path) -> None:
    files = shard(tmp_path, *(video(k, labels=[int(k % 4 == c) for c in range(4)]) for k in range(9)))
    assert "4 numbers in each video" in label_check.describe_problem(of_files(*files))


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 1], [1, 0, 2]])
def test_ordinary_labels_are_no_vectors(tmp_path: pathlib.Path, labels: list[int]) -> None:
    files = shard(tmp_path, video(0, labels=labels), *(video(k, labels=[k % 2]) for k in range(9)))
    assert label_check.describe_problem(of_files(*files)) == ""


def test_damaged_files_are_left_to_their_reader(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"no shard")
    assert label_check.describe_problem(of_files(str(tmp_path / "a.tfrecord"))) == ""
    assert label_check.describe_problem(of_files()) == ""


def train(folder: pathlib.Path, data: str, *more: str) -> int:
    return cli.main(
        ["train", f"--train_data_pattern={data}", f"--train_dir={folder}/run", "--batch_size=4", "--max_steps=1"]
        + ["--num_classes=4", "--model=LogisticModel", *more]
    )


def test_training_refuses_data_without_labels(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (data,) = shard(tmp_path, *(video(number, label=[number % 4]) for number in range(8)))
    assert train(tmp_path, data) == 2
    said = capfd.readouterr().err
    assert "none of the first 8 videos has a label" in said
    assert "a feature label ([0])" in said
    assert "--train_data_pattern" in said
    assert not (tmp_path / "run").exists()


def test_training_refuses_vectors_of_0_and_1(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (data,) = shard(tmp_path, *(video(k, labels=[int(k % 4 == c) for c in range(4)]) for k in range(8)))
    assert train(tmp_path, data) == 2
    assert "all of them 0 or 1" in capfd.readouterr().err


@pytest.mark.heavy
def test_a_teacher_alone_needs_no_labels(tmp_path: pathlib.Path) -> None:
    (data,) = shard(tmp_path, *map(video, range(8)))
    lines = "".join(f"v{number},1 0.9 2 0.1\n" for number in range(8))
    (tmp_path / "teacher.csv").write_text(f"VideoId,LabelConfidencePairs\n{lines}")
    teacher = f"--distill_from={tmp_path}/teacher.csv"
    assert train(tmp_path, data, teacher) == 2
    assert train(tmp_path, data, teacher, "--distill_weight=1") == 0


@pytest.mark.parametrize(
    ("labels", "problem"),
    [([b"cat"], "labels holds texts, such as 'cat', but"), ([1.0, 0.0], "labels holds fractions, such as 1.0, but")],
)
def test_labels_of_another_type_are_named(
    tmp_path: pathlib.Path, labels: list, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = shard(tmp_path, video(0), *(video(number, labels=labels) for number in range(1, 4)))
    assert label_check.describe_problem(of_files(*files)).startswith(f"{files[0]}: {problem}")
    words = ["--feature_names=mean_clip", "--feature_sizes=2", "--num_classes=3", f"--train_dir={tmp_path}/run"]
    assert cli.call("train", [f"--train_data_pattern={files[0]}", "--model=LogisticModel", *words]) == 2
    assert f"{problem} labels must be" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
