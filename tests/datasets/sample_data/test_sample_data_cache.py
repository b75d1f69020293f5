"""Sample data in buckets, generated once by several processes, completed after a kill; a model can learn them."""

from __future__ import annotations

import multiprocessing
import os
import pathlib

import numpy as np
import pytest
from datasets.sample_data.sample_shards import read_split

from yt8m import eval_util, storage
from yt8m.datasets.sample_data import SampleConfig, cached_sample_data, generate, generate_once, synthetic_videos

SMALL = {"train": 400, "validate": 10, "test": 10, "shards": 2}


def test_a_bucket_gets_the_same_shards_as_a_folder(bucket: str, tmp_path: pathlib.Path) -> None:
    generate(SampleConfig(bucket, **SMALL))
    generate(SampleConfig(str(tmp_path), **SMALL))
    shards = storage.glob(f"{bucket}/video/*/*.tfrecord")
    assert len(shards) == 6
    for shard in shards:
        assert storage.read_bytes(shard) == (tmp_path / shard.removeprefix(bucket + "/")).read_bytes()


def _make(folder: str, answer: multiprocessing.Queue[str]) -> None:
    answer.put(generate_once(SampleConfig(folder, **SMALL)))


@pytest.mark.heavy
def test_several_processes_generate_the_data_once(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path / "cache" / "data")
    spawn = multiprocessing.get_context("spawn")
    answer = spawn.Queue()
    makers = [spawn.Process(target=_make, args=(folder, answer)) for _ in range(3)]
    for maker in makers:
        maker.start()
    assert [answer.get() for _ in makers] == [folder] * 3
    for maker in makers:
        maker.join()
    assert sorted(os.listdir(folder)) == ["complete.json", "video", "vocabulary.csv"]
    assert os.listdir(tmp_path / "cache") == ["data"]
    before = {path: path.stat().st_mtime_ns for path in pathlib.Path(folder).rglob("*")}
    generate_once(SampleConfig(folder, **SMALL))
    assert before == {path: path.stat().st_mtime_ns for path in pathlib.Path(folder).rglob("*")}


def test_unfinished_data_are_generated_again(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "data"
    generate_once(SampleConfig(str(folder), **SMALL))
    (folder / "complete.json").unlink()
    (folder / "video/train/train0001.tfrecord").write_bytes(b"half")
    (tmp_path / "data.lock").write_bytes(b"of a dead process")
    generate_once(SampleConfig(str(folder), **SMALL))
    assert len(read_split(folder, "video", "train")) == 400
    assert (folder / "complete.json").exists()


def test_the_default_folder_is_in_the_cache_of_the_user(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr("yt8m.datasets.sample_data.generate", made.append)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folders = [generate_once(cached_sample_data(level)) for level in ("video", "frame", "video")]
    assert folders[0] == folders[2] != folders[1]
    assert [config.level for config in made] == ["video", "frame"]
    assert all(pathlib.Path(folder).parent == tmp_path / "yt8m" for folder in folders)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cached_sample_data("video").out.startswith(str(tmp_path / "home/.cache/yt8m/sample-data-"))


def _matrices(split: int, count: int, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """The L2-normalised mean_rgb, float32 [N, 1024], and the labels, float32 [N, C], of a split."""
    features = np.zeros((count, synthetic_videos.RGB), np.float32)
    labels = np.zeros((count, num_classes), np.float32)
    for row, video in enumerate(synthetic_videos.videos(0, split, count, num_classes)):
        features[row] = synthetic_videos.mean_features(video)[: synthetic_videos.RGB]
        labels[row, video.labels] = 1
    return features / np.linalg.norm(features, axis=1, keepdims=True), labels


def _logistic_regression(features: np.ndarray, labels: np.ndarray, batch: int, epochs: int) -> np.ndarray:
    """Trains a logistic regression by Adam with a learning rate of 0.01; returns the weights."""
    weights, first, second = np.zeros((3, features.shape[1], labels.shape[1]), np.float32)
    order = np.random.default_rng(0)
    step = 0
    for _ in range(epochs):
        for rows in np.array_split(order.permutation(len(features)), len(features) // batch):
            step += 1
            predictions = 1 / (1 + np.exp(-features[rows] @ weights))
            gradient = features[rows].T @ (predictions - labels[rows]) / len(rows)
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            rate = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            weights -= rate * first / (np.sqrt(second) + 1e-8)
    return weights


@pytest.mark.heavy
@pytest.mark.parametrize(("count", "num_classes", "batch"), [(1500, 200, 100), (5000, 3862, 256)])
def test_logistic_regression_learns_the_classes(count: int, num_classes: int, batch: int) -> None:
    features, labels = _matrices(0, count, num_classes)
    weights = _logistic_regression(features, labels, batch, 5)
    held_out, actual = _matrices(1, 1000, num_classes)
    assert eval_util.calculate_gap(held_out @ weights, actual) > 0.5
    untrained = np.random.default_rng(1).standard_normal(weights.shape, dtype=np.float32)
    assert eval_util.calculate_gap(held_out @ untrained, actual) < 0.05
