"""The rising steps and curves against scikit-learn's isotonic regression."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression, isotonic_regression

from yt8m.labels.isotonic import rising_steps

POINTS = st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 10)), min_size=1, max_size=40)


@given(POINTS)
def test_the_steps_are_those_of_scikit_learn(points: list[tuple[float, float]]) -> None:
    values, weights = np.array(points).T
    places = np.arange(len(values), dtype=np.float64)
    steps = rising_steps(places, values, weights)
    expected = isotonic_regression(values, sample_weight=weights)
    assert steps.over_steps()(places) == pytest.approx(expected, abs=1e-7)
    for first, last, middle, value, weight in zip(*steps, strict=True):
        inside = slice(int(first), int(last) + 1)
        assert expected[inside] == pytest.approx(value, abs=1e-7)
        assert middle == pytest.approx(np.average(places[inside], weights=weights[inside]))
        assert weight == pytest.approx(weights[inside].sum())


@given(POINTS)
def test_over_steps_it_is_the_function_of_scikit_learn(points: list[tuple[float, float]]) -> None:
    values, weights = np.array(points).T
    places, between = np.arange(len(values), dtype=np.float64), np.linspace(-1, len(values), 100)
    reference = IsotonicRegression(out_of_bounds="clip").fit(places, values, sample_weight=weights)
    curve = rising_steps(places, values, weights).over_steps()
    assert curve(between) == pytest.approx(reference.predict(between), abs=1e-6)


def test_through_middles_it_is_linear_and_outside_constant() -> None:
    curve = rising_steps(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 2.0, 0.0, 3.0]), np.ones(4)).through_middles()
    assert curve(np.array([-9.0, 0.75, 1.5, 2.25, 9.0])) == pytest.approx([0, 0.5, 1, 2, 3])


def test_a_flat_piece_becomes_one_step_and_a_cliff_stays() -> None:
    """Shares of 0.2 and then of 0.7, drawn at 60 places each."""
    rng, trials = np.random.default_rng(0), np.full(120, 300.0)
    shares = np.repeat([0.2, 0.7], 60)
    values = rng.binomial(300, shares) / 300
    steps = rising_steps(np.arange(120.0), values, trials)
    merged = steps.merge_similar(4)
    assert len(steps.values) > 8
    assert merged.values == pytest.approx([0.2, 0.7], abs=0.01)
    assert (merged.first.tolist(), merged.last.tolist()) == ([0, 60], [59, 119])
    assert merged.weights.tolist() == [18_000, 18_000]
    assert merged.middle == pytest.approx([29.5, 89.5])


@given(POINTS, st.floats(0, 10))
def test_merged_steps_differ_and_keep_the_mean(points: list[tuple[float, float]], deviations: float) -> None:
    values, weights = np.array(points).T
    steps = rising_steps(np.arange(len(values), dtype=np.float64), (values + 5) / 10, 10 * weights).merge_similar(
        deviations
    )
    assert np.average(steps.values, weights=steps.weights) == pytest.approx(
        np.average((values + 5) / 10, weights=weights)
    )
    for (low, many), (high, more) in itertools.pairwise(zip(steps.values, steps.weights, strict=True)):
        pooled = (low * many + high * more) / (many + more)
        assert high - low >= 0.999 * deviations * np.sqrt(pooled * (1 - pooled) * (1 / many + 1 / more))
