"""The deep bag of frames against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import models
from yt8m.lazy import tf


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
