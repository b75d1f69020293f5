"""Weights of classes multiply the terms of the label loss in a training, and in nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import losses, models
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video import workload
from yt8m.video.modeler import VideoModeler

CLASSES = 6
WEIGHTS = (0.0, 1.0, 2.5, 1.0, 0.5, 1.0)


def loss_of(is_training: bool, rated: np.ndarray | None) -> tuple[float, float, np.ndarray]:
    """(the loss with weights; that which NumPy computes from the predictions; the gradient on the biases)."""
    with tf.Graph().as_default(), tf.Session() as session:
        generator = np.random.default_rng(3)
        features, labels = generator.random((3, 4, 5), np.float32), generator.random((3, CLASSES)) < 0.4
        weights = None if rated is None else tf.constant(rated)
        batch = Batch(tf.fill([3], "v"), (tf.constant(features),), tf.fill([3], 4), tf.constant(labels), weights)
        modeler = VideoModeler(models.create("FrameLevelLogisticModel"), losses.create("CrossEntropyLoss"), CLASSES)
        modeler.class_weights = np.array(WEIGHTS, np.float32)
        output = modeler.build(batch, is_training)
        session.run(tf.global_variables_initializer())
        biases = next(each for each in tf.trainable_variables() if each.shape == [CLASSES])
        loss, scores, gradient = session.run([output.loss, output.predictions, tf.gradients(output.loss, biases)[0]])
    terms = -np.where(labels, np.log(scores + 1e-6), np.log(1 - scores + 1e-6))
    terms = terms if rated is None else terms * rated
    return loss, float((terms * (WEIGHTS if is_training else 1)).sum(1).mean()), gradient


@pytest.mark.parametrize("rated", [None, np.float32([[1, 1, 0, 1, 1, 0], [0, 1, 1, 1, 0, 1], [1, 0, 1, 0, 1, 1]])])
def test_a_training_weighs_the_classes(rated: np.ndarray | None) -> None:
    loss, expected, gradient = loss_of(True, rated)
    assert loss == pytest.approx(expected, rel=1e-4)
    assert gradient[0] == 0
    assert (gradient[1:] != 0).all()


def test_an_evaluation_does_not() -> None:
    loss, expected, _ = loss_of(False, None)
    assert loss == pytest.approx(expected, rel=1e-4)


def test_the_weights_of_a_config_reach_the_training_alone() -> None:
    model = ModelConfig(weight_of_class=WEIGHTS)
    data = DataConfig(num_classes=CLASSES, feature_names=("a",), feature_sizes=(3,))
    assert workload.create_modeler(data, ModelConfig(), "train").class_weights is None
    np.testing.assert_array_equal(workload.create_modeler(data, model, "train").class_weights, np.float32(WEIGHTS))
