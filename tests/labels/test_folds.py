"""Folds of records: each video is in one of them, with its group, and the order is that of the shards."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

from yt8m import storage
from yt8m.errors import UsageError
from yt8m.labels import folds
from yt8m.labels.folds import FoldSets, fold_of, read_groups, split_of
from yt8m.records import manifest, shards, vocabulary
from yt8m.records.batches import read_records
from yt8m.records.data_format import DataFormat, FeatureFormat

CLIP = DataFormat("video", (FeatureFormat("clip", 2),), num_classes=3)


def record(number: int) -> bytes:
    features = {"id": shards.bytes_feature(b"video %d" % number), "labels": shards.int64_feature([number % 3])}
    return shards.example(features | {"clip": shards.float_feature(np.array([number, 1], np.float32))})


@pytest.fixture
def data(tmp_path: pathlib.Path) -> str:
    """50 videos in two splits: one that its manifest names, and one that its folder does."""
    for split, numbers in (("train", range(40)), ("validate", range(40, 50))):
        path = str(tmp_path / "data" / split / "a.tfrecord")
        written = manifest.write_shard(path, map(record, numbers))
        named = "training" if split == "train" else ""
        manifest.write(str(tmp_path / "data" / split / manifest.NAME), {path: written}, CLIP, split=named)
    vocabulary.write(str(tmp_path / "data" / vocabulary.NAME), vocabulary.of_names(["cat", "dog", "bird"]))
    return f"{tmp_path}/data/*/*.tfrecord"


def test_each_video_is_in_the_fold_of_its_id(data: str, tmp_path: pathlib.Path) -> None:
    folds = FoldSets(str(tmp_path / "folds"), 3)
    assert not folds.is_complete
    videos = folds.write(read_records(data), {})
    assert folds.is_complete
    assert videos.ids == [f"video {number}" for number in range(50)]
    assert [videos.split_names[split] for split in videos.splits] == ["training"] * 40 + ["validate"] * 10
    assert videos.folds.tolist() == [fold_of(video, 3) for video in videos.ids]
    for fold in range(3):
        batches = list(read_records(folds.pattern(fold)))
        stored = [video for batch in batches for video in batch.ids]
        assert stored == [videos.ids[place] for place in videos.of_fold(fold)]
        labels = np.concatenate([batch.labels for batch in batches]).argmax(1)
        assert labels.tolist() == [place % 3 for place in videos.of_fold(fold)]
        others = [video for batch in read_records(folds.others(fold).split(",")) for video in batch.ids]
        assert sorted(stored + others) == sorted(videos.ids)
    assert vocabulary.read(str(tmp_path / "folds" / vocabulary.NAME)).names == ("cat", "dog", "bird")


def test_a_group_stays_together(data: str, tmp_path: pathlib.Path) -> None:
    rows = [f"video {number},channel {number // 10}" for number in range(50)]
    (tmp_path / "videos.csv").write_text("\n".join(["id,channel", *rows]))
    groups = read_groups(str(tmp_path / "videos.csv"), "channel")
    videos = FoldSets(str(tmp_path / "folds"), 2).write(read_records(data), groups)
    assert all(len(set(videos.folds[start : start + 10])) == 1 for start in range(0, 50, 10))
    del groups["video 17"]  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"'video 17' .*no row.*group"):
        FoldSets(str(tmp_path / "folds"), 2).write(read_records(data), groups)


def test_a_table_without_the_column_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "videos.csv"
    path.write_text("id,topic\na,b\n")
    with pytest.raises(UsageError, match=r"no column 'channel'.*id, topic"):
        read_groups(str(path), "channel")
    with pytest.raises(UsageError, match=rf"{path}\.csv: .*no such file"):
        read_groups(f"{path}.csv", "channel")
    assert read_groups("", "") == {}


def test_a_fold_without_a_video_is_refused(data: str, tmp_path: pathlib.Path) -> None:
    folds = FoldSets(str(tmp_path / "folds"), 100)
    with pytest.raises(UsageError, match=r"--folds=100: .* videos, .* only 50; .*--folds=50"):
        folds.write(read_records(data), {})
    with pytest.raises(UsageError, match=r"--folds=100: .* films, .* only 5; .*--folds=5"):
        FoldSets(str(tmp_path / "folds"), 100, lambda video: str(int(video[6:]) // 10), "films").write(
            read_records(data), {}
        )
    with pytest.raises(UsageError, match=r"--folds=100: .* groups, .* only 2; .*--folds=2"):
        folds.write(read_records(data), {f"video {number}": str(number % 2) for number in range(50)})
    assert not folds.is_complete


@pytest.mark.parametrize("number_of_folds", [2, 3, 5])
def test_few_films_are_dealt_to_the_folds(data: str, tmp_path: pathlib.Path, number_of_folds: int) -> None:
    """Five films of ten cells, whose hashes leave two of five folds empty."""
    assert len({fold_of(f"f{film}", 5) for film in range(5)}) < 5
    folds = FoldSets(str(tmp_path / "folds"), number_of_folds, lambda video: f"f{int(video[6:]) // 10}")
    videos = folds.write(read_records(data), {})
    films = np.arange(50) // 10
    assert all(len(set(videos.folds[films == film].tolist())) == 1 for film in range(5))
    assert set(videos.folds.tolist()) == set(range(number_of_folds))


def test_videos_are_read_as_they_were_written(data: str, tmp_path: pathlib.Path) -> None:
    videos = FoldSets(str(tmp_path / "folds"), 3).write(read_records(data), {})
    folds.write_videos(str(tmp_path / "videos.npz"), videos)
    again = folds.read_videos(str(tmp_path / "videos.npz"))
    assert [list(values) for values in again] == [list(values) for values in videos]


def test_without_a_manifest_the_folder_is_the_split(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "test" / "a.tfrecord")
    storage.write(path, shards.framed(record(1)))
    assert split_of(path) == "test"
    assert split_of(os.path.relpath(path)) == "test"
