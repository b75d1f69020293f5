"""The video modeler: losses of heads, closed-form gradients, reports, feed points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m import eval_util, losses, models
from yt8m.errors import RunError
from yt8m.graph import Reduction
from yt8m.lazy import tf
from yt8m.numerics import whole_blocks
from yt8m.readers import join_features
from yt8m.types import Batch, ModelOutput, SideOutput
from yt8m.video.modeler import VideoModeler
from yt8m.video.scores import scored_columns

CLASSES, SIZES = 6, (5, 3)


def frame_batch(rows: int = 3, frames: int = 4) -> tuple[Batch, list[np.ndarray]]:
    generator = np.random.default_rng(3)
    features = [generator.integers(0, 256, (rows, frames, size)).astype(np.uint8) for size in SIZES]
    num_frames = np.arange(rows, dtype=np.int32) + 1
    labels = generator.random((rows, CLASSES)) < 0.4
    ids = tf.constant([f"v{i}" for i in range(rows)])
    batch = Batch(ids, tuple(map(tf.constant, features)), tf.constant(num_frames), tf.constant(labels))
    return batch, [*features, num_frames, labels]


def test_features_are_dequantised_joined_and_zero_past_the_end() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        batch, (rgb, audio, num_frames, _) = frame_batch()
        found = session.run(join_features(batch))
    expected = np.concatenate([rgb, audio], axis=2).astype(float) * 4 / 255 + 4 / 512 - 2
    expected[np.arange(4)[None, :] >= num_frames[:, None]] = 0
    np.testing.assert_allclose(found, expected, atol=1e-6)


class TwoHeads:
    """A user's model: a dict, and a second head trained on the labels or towards the first."""

    def __init__(self, towards_first: bool) -> None:
        self.towards_first = towards_first

    def create_model(self, model_input: Any, vocab_size: int, **unused: Any) -> dict[str, Any]:
        heads = [tf.matmul(model_input, tf.get_variable(f"w{i}", [model_input.shape[-1], vocab_size])) for i in (0, 1)]
        predictions = tf.sigmoid(heads[0])
        target = predictions if self.towards_first else None
        side = SideOutput("side", heads[1], weight=0.3, target=target)
        return {"predictions": predictions, "logits": heads[0], "side_outputs": [side], "memory": 1}


