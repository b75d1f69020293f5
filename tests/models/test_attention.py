from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest
from models.forward import Variables, check, dense, l2, logistic, moe, sigmoid, softmax
from models.test_recurrent import lstm

from yt8m import models
from yt8m.errors import UsageError

CELL = "multi_rnn_cell/cell_0"


def weighed(x: np.ndarray, v: Variables, scope: str) -> np.ndarray:
    """[units, D], the frames weighed by each attention unit."""
    return softmax(dense(x, v, f"{scope}attention"), 0).T @ x


def deep(x: np.ndarray, v: Variables, is_lstm: bool) -> np.ndarray:
    """Two dense layers, the second with tanh."""
    first = dense(x, v, "hidden1")
    return np.tanh(dense(np.maximum(first, 0) if is_lstm else np.tanh(first), v, "hidden2"))


@pytest.mark.parametrize(
    "layers", cases.all_of([{"embedding_size": 3, "hidden_sizes": (4, 3)}], heavy=[{}]), ids=["deep", "bare"]
)
def test_attention_lstm(layers: dict[str, Any]) -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        sums = []
        for index, stream in enumerate((x[:, :3], x[:, 3:])):
            scope = f"stream_{index}/"
            stream = np.tanh(dense(stream, v, f"{scope}embedding")) if layers else stream
            forth = lstm(stream, v, f"{scope}rnn/fw/{CELL}")[1:]
            back = lstm(stream[::-1], v, f"{scope}rnn/bw/{CELL}")[1:][::-1]
            sums.append(weighed(np.concatenate([forth, back], 1), v, scope)[0])
        pooled = np.concatenate(sums)
        return logistic(deep(pooled, v, is_lstm=True) if layers else pooled, v)

    check("AttentionLstmModel", {"lstm_cells": 4, "feature_sizes": (3, 2), **layers}, forward)


@pytest.mark.parametrize("layers", [{}, {"hidden_sizes": (4, 3)}], ids=["bare", "deep"])
def test_attention_cluster(layers: dict[str, Any]) -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        clusters = []
        for index, stream in enumerate((x[:, :3], x[:, 3:])):
            scope = f"stream_{index}/"
            shifted = v[f"{scope}alpha"] * weighed(stream, v, scope) + v[f"{scope}beta"]
            clusters.append((l2(shifted) / np.sqrt(4)).ravel())
        pooled = np.concatenate(clusters)
        return logistic(deep(pooled, v, is_lstm=False) if layers else pooled, v)

    check("AttentionClusterModel", {"attention_cluster_size": 4, "feature_sizes": (3, 2), **layers}, forward)


def test_a_layer_has_units() -> None:
    with pytest.raises(UsageError, match=r"hidden_sizes .*at least 1\b.*\(4, 0\)"):
        models.create("AttentionLstmModel", {"hidden_sizes": (4, 0)})


def test_lstm_attention_max() -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        views = weighed(lstm(x, v, f"rnn/{CELL}")[1:], v, "")
        if not len(x):
            views = np.zeros((3, 4))
        return np.max([moe(view, v) for view in views], 0)

    check("LstmAttentionMaxModel", {"lstm_cells": 4, "lstm_attentions": 3, "moe_num_mixtures": 5}, forward)


def test_attention_pooling() -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        keys, values = dense(x, v, "keys"), dense(x, v, "values")
        found = [softmax(keys @ query / np.sqrt(4)) @ values for query in v["queries"].T]
        return moe(np.concatenate(found), v)

    check("AttentionPoolingModel", {"attention_queries": 3, "attention_size": 4}, forward)


def layer_norm(x: np.ndarray, v: Variables, scope: str) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    return scaled * v[f"{scope}/gamma"] + v[f"{scope}/beta"]


def attend(x: np.ndarray, v: Variables, scope: str, heads: int) -> np.ndarray:
    q, k, u = (dense(x, v, f"{scope}{name}") for name in ("query", "key", "value"))
    size = x.shape[1] // heads
    parts = []
    for h in range(heads):
        columns = slice(h * size, (h + 1) * size)
        parts.append(softmax(q[:, columns] @ k[:, columns].T / np.sqrt(size)) @ u[:, columns])
    return dense(np.concatenate(parts, 1), v, f"{scope}output")


def test_attentive_probe() -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        states = layer_norm(x, v, "input_ln")
        keys, values, logits = dense(states, v, "keys"), dense(states, v, "values"), v["biases"].copy()
        for c in range(len(logits)):
            for columns in (slice(0, 3), slice(3, 6)):
                shares = softmax(keys[:, columns] @ v["queries"][columns, c] / np.sqrt(3), 0)
                logits[c] += shares @ values[:, columns] @ v["weights"][columns, c]
        return sigmoid(logits)

    check("AttentiveProbeModel", {"probe_size": 6, "probe_heads": 2}, forward)
    with pytest.raises(UsageError, match=r"probe_heads .*probe_size 512\b.*\b7$"):
        models.create("AttentiveProbeModel", {"probe_heads": 7})


@pytest.mark.parametrize("placed", cases.all_of([True], heavy=[False]))
def test_transformer(placed: bool) -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        states = dense(x, v, "embedding")
        for t in range(len(x) if placed else 0):
            angles = [t / 10_000 ** (2 * i / 6) for i in range(3)]
            states[t] += np.concatenate([np.sin(angles), np.cos(angles)])
        for layer in ("layer_0/", "layer_1/"):
            states = states + attend(layer_norm(states, v, f"{layer}attention_ln"), v, layer, 2)
            units = np.maximum(dense(layer_norm(states, v, f"{layer}feed_ln"), v, f"{layer}feed_in"), 0)
            states = states + dense(units, v, f"{layer}feed_out")
        states = layer_norm(states, v, "final_ln")
        return moe(states.mean(0) if len(x) else np.zeros(6), v)

    given = {"transformer_size": 6, "transformer_heads": 2, "transformer_feed_forward": 7}
    check("TransformerModel", {**given, "transformer_positions": placed}, forward)


def test_heads_must_divide() -> None:
    with pytest.raises(UsageError, match=r"transformer_heads .*transformer_size 512\b.*\b7$"):
        models.create("TransformerModel", {"transformer_heads": 7})
