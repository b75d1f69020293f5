"""The softplus of the losses against NumPy's, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.numerics.compiled import softplus


def test_is_exact_from_tail_to_tail() -> None:
    given = np.concatenate([np.linspace(-86, 86, 20001), [0.0, -0.0, 1e-7, -1e-7]]).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        tensor = tf.constant(given)
        value, gradient = session.run([softplus(tensor), tf.gradients(softplus(tensor), tensor)[0]])
    exact = np.logaddexp(0, given.astype(np.float64))
    # exp itself is off by the rounding of its argument.
    np.testing.assert_allclose(value, exact, rtol=3e-7)
    np.testing.assert_allclose(gradient, np.exp(given - exact), rtol=1e-5)


@pytest.mark.parametrize(("given", "expected"), [(0.0, 0.5), (np.inf, 1.0), (-np.inf, 0.0)])
def test_the_gradient_where_a_kink_would_be_and_at_the_ends(given: float, expected: float) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tensor = tf.constant(given)
        assert session.run(tf.gradients(softplus(tensor), tensor)[0]) == expected


def test_nan_stays() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert np.isnan(session.run(softplus(tf.constant(np.nan))))
