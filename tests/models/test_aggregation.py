"""Clusters of frames: the VLAD family, bags of words and DBoF against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models.forward import D, Variables, check, dense, l2, logistic, moe, norm, sigmoid, softmax

from yt8m import models
from yt8m.errors import UsageError
from yt8m.lazy import tf

SIZES = (3, 2)


def context_gated(x: np.ndarray, v: Variables, remove_diagonal: bool = False) -> np.ndarray:
    weights = v["gating/weights"]
    if remove_diagonal:
        weights = weights - np.diag(np.diag(weights))
    return x * sigmoid(norm(x @ weights, v, "gating/bn"))


def described(name: str, x: np.ndarray, v: Variables, scope: str) -> np.ndarray:
    """The description of the frames x [n, d] of one feature, cluster by cluster."""
    a = softmax(norm(x @ v[f"{scope}/cluster_weights"], v, f"{scope}/cluster_bn"))
    rows = []
    for k in range(a.shape[1]):
        centre = v[f"{scope}/centres"][k] if f"{scope}/centres" in v else 0.0
        first = sum((a[i, k] * (x[i] - centre) for i in range(len(x))), np.zeros(x.shape[1]))
        if name == "NetVlagdModel":
            first = first * sigmoid(v[f"{scope}/gates"][k])
        rows.append(first)
        if name == "NetFvModel":
            sigma = v[f"{scope}/spreads"][k] ** 2 + 1e-6
            rows[-1] = first / sigma
            squares = (a[i, k] * (((x[i] - centre) / sigma) ** 2 - 1) for i in range(len(x)))
            rows.append(sum(squares, np.zeros(x.shape[1])))
    parts = [rows[::2], rows[1::2]] if name == "NetFvModel" else [rows]
    return np.concatenate([l2(l2(np.array(part)).ravel()) for part in parts])


@pytest.mark.parametrize("name", ["NetVladModel", "NetRvladModel", "NetVlagdModel", "NetFvModel"])
def test_vlad_family(name: str) -> None:
    kind = "fv" if name == "NetFvModel" else "netvlad"
    given = {f"{kind}_cluster_size": 4, f"{kind}_hidden_size": 6, "feature_sizes": SIZES, "moe_num_mixtures": 3}

    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        streams = [described(name, x[:, :3], v, "stream_0"), described(name, x[:, 3:], v, "stream_1")]
        assert v["stream_1/cluster_weights"].shape == (2, 2)
        hidden = norm(dense(np.concatenate(streams), v, "hidden1"), v, "hidden1_bn")
        return moe(context_gated(hidden, v), v)

    check(name, given, forward)


@pytest.mark.parametrize("maxpool", [False, True])
def test_soft_bag_of_words(maxpool: bool) -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        a = softmax(x @ v["cluster_weights"] + v["cluster_biases"])
        largest = a.max(0) if len(a) else np.zeros(7)
        bag = np.concatenate([l2(a.sum(0)), l2(largest)] if maxpool else [l2(a.sum(0))])
        return logistic(context_gated(dense(bag, v, "hidden1"), v, remove_diagonal=True), v)

    given: dict[str, Any] = {"dbof_cluster_size": 7, "dbof_hidden_size": 6, "dbof_add_batch_norm": False}
    given |= {"gating": True, "gating_remove_diag": True, "video_level_classifier_model": "LogisticModel"}
    check("SoftDbowModel", {**given, "softdbof_maxpool": maxpool}, forward)


def test_gated_dbof() -> None:
    def forward(x: np.ndarray, v: Variables) -> np.ndarray:
        a = softmax(norm(x @ v["cluster_weights"], v, "cluster_bn"))
        peaks = l2(a.max(0)) if len(a) else np.zeros(7)
        assert v["gate_down/weights"].shape == (7, D)
        gates = sigmoid(norm(dense(dense(peaks, v, "gate_down"), v, "gate_up"), v, "gate_bn"))
        return moe(norm(dense(l2(a.sum(0) * gates), v, "hidden1"), v, "hidden1_bn"), v)

    check("GatedDbofModel", {"dbof_cluster_size": 7, "dbof_hidden_size": 6}, forward)


def test_the_classifier_takes_the_family_penalty() -> None:
    assert models.create("NetVladModel").classifier().l2_penalty == 1e-6
    given = {"l2_penalty": 1e-3, "classifier_hyper_parameters": {"l2_penalty": 1e-4}}
    assert models.create("NetVladModel", given).classifier().l2_penalty == 1e-4


def test_sizes_that_do_not_add_up() -> None:
    with tf.Graph().as_default(), pytest.raises(UsageError, match=r"add up to 5.*has 7 features"):
        models.create("NetVladModel", {"feature_sizes": SIZES}).create_model(tf.ones([1, 2, 7]), vocab_size=3)


def numpy_forward(x: np.ndarray, v: dict[str, np.ndarray], method: str) -> np.ndarray:
    units = np.tanh(x @ v["cluster_weights"] + v["cluster_biases"])
    if method == "attention":
        energy = np.exp(units @ v["attention/weights"])
        units = (units * energy / energy.sum(1, keepdims=True)).sum(1, keepdims=True)
    hidden = np.tanh(units @ v["hidden1_weights"] + v["hidden1_biases"])
    logits = hidden @ v["fully_connected/weights"] + v["fully_connected/biases"]
    return 1 / (1 + np.exp(-logits.mean(1)))


@pytest.mark.parametrize("method", ["attention", "none"])
def test_pooling(method: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    model = models.create(
        "DbofModel",
        {
            "iterations": 4,
            "dbof_cluster_size": 6,
            "dbof_hidden_size": 7,
            "dbof_add_batch_norm": False,
            "dbof_activation": "tanh",
            "dbof_pooling_method": method,
            "video_level_classifier_model": "LogisticModel",
        },
    )
    with tf.Graph().as_default(), tf.Session() as session:
        output = model.create_model(tf.constant(x), vocab_size=2, is_training=False)
        session.run(tf.global_variables_initializer())
        variables = {v.name[:-2]: v.eval(session) for v in tf.global_variables()}
        got, sigmoid = session.run([output.predictions, tf.sigmoid(output.logits)])
    np.testing.assert_allclose(got, numpy_forward(x, variables, method), rtol=1e-5)
    np.testing.assert_allclose(got, sigmoid)
