"""The generated set: reproducible, balanced, not to be had by looking at single pixels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from examples.cifar10 import generated
from examples.cifar10.config import DataConfig
from examples.cifar10.data import TEST_FILE, TRAIN_FILES, prepare


def test_a_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        generated.make(str(tmp_path / name), seed, 30)
    first, again, other = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == again
    assert first != other
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_a_file_that_is_there_stays(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"mine")
    generated.make(str(path), 1, 30)
    assert path.read_bytes() == b"mine"


def test_the_classes_are_even_and_in_random_order():
    _, labels = generated.pictures(1000, np.random.default_rng(0))
    assert np.bincount(labels).tolist() == [100] * 10
    assert np.abs(np.corrcoef(labels[:-1].astype(float), labels[1:])[0, 1]) < 0.1


@pytest.mark.heavy
def test_no_class_is_told_by_single_pixels():
    images, labels = generated.pictures(1500, np.random.default_rng(0))
    flat = images.reshape(len(images), -1) / 255
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few iterations are enough
        linear = LogisticRegression(max_iter=20, C=0.01).fit(flat[:1000], labels[:1000])
    assert linear.score(flat[1000:], labels[1000:]) < 0.6


def test_without_a_set_at_hand_the_generated_one_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(generated.make, "__defaults__", (20,))
    data = prepare(DataConfig(data_dir=str(tmp_path)))
    assert data.is_generated
    assert sorted(path.name for path in (tmp_path / "generated").iterdir()) == [*TRAIN_FILES, TEST_FILE]
    (tmp_path / "cifar-10-batches-bin").mkdir()
    assert not prepare(DataConfig(data_dir=str(tmp_path))).is_generated
    assert prepare(DataConfig(data_dir=str(tmp_path), generated=True)).is_generated
