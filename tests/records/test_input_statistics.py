"""The mean and the deviation of the values of the features, against NumPy over all of them at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.errors import RunError
from yt8m.records.input_statistics import InputStatistics, Moments, vectors_of
from yt8m.records.record_parser import NumpyBatch


def by_numpy(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The definition: each deviation counts like that of four more vectors with the geometric mean of all."""
    mean, deviation = vectors.mean(0, dtype=np.float64), vectors.std(0, dtype=np.float64)
    varies = deviation > 1e-6 * np.abs(mean)
    pooled = np.exp(np.log(deviation[varies]).mean())
    n = len(vectors)
    shrunk = (deviation[varies] ** n * pooled**4) ** (1 / (n + 4)) if n < 50 else None
    if shrunk is None:
        shrunk = np.exp((n * np.log(deviation[varies]) + 4 * np.log(pooled)) / (n + 4))
    found = np.zeros(vectors.shape[1])
    found[varies] = shrunk
    return mean, found


def in_groups(vectors: np.ndarray, size: int) -> InputStatistics:
    moments = Moments()
    for start in range(0, len(vectors), size):
        moments.add(vectors[start : start + size])
    return moments.statistics()


@given(st.integers(2, 60), st.integers(1, 70), st.integers(0, 10_000))
def test_groups_of_any_size_give_the_statistics_of_all(rows: int, size: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    vectors = (draw.normal(size=(rows, 5)) * [1, 1e3, 1e-3, 5, 0] + [0, 1e4, 1, -2, 7]).astype(np.float32)
    found = in_groups(vectors, size)
    mean, deviation = by_numpy(vectors)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.deviation, deviation, rtol=1e-4)
    assert found.deviation[4] == 0


def test_few_vectors_draw_a_deviation_towards_the_pooled_one() -> None:
    vectors = np.array([[0, 0.0], [2, 2e-4]], np.float32)
    found = in_groups(vectors, 2)
    assert found.deviation[1] / 1e-4 == pytest.approx(10 ** (4 * 4 / 2 / 6), rel=1e-3)
    assert found.deviation[0] == pytest.approx(10 ** (-4 * 4 / 2 / 6), rel=1e-3)


def of_batches(batches: list[NumpyBatch], names: tuple[str, ...], *, zeroes_unfit: bool = False) -> InputStatistics:
    moments = Moments()
    for vectors in vectors_of(batches, names, zeroes_unfit=zeroes_unfit):
        moments.add(vectors)
    return moments.statistics()


def batch_of(values: np.ndarray, num_frames: list[int]) -> NumpyBatch:
    ids = [f"v{row}" for row in range(len(values))]
    return NumpyBatch(
        ids, {"a": values[..., :2], "b": values[..., 2:]}, np.array(num_frames, np.int32), np.zeros((0, 1))
    )


def test_frames_after_the_end_of_a_video_do_not_count() -> None:
    values = np.random.default_rng(0).normal(size=(3, 4, 3)).astype(np.float32)
    counted = np.concatenate([values[0, :2], values[2, :4]])
    found = of_batches([batch_of(values, [2, 0, 4])], ("a", "b"))
    np.testing.assert_allclose(found.mean, counted.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.deviation, by_numpy(counted)[1], rtol=1e-5)


def test_values_that_are_not_finite_are_refused_or_count_as_zero() -> None:
    values = np.array([[1, 2, 3], [3, np.nan, 1e20], [5, 4, 5]], np.float32)
    with pytest.raises(RunError, match=r"\b2 of .* v0 to v2\b.*--nan_policy=zero"):
        of_batches([batch_of(values, [1, 1, 1])], ("a", "b"))
    found = of_batches([batch_of(values, [1, 1, 1])], ("a", "b"), zeroes_unfit=True)
    np.testing.assert_allclose(found.mean, [3, 2, 8 / 3], rtol=1e-6)


def test_no_vector_is_an_error() -> None:
    with pytest.raises(RunError, match="no video"):
        of_batches([], ("a",))
