from __future__ import annotations

import numpy as np
import pytest
from golden_data import golden

from yt8m import losses
from yt8m.lazy import tf

CASES = {
    "cross_entropy": ("CrossEntropyLoss", {}, "predictions", False),
    "cross_entropy_weighted": ("CrossEntropyLoss", {}, "predictions", True),
    "cross_entropy_edge": ("CrossEntropyLoss", {}, "edge_predictions", False),
    "hinge_b1": ("HingeLoss", {}, "hinge_predictions", False),
    "hinge_b0.5": ("HingeLoss", {"hinge_margin": 0.5}, "hinge_predictions", False),
    "hinge_on_probabilities": ("HingeLoss", {}, "predictions", False),
    "softmax": ("SoftmaxLoss", {}, "softmax_predictions", False),
    "softmax_on_probabilities": ("SoftmaxLoss", {}, "predictions", False),
}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient(case: str) -> None:
    name, fields, source, with_weights = CASES[case]
    arrays = np.load(golden("losses.npz"))
    with tf.Graph().as_default(), tf.Session() as session:
        predictions = tf.constant(arrays[source])
        weights = tf.constant(arrays["label_weights"]) if with_weights else None
        loss = losses.create(name, fields).calculate_loss(predictions, tf.constant(arrays["labels"]), weights)
        value, gradient = session.run([loss, tf.gradients(loss, predictions)[0]])
    np.testing.assert_allclose(value, arrays[case], rtol=1e-6)
    np.testing.assert_allclose(gradient, arrays[f"{case}/grad"], rtol=1e-6, atol=1e-9)
