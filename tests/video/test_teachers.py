"""Teachers, the loss on their probabilities, and training on it."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from yt8m import deploy, losses, models
from yt8m.config.run_options import AugmentConfig
from yt8m.errors import UsageError
from yt8m.export.saved_model import write_inference_model
from yt8m.lazy import tf
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler
from yt8m.video.teachers import ModelTeacher, PredictionTeacher, TrainingModeler, with_teacher_loss

B, C, D = 4, 5, 6
RNG = np.random.default_rng(8)
LOGITS, TARGET = RNG.normal(size=(B, C)), RNG.random((B, C))
LABELS = (RNG.random((B, C)) < 0.4).astype(np.float64)


def cross_entropy(logits: np.ndarray, target: np.ndarray) -> float:
    odds = 1 / (1 + np.exp(-logits))
    return float(np.mean(np.sum(-target * np.log(odds) - (1 - target) * np.log(1 - odds), axis=1)))


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("by_hand", [True, False])
def test_loss_and_gradient_are_those_of_the_formula(weight: float, by_hand: bool) -> None:
    own = losses.create("CrossEntropyLoss")
    with tf.Graph().as_default(), tf.Session() as session:
        logits = tf.constant(LOGITS, tf.float32)
        slope = own.gradient_from_logits(logits, tf.constant(LABELS))
        output = ModelOutput(
            predictions=tf.sigmoid(logits),
            logits=logits,
            loss=own.calculate_loss_from_logits(logits, tf.constant(LABELS)),
            loss_gradients=((logits, slope),) if by_hand else (),
        )
        taught = with_teacher_loss(output, tf.constant(TARGET, tf.float32), weight)
        loss, automatic = session.run([taught.loss, tf.gradients(taught.loss, logits)[0]])
        assert bool(taught.loss_gradients) is by_hand
        if by_hand:
            tensors, slopes = zip(*taught.loss_gradients, strict=True)
            closed = session.run(tf.gradients(list(tensors), logits, grad_ys=list(slopes))[0])
            np.testing.assert_allclose(closed, automatic, atol=1e-6)
    expected = (1 - weight) * cross_entropy(LOGITS, LABELS) + weight * cross_entropy(LOGITS, TARGET)
    assert loss == pytest.approx(expected, rel=1e-5)
    numeric = np.zeros((B, C))
    for at in np.ndindex(B, C):
        step = np.zeros((B, C))
        step[at] = 1e-5
        numeric[at] = sum(
            share * (cross_entropy(LOGITS + step, y) - cross_entropy(LOGITS - step, y)) / 2e-5
            for share, y in ((1 - weight, LABELS), (weight, TARGET))
        )
    np.testing.assert_allclose(automatic, numeric, atol=1e-6)


def test_without_logits_the_probability_form_is_taken() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        output = ModelOutput(predictions=tf.constant(1 / (1 + np.exp(-LOGITS)), tf.float32), loss=tf.ones([]))
        loss = session.run(with_teacher_loss(output, tf.constant(TARGET, tf.float32), 0.25).loss)
    assert loss == pytest.approx(0.75 + 0.25 * cross_entropy(LOGITS, TARGET), rel=1e-3)


def batch_of(ids: list[str]) -> Batch:
    features = np.random.default_rng(len(ids)).normal(size=(len(ids), D)).astype(np.float32)
    rows = len(ids)
    return Batch(
        tf.constant(ids), (tf.constant(features),), tf.ones([rows], tf.int32), tf.constant(np.eye(rows, C) > 0)
    )


LINES = """VideoId,LabelConfidencePairs
ab12,0 0.5 4 0.25
cd34,1 1e-05
ef56,
gh78,3 0.75 1 0.5 0 0.125
"""


@pytest.fixture
def predictions(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "predictions.csv"
    path.write_text(LINES)
    return str(path)


def test_predictions_are_found_by_id_on_every_tower(predictions: str) -> None:
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        teacher = PredictionTeacher(predictions, C)
        with tf.device("/cpu:1"):
            first = teacher.probabilities(batch_of(["gh78", "ab12", "ab12"]))
        second = teacher.probabilities(batch_of(["ef56", "cd34"]))
        assert len(tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)) == 1
        session.run(tf.tables_initializer())
        found = session.run([first, second])
    row = [0.5, 0, 0, 0, 0.25]
    np.testing.assert_allclose(found[0], [[0.125, 0.5, 0, 0.75, 0], row, row], rtol=1e-6)
    np.testing.assert_allclose(found[1], [[0] * C, [0, 1e-5, 0, 0, 0]], rtol=1e-6)


def test_a_video_without_prediction_is_named(predictions: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        target = PredictionTeacher(predictions, C).probabilities(batch_of(["ab12", "zz99", "yy88"]))
        session.run(tf.tables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"no prediction.* zz99 \(2 such"):
            session.run(target)


@pytest.fixture
def teacher_run(tmp_path: pathlib.Path) -> tuple[str, np.ndarray]:
    """An inference model with known weights."""
    weights = np.random.default_rng(2).normal(size=(D, C)).astype(np.float32)
    modeler = VideoModeler(models.create("LogisticModel"), None, C, feature_sizes=(D,))
    with tf.Graph().as_default(), tf.Session() as session:
        modeler.predict_raw(tf.placeholder(tf.float32, [None, D]), tf.placeholder(tf.int32, [None]))
        session.run(tf.global_variables_initializer())
        next(v for v in tf.global_variables() if v.shape.rank == 2).load(weights, session)
        tf.train.get_or_create_global_step().initializer.run(session=session)
        checkpoint = tf.train.Saver().save(session, str(tmp_path / "model.ckpt-1"))
    return write_inference_model(str(tmp_path / "im"), checkpoint, modeler, frame_features=False), weights


def taught(prefix: str) -> TrainingModeler:
    return TrainingModeler(
        models.create("LogisticModel"),
        losses.create("CrossEntropyLoss"),
        *(C, 3, (D,)),
        augmentation=AugmentConfig(augment_noise=0.5),
        teacher=ModelTeacher(prefix, C, D, has_frames=False),
        distill_weight=1.0,
    )


def test_a_model_teaches_on_every_tower_and_stays_out_of_the_checkpoint(teacher_run: Any) -> None:
    prefix, weights = teacher_run
    modeler = taught(prefix)
    with tf.Graph().as_default():
        config = deploy.DeploymentConfig(num_clones=2, spread_on_cpu=True)
        batch = batch_of(["a", "b", "c"])
        clones = deploy.create_clones(config, lambda: modeler.build(batch, is_training=True))
        targets = [modeler._teacher.probabilities(batch) for _ in clones]  # type: ignore[union-attr]
        assert {v.op.name for v in tf.global_variables()} == {
            "tower/fully_connected/weights",
            "tower/fully_connected/biases",
        }
        with tf.Session(config=config.session_config()) as session:
            session.run(tf.global_variables_initializer())
            own = session.run(tf.global_variables())
            modeler.restore(session)
            for before, after in zip(own, session.run(tf.global_variables()), strict=True):
                np.testing.assert_array_equal(after, before)
            features, *found = session.run([batch.features[0], *targets])
            values = session.run([clone.outputs.loss for clone in clones])
    norm = features / np.linalg.norm(features, axis=1, keepdims=True)
    expected = 1 / (1 + np.exp(-norm @ weights))
    for target in found:
        np.testing.assert_allclose(target, expected, atol=1e-6)
    assert np.isfinite(values).all()


@pytest.mark.parametrize("other", [(C + 1, D, False), (C, D + 1, False), (C, D, True)])
def test_a_teacher_of_something_else_is_refused(teacher_run: Any, other: Any) -> None:
    with pytest.raises(UsageError, match=rf"\b{C} classes.*\b{D} features.*this run"):
        ModelTeacher(teacher_run[0], *other)
