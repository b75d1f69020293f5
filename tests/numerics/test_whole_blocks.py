"""Scores of a class do not depend on how many other classes there are, at the cost of one copy of the weights."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.models.layers import Net
from yt8m.numerics import whole_blocks

DRAW = np.random.default_rng(0)
INPUTS = DRAW.normal(size=(512, 72)).astype(np.float32)
WEIGHTS = DRAW.normal(scale=0.1, size=(72, 137)).astype(np.float32)
BIASES = DRAW.normal(size=137).astype(np.float32)


def scores(classes: np.ndarray, rows: int) -> np.ndarray:
    """The scores of a logistic layer with these columns of the weights."""
    with tf.Graph().as_default(), tf.Session() as session, whole_blocks.scope():
        initializers = tf.constant_initializer(WEIGHTS[:, classes]), tf.constant_initializer(BIASES[classes])
        net, inputs = Net(is_training=False), tf.constant(INPUTS[:rows])
        logits = net.dense(inputs, len(classes), make_initializers=lambda: initializers)
        predictions = whole_blocks.sigmoid(logits)
        session.run(tf.global_variables_initializer())
        whole_blocks.fill(session)
        wide, cut = session.run([whole_blocks.uncut(predictions), predictions])
        assert wide.shape[1] % whole_blocks.BLOCK == 0
        np.testing.assert_array_equal(wide[:, : len(classes)], cut)
        return cut


@pytest.mark.parametrize("rows", [1, 16, 512])
def test_a_score_is_the_same_among_other_classes(rows: int) -> None:
    whole = scores(np.arange(137), rows)
    for classes in (DRAW.permutation(137), np.arange(1, 137, 2), np.arange(112)):
        np.testing.assert_array_equal(scores(classes, rows), whole[:, classes])
    expected = 1 / (1 + np.exp(-(INPUTS[:rows].astype(np.float64) @ WEIGHTS + BIASES)))
    np.testing.assert_allclose(whole, expected, rtol=1e-4)


def test_variables_are_extended_when_they_have_their_values() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("weights", [2, 3], initializer=tf.ones_initializer(), use_resource=True)
        assert whole_blocks.extend_columns(variable) is variable
        with whole_blocks.scope():
            extended = whole_blocks.extend_columns(variable)
        assert [each.op.name for each in tf.global_variables()] == ["weights"]
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(extended)
        for value in (1.0, 5.0):
            variable.load(np.full([2, 3], value, np.float32), session)
            whole_blocks.fill(session)
            np.testing.assert_array_equal(session.run(extended), np.pad(np.full([2, 3], value), ((0, 0), (0, 13))))
