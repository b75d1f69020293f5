"""The losses for missing labels, pair by pair in NumPy; tests/losses/test_golden.py has the authors' own values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yt8m import losses
from yt8m.lazy import tf
from yt8m.numerics import random_keys

DRAW = np.random.default_rng(6)
LOGITS = DRAW.normal(0, 2, (7, 5)).astype(np.float32)
LABELS = DRAW.random((7, 5)) < 0.4
WEIGHTS = (DRAW.random((7, 5)) * (DRAW.random((7, 5)) < 0.7)).astype(np.float32)


def sigmoid(z: float) -> float:
    return float(1 / (1 + np.exp(-z)))


def focal(p: float, gamma: float, eps: float) -> float:
    return float(-((1 - p) ** gamma) * np.log(p + eps))


def hill(z: float, is_label: bool, eps: float) -> float:
    p = sigmoid(z)
    return focal(sigmoid(z - 0.5), 1.5, eps) if is_label else (1.2 - p) * p**2


def splc(z: float, is_label: bool, eps: float) -> float:
    p = sigmoid(z)
    if is_label:
        return focal(sigmoid(z - 0.5), 1.5, eps)
    return focal(p, 1.5, eps) if p > 0.7 else focal(1 - p, 1.5, eps)


CASES = {
    "HillLoss": ({"hill_lambda": 1.2, "hill_margin": 0.5, "hill_gamma": 1.5}, hill),
    "SPLCLoss": ({"splc_threshold": 0.7, "splc_margin": 0.5, "splc_gamma": 1.5}, splc),
}


@pytest.mark.parametrize("name", CASES)
def test_both_forms_with_weights(name: str) -> None:
    fields, term = CASES[name]
    expected = [
        sum(WEIGHTS[at] * term(float(LOGITS[at]), bool(LABELS[at]), eps) for at in np.ndindex(LOGITS.shape)) / 7
        for eps in (1e-5, 0.0)  # 1e-5 is inside the logarithms of the probability form alone
    ]
    with tf.Graph().as_default(), tf.Session() as session:
        loss, labels, weights = losses.create(name, fields), tf.constant(LABELS), tf.constant(WEIGHTS)
        of_predictions = loss.calculate_loss(tf.sigmoid(LOGITS), labels, weights)
        computed = session.run([of_predictions, loss.calculate_loss_from_logits(tf.constant(LOGITS), labels, weights)])
    np.testing.assert_allclose(computed, expected, rtol=2e-6)


def losses_at(step: int, fields: dict[str, Any]) -> list[float]:
    with tf.Graph().as_default(), tf.Session() as session, random_keys.scope(0, tf.constant(step, tf.int64)):
        loss, labels = losses.create("SPLCLoss", fields), tf.constant(LABELS)
        of_logits = loss.calculate_loss_from_logits(tf.constant(LOGITS), labels)
        return session.run([of_logits, loss.calculate_loss(tf.sigmoid(LOGITS), labels)])


@pytest.mark.heavy
def test_labels_are_added_from_the_given_step_on() -> None:
    always, never = losses_at(0, {}), losses_at(0, {"splc_threshold": 1.0})
    assert always != never
    assert losses_at(99, {"splc_start_step": 100}) == never
    assert losses_at(100, {"splc_start_step": 100}) == always


def test_slope_at_a_logit_of_zero_pulls_down() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        slope = losses.create("SPLCLoss").gradient_from_logits(tf.zeros([1, 1]), tf.constant([[False]]))
        assert session.run(slope)[0, 0] == pytest.approx(0.25 * (np.log(2) + 0.5))
