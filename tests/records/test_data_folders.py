"""Folders of records in place of patterns."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.errors import UsageError
from yt8m.records import data_folders
from yt8m.records.opened_data import open_data


def with_shards(folder: pathlib.Path, *names: str) -> str:
    for name in names:
        path = folder / f"{name}.tfrecord"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return str(folder)


@pytest.mark.parametrize(
    ("names", "train", "judged"),
    [
        (("video/train/a", "video/test/b", "video/validate/c"), "video/train/*.tfrecord", "video/test/*.tfrecord"),
        (("train/a", "validate/c"), "train/*.tfrecord", "validate/*.tfrecord"),
        (("train0", "trainpj", "validate0", "test0"), "train*.tfrecord", "test*.tfrecord"),
        (("frame/train0", "frame/validate0"), "frame/train*.tfrecord", "frame/validate*.tfrecord"),
        (("train/train0", "train/train1", "test/test0"), "train/*.tfrecord", "test/*.tfrecord"),
    ],
)
def test_each_program_takes_its_split(tmp_path: pathlib.Path, names: tuple[str, ...], train: str, judged: str) -> None:
    folder = with_shards(tmp_path / "old [1]", *names)
    escaped = f"{tmp_path}/old [[]1]"
    assert data_folders.of_split(folder, "train") == f"{escaped}/{train}"
    assert data_folders.of_split(f"{folder}/", "test", "validate") == f"{escaped}/{judged}"
    assert open_data(data_folders.of_split(folder, "train")).files == sorted(
        str(path) for path in pathlib.Path(folder).glob(train)
    )


def test_what_is_no_folder_with_splits_stays(tmp_path: pathlib.Path) -> None:
    folder = with_shards(tmp_path, "mine/a", "mine/b")
    for pattern in (f"{folder}/mine/*.tfrecord", f"{folder}/mine/a.tfrecord", f"{folder}/nowhere", folder, "gs://b/*"):
        assert data_folders.of_split(pattern, "train") == pattern


def test_a_split_that_is_missing_or_twice_there_is_refused(tmp_path: pathlib.Path) -> None:
    folder = with_shards(tmp_path, "video/train/a", "frame/train/a")
    with pytest.raises(UsageError, match=r"split train .*than once.*'.*frame/train/\*.* or '.*video/train/\*"):
        data_folders.of_split(folder, "train")
    with pytest.raises(UsageError, match=r"no split.* test or validate\b.*'.*video/train/\*\.tfrecord'"):
        data_folders.of_split(f"{folder}/video", "test", "validate")


def test_shards_of_other_splits_in_the_folder_of_a_split_are_refused(tmp_path: pathlib.Path) -> None:
    folder = with_shards(tmp_path, "train/train0", "train/validate0")
    with pytest.raises(UsageError, match=r"name '.*train/\*.tfrecord' or '.*train/train\*"):
        data_folders.of_split(folder, "train")


def test_a_folder_stands_for_the_shards_in_its_one_place(tmp_path: pathlib.Path) -> None:
    folder = with_shards(tmp_path, "video/train/b", "video/train/a")
    for path in (folder, f"{folder}/video", f"{folder}/video/train/"):
        assert [pathlib.Path(file).name for file in open_data(path).files] == ["a.tfrecord", "b.tfrecord"]
    with_shards(tmp_path, "video/test/c", "far/too/deep/d")
    patterns = rf"several places; .*'{folder}/video/test/\*\.tfrecord' or '{folder}/video/train/"
    with pytest.raises(UsageError, match=patterns):
        open_data(folder)
    files = open_data(folder, whole_folders=True).files
    assert [pathlib.Path(file).name for file in files] == ["c.tfrecord", "a.tfrecord", "b.tfrecord"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"is a folder.*neither.*\*\.tfrecord"):
        open_data(f"{folder}/empty")
