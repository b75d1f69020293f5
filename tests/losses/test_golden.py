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


ROBUST = {
    "hill": ("HillLoss", {}),
    "hill_other": ("HillLoss", {"hill_lambda": 1.2, "hill_margin": 0.5, "hill_gamma": 1.5}),
    "splc": ("SPLCLoss", {}),
    "splc_other": ("SPLCLoss", {"splc_threshold": 0.8, "splc_margin": 0.5, "splc_gamma": 1.0}),
    "splc_first_epoch": ("SPLCLoss", {"splc_start_step": 1}),
    "two_way": ("TwoWayLoss", {}),
    "two_way_other": ("TwoWayLoss", {"two_way_positive_temperature": 1.5, "two_way_negative_temperature": 0.5}),
}


@pytest.mark.parametrize("case", ROBUST)
def test_loss_and_gradient_from_logits(case: str) -> None:
    """Those of the authors' code, which sums over the videos; the two-way loss is a mean there too."""
    name, fields = ROBUST[case]
    arrays = np.load(golden("robust_losses.npz"))
    scale = 1.0 if name == "TwoWayLoss" else len(arrays["labels"])
    with tf.Graph().as_default(), tf.Session() as session:
        logits, labels = tf.constant(arrays["logits"], tf.float32), tf.constant(arrays["labels"] > 0)
        loss = losses.create(name, fields)
        value = loss.calculate_loss_from_logits(logits, labels)
        gradients = tf.gradients(value, logits)[0], loss.gradient_from_logits(logits, labels)
        value, *gradients = session.run([value, *gradients])
    np.testing.assert_allclose(value * scale, arrays[case], rtol=1e-6)
    for gradient in gradients:
        np.testing.assert_allclose(gradient * scale, arrays[f"{case}/grad"], rtol=1e-6, atol=1e-6)
