"""The rising curve against scikit-learn's isotonic regression."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import isotonic_regression

from yt8m.labels.isotonic import rising_curve

POINTS = st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 10)), min_size=1, max_size=40)


@given(POINTS)
def test_the_steps_are_those_of_scikit_learn(points: list[tuple[float, float]]) -> None:
    values, weights = np.array(points).T
    places = np.arange(len(values), dtype=np.float64)
    curve = rising_curve(places, values, weights)
    expected = isotonic_regression(values, sample_weight=weights)
    steps = np.unique(np.round(expected, 9))
    assert np.unique(np.round(curve.values, 9)) == pytest.approx(steps, abs=1e-7)
    # Each knot is the weighted mean place of its step.
    knots = [
        np.average(places[near], weights=weights[near])
        for step in steps
        if (near := np.abs(expected - step) < 1e-7).any()
    ]
    assert curve.knots == pytest.approx(knots, abs=1e-6) or len(steps) < len(curve.knots)


def test_between_knots_it_is_linear_and_outside_constant() -> None:
    curve = rising_curve(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 3.0]), np.ones(3))
    assert curve(np.array([-9.0, 0.5, 1.5, 9.0])) == pytest.approx([0, 0.5, 2, 3])
