"""The division of videos for a search: groups stay whole, and each video is held out once by the folds."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib

import numpy as np
import pytest
from training.search.own_data import write_rings

from yt8m.command_line import cli
from yt8m.config.data_config import DataConfig
from yt8m.errors import RunError
from yt8m.records import groups, shards
from yt8m.records.shards import DamagedError
from yt8m.training import numpy_records
from yt8m.training.search import videos_in_memory
from yt8m.training.search.videos_in_memory import Fold, VideosInMemory
from yt8m.video import fitted_transforms


def videos(count: int, of_groups: np.ndarray | None = None) -> VideosInMemory:
    keys = np.random.default_rng(0).permutation(count).astype(np.uint64)
    labels, lengths = np.ones((count, 2), bool), np.ones(count, np.int32)
    features = np.arange(count, dtype=np.float32)[:, np.newaxis]
    return VideosInMemory(features, lengths, labels, keys, keys if of_groups is None else of_groups.astype(np.uint64))


def rows(part: VideosInMemory) -> set[int]:
    return set(part.features[:, 0].astype(int).tolist())


@pytest.mark.parametrize("size", [1, 7, 50])
def test_groups_are_held_out_whole(size: int) -> None:
    training, held_out = videos_in_memory.divided(videos(200, np.arange(200) // size))
    assert rows(training) | rows(held_out) == set(range(200))
    assert {row // size for row in rows(training)}.isdisjoint(row // size for row in rows(held_out))
    assert 30 <= len(held_out) < 30 + size


@pytest.mark.parametrize("place", [0, 99])
def test_a_group_of_most_videos_is_trained_on(place: int) -> None:
    of_groups = np.where(np.arange(1000) < 900, place, np.arange(1000))
    training, held_out = videos_in_memory.divided(videos(1000, of_groups))
    assert set(range(900)) <= rows(training)
    assert len(held_out) == 100


def test_videos_of_one_id_are_divided_one_by_one() -> None:
    same = videos(100, np.zeros(100))
    training, held_out = videos_in_memory.divided(dataclasses.replace(same, keys=same.groups))
    assert (len(training), len(held_out)) == (70, 30)


def test_one_group_cannot_be_divided() -> None:
    with pytest.raises(RunError, match=r"groups\.npz.*--eval_data_pattern"):
        videos_in_memory.divided(videos(50, np.zeros(50)))


@pytest.mark.parametrize("size", [1, 9])
def test_folds_hold_each_video_out_once_and_train_on_none_of_its_group(size: int) -> None:
    everything = videos(120, np.arange(120) // size)
    first = Fold(everything.take(np.arange(90)), everything.take(np.arange(90, 120)))
    found = videos_in_memory.folds(first, 4)
    assert len(found) == 4
    assert sorted(row for fold in found for row in rows(fold.held_out)) == list(range(120))
    assert rows(found[0].held_out) == set(range(90, 120))
    for fold in found[1:]:
        held_out = {row // size for row in rows(fold.held_out)}
        assert rows(fold.training) == {row for row in range(120) if row // size not in held_out}
    assert videos_in_memory.folds(first, 1) == [first]


def test_make_records_says_which_videos_belong_together(tmp_path: pathlib.Path) -> None:
    ids = [f"v{row}" for row in range(40)]
    np.save(tmp_path / "x.npy", np.ones((40, 2), np.float32))
    lines = [f"{name},cat,author {row % 5}" for row, name in enumerate(ids)]
    (tmp_path / "t.csv").write_text("\n".join(["id,labels,author", *lines]))
    words = ["make-records", f"--table={tmp_path}/t.csv", f"--array={tmp_path}/x.npy", "--splits=train:1"]
    assert cli.main([*words, "--group_by=author", f"--out={tmp_path}/grouped"]) == 0
    found = groups.find([f"{tmp_path}/grouped/video/train/train0000.tfrecord"]).of_ids([*ids, "another"])
    same = found[:, np.newaxis] == found
    np.testing.assert_array_equal(same[:40, :40], np.arange(40)[:, np.newaxis] % 5 == np.arange(40) % 5)
    assert same[40].sum() == 1
    assert cli.main([*words, f"--out={tmp_path}/plain"]) == 0
    assert groups.find([f"{tmp_path}/plain/video/train/train0000.tfrecord"]) is groups.NONE


def test_a_damaged_file_of_groups_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / groups.NAME).write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(RunError, match=r"groups\.npz.*--overwrite"):
        groups.find([f"{tmp_path}/train/a.tfrecord"])


@pytest.mark.parametrize("most", [1, 9, 40, 41])
def test_a_sample_has_as_many_videos_as_fit_and_depends_on_their_ids_alone(most: int) -> None:
    everything = videos(40)
    expected = set(np.argsort(everything.keys)[:most].tolist())
    for cuts in ([0, 40], [0, 3, 17, 40], list(range(41))):
        sample = videos_in_memory._Sample(most)
        for start, end in itertools.pairwise(cuts):
            sample.add(everything.take(np.arange(start, end)))
        assert rows(sample.videos()) == expected


def test_a_sample_of_few_wide_frames_is_thinned_by_their_true_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos_in_memory, "MOST_BYTES", 4 * 30 * 8 * 16)  # 30 videos of 8 frames
    everything = videos(40)
    frames = np.repeat(everything.features, 8 * 16, 1).reshape(40, 8, 16)
    sample = videos_in_memory._Sample(5000)
    sample.add(dataclasses.replace(everything, features=frames))
    assert len(sample.videos()) == 30


def test_values_that_count_as_0_are_read(tmp_path: pathlib.Path) -> None:
    """With --nan_policy=zero a NaN is 0 for the search and for `standardize`, as it is for the training."""
    pattern = write_rings(tmp_path, 20, "train")
    path = sorted(pathlib.Path(pattern).parent.glob("*.tfrecord"))[0]
    payloads = [payload for payload, _ in shards.read_contexts(str(path))]
    value = shards.parse(payloads[0]).values("clip")[3]
    payloads[0] = payloads[0].replace(np.float32(value).tobytes(), np.float32("nan").tobytes(), 1)
    path.write_bytes(b"".join(map(shards.framed, payloads)))
    data = DataConfig(
        data_pattern=pattern, feature_names=("clip",), feature_sizes=(8,), num_classes=3, nan_policy="zero"
    )
    read, total = videos_in_memory.read(data, pattern, 100)
    assert (len(read), total) == (20, 20)
    assert (read.features == 0).sum() == 1
    for transform in fitted_transforms.NAMES:
        assert all(np.isfinite(values).all() for values in numpy_records.statistics_of(data, transform))
    with pytest.raises(DamagedError, match="NaN"):
        videos_in_memory.read(dataclasses.replace(data, nan_policy="refuse"), pattern, 100)