@pytest.mark.parametrize("towards_first", [False, True])
def test_the_loss_adds_its_heads_and_its_gradient_is_the_automatic_one(towards_first: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = np.random.default_rng(1).normal(size=(4, 8)).astype(np.float32)
        labels = np.random.default_rng(2).random((4, CLASSES)) < 0.5
        batch = Batch(tf.fill([4], "v"), (tf.constant(inputs),), tf.ones([4], tf.int32), tf.constant(labels))
        modeler = VideoModeler(TwoHeads(towards_first), losses.get("CrossEntropyLoss")(), CLASSES)
        output = modeler.build(batch, is_training=True)
        session.run(tf.global_variables_initializer())
        loss, z0, z1 = session.run([output.loss, output.logits, output.side_outputs[0].logits])
        variables = tf.trainable_variables()
        assert bool(output.loss_gradients) is not towards_first
        if output.loss_gradients:
            heads, slopes = zip(*output.loss_gradients, strict=True)
            by_hand = session.run(tf.gradients(heads, variables, grad_ys=slopes))
            automatic = session.run(tf.gradients(output.loss, variables))
            for ours, theirs in zip(by_hand, automatic, strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-6)
    target = 1 / (1 + np.exp(-z0.astype(float))) if towards_first else labels
    expected = cross_entropy(z0, labels) + 0.3 * cross_entropy(z1, target)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert output.extras == {"memory": 1}


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    p, labels = 1 / (1 + np.exp(-logits.astype(np.float64))), labels.astype(np.float64)
    return float(np.mean(np.sum(-labels * np.log(p) - (1 - labels) * np.log(1 - p), axis=1)))


def reports_of(
    predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None, top_k: int = 3, mode: str = "eval"
) -> dict:
    with tf.Graph().as_default(), tf.Session() as session:
        modeler = VideoModeler(None, None, predictions.shape[1], top_k)
        rows = len(predictions)
        rated = None if weights is None else tf.constant(weights, tf.float32)
        batch = Batch(tf.fill([rows], "v"), (), tf.ones([rows], tf.int32), tf.constant(labels), rated)
        given = modeler.reports(batch, ModelOutput(tf.constant(predictions, tf.float32)), mode)
        assert "label_counts" not in given or given["label_counts"].reduction is Reduction.SUM
        return modeler.completed(session.run({name: report.tensor for name, report in given.items()}))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_figures_from_the_reports_are_those_of_the_dense_scores(mode: str) -> None:
    generator = np.random.default_rng(5)
    predictions, labels = generator.random((40, 9)), generator.random((40, 9)) < 0.5
    evaluator = VideoModeler(None, None, 9, top_k=3).evaluator()
    found = evaluator.accumulate(reports_of(predictions, labels, mode=mode), loss=2.0)
    dense = eval_util.EvaluationMetrics(9, 3)
    expected = dense.accumulate(predictions, labels, 2.0)
    names = {"Hit@1": "hit_at_one", "PERR": "perr", "GAP": "gap"}
    for name, key in names.items():
        assert found[name] == pytest.approx(expected[key], abs=1e-6)
    assert evaluator.get()["map"] == pytest.approx(dense.get()["map"], abs=1e-6)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_pairs_that_nobody_rated_are_left_out(mode: str) -> None:
    generator = np.random.default_rng(6)
    predictions, labels = generator.random((30, 7)), generator.random((30, 7)) < 0.5
    weights = (generator.random((30, 7)) < 0.6).astype(np.float32)
    evaluator = VideoModeler(None, None, 7, top_k=7).evaluator()
    evaluator.accumulate(reports_of(predictions, labels, weights, top_k=7, mode=mode), loss=1.0)
    dense = eval_util.EvaluationMetrics(7, 7)
    dense.accumulate(predictions, labels, 1.0, label_weights=weights)
    assert evaluator.get()["gap"] == pytest.approx(dense.get()["gap"], abs=1e-6)


@examples(20)
@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 1000))
def test_equal_recall_precision_is_that_of_eval_util(rows: int, classes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.permutation(rows * classes).reshape(rows, classes) / 7.0 - 1.0
    labels = (generator.random((rows, classes)) < 0.5).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        reports = scored_columns(tf.constant(scores, tf.float32), tf.constant(labels), top_k=1)
        found = session.run(reports["perr"].tensor)
    expected = eval_util.calculate_precision_at_equal_recall_rate(scores, labels)
    assert np.mean(found) == pytest.approx(expected, abs=1e-6)


def test_predictions_can_be_fed_without_any_input() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        batch, _ = frame_batch()
        modeler = VideoModeler(models.create("FrameLevelLogisticModel"), None, CLASSES)
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            output = modeler.build(batch, is_training=False)
            ops = modeler.predict(batch)
        session.run(tf.global_variables_initializer())
        whole_blocks.fill(session)
        same, unfed, raw = session.run([output.predictions, ops.predictions, ops.input_batch_raw])
        fed = session.run(ops.predictions, {ops.input_batch_raw: raw, ops.num_frames: [1, 2, 3]})
        names = [variable.op.name for variable in tf.global_variables()]
    np.testing.assert_allclose(same, unfed, atol=2e-7)
    np.testing.assert_allclose(fed, unfed, atol=2e-7)
    assert all(name.startswith("tower/") for name in names)


@pytest.mark.parametrize(("rows", "frames", "all_of"), [(3, 4, 3), (20, 4, 16), (20, 2000, 16)])
def test_the_histogram_of_the_input_has_values_of_the_first_videos(rows: int, frames: int, all_of: int) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        batch, _ = frame_batch(rows, frames)
        ops = VideoModeler(models.create("FrameLevelLogisticModel"), None, CLASSES).predict(batch)
        session.run(tf.global_variables_initializer())
        shown, raw = session.run([ops.histograms["model/input_raw"], ops.input_batch_raw])
    values = raw[:all_of].reshape(-1)
    every = values.size // (1 << 15) * 2 + 1
    np.testing.assert_array_equal(shown, values[::every])
    assert shown.size <= 1 << 15


@pytest.mark.parametrize("is_training", [True, False])
def test_a_loss_of_segments_sees_what_their_videos_are_labelled_with(is_training: bool) -> None:
    """Rated: class 0, rightly. Of the video: 0 and 1. Class 1 may be in the segment; 2 and 3 are not."""
    loss = losses.create("SegmentFineTuningLoss", {"unrated_weight": 0.5, "segment_classes": (0, 1, 2, 3)})
    rows = [np.array([row], np.float32) for row in ([1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0])]
    logits = np.array([[0.3, 2.0, -1.0, 0.5]], np.float32)

    class Given:
        input_transform = "raw"

        def create_model(self, model_input: Any, **unused: Any) -> ModelOutput:
            return ModelOutput(tf.sigmoid(model_input), model_input)

    with tf.Graph().as_default(), tf.Session() as session:
        labels, weights, of_video = (tf.constant(row) for row in rows)
        one = tf.ones([1], tf.int32)
        batch = Batch(tf.fill([1], "v"), (tf.constant(logits),), one, labels, weights, of_video > 0)
        found = session.run(VideoModeler(Given(), loss, 4, feature_sizes=(4,)).build(batch, is_training).loss)
    p = 1 / (1 + np.exp(-logits[0]))
    assert found == pytest.approx(-np.log(p[0]) - 0.25 * np.log((1 - p[2]) * (1 - p[3])), rel=1e-4)


@pytest.mark.parametrize("name", ["all_scores", "class_scores", "scores", "pair_scores"])
def test_reports_of_a_diverged_model_are_refused(name: str) -> None:
    scores = np.zeros((3, CLASSES), np.float32)
    scores[2, 1] = np.nan
    with pytest.raises(RunError, match=r"NaN or infinity.*diverged.*--checkpoint"):
        VideoModeler(None, None, CLASSES).completed({name: scores})
