"""A function of a batch that is computed by pieces: its values and gradients are those of the function at once."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from contract.model_session import quick_session

from yt8m import models
from yt8m.lazy import tf
from yt8m.models.layers import Net
from yt8m.models.pieces import by_pieces
from yt8m.numerics import precision, random_keys

ROWS, FRAMES, FEATURES, CLASSES = 5, 4, 6, 7


def inputs() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(ROWS, FRAMES, FEATURES)).astype(np.float32)


def run(model: str, at_once: int, rows: np.ndarray, kind: str = "float32") -> dict[str, np.ndarray]:
    """Logits, penalty, and the gradients of inputs and variables, from the same start."""
    sizes = {"probe_size": 8, "probe_heads": 2, "l2_penalty": 0.1}
    if model == "TransformerModel":
        sizes = {"transformer_size": 8, "transformer_heads": 2, "transformer_feed_forward": 5}
    settings = {**sizes, "decoder_queries": 3, "drop_rate": 0.0, "decoder_videos_at_once": at_once}
    with quick_session() as session:
        tf.set_random_seed(2)
        frames = tf.constant(rows)
        with precision.scope(kind):
            made = models.create(model, settings).create_model(
                frames, vocab_size=CLASSES, num_frames=[4, 1, 0, 3, 2][: len(rows)]
            )
        variables = tf.trainable_variables()
        generator = np.random.default_rng(3)
        session.run(tf.global_variables_initializer())
        for variable in variables:
            variable.load(generator.normal(size=variable.shape).astype(np.float32), session)
        gradients = tf.gradients(tf.reduce_sum(tf.sin(made.logits)), [frames, *variables])
        values = {"logits": made.logits, "of inputs": gradients[0]}
        values |= {variable.op.name: gradient for variable, gradient in zip(variables, gradients[1:], strict=True)}
        if made.regularization_loss is not None:
            values["penalty"] = made.regularization_loss
        return session.run(values)


@functools.cache
def whole(model: str, kind: str = "float32") -> dict[str, np.ndarray]:
    """What `run` gives for the batch at once."""
    return run(model, 0, inputs(), kind)


@pytest.mark.parametrize(
    ("model", "at_once"),
    [
        ("AttentiveProbeModel", 2),
        *(pytest.param("AttentiveProbeModel", at_once, marks=pytest.mark.heavy) for at_once in (1, 5, 8)),
        *(pytest.param("TransformerModel", at_once, marks=pytest.mark.heavy) for at_once in (1, 2, 5, 8)),
    ],
)
def test_values_and_gradients_are_those_of_the_whole_batch(model: str, at_once: int) -> None:
    expected, computed = whole(model), run(model, at_once, inputs())
    assert computed.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(computed[name], values, rtol=1e-4, atol=2e-5 * np.abs(values).max(), err_msg=name)


@pytest.mark.heavy
def test_a_batch_without_a_row() -> None:
    computed = run("AttentiveProbeModel", 2, inputs()[:0])
    assert computed["logits"].shape == (0, CLASSES)
    assert all(np.all(values == 0) for name, values in computed.items() if name != "penalty")


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_the_gradient_is_computed_in_the_precision_of_the_model(kind: str) -> None:
    expected, computed = whole("AttentiveProbeModel", kind), run("AttentiveProbeModel", 2, inputs(), kind)
    exact = whole("AttentiveProbeModel")
    for name in ("decoder/embedding/weights", "decoder/weights", "of inputs"):
        scale = np.abs(exact[name]).max()
        rounding = np.abs(expected[name] - exact[name]).max() / scale
        assert rounding > 1e-5
        assert np.abs(computed[name] - exact[name]).max() / scale < 3 * rounding


def test_random_numbers_differ_by_piece_and_are_drawn_again_for_the_gradient() -> None:
    """w x dropout: the gradient of w is the sum of what dropout kept in the forward pass."""
    ones = np.ones((6, 1, 50), np.float32)
    with quick_session() as session:
        step = tf.placeholder(tf.int64, [])

        def compute(net: Net, rows: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            return net.variable("w", [50], tf.ones_initializer()) * net.dropout(rows[:, 0], 0.5)

        with random_keys.scope(4, step):
            net = Net(is_training=True)
            results = by_pieces(compute, net, tf.constant(ones), tf.ones([6, 1]), 2)
            other = by_pieces(
                lambda net, rows, _: net.dropout(rows[:, 0], 0.5), net, tf.constant(ones), tf.ones([6, 1]), 2
            )
        gradient = tf.gradients(results, tf.trainable_variables())[0]
        session.run(tf.global_variables_initializer())
        first, slope, second = session.run([results, gradient, other], {step: 7})
        again, of_other_step = session.run(results, {step: 7}), session.run(results, {step: 8})
    np.testing.assert_array_equal(slope, first.sum(0))
    assert len({row.tobytes() for row in (*first, *second, *of_other_step)}) == 18
    np.testing.assert_array_equal(again, first)
    assert abs((first > 0).mean() - 0.5) < 0.1


def test_variables_are_made_once_and_outside_of_the_loop() -> None:
    with tf.Graph().as_default() as graph:
        model = models.create("AttentiveProbeModel", {"decoder_queries": 3, "probe_size": 8, "probe_heads": 2})
        for is_training in (True, False):
            with tf.variable_scope("tower", reuse=tf.AUTO_REUSE):
                model.create_model(tf.constant(inputs()), vocab_size=CLASSES, is_training=is_training)
        names = [variable.op.name for variable in tf.global_variables()]
    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names} == {"tower"}
    assert all(variable.graph is graph for variable in tf.global_variables())
