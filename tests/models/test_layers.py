from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.models.layers import Net
from yt8m.numerics import random_keys
from yt8m.numerics.precision import product
from yt8m.types import ModelOutput

RNG = np.random.default_rng(5)


def build(function):
    """Values of what `function(net)` returns, and of the variables after one run of its update ops."""
    with tf.Graph().as_default(), tf.Session() as session:
        net = Net(is_training=True)
        tensors = function(net)
        session.run(tf.global_variables_initializer())
        values = session.run(tensors)
        session.run(net.update_ops)
        return values, {variable.name: variable.eval(session) for variable in tf.global_variables()}


def test_product_of_frames_is_that_of_each_frame() -> None:
    x, w = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 5))
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = product(tf.constant(x), tf.constant(w))
        assert outputs.shape.as_list() == [2, 3, 5]
        np.testing.assert_allclose(session.run(outputs), x @ w)


def test_dense_names_initialisers_and_penalty() -> None:
    def make(net: Net):
        outputs = net.dense(tf.ones([2, 3]), 50, "gates", l2_penalty=0.1)
        return outputs, net.penalties[0]

    (outputs, penalty), variables = build(make)
    weights = variables["gates/weights:0"]
    assert (variables["gates/biases:0"] == 0).all()
    assert np.abs(weights).max() <= np.sqrt(6 / 53)
    np.testing.assert_allclose(outputs, np.ones([2, 3]) @ weights, rtol=1e-5)
    np.testing.assert_allclose(penalty, 0.1 * (weights**2).sum() / 2, rtol=1e-6)


@pytest.mark.parametrize("rows", [0, 1, 5, 6])
def test_batch_norm_counts_valid_rows_alone(rows: int) -> None:
    x = RNG.normal(3.0, 2.0, size=(2, 3, 4)).astype(np.float32)
    mask = (np.arange(6) < rows).reshape(2, 3)
    outputs, variables = build(lambda net: net.batch_norm(tf.constant(x), "bn", tf.constant(mask)))
    valid = x[mask]
    mean, variance = (valid.mean(0), valid.var(0)) if rows else (0.0, 0.0)
    np.testing.assert_allclose(outputs, (x - mean) / np.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-5)
    kept = 0.001 if rows else 0.0
    unbiased = variance * rows / max(rows - 1, 1)
    np.testing.assert_allclose(variables["bn/moving_mean:0"], np.ones(4) * mean * kept, atol=1e-7)
    np.testing.assert_allclose(variables["bn/moving_variance:0"], np.ones(4) * (1 + kept * (unbiased - 1)), rtol=1e-6)


def test_batch_norm_of_a_tower_beside_its_variables_is_the_same_bit_for_bit() -> None:
    """On another device than its variables, a tower reads each once and sends its statistics as one tensor."""
    x = RNG.normal(3.0, 2.0, size=(6, 4)).astype(np.float32)
    mask = [True, True, False, True, True, False]

    def train(tower: str) -> list[np.ndarray]:
        config = tf.ConfigProto(device_count={"CPU": 2})
        with tf.Graph().as_default() as graph, tf.Session(config=config) as session:
            with tf.variable_creator_scope(_on_first), tf.device(tower):
                net = Net(is_training=True)
                outputs = net.batch_norm(tf.constant(x), "bn", tf.constant(mask))
                gradients = tf.gradients(tf.reduce_sum(outputs**3), tf.trainable_variables())
            moved = [op for op in graph.get_operations() if op.type == "AssignSubVariableOp"]
            assert all(op.inputs[1].device == "/device:CPU:0" for op in moved)
            session.run(tf.global_variables_initializer())
            values = session.run([outputs, *gradients])
            session.run(net.update_ops)
            return [*values, *session.run(tf.global_variables())]

    for alone, beside in zip(train("/device:CPU:0"), train("/device:CPU:1"), strict=True):
        np.testing.assert_array_equal(alone, beside)


def _on_first(next_creator: Any, **arguments: Any) -> Any:
    with tf.device(None), tf.device("/device:CPU:0"):
        return next_creator(**arguments)


def test_batch_norm_gradient_is_the_same_with_and_without_a_full_mask() -> None:
    x = RNG.normal(size=(6, 4)).astype(np.float32)

    def gradients(net: Net):
        frames = tf.constant(x)
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            fused = net.batch_norm(frames, "bn")
            masked = net.batch_norm(frames, "bn", tf.constant([True] * 5 + [False]))
            whole = net.batch_norm(frames[:5], "bn")
        loss = [tf.reduce_sum(y[:5] ** 3) for y in (fused, masked, whole)]
        return [tf.gradients(part, frames)[0] for part in loss]

    (_, masked, whole), _ = build(gradients)
    np.testing.assert_allclose(masked[:5], whole[:5], rtol=1e-3, atol=1e-4)


def test_dropout_follows_the_key_and_keeps_the_mean() -> None:
    def masks(net: Net):
        ones = tf.ones([100, 100])
        with random_keys.scope(seed=1, step=tf.constant(7, tf.int64)):
            first, second = net.dropout(ones, 0.25), net.dropout(ones, 0.25)
        with random_keys.scope(seed=1, step=tf.constant(7, tf.int64)):
            again = net.dropout(ones, 0.25)
        return first, second, again

    (first, second, again), _ = build(masks)
    assert (first == again).all()
    assert (first != second).any()
    assert abs(first.mean() - 1) < 0.03
    np.testing.assert_allclose(np.unique(first), [0, 4 / 3], rtol=1e-6)


def test_finish_adds_to_what_the_output_brought() -> None:
    def finished(net: Net):
        net.variable("w", [2], tf.ones_initializer(), l2_penalty=3.0)
        given = ModelOutput(predictions=tf.ones([1]), regularization_loss=tf.constant(0.5))
        return net.finish(given).regularization_loss

    assert build(finished)[0] == pytest.approx(3.5)


def test_no_penalty_is_none() -> None:
    assert Net(is_training=True).finish(ModelOutput(predictions=None)).regularization_loss is None
