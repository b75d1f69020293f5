"""The two-way loss in NumPy; tests/losses/test_golden.py has the author's own values."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import losses
from yt8m.lazy import tf

DRAW = np.random.default_rng(6)
LOGITS = DRAW.normal(0, 2, (7, 5)).astype(np.float32)
LABELS = DRAW.random((7, 5)) < 0.4
LABELS[0], LABELS[:, 2] = False, False
WEIGHTS = (DRAW.random((7, 5)) * (DRAW.random((7, 5)) < 0.7)).astype(np.float32)
WEIGHTS[3] = 0


def line(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float | None:
    """softplus(N + P) of one video or class with T = 3 and S = 0.5; None if no label counts."""
    positive, negative = weights * labels, weights * ~labels
    if not positive.any():
        return None
    if not negative.any():
        return 0.0
    lowest = 3 * np.log((positive * np.exp(-logits / 3)).sum())
    highest = 0.5 * np.log((negative * np.exp(logits / 0.5)).sum())
    return float(np.log1p(np.exp(lowest + highest)))


@pytest.mark.parametrize("weights", [np.ones_like(WEIGHTS), WEIGHTS], ids=["ones", "weights"])
def test_both_forms(weights: np.ndarray) -> None:
    expected = 0.0
    for arrays in ((LOGITS, LABELS, weights), (LOGITS.T, LABELS.T, weights.T)):
        terms = [line(*one) for one in zip(*arrays, strict=True)]
        expected += float(np.mean([term for term in terms if term is not None]))
    fields = {"two_way_positive_temperature": 3.0, "two_way_negative_temperature": 0.5}
    with tf.Graph().as_default(), tf.Session() as session:
        loss, rest = losses.create("TwoWayLoss", fields), (tf.constant(LABELS), tf.constant(weights))
        computed = session.run(
            [
                loss.calculate_loss_from_logits(tf.constant(LOGITS), *rest),
                loss.calculate_loss(tf.sigmoid(LOGITS), *rest),
            ]
        )
    assert computed[0] == pytest.approx(expected, rel=1e-6)
    assert computed[1] == pytest.approx(expected, rel=1e-3)  # log-odds with 1e-5 in the logarithms
