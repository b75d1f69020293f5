"""Runs a model, hands its variables to an independent NumPy version, and has the pieces those share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from yt8m import models
from yt8m.lazy import tf

Variables = Mapping[str, np.ndarray]
B, T, D, C = 4, 6, 5, 3
NUM_FRAMES = np.array([6, 1, 4, 0], np.int32)


def draw_frames() -> np.ndarray:
    """[B, T, D] with zeros past NUM_FRAMES."""
    x = np.random.default_rng(17).normal(size=(B, T, D)).astype(np.float32)
    return x * (np.arange(T) < NUM_FRAMES[:, None])[:, :, None]


def run(name: str, hyper_parameters: Mapping[str, Any], x: np.ndarray) -> tuple[Any, dict[str, np.ndarray]]:
    """(the model's evaluated output as a dict, its variables in float64 by name without `:0`)."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(19)
        output = models.create(name, hyper_parameters).create_model(
            tf.constant(x), vocab_size=C, num_frames=tf.constant(NUM_FRAMES[: len(x)]), is_training=False
        )
        session.run(tf.global_variables_initializer())
        variables, rng = {}, np.random.default_rng(18)
        for variable in tf.global_variables():
            noise = rng.uniform(-0.4, 0.4, size=variable.shape.as_list())
            value = (variable.eval(session) + noise).astype(np.float32)
            variable.load(value, session)
            variables[variable.name[:-2]] = value.astype(np.float64)
        fetches = {"predictions": output.predictions}
        fetches |= {side.name: side.logits for side in output.side_outputs}
        return session.run(fetches), variables


def check(name: str, hyper_parameters: Mapping[str, Any], numpy_forward: Callable[..., Any]) -> None:
    """The model's predictions are those of numpy_forward(frames [n, D] of one video, variables)."""
    x = draw_frames()
    got, variables = run(name, hyper_parameters, x)
    expected = [numpy_forward(x[row, :n].astype(np.float64), variables) for row, n in enumerate(NUM_FRAMES)]
    np.testing.assert_allclose(got["predictions"], expected, rtol=1e-5, atol=1e-7)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Exponentials divided by their sum."""
    e = np.exp(x)
    return e / e.sum(axis, keepdims=True)


def l2(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Divided by its norm; zeros stay zeros."""
    return x / np.maximum(np.linalg.norm(x, axis=axis, keepdims=True), 1e-6)


def norm(x: np.ndarray, v: Variables, scope: str) -> np.ndarray:
    """Batch normalisation by the moving averages."""
    centred = (x - v[f"{scope}/moving_mean"]) / np.sqrt(v[f"{scope}/moving_variance"] + 1e-3)
    return centred * v[f"{scope}/gamma"] + v[f"{scope}/beta"]


def dense(x: np.ndarray, v: Variables, scope: str) -> np.ndarray:
    """Weights and, where there are some, biases."""
    return x @ v[f"{scope}/weights"] + v.get(f"{scope}/biases", 0.0)


def logistic(x: np.ndarray, v: Variables, scope: str = "") -> np.ndarray:
    """LogisticModel."""
    return sigmoid(dense(x, v, scope + "fully_connected"))


def moe(x: np.ndarray, v: Variables, scope: str = "", classes: int = C) -> np.ndarray:
    """MoeModel, class by class."""
    gates = dense(x, v, scope + "gates").reshape(classes, -1)
    votes = dense(x, v, scope + "experts").reshape(classes, -1)
    return (softmax(gates)[:, :-1] * sigmoid(votes)).sum(1)
