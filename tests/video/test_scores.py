"""From scores to the best columns, the rated pairs and a few classes."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from evaluated_videos import add_rated

from yt8m import eval_util, losses, models
from yt8m.eval_util.segments import RatedPairs
from yt8m.graph.inputs import reduce_reports, split_batch
from yt8m.graph.protocols import Reduction
from yt8m.lazy import tf
from yt8m.types import Batch, ModelOutput
from yt8m.video.modeler import VideoModeler
from yt8m.video.scores import columns_on_host, scored_columns, select_classes, select_pairs


def drawn(levels: int, rated: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores that tie, -inf where a pair was not rated, and labels, of which some rows have many."""
    draw = np.random.default_rng(levels)
    scores = draw.integers(-1, levels, (50, 700)).astype(np.float32) / levels
    labels = draw.random(scores.shape) < np.linspace(0, 0.1, len(scores))[:, np.newaxis]
    is_rated = draw.random(scores.shape) < rated
    return np.where(is_rated, scores, np.float32(-np.inf)), labels & is_rated


@pytest.mark.parametrize("levels", [3, 100_000])
@pytest.mark.parametrize("rated", [0.01, 1.0])
def test_the_columns_are_those_of_the_ops(levels: int, rated: float) -> None:
    scores, labels = drawn(levels, rated)
    with tf.Graph().as_default(), tf.Session() as session:
        reports = scored_columns(tf.constant(scores), tf.constant(labels, tf.float32), 20)
        expected = session.run({name: report.tensor for name, report in reports.items()})
    found = columns_on_host(scores, labels, 20)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-7, err_msg=name)


def test_of_several_towers_the_labels_of_a_class_are_added() -> None:
    with tf.Graph().as_default():
        reports = scored_columns(tf.zeros([2, 30]), tf.zeros([2, 30]), 20)
    assert {name for name, report in reports.items() if report.reduction is Reduction.SUM} == {"label_counts"}


ROWS, WIDTH, CLASSES = 9, 6, 12


class Logistic:
    input_transform = "raw"

    def create_model(self, model_input: tf.Tensor, **unused: Any) -> ModelOutput:
        draw = np.random.default_rng(1)
        weights = draw.normal(size=(WIDTH, CLASSES)).astype(np.float32)
        logits = tf.nn.bias_add(tf.matmul(model_input, weights), draw.normal(size=CLASSES).astype(np.float32))
        return ModelOutput(tf.sigmoid(logits), logits)


