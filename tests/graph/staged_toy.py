"""Examples made of the names that are fed as files, a logistic model, and a session that trains it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from yt8m import deploy, graph
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.graph import Inputter, Modeler, Report
from yt8m.lazy import tf
from yt8m.runner.runner import is_end_of_data
from yt8m.types import Batch, ModelOutput

FEATURES, CLASSES, BATCH, EPOCHS = 3, 4, 2, 2


class Names(Inputter):
    """Examples made of the names that are fed as files (numbers as text); a bad name is refused."""

    batch_size = BATCH

    def __init__(self, numbered: bool = True) -> None:
        self.shard_order = {} if numbered else None

    def files(self) -> list[str]:
        return []

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        names = tf.data.Dataset.from_tensor_slices(files).repeat(EPOCHS).batch(batch_size)
        return names.map(lambda ids: _examples(ids)[0])

    def numbered_dataset(self, files: tf.Tensor, batch_size: int, begun: tf.Tensor) -> tf.data.Dataset:
        names = tf.data.Dataset.from_tensor_slices(files).repeat(EPOCHS).batch(batch_size)
        return names.map(_examples)


def _examples(ids: tf.Tensor) -> tuple[Batch, tf.Tensor]:
    numbers = tf.strings.to_number(ids)
    features = tf.sin(numbers[:, tf.newaxis] * tf.range(1.0, FEATURES + 1))
    labels = tf.equal(tf.cast(numbers, tf.int32)[:, tf.newaxis] % CLASSES, tf.range(CLASSES))
    batch = Batch(ids, (features, features[:, :1]), tf.cast(numbers, tf.int32), labels)
    return batch, tf.cast(numbers, tf.int64)


class Scores(Modeler):
    """Logistic regression that reports which examples it saw."""

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        weights = tf.get_variable("weights", [FEATURES, CLASSES], initializer=tf.ones_initializer())
        logits = batch.features[0] @ weights
        targets = tf.cast(batch.labels, tf.float32)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits))
        return ModelOutput(predictions=tf.sigmoid(logits), loss=loss)

    def reports(self, batch: Batch, output: ModelOutput, mode: str) -> dict[str, Report]:
        return {"ids": Report(batch.video_ids), "frames": Report(batch.num_frames)}

    def predict(self, batch: Batch) -> graph.PredictOps:
        predictions = self.build(batch, is_training=False).predictions
        return graph.PredictOps(predictions, labels=batch.labels, video_ids=batch.video_ids)


class Training:
    """A session on one training graph."""

    def __init__(self, towers: int, ahead: bool, split: bool = True, numbered: bool = True) -> None:
        with tf.Graph().as_default() as self.graph:
            deployment = deploy.DeploymentConfig(num_clones=towers, spread_on_cpu=True)
            self.ops = graph.build(
                Names(numbered),
                Scores(),
                deployment,
                OptimizerConfig(base_learning_rate=0.1),
                DeviceConfig(prefetch_to_device=ahead),
                split=split,
            )
            self.init = tf.global_variables_initializer()
            self.saver = tf.train.Saver(tf.global_variables())
            self.weights = tf.trainable_variables()[0].read_value()
        self.config = deployment.session_config()
        self.session = tf.Session(graph=self.graph, config=self.config)

    def start(self, names: list[str]) -> None:
        self.session.run(self.init)
        self.session.run(self.ops.input.initializer, {self.ops.input.files: names})

    def step(self) -> list[Any]:
        """A training step and what it says of itself, everything as exact as it is."""
        ops = self.ops
        told = [ops.step, ops.total_loss, ops.examples, ops.reports["ids"], ops.reports["frames"]]
        told += [ops.predict.labels, ops.predict.video_ids]
        told += [] if ops.input.last_shard is None else [ops.input.last_shard]
        return [value.tolist() for value in self.session.run(told)]

    def steps(self, names: list[str]) -> list[list[Any]]:
        """Those of a whole run, with the weights behind the last."""
        self.start(names)
        found: list[list[Any]] = []
        error = until_error(lambda: found.append(self.step()))
        assert is_end_of_data(error)
        with pytest.raises(tf.errors.OutOfRangeError):
            self.step()
        return [*found, self.session.run(self.weights).tolist()]


def until_error(step: Callable[[], None]) -> tf.errors.OpError:
    """The error that ends a row of steps."""
    for _ in range(100):
        try:
            step()
        except tf.errors.OpError as error:
            return error
    raise AssertionError("no end after 100 steps")
