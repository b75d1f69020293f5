from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.models.video_level import mixture


def evaluate(*tensors):
    with tf.Session() as session:
        return session.run(tensors)


def test_mixture_log_odds_do_not_saturate() -> None:
    gates = np.array([[[30.0, -30.0, 0.0]], [[0.0, 0.0, -40.0]], [[-60.0, -60.0, 0.0]]])
    votes = np.array([[[40.0, 0.0]], [[35.0, 30.0]], [[0.0, 0.0]]])
    shares = np.exp(gates) / np.exp(gates).sum(-1, keepdims=True)
    experts = 1 / (1 + np.exp(-votes))
    in_favour = (shares[..., :2] * experts).sum(-1)
    against = (shares[..., :2] / (1 + np.exp(votes))).sum(-1) + shares[..., 2]
    with tf.Graph().as_default():
        output = mixture(tf.constant(gates, tf.float32), tf.constant(votes, tf.float32))
        predictions, logits = evaluate(output.predictions, output.logits)
    np.testing.assert_allclose(predictions, in_favour, rtol=1e-6)
    np.testing.assert_allclose(logits, np.log(in_favour / against), rtol=1e-6)


@pytest.mark.parametrize("size", [1.0, 100.0, 3e4])
def test_mixture_is_finite_with_finite_gradients(size: float) -> None:
    draw = np.random.default_rng(0).normal(size=(4, 5, 7)).astype(np.float32) * size
    with tf.Graph().as_default():
        gates, votes = tf.constant(draw[..., :4]), tf.constant(draw[..., 4:])
        logits = mixture(gates, votes).logits
        values = evaluate(logits, *tf.gradients(logits, [gates, votes]))
    assert all(np.isfinite(value).all() for value in values)
