"""Models and losses that were written for the published code: a loss that a model computes, one without weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from yt8m import losses, models
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models.base import ClassifiedModel
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler

CLASSES, SIZE, FRAMES = 3, 4, 5


class WithLoss:
    """Computes its own loss, the sum of squared errors over the classes, as `result["loss"]`."""

    level = "video"

    def create_model(
        self, model_input: Any, vocab_size: int, labels: Any, num_frames: Any = None, **unused_params: Any
    ) -> dict[str, Any]:
        weights = tf.get_variable("weights", [model_input.shape[1], vocab_size])
        predictions = tf.sigmoid(tf.matmul(model_input, weights))
        return {"predictions": predictions, "loss": tf.reduce_mean(tf.reduce_sum((predictions - labels) ** 2, 1))}


class SquaredLoss:
    """Takes predictions and labels, and nothing else."""

    def calculate_loss(self, predictions: Any, labels: Any) -> Any:
        return tf.reduce_mean(tf.reduce_sum((predictions - tf.cast(labels, tf.float32)) ** 2, 1))


def videos(**fields: Any) -> Batch:
    draw = np.random.default_rng(5)
    features = draw.normal(size=(6, SIZE)).astype(np.float32)
    labels = draw.random((6, CLASSES)) < 0.4
    batch = Batch(tf.fill([6], "v"), (tf.constant(features),), tf.ones([6], tf.int32), tf.constant(labels))
    return batch._replace(**fields)


def clips() -> Batch:
    draw = np.random.default_rng(6)
    features = draw.integers(0, 256, (6, FRAMES, SIZE)).astype(np.uint8)
    return videos()._replace(features=(tf.constant(features),), num_frames=tf.fill([6], FRAMES))


def squared_errors(predictions: np.ndarray, labels: np.ndarray) -> float:
    return float(((predictions - labels) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("is_training", [True, False])
def test_a_model_may_compute_its_loss_from_labels(is_training: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        batch = videos()
        modeler = VideoModeler(WithLoss(), losses.get("CrossEntropyLoss")(), CLASSES, feature_sizes=(SIZE,))
        output = modeler.build(batch, is_training)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            predicted = modeler.predict(batch).predictions
            fed = modeler.predict_placeholders(has_frames=False)
        session.run(tf.global_variables_initializer())
        loss, scores, labels, raw = session.run([output.loss, output.predictions, batch.labels, batch.features[0]])
        assert loss == pytest.approx(squared_errors(scores, labels), rel=1e-6)
        np.testing.assert_array_equal(session.run(predicted), scores)
        assert fed.input_batch_raw is not None
        feeds = {fed.input_batch_raw: raw, fed.num_frames: np.ones(6, np.int32)}
        np.testing.assert_array_equal(session.run(fed.predictions, feeds), scores)


@dataclasses.dataclass(frozen=True)
class MeanThenClassifier(ClassifiedModel):
    """A user's frame-level model that ends in a classifier."""

    def forward(self, net: Any, inputs: Any, vocab_size: int, num_frames: Any) -> ModelOutput:
        return self.classify(net, tf.reduce_mean(inputs, 1), vocab_size)


@pytest.mark.parametrize(
    ("name", "settings", "rows"),
    [
        (f"{__name__}:MeanThenClassifier", {}, 1),
        ("LstmModel", {"lstm_cells": 3, "lstm_layers": 1}, 1),
        ("LstmAttentionMaxModel", {"lstm_cells": 3, "lstm_layers": 1, "lstm_attentions": 2}, 2),
        ("DbofModel", {"dbof_cluster_size": 4, "dbof_hidden_size": 3, "dbof_pooling_method": "none"}, 30),
    ],
)
def test_the_classifier_of_another_model_may_too(name: str, settings: dict[str, Any], rows: int) -> None:
    """Where a video has several rows, each has the labels of the video."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        batch = clips()
        model = models.create(name, {"video_level_classifier_model": f"{__name__}:WithLoss", **settings})
        modeler = VideoModeler(model, losses.get("CrossEntropyLoss")(), CLASSES, feature_sizes=(SIZE,))
        output = modeler.build(batch, is_training=False)
        session.run(tf.global_variables_initializer())
        loss, scores, labels = session.run([output.loss, output.predictions, batch.labels])
        of_rows = [op.outputs[0] for op in tf.get_default_graph().get_operations() if op.type == "Sigmoid"][-1]
        row_scores = session.run(of_rows)
    assert row_scores.shape == (6 * rows, CLASSES)
    assert loss == pytest.approx(squared_errors(row_scores, np.repeat(labels, rows, axis=0)), rel=1e-5)
    assert scores.shape == labels.shape


@pytest.mark.parametrize("is_training", [True, False])
def test_a_loss_may_take_no_label_weights(is_training: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        batch = videos()
        modeler = VideoModeler(models.create("LogisticModel"), SquaredLoss(), CLASSES, feature_sizes=(SIZE,))
        output = modeler.build(batch, is_training)
        session.run(tf.global_variables_initializer())
        loss, scores, labels = session.run([output.loss, output.predictions, batch.labels])
    assert loss == pytest.approx(squared_errors(scores, labels), rel=1e-6)


@pytest.mark.parametrize("is_training", [True, False])
def test_a_loss_without_label_weights_is_refused_where_labels_are_unknown(is_training: bool) -> None:
    with tf.Graph().as_default():
        batch = videos(label_weights=tf.ones([6, CLASSES]))
        modeler = VideoModeler(models.create("LogisticModel"), SquaredLoss(), CLASSES, feature_sizes=(SIZE,))
        with pytest.raises(UsageError, match=r"SquaredLoss\.calculate_loss.*label_weights=None"):
            modeler.build(batch, is_training)
