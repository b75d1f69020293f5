"""The division of videos into those to train on and those held out, and the records that are written of them."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import yt8m
from yt8m.classifier import training_data
from yt8m.classifier.given_videos import videos_of
from yt8m.classifier.training_data import VideosAndLabels
from yt8m.python_api.data_errors import DataError
from yt8m.python_api.given_labels import labels_of
from yt8m.records import groups


def numbered(count: int, frames: bool = False) -> VideosAndLabels:
    """Videos whose value is their number, in turn of the classes a and b."""
    values = np.arange(count, dtype=np.float32)[:, np.newaxis]
    videos = videos_of([np.repeat(row[np.newaxis], 1 + n % 3, 0) for n, row in enumerate(values)] if frames else values)
    return VideosAndLabels(videos, labels_of([["ab"[row % 2]] for row in range(count)]))


def rows_of(data: VideosAndLabels) -> list[int]:
    return [int(value) for value in np.asarray(data.videos.features["features"])[:, 0]]


@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (20, 10), (100, 30), (299, 30), (1000, 100)])
def test_a_tenth_is_held_out_but_at_least_thirty_and_at_most_half(count: int, held_out: int) -> None:
    training, validation = training_data.divided(numbered(count), None, 0)
    assert len(validation.labels) == held_out
    assert sorted(rows_of(training) + rows_of(validation)) == list(range(count))
    again = training_data.divided(numbered(count), None, 0)[1]
    assert rows_of(again) == rows_of(validation)
    if count == 1000:
        assert rows_of(training_data.divided(numbered(count), None, 1)[1]) != rows_of(validation)


def test_the_only_video_of_a_class_is_trained_on() -> None:
    data = numbered(100)
    matrix = np.concatenate([data.labels.matrix, np.eye(100, 40, dtype=bool)], axis=1)
    data = VideosAndLabels(data.videos, labels_of(matrix))
    training, _ = training_data.divided(data, None, 3)
    assert training.labels.matrix[:, 2:].all(0).sum() == 0
    assert training.labels.matrix[:, 2:].any(0).all()


@given(st.lists(st.integers(0, 8), min_size=2, max_size=120), st.integers(0, 5))
def test_no_group_is_divided(groups: list[int], seed: int) -> None:
    if len(set(groups)) < 2:
        with pytest.raises(DataError, match="one group"):
            training_data.divided(numbered(len(groups)), groups, seed)
        return
    training, validation = training_data.divided(numbered(len(groups)), groups, seed)
    sides = [{groups[row] for row in rows_of(part)} for part in (training, validation)]
    assert not sides[0] & sides[1]
    assert sides[0] | sides[1] == set(groups)


def test_one_video_cannot_be_divided() -> None:
    with pytest.raises(DataError, match="n_samples = 1"):
        training_data.divided(numbered(1), None, 0)
    with pytest.raises(DataError, match=r"groups .*\[2\].* 4 videos"):
        training_data.divided(numbered(4), [1, 2], 0)


@pytest.mark.parametrize("frames", [False, True])
def test_records_are_read_back_as_they_were(tmp_path: pathlib.Path, frames: bool) -> None:
    training, validation = training_data.divided(numbered(60, frames), None, 0)
    training_data.write(str(tmp_path), training, validation, ())
    for split, data in (("train", training), ("validate", validation)):
        (batch,) = yt8m.read_records(f"{tmp_path}/{split}/*.tfrecord", batch_size=100)
        order = np.argsort(batch.ids)
        assert batch.labels[order].tolist() == data.labels.matrix.tolist()
        assert batch.num_frames[order].tolist() == data.videos.lengths().tolist()
        first = batch.features["features"][order]
        assert (first[:, 0] if frames else first)[:, 0].tolist() == [
            float(values.ravel()[0]) for values in data.videos.features["features"]
        ]
    assert (tmp_path / "vocabulary.csv").read_text().splitlines() == ["index,name", "0,a", "1,b"]


def test_many_videos_become_several_shards(tmp_path: pathlib.Path) -> None:
    data = numbered(5000)
    training_data.write(str(tmp_path), data, data, ())
    files = sorted(path.name for path in (tmp_path / "train").glob("*.tfrecord"))
    assert files == ["train0000.tfrecord", "train0001.tfrecord"]
    assert sum(len(batch) for batch in yt8m.read_records(f"{tmp_path}/train/*.tfrecord")) == 5000


def test_the_records_say_which_videos_belong_together(tmp_path: pathlib.Path) -> None:
    names = [f"author {row % 7}" for row in range(70)]
    training, held_out = training_data.divided(numbered(70), names, 0)
    training_data.write(str(tmp_path), training, held_out, ())
    ids = [
        f"{split}{row:07}"
        for split, part in (("train", training), ("validate", held_out))
        for row in range(len(part.labels))
    ]
    found = groups.find([f"{tmp_path}/train/train0000.tfrecord"]).of_ids(ids)
    authors = np.array([row % 7 for part in (training, held_out) for row in rows_of(part)])
    np.testing.assert_array_equal(found[:, np.newaxis] == found, authors[:, np.newaxis] == authors)
