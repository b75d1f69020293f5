"""A workload of a few lines that trains in milliseconds: rows of a TFRecord file and a softmax model."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yt8m.graph import Inputter, Modeler, Reduction, Report
from yt8m.lazy import tf
from yt8m.numerics import random_keys
from yt8m.types import ModelOutput

FEATURES, CLASSES = 6, 3


def write_rows(path: pathlib.Path, rows: int = 40, seed: int = 0, poison: int | None = None) -> str:
    """Writes a TFRecord file of float32 rows whose last number is the label; the row `poison` has NaN as features."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(rows, FEATURES)).astype(np.float32)
    labels = values[:, :CLASSES].argmax(axis=1).astype(np.float32)
    if poison is not None:
        values[poison] = np.nan
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in np.column_stack([values, labels]):
            writer.write(row.tobytes())
    return str(path)


class TinyInputter(Inputter):
    """Yields batches of a file of `write_rows`, shuffled with a fixed seed."""

    def __init__(self, path: str, batch_size: int = 8, epochs: int | None = None, shuffle: int = 16) -> None:
        self.path, self.batch_size, self.epochs, self.shuffle = path, batch_size, epochs, shuffle

    def files(self) -> Sequence[str]:
        return [self.path]

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        dataset = tf.data.Dataset.from_tensor_slices(files).flat_map(tf.data.TFRecordDataset)
        if self.shuffle:
            dataset = dataset.shuffle(self.shuffle, seed=3)
        return dataset.repeat(self.epochs).batch(batch_size).map(_parse)


def _parse(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    rows = tf.ensure_shape(tf.io.decode_raw(records, tf.float32), [None, FEATURES + 1])
    return rows[:, :FEATURES], tf.cast(rows[:, FEATURES], tf.int32)


class TinyModeler(Modeler):
    """Softmax regression. In training, `noise` adds random numbers, and `blocks` makes each step wait forever."""

    def __init__(self, noise: float = 0.0, blocks: bool = False) -> None:
        self.noise, self.blocks = noise, blocks

    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        features, labels = batch
        if is_training and self.noise:
            seed = random_keys.next_seed()
            features += self.noise * tf.random.stateless_normal(tf.shape(features), seed)
        if is_training and self.blocks:
            features += tf.FIFOQueue(1, tf.float32, [[]]).dequeue()
        weights = tf.get_variable("weights", [FEATURES, CLASSES], initializer=tf.glorot_uniform_initializer())
        logits = features @ weights
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        return ModelOutput(predictions=tf.nn.softmax(logits), logits=logits, loss=loss)

    def reports(self, batch: Any, output: ModelOutput, mode: str) -> dict[str, Report]:
        return {"labels": Report(batch[1]), "guess": Report(tf.argmax(output.predictions, 1), Reduction.ROWS)}

    def evaluator(self) -> Accuracy:
        return Accuracy()


class Accuracy:
    """The share of the rows that are classified correctly, under the names of metrics that training prints."""

    def __init__(self) -> None:
        self.clear()

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        right = reports["guess"] == reports["labels"]
        self.right += int(right.sum())
        self.rows += len(right)
        share = float(right.mean())
        return {"Hit@1": share, "PERR": share, "GAP": share}

    def get(self) -> dict[str, Any]:
        return {"accuracy": self.right / max(1, self.rows), "rows": self.rows}

    def clear(self) -> None:
        self.right, self.rows = 0, 0
