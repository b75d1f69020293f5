"""Runs a model with the variables of a golden file."""

from __future__ import annotations

from typing import Any

import numpy as np
from golden_data import golden

from yt8m.lazy import tf


def load_variables(session: Any, arrays: Any) -> None:
    """Gives every variable of the graph the value recorded under its name."""
    session.run(tf.global_variables_initializer())
    for variable in tf.global_variables():
        variable.load(arrays["var:" + variable.name], session)


def run_golden(name: str, model: Any, is_training: bool = False) -> tuple[Any, dict[str, Any]]:
    """The arrays of a golden file, and what `model` gives with its variables and input."""
    arrays = np.load(golden(f"model_{name}.npz"))
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("tower"):
            output = model.create_model(
                tf.constant(arrays["input_normalized"]),
                vocab_size=10,
                num_frames=tf.constant(arrays["num_frames"]),
                is_training=is_training,
            )
        load_variables(session, arrays)
        got = session.run({"predictions": output.predictions, "regularization": output.regularization_loss})
        if output.logits is not None:
            got["sigmoid"] = session.run(tf.sigmoid(output.logits))
        session.run(output.update_ops)
        got["after"] = {v.name: v.eval(session) for v in tf.global_variables()}
        got["trainable"] = {v.name for v in tf.trainable_variables()}
    return arrays, got


def assert_matches(arrays: Any, got: dict[str, Any]) -> None:
    """Names, predictions and regularisation agree; logits are those of the predictions."""
    recorded = {key[len("var:") :] for key in arrays if key.startswith("var:")}
    assert set(got["after"]) == recorded
    assert got["trainable"] == set(arrays["trainable"])
    np.testing.assert_allclose(got["predictions"], arrays["predictions"], rtol=1e-6)
    np.testing.assert_allclose(got["regularization"], arrays["regularization_loss"], rtol=1e-6)
    if "sigmoid" in got:
        np.testing.assert_allclose(got["sigmoid"], arrays["predictions"], rtol=2e-6)
