"""A small set in the format of CIFAR-10, for tests."""

from __future__ import annotations

import pathlib

import numpy as np

from examples.cifar10 import generated
from examples.cifar10.data import TEST_FILE, TRAIN_FILES, DataSet
from examples.cifar10.records import Images
from yt8m.graph import Inputter
from yt8m.lazy import tf

RECORDS = 40  # number of records in a file


def small_set(folder: pathlib.Path) -> DataSet:
    """Writes a generated data set with `RECORDS` records in each file."""
    for index, name in enumerate([*TRAIN_FILES, TEST_FILE]):
        generated.make(str(folder / name), index, RECORDS)
    return DataSet(str(folder), RECORDS)


def stored(folder: pathlib.Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The pictures, uint8 [N, 32, 32, 3], and labels of a file, read without TensorFlow."""
    raw = np.frombuffer((folder / name).read_bytes(), np.uint8).reshape(-1, 3073)
    return raw[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), raw[:, 0]


def standardised(pictures: np.ndarray) -> np.ndarray:
    """The pictures as float64, each with mean 0 and variance 1, as `tf.image.per_image_standardization` defines it."""
    values = pictures.astype(np.float64)
    axes = (1, 2, 3)
    spread = np.maximum(values.std(axes, keepdims=True), 1 / np.sqrt(values[0].size))
    return (values - values.mean(axes, keepdims=True)) / spread


class SameBatch(Inputter):
    """An inputter that gives the same rows again and again, in batches of `batch_size`."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, batch_size: int) -> None:
        self.rows = images.astype(np.float32), labels.astype(np.int32)
        self.batch_size = batch_size

    def files(self) -> list[str]:
        return ["memory"]

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        batches = tf.data.Dataset.from_tensor_slices(Images(*self.rows)).repeat()
        return batches.batch(batch_size, drop_remainder=True)


def random_rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random pictures, float64 [count, 24, 24, 3], and labels [count]."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, 24, 24, 3)), generator.integers(0, 10, count)
