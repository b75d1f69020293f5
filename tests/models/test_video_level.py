from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.models.video_level import log_odds


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
        odds = log_odds(tf.constant(gates, tf.float32), tf.constant(votes, tf.float32))
        predictions, logits = evaluate(tf.sigmoid(odds), odds)
    np.testing.assert_allclose(predictions, in_favour, rtol=1e-5)
    np.testing.assert_allclose(logits, np.log(in_favour / against), rtol=1e-6)


@pytest.mark.parametrize("size", [1.0, 100.0, 3e4])
def test_mixture_is_finite_with_finite_gradients(size: float) -> None:
    draw = np.random.default_rng(0).normal(size=(4, 5, 7)).astype(np.float32) * size
    with tf.Graph().as_default():
        gates, votes = tf.constant(draw[..., :4]), tf.constant(draw[..., 4:])
        logits = log_odds(gates, votes)
        values = evaluate(logits, *tf.gradients(logits, [gates, votes]))
    assert all(np.isfinite(value).all() for value in values)


def test_the_closed_gradient_of_a_mixture_is_the_automatic_one() -> None:
    draw = np.random.default_rng(1).normal(size=(3, 4, 7)).astype(np.float32) * 2
    with tf.Graph().as_default():
        gates, votes = tf.constant(draw[..., :4]), tf.constant(draw[..., 4:])
        shares, slope = tf.nn.softmax(gates), tf.cos(tf.range(4.0))
        in_favour = tf.reduce_sum(shares[..., :3] * tf.sigmoid(votes), -1)
        plain = tf.math.log(in_favour) - tf.math.log(1.0 - in_favour)
        closed = log_odds(gates, votes)
        pairs = zip(*(tf.gradients(odds, [gates, votes], slope * odds) for odds in (closed, plain)), strict=True)
        for found, expected in evaluate(*pairs):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
