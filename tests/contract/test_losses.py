"""What holds for every registered loss."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import pytest

from yt8m import losses
from yt8m.lazy import tf

RNG = np.random.default_rng(11)
LOGITS = RNG.normal(scale=3.0, size=(9, 6)).astype(np.float32)
LABELS = RNG.random((9, 6)) < 0.4
LABELS[0] = False
WEIGHTS = {
    "none": None,
    "pairs": (RNG.random((9, 6)) * (RNG.random((9, 6)) < 0.7)).astype(np.float32),
    "rows": RNG.integers(0, 2, size=(9, 1)).astype(np.float32),
}

pytestmark = pytest.mark.parametrize("name", losses.built_in_names())
# To this one a weight of 0 says "not rated", which has a cost.
UNRATED_COSTS = "SegmentFineTuningLoss"


def run(function: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(function())


@pytest.mark.parametrize("weights", cases.only(WEIGHTS, ["pairs"]))
def test_hand_gradient_is_the_automatic_one(name: str, weights: str) -> None:
    def both() -> Any:
        loss, logits = losses.create(name), tf.constant(LOGITS)
        value = loss.calculate_loss_from_logits(logits, tf.constant(LABELS), WEIGHTS[weights])
        by_hand = loss.gradient_from_logits(logits, tf.constant(LABELS), WEIGHTS[weights])
        return by_hand, tf.gradients(value, logits)[0]

    by_hand, automatic = run(both)
    np.testing.assert_allclose(by_hand, automatic, rtol=1e-5, atol=1e-7)


@pytest.mark.heavy
@pytest.mark.parametrize("weights", WEIGHTS)
def test_gradient_is_the_slope(name: str, weights: str) -> None:
    direction = np.random.default_rng(12).normal(size=LOGITS.shape)
    step = 1e-3

    def three() -> Any:
        loss = losses.create(name)
        ends = [
            loss.calculate_loss_from_logits(tf.constant(LOGITS + s * step * direction, tf.float32), LABELS,
                                            WEIGHTS[weights])
            for s in (-1, 1)
        ]  # fmt: skip
        return *ends, loss.gradient_from_logits(tf.constant(LOGITS), LABELS, WEIGHTS[weights])

    low, high, gradient = run(three)
    assert (high - low) / (2 * step) == pytest.approx((gradient * direction).sum(), rel=0.02, abs=3e-3)


def test_labels_may_be_bool_or_float(name: str) -> None:
    def both() -> Any:
        loss = losses.create(name)
        kinds = tf.constant(LABELS), tf.constant(LABELS, tf.float32)
        return [
            (loss.calculate_loss(tf.sigmoid(LOGITS), y), loss.calculate_loss_from_logits(tf.constant(LOGITS), y))
            for y in kinds
        ]

    as_bool, as_float = run(both)
    assert as_bool == as_float
    assert np.isfinite(as_bool).all()


def test_weights_are_honoured(name: str) -> None:
    """Ones change nothing; a row of weight 0 neither costs nor pulls, but is still a row of the batch."""

    if name == UNRATED_COSTS:
        pytest.skip("a weight of 0 says that the class was not rated")

    def values() -> Any:
        loss = losses.create(name)
        rows = np.ones((9, 1), np.float32)
        rows[3:] = 0
        terms = loss.calculate_loss_from_logits, loss.calculate_loss
        inputs = tf.constant(LOGITS), tf.sigmoid(LOGITS)
        plain = [f(x, LABELS) for f, x in zip(terms, inputs, strict=True)]
        ones = [f(x, LABELS, tf.ones([9, 6])) for f, x in zip(terms, inputs, strict=True)]
        none = [f(x, LABELS, tf.zeros([9, 1])) for f, x in zip(terms, inputs, strict=True)]
        return plain, ones, none, loss.gradient_from_logits(inputs[0], LABELS, rows)

    plain, ones, none, gradient = run(values)
    np.testing.assert_allclose(ones, plain, rtol=1e-6)
    assert none == [0.0, 0.0]
    assert (gradient[3:] == 0).all()
    assert (gradient[1:3] != 0).any()


# Two equal rows: in the first no class is a label, in the second each is.
EXTREMES = np.array([[0.0, 1.0, 0.5, 1e-39, 0.05, 1 - 2.0**-24]] * 2, np.float32)
EXTREME_LOGITS = np.array([[-200.0, 200.0, 0.0, -90.0, -17.0, 17.0]] * 2, np.float32)
# Powers below 1 have no finite slope at 0, and a margin of 40 is beyond every logit.
SETTINGS: dict[str, list[dict[str, float]]] = {
    "FocalLoss": [{"focal_gamma": 0.5}],
    "AsymmetricLoss": [
        {"asymmetric_positive_gamma": positive, "asymmetric_negative_gamma": negative, "asymmetric_margin": margin}
        for positive, negative, margin in ((0.5, 0.5, 0), (0, 0.5, 0.05))
    ],
    "LogitAdjustmentLoss": [{"class_counts": (1, 10**9, 0, 3, 10**5, 10**9), "adjustment_strength": 4.0}],
    "HillLoss": [{"hill_gamma": 0.0, "hill_margin": 40.0}, {"hill_gamma": 0.5, "hill_margin": -2.0}],
    "SPLCLoss": [{"splc_gamma": 0.5, "splc_start_step": 1}, {"splc_margin": 40.0}],
    "TwoWayLoss": [{"two_way_positive_temperature": 0.01, "two_way_negative_temperature": 0.01}],
}
GRIDS: dict[str, list[dict[str, float]]] = {
    "FocalLoss": [{"focal_gamma": gamma} for gamma in (0.0, 1.0, 1.5)],
    "AsymmetricLoss": [
        {"asymmetric_positive_gamma": positive, "asymmetric_negative_gamma": negative, "asymmetric_margin": margin}
        for positive, negative, margin in ((0, 4, 0.05), (1, 0, 0.05), (0.5, 0, 0))
    ],
    "LogitAdjustmentLoss": [{"class_counts": (1, 5, 0, 3, 100, 2)}],
    "HillLoss": [{"hill_gamma": gamma, "hill_margin": margin} for gamma in (0.0, 0.5, 1.0) for margin in (-2.0, 40.0)],
    "SPLCLoss": [{"splc_gamma": gamma, "splc_start_step": step} for gamma in (0.0, 0.5, 1.0) for step in (0, 1)],
}


@pytest.mark.parametrize("settings", cases.all_of([{}], heavy=[SETTINGS, GRIDS]), ids=["usual", "some", "grids"])
def test_value_and_gradient_are_finite_at_certain_predictions(name: str, settings: dict[str, Any]) -> None:
    """A sigmoid gives exactly 0 and 1 for large logits; a NaN gradient there would end the training."""
    made = [losses.create(name), *(losses.create(name, fields) for fields in settings.get(name, ()))]

    def values() -> Any:
        predictions, logits = tf.constant(EXTREMES), tf.constant(EXTREME_LOGITS)
        results = []
        labels = tf.constant([[False] * 6, [True] * 6])
        for loss in made:
            forms = [loss.calculate_loss(predictions, labels), loss.calculate_loss_from_logits(logits, labels)]
            gradients = [tf.gradients(forms[0], predictions)[0], tf.gradients(forms[1], logits)[0]]
            results.append([*forms, *gradients, loss.gradient_from_logits(logits, labels)])
        return results

    for loss, results in zip(made, run(values), strict=True):
        for result in results:
            assert np.isfinite(result).all(), (loss, results)
