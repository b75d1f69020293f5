from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from models.forward import B, C, D, Variables, dense, l2, moe, norm, run, sigmoid

from yt8m import models
from yt8m.errors import UsageError
from yt8m.lazy import tf


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

    check("GatedMoeModel", {"moe_low_rank_gating": rank, "gating_remove_diag": remove_diagonal}, forward)


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
