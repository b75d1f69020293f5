"""What a step computes: no more than it has to, told by the ops that train_op depends on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from yt8m import deploy, graph, losses, models
from yt8m.config.train_config import OptimizerConfig
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

CLASSES = 5


class Rows(graph.Inputter):
    """Batches of one feature vector a video, without files."""

    batch_size = 4

    def files(self) -> list[str]:
        return ["none"]

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        features = tf.constant(np.ones((batch_size, 3), np.float32))
        batch = Batch(
            tf.fill([batch_size], "v"),
            (features,),
            tf.ones([batch_size], tf.int32),
            tf.ones([batch_size, CLASSES], tf.bool),
        )
        return tf.data.Dataset.from_tensors(batch)


def ancestors(op: tf.Operation) -> set[tf.Operation]:
    found, todo = set(), [op]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += [*(tensor.op for tensor in one.inputs), *one.control_inputs]
    return found


@pytest.mark.parametrize(("model", "products"), [("LogisticModel", 2), ("MoeModel", 4)])
def test_a_step_of_training_computes_no_loss_no_figures_and_each_product_once(model: str, products: int) -> None:
    with tf.Graph().as_default():
        modeler = VideoModeler(models.create(model), losses.create("CrossEntropyLoss"), CLASSES)
        ops = graph.build(Rows(), modeler, deploy.DeploymentConfig(1, clone_on_cpu=True), OptimizerConfig())
        needed = ancestors(ops.train_op)
        kinds = Counter(op.type for op in needed)
        assert kinds["MatMul"] == products
        assert not {"TopKV2", "HistogramSummary", "ScalarSummary"} & set(kinds)
        assert ops.label_loss.op not in needed
        assert ops.regularization_loss.op not in needed
        # Clipping and the guard against NaN share one norm a variable.
        norms = ancestors(ops.gradient_norms.op)
        assert {op for op in norms if op.type == "L2Loss"} == {op for op in needed if op.type == "L2Loss"}
