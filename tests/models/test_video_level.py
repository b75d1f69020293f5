"""Video-level models against NumPy, and the log odds of a mixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from models.forward import B, C, D, Variables, dense, l2, moe, norm, run, sigmoid

from yt8m import models
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models.video_level import log_odds


def evaluate(*tensors):
    with tf.Session() as session:
        return session.run(tensors)


def test_mixture_log_odds_do_not_saturate() -> None:
    gates = np.array([[[30.0, -30.0, 0.0]], [[0.0, 0.0, -40.0]], [[-60.0, -60.0, 0.0]]])
    votes = np.array([[[40.0, 0.0]], [[35.0, 30.0]], [[0.0, 0.0]]])
    shares = np.exp(gates) / np.exp(gates).sum(-1, keepdims=True)
    experts = 1 / (1 + np.exp(-votes))
    in_favour = (shares[..., :2] * experts).sum(-1)
    against = (shares[..., :2] / (1 + np.exp(votes))).sum(-1) + shares[..., 2]
    with tf.Graph().as_default():
        odds = log_odds(tf.constant(gates, tf.float32), tf.constant(votes, tf.float32))
        predictions, logits = evaluate(tf.sigmoid(odds), odds)
    np.testing.assert_allclose(predictions, in_favour, rtol=1e-5)
    np.testing.assert_allclose(logits, np.log(in_favour / against), rtol=1e-6)


@pytest.mark.parametrize("size", [1.0, 100.0, 3e4])
def test_mixture_is_finite_with_finite_gradients(size: float) -> None:
    draw = np.random.default_rng(0).normal(size=(4, 5, 7)).astype(np.float32) * size
    with tf.Graph().as_default():
        gates, votes = tf.constant(draw[..., :4]), tf.constant(draw[..., 4:])
        logits = log_odds(gates, votes)
        values = evaluate(logits, *tf.gradients(logits, [gates, votes]))
    assert all(np.isfinite(value).all() for value in values)


def test_the_closed_gradient_of_a_mixture_is_the_automatic_one() -> None:
    draw = np.random.default_rng(1).normal(size=(3, 4, 7)).astype(np.float32) * 2
    with tf.Graph().as_default():
        gates, votes = tf.constant(draw[..., :4]), tf.constant(draw[..., 4:])
        shares, slope = tf.nn.softmax(gates), tf.cos(tf.range(4.0))
        in_favour = tf.reduce_sum(shares[..., :3] * tf.sigmoid(votes), -1)
        plain = tf.math.log(in_favour) - tf.math.log(1.0 - in_favour)
        closed = log_odds(gates, votes)
        pairs = zip(*(tf.gradients(odds, [gates, votes], slope * odds) for odds in (closed, plain)), strict=True)
        for found, expected in evaluate(*pairs):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def check(name: str, given: dict[str, Any], forward: Callable[[np.ndarray, Variables], np.ndarray]) -> None:
    x = np.random.default_rng(20).normal(size=(B, D)).astype(np.float32)
    got, variables = run(name, given, x)
    expected = [forward(row.astype(np.float64), variables) for row in x]
    np.testing.assert_allclose(got["predictions"], expected, rtol=1e-5)


@pytest.mark.parametrize("remove_diagonal", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_gates_that_see_the_classes(rank: int, remove_diagonal: bool) -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        weights = v["prob_gating/down"] @ v["prob_gating/up"] if rank else v["prob_gating/weights"]
        if remove_diagonal:
            weights = weights * (1 - np.eye(C))
        p = moe(x, v)
        return p * sigmoid(norm(p @ weights, v, "prob_gating/bn"))

    check("GatedMoeModel", {"prob_gating_rank": rank, "gating_remove_diag": remove_diagonal}, forward)


def test_a_choice_of_experts_of_low_rank() -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        return moe(x, {**v, "gates/weights": v["gates1/weights"] @ v["gates2/weights"]})

    check("MoeModel", {"moe_low_rank_gating": 2}, forward)


def test_gates_that_see_the_input() -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        return moe(x, v) * sigmoid(norm(x @ v["prob_gating/weights"], v, "prob_gating/bn"))

    check("GatedMoeModel", {"moe_prob_gating_input": "input"}, forward)


def test_no_diagonal_to_remove() -> None:
    with pytest.raises(UsageError, match="gating_remove_diag must be False"):
        models.create("GatedMoeModel", {"moe_prob_gating_input": "input", "gating_remove_diag": True})


def test_chain_and_its_side_outputs() -> None:
    x = np.random.default_rng(20).normal(size=(B, D)).astype(np.float32)
    got, v = run("DeepCombineChainModel", {"deep_chain_layers": 2, "deep_chain_relu_cells": 4}, x)
    for row in range(B):
        state = x[row].astype(np.float64)
        for link in ("chain_0", "chain_1"):
            said = moe(state, v, f"{link}/")
            np.testing.assert_allclose(sigmoid(got[link][row]), said, rtol=1e-5)
            state = np.concatenate([state, l2(np.maximum(dense(said, v, f"{link}/fully_connected"), 0))])
        np.testing.assert_allclose(got["predictions"][row], moe(state, v), rtol=1e-5)


def test_the_chain_weighs_its_links_as_published() -> None:
    """(1 - w) L(p) + w sum L(q), divided by 1 - w."""
    given = {"deep_chain_layers": 2, "deep_chain_relu_cells": 4, "support_loss_percent": 0.2}
    with tf.Graph().as_default():
        output = models.create("DeepCombineChainModel", given).create_model(tf.ones([B, D]), vocab_size=C)
    shares = [0.8 * side.weight for side in output.side_outputs]
    assert shares == pytest.approx([0.2, 0.2])
    assert [side.target for side in output.side_outputs] == [None, None]


def test_residual_mlp() -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        def layer(values: np.ndarray, scope: str) -> np.ndarray:
            return np.maximum(norm(dense(values, v, f"{scope}first"), v, f"{scope}first_bn"), 0)

        hidden = layer(x, "")
        for block in ("block_0/", "block_1/"):
            hidden = hidden + dense(layer(hidden, block), v, f"{block}second")
        return moe(hidden, v)

    check("ResidualMlpModel", {"mlp_hidden_size": 6}, forward)


def test_gated_mlp() -> None:
    x = np.random.default_rng(3).normal(size=(B, D)).astype(np.float32) * 5
    got, v = run("GatedMlpModel", {"mlp_hidden_size": 4, "input_limit": 2.0}, x)
    hidden = x / np.sqrt(1 + (x / 2) ** 2) * 4 * v["gates"]
    for layer in ("layer_0", "layer_1"):
        hidden = np.maximum(dense(hidden, v, layer), 0)
    np.testing.assert_allclose(got["predictions"], sigmoid(dense(hidden, v, "fully_connected")), rtol=1e-5)


def test_the_penalty_of_the_gated_mlp_holds_weights_and_gates() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        model = models.create("GatedMlpModel", {"mlp_hidden_size": 4, "l2_penalty": 0.1})
        output = model.create_model(tf.zeros([B, D]), vocab_size=C)
        session.run(tf.global_variables_initializer())
        penalty, *values = session.run([output.regularization_loss, *tf.trainable_variables()])
        names = [variable.op.name for variable in tf.trainable_variables()]
    squares = sum((value**2).sum() for name, value in zip(names, values, strict=True) if name.endswith("weights"))
    assert penalty == pytest.approx(0.05 * squares + 0.1 * D, rel=1e-5)  # each gate is 1 at first
