"""A workload without videos: rows from memory, and a normalised linear model that any graph law shows on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from yt8m import deploy, graph
from yt8m.config.train_config import OptimizerConfig
from yt8m.graph import Inputter, Modeler, Reduction, Report
from yt8m.lazy import tf
from yt8m.types import ModelOutput

FEATURES, CLASSES = 6, 4


class Rows(Inputter):
    """An inputter over arrays; the files it is fed are names only."""

    def __init__(self, inputs: np.ndarray, labels: np.ndarray, batch_size: int) -> None:
        self.inputs, self.labels, self.batch_size = inputs, labels, batch_size

    def files(self) -> list[str]:
        return ["rows"]

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((self.inputs, self.labels)).repeat().batch(batch_size)


class Linear(Modeler):
    """Linear softmax with an L2 term, an optional batch norm and an optional hand gradient."""

    def __init__(self, normalise: bool = False, by_hand: bool = False, noise: bool = False) -> None:
        self.normalise, self.by_hand, self.noise = normalise, by_hand, noise

    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        from yt8m.numerics import random_keys

        inputs, labels = batch
        updates: list[Any] = []
        if self.noise and is_training:
            inputs += 0.1 * tf.random.stateless_normal(tf.shape(inputs), random_keys.next_seed())
        if self.normalise:
            inputs, updates = self._normalised(inputs, is_training)
        weights = tf.get_variable("weights", [FEATURES, CLASSES])
        logits = tf.matmul(inputs, weights)
        targets = tf.one_hot(labels, CLASSES)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=logits))
        rows = tf.cast(tf.shape(logits)[0], tf.float32)
        slope = ((logits, (tf.nn.softmax(logits) - targets) / rows),) if self.by_hand else ()
        return ModelOutput(
            predictions=tf.nn.softmax(logits),
            regularization_loss=0.01 * tf.nn.l2_loss(weights),
            update_ops=tuple(updates),
            loss=loss,
            loss_gradients=slope,
        )

    def reports(self, batch: Any, output: ModelOutput, mode: str) -> dict[str, Report]:
        right = tf.equal(tf.argmax(output.predictions, 1, output_type=tf.int32), batch[1])
        return {
            "labels": Report(batch[1]),
            "accuracy": Report(tf.reduce_mean(tf.cast(right, tf.float32)), Reduction.MEAN),
            "count": Report(tf.shape(batch[1])[0], Reduction.SUM),
        }

    @staticmethod
    def _normalised(inputs: tf.Tensor, is_training: bool) -> tuple[tf.Tensor, list[Any]]:
        mean = tf.get_variable("moving_mean", [FEATURES], trainable=False, initializer=tf.zeros_initializer())
        if not is_training:
            return inputs - mean.read_value(), []
        now = tf.reduce_mean(inputs, 0)
        return inputs - now, [mean.assign_sub(0.1 * (mean.read_value() - now))]


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(count, FEATURES)).astype(np.float32)
    return inputs, generator.integers(0, CLASSES, count).astype(np.int32)


def initial_weights() -> np.ndarray:
    return np.random.default_rng(9).normal(size=(FEATURES, CLASSES)).astype(np.float32)


class Session:
    """A built training graph with an open session on it."""

    def __init__(
        self,
        modeler: Modeler,
        batch: tuple[np.ndarray, np.ndarray],
        towers: int,
        config: OptimizerConfig | None = None,
        before: Callable[[], Any] = lambda: None,
        **options: Any,
    ) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            before()
            # One fixed batch: the toy's batch size divides by nothing, as real last batches do not.
            inputter = Rows(*batch, batch_size=-(-len(batch[0]) // towers))
            inputter.dataset = lambda *_: tf.data.Dataset.from_tensors(batch).repeat()  # type: ignore
            deployment = deploy.DeploymentConfig(num_clones=towers, spread_on_cpu=True)
            self.ops = graph.build(inputter, modeler, deployment, config or OptimizerConfig(), **options)
            self.session = tf.Session(config=deployment.session_config())
            self.run(tf.global_variables_initializer())
            self.run(self.ops.input.initializer, {self.ops.input.files: ["rows"]})
            weights = next(v for v in tf.trainable_variables() if v.op.name == "weights")
            weights.load(initial_weights(), self.session)

    def run(self, fetches: Any, feeds: Any = None) -> Any:
        return self.session.run(fetches, feeds)

    def value(self, name: str) -> np.ndarray:
        with self.graph.as_default():
            return next(v for v in tf.global_variables() if v.op.name == name).eval(self.session)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.session.close()
