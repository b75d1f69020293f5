"""Training in bfloat16 or float16 learns what training in float32 does."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import deploy, graph, losses, models
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.eval_util import EvaluationMetrics
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

CLASSES, FEATURES, ROWS, BATCH = 40, 48, 2048, 128


def videos(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and the three classes of each row that a fixed linear map with noise ranks highest."""
    truth, rng = np.random.default_rng(0).normal(size=(FEATURES, CLASSES)), np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    scores = x @ truth + rng.normal(size=(ROWS, CLASSES)) * 4
    return x, scores >= np.sort(scores, 1)[:, -3:-2]


class Rows(graph.Inputter):
    """Batches of generated videos, without files."""

    batch_size = BATCH

    def files(self) -> list[str]:
        return ["none"]

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        x, labels = videos(1)
        batch = Batch(tf.fill([ROWS], "v"), (tf.constant(x),), tf.ones([ROWS], tf.int32), tf.constant(labels))
        return tf.data.Dataset.from_tensor_slices(batch).repeat().batch(batch_size)


def gap_after_training(precision: str, model: str) -> float:
    """GAP on other videos, predicted in float32."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(0)
        modeler = VideoModeler(models.create(model), losses.create("CrossEntropyLoss"), CLASSES)
        ops = graph.build(
            Rows(),
            modeler,
            deploy.DeploymentConfig(1, clone_on_cpu=True),
            OptimizerConfig(base_learning_rate=0.02),
            DeviceConfig(precision=precision),
        )
        session.run(tf.global_variables_initializer())
        session.run(ops.input.initializer, {ops.input.files: ["none"]})
        for _ in range(150):
            session.run(ops.train_op)
        assert {variable.dtype.base_dtype for variable in tf.trainable_variables()} == {tf.float32}
        x, labels = videos(2)
        feed = {ops.predict.input_batch_raw: x, ops.predict.num_frames: np.ones(ROWS, np.int32)}
        predictions = session.run(ops.predict.predictions, feed)
    metrics = EvaluationMetrics(CLASSES, 20)
    metrics.accumulate(predictions, labels, np.zeros(ROWS))
    return float(metrics.get()["gap"])


@pytest.mark.heavy
def test_gap_after_training_is_that_of_float32() -> None:
    for model in ("LogisticModel", "MoeModel"):
        exact, *rounded = (gap_after_training(precision, model) for precision in ("float32", "bfloat16", "float16"))
        assert exact > 0.3
        assert rounded == pytest.approx([exact, exact], abs=0.002)
