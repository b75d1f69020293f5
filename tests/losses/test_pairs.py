"""The loss of the rated pairs alone is that of all pairs, of which the others weigh nothing."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import losses
from yt8m.lazy import tf

OF_PAIRS = ("CrossEntropyLoss", "WeightedCrossEntropyLoss", "FocalLoss", "HingeLoss")


@pytest.mark.parametrize("name", OF_PAIRS)
def test_equals_the_loss_of_all(name: str) -> None:
    draw, loss = np.random.default_rng(4), losses.create(name)
    predictions = draw.random((6, 5)).astype(np.float32)
    labels = (draw.random((6, 5)) < 0.5).astype(np.float32)
    weights = (draw.random((6, 5)) < 0.4).astype(np.float32) * 2
    at = weights > 0
    with tf.Graph().as_default(), tf.Session() as session:
        found, expected = session.run(
            [
                losses.loss_of_pairs(loss, predictions[at], labels[at], weights[at], tf.constant(6)),
                loss.calculate_loss(tf.constant(predictions), tf.constant(labels), tf.constant(weights)),
            ]
        )
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_loss_whose_terms_hang_together_is_not_taken_so() -> None:
    assert {name for name in losses.names() if losses.is_of_pairs(losses.create(name))} == set(OF_PAIRS)

    class Own(losses.get("CrossEntropyLoss")):
        pass

    assert not losses.is_of_pairs(Own())
