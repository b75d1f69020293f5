"""The splits beside the training data are found wherever the word `train` stands in the path."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.training import splits


@pytest.mark.parametrize(
    ("train", "validate"),
    [
        ("data/train/*.tfrecord", "data/validate/*.tfrecord"),
        ("train-2024/data/train/*.tfrecord", "train-2024/data/validate/*.tfrecord"),
        ("home/train/data/train/train*", "home/train/data/validate/validate*"),
        ("train/all/train*.tfrecord", "train/all/validate*.tfrecord"),
        ("train/video/*.tfrecord", "validate/video/*.tfrecord"),
        ("train.v1/video/train*.tfrecord", "validate.v1/video/validate*.tfrecord"),
        ("training/train/*.tfrecord", "training/validate/*.tfrecord"),
    ],
)
def test_a_split_is_found(tmp_path: pathlib.Path, train: str, validate: str) -> None:
    for pattern in (train, validate):
        path = tmp_path / pattern.replace("*", "0")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert splits.beside(f"{tmp_path}/{train}", "validate") == f"{tmp_path}/{validate}"
    assert splits.beside(f"{tmp_path}/{train}", "test") == ""
    assert splits.proposed(f"{tmp_path}/{train}", "validate") == f"{tmp_path}/{validate}"


def test_each_of_several_patterns_has_its_split(tmp_path: pathlib.Path) -> None:
    for name in ("a/train", "a/test", "b/train", "b/test", "c/train"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "0.tfrecord").touch()
    trained = ",".join(f"{tmp_path}/{name}/train/*.tfrecord" for name in "abc")
    assert splits.beside(trained, "test") == f"{tmp_path}/a/test/*.tfrecord,{tmp_path}/b/test/*.tfrecord"
    assert splits.beside(trained, "validate") == ""
