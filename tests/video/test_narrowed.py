"""Some classes of a model: the same scores, and no work on the others behind a logistic layer."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import models
from yt8m.lazy import tf
from yt8m.video.scores import select_classes, select_pairs


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
@pytest.mark.parametrize("count", [0, 20, 100])  # of 6 examples: few are computed one by one
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