@pytest.mark.parametrize("loss", cases.all_of(["LabelSmoothingLoss"], heavy=["CrossEntropyLoss"]))
@pytest.mark.parametrize(("rows", "towers", "keeps_videos"), [(ROWS, 1, False), (ROWS, 3, True), (2, 4, False)])
@pytest.mark.parametrize("share", [0.1, pytest.param(0.9, marks=pytest.mark.heavy)])
def test_figures_are_those_of_all_scores(loss: str, rows: int, towers: int, keeps_videos: bool, share: float) -> None:
    draw = np.random.default_rng(7)
    inputs = draw.normal(size=(rows, WIDTH)).astype(np.float32)
    labels = (draw.random((rows, CLASSES)) < 0.5).astype(np.float32)
    weights = (draw.random(labels.shape) < share).astype(np.float32)
    modeler = VideoModeler(Logistic(), losses.create(loss), CLASSES, top_k=4, feature_sizes=(WIDTH,))
    modeler.keeps_videos = keeps_videos
    with tf.Graph().as_default(), tf.Session() as session:
        arrays = [tf.constant(array) for array in (inputs, labels, weights)]
        ids = tf.as_string(tf.range(rows))
        batch = Batch(ids, (arrays[0],), tf.ones([rows], tf.int32), arrays[1], arrays[2])
        shares = split_batch(batch, towers)
        outputs = [modeler.build(share.batch, is_training=False) for share in shares]
        parts = zip(shares, outputs, strict=True)
        reports = reduce_reports([modeler.reports(s.batch, output, "eval") for s, output in parts], shares)
        loss_of_all = tf.add_n([o.loss * s.weight for o, s in zip(outputs, shares, strict=True)])
        scores = modeler.build(batch, is_training=False).predictions
        expected_loss = modeler.label_loss.calculate_loss(scores, arrays[1], arrays[2])
        session.run(tf.local_variables_initializer())
        for _ in range(2):  # the first step turns the weights
            fetched, mean_loss, all_scores, all_loss = session.run([reports, loss_of_all, scores, expected_loss])
    evaluator, dense, pairs = (modeler.evaluator(), eval_util.EvaluationMetrics(CLASSES, 4), RatedPairs(CLASSES))
    evaluator.accumulate(modeler.completed(fetched), mean_loss)
    dense.accumulate(all_scores, labels, all_loss, label_weights=weights)
    add_rated(pairs, np.where(weights > 0, all_scores, -np.inf), labels)
    found, expected = evaluator.get(), dense.get()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    assert found["map_at_n"] == pytest.approx(pairs.get().map)
    assert (evaluator.sample is not None) is keeps_videos
    if keeps_videos:
        assert evaluator.sample.seen == expected["num_examples"]
        videos = evaluator.sample.videos()
        for row, video_id in enumerate(videos.ids):
            video = int(video_id)
            rated = weights[video] > 0
            truth, of_video = labels[video] > 0, all_scores[video].astype(np.float64)
            right = np.where(truth, of_video, 1 - of_video)[rated]
            assert videos.losses[row] == pytest.approx(-np.log(right + 1e-5).sum(), rel=1e-4, abs=1e-5)
            own = videos.owners() == row
            np.testing.assert_array_equal(videos.labels[own], np.flatnonzero(truth & rated))
            np.testing.assert_allclose(videos.label_scores[own], all_scores[video][truth & rated], rtol=2e-6)


def ancestors(tensor: tf.Tensor) -> set[tf.Operation]:
    found, todo = set(), [tensor.op]
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += [value.op for value in op.inputs]
    return found


@pytest.mark.parametrize(("model", "is_cut"), [("LogisticModel", True), ("MoeModel", False)])
def test_the_same_scores(model: str, is_cut: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32))
        output = models.create(model).create_model(inputs, vocab_size=30)
        found = select_classes(tf.identity(output.predictions), tf.constant([3, 29, 0]))
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(found)  # the first step picks the columns
        some, every = session.run([found, output.predictions])
        assert (output.predictions.op in ancestors(found)) is not is_cut
    np.testing.assert_allclose(some, every[:, [3, 29, 0]], rtol=1e-6)


def test_other_products_are_left_alone() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([[1.0, 2.0]])
        w = tf.constant([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
        by_turned = tf.sigmoid(tf.matmul(x, w, transpose_b=True) + tf.constant([1.0, 2.0, 3.0]))
        by_rows = tf.sigmoid(tf.matmul(x, w[:2]) + tf.constant([[1.0, 2.0]]))
        for predictions in (by_turned, by_rows, tf.sigmoid(x), x):
            session.run(tf.local_variables_initializer())
            every, last = session.run([predictions, select_classes(predictions, tf.constant([1]))])
            np.testing.assert_allclose(last[:, 0], every[:, 1])


@pytest.mark.parametrize(("model", "is_cut"), [("LogisticModel", True), ("MoeModel", False)])
@pytest.mark.parametrize("count", cases.all_of([20], heavy=[0, 100]))  # of 6 examples: few are computed one by one
def test_the_same_scores_of_pairs(model: str, is_cut: bool, count: int) -> None:
    draw = np.random.default_rng(0)
    pairs = np.stack([draw.integers(6, size=count), draw.integers(30, size=count)], axis=1)
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(draw.normal(size=(6, 8)).astype(np.float32))
        output = models.create(model).create_model(inputs, vocab_size=30)
        found = select_pairs(tf.identity(output.predictions), tf.constant(pairs, tf.int64))
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(found)  # the first step turns the weights
        some, every = session.run([found, output.predictions])
        assert (output.predictions.op in ancestors(found)) is not is_cut
    np.testing.assert_allclose(some, every[pairs[:, 0], pairs[:, 1]], rtol=1e-6)
