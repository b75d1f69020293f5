"""The normal scores of training values, against the ranks of the values themselves."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.errors import RunError
from yt8m.records.normal_scores import KNOTS, DrawnRows, NormalScores


def fitted(vectors: np.ndarray, size: int = 100) -> NormalScores:
    rows = DrawnRows()
    for start in range(0, len(vectors), size):
        rows.add(vectors[start : start + size].astype(np.float32))
    return rows.statistics()


def scores(found: NormalScores, vectors: np.ndarray) -> np.ndarray:
    """By NumPy's interpolation: [N, D]."""
    knots, values = found.knots.reshape(-1, KNOTS), found.scores.reshape(-1, KNOTS)
    columns = [np.interp(x, *map(np.asarray, (a, b))) for x, a, b in zip(vectors.T, knots, values, strict=True)]
    return np.stack(columns, 1)


@pytest.mark.parametrize("distort", [lambda x: x, lambda x: np.exp(3 * x), lambda x: np.sinh(2 * x), lambda x: x**3])
def test_a_distorted_value_has_about_the_score_of_the_plain_one(distort: Callable[[np.ndarray], np.ndarray]) -> None:
    plain = np.random.default_rng(0).normal(size=(2000, 2))
    found = scores(fitted(distort(plain)), distort(plain).astype(np.float32))
    assert np.quantile(np.abs(found - plain), 0.98) < 0.25
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(found.std(0), 1, atol=1e-4)


def test_values_a_thousand_times_the_usual_one_have_scores_of_few_deviations() -> None:
    draw = np.random.default_rng(1)
    values = draw.normal(size=(1000, 3))
    values[::100] *= 1000
    assert np.abs(scores(fitted(values), values)).max() < 5


@given(st.integers(2, 300), st.integers(1, 5), st.integers(0, 10_000))
def test_scores_never_fall_and_equal_values_have_the_score_of_their_middle_rank(n: int, kinds: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    values = draw.choice(np.float32([-7, 0, 0.5, 3, 1e6])[:kinds], (n, 1))
    found = fitted(values)
    assert (np.diff(found.knots) >= 0).all()
    assert (np.diff(found.scores) >= 0).all()
    different = np.unique(values)
    assert np.isin(found.knots, different).all()
    ranks = np.array(
        [NormalDist().inv_cdf((2 * (values < v).sum() + (values == v).sum()) / (2 * n)) for v in different]
    )
    if len(different) > 1 and n < 15:  # every rank is a knot of so few values
        expected = np.interp(values, different, ranks)
        np.testing.assert_allclose(scores(found, values), (expected - expected.mean()) / expected.std(), atol=1e-4)


def test_a_constant_value_has_the_score_zero_and_a_rare_one_is_kept() -> None:
    values = np.zeros((1000, 2), np.float32)
    values[7, 1] = 1
    found = fitted(values)
    assert found.constant_values() == 1
    assert scores(found, values)[7, 1] > 10
    assert not scores(found, values + 5)[:, 0].any()


@pytest.mark.parametrize("size", [1, 100, 999, 20_000])
def test_many_vectors_are_drawn_evenly_whatever_their_groups(size: int) -> None:
    values = np.arange(20_000, dtype=np.float32)[:, np.newaxis]
    rows = DrawnRows()
    for start in range(0, len(values), size):
        rows.add(values[start : start + size])
    np.testing.assert_array_equal(np.concatenate(rows._rows), np.arange(0, 20_000, 8))


def test_no_vector_is_an_error() -> None:
    with pytest.raises(RunError, match="no video"):
        DrawnRows().statistics()
