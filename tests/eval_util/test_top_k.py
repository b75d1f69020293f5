"""The k best classes of a row, and the order in which ties come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from yt8m.eval_util.arrays import ranks_of_scores
from yt8m.eval_util.top_k import top_k

LEVELS = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1e-45, 0.5, 0.75, 3.0, np.inf])
MATRICES = hnp.arrays(np.float32, st.tuples(st.integers(0, 6), st.integers(1, 9)), elements=LEVELS)


@given(MATRICES, st.integers(1, 12))
def test_equals_a_stable_sort(scores: np.ndarray, k: int) -> None:
    best = top_k(scores, k)
    order = np.array([sorted(range(len(row)), key=lambda c: -row[c])[:k] for row in scores])
    order = order.reshape(len(scores), min(k, scores.shape[1])).astype(int)
    np.testing.assert_array_equal(best.classes, order)
    np.testing.assert_array_equal(best.scores, np.take_along_axis(scores, order, axis=1))


@pytest.mark.parametrize("levels", [3, 1000])
def test_rows_beyond_one_chunk(levels: int) -> None:
    scores = np.random.default_rng(0).integers(0, levels, (70, 3862)).astype(np.float32)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(top_k(scores, 20).classes, expected)


@pytest.mark.parametrize("ranked", [0, 3, 40, 3862])
@pytest.mark.parametrize("levels", [20, 100_000])
@pytest.mark.parametrize("k", [1, 20])
def test_rows_of_many_classes_with_few_ranked(ranked: int, levels: int, k: int) -> None:
    draw = np.random.default_rng(ranked)
    scores = np.full((150, 3862), -np.inf, np.float32)
    for row in scores:
        places = draw.choice(len(row), ranked, replace=False)
        row[places] = draw.integers(-levels, levels, ranked)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(top_k(scores, k).classes, expected)


@given(hnp.arrays(np.float32, 20, elements=st.floats(width=32, allow_nan=False)))
def test_keys_order_as_the_scores_do(scores: np.ndarray) -> None:
    keys = ranks_of_scores(scores).astype(np.int64)
    np.testing.assert_array_equal(keys[:, None] < keys, scores[:, None] > scores)


@pytest.mark.parametrize("nan", [np.nan, -np.nan])
@pytest.mark.parametrize("classes", [100, 3862])
@pytest.mark.parametrize("place", [0, 57, -1])
def test_nan_is_refused_wherever_it_is(nan: float, classes: int, place: int) -> None:
    scores = np.random.default_rng(1).random((5, classes), dtype=np.float32)
    scores[3, place] = np.copysign(np.float32(np.nan), nan)
    with pytest.raises(ValueError, match="NaN"):
        top_k(scores, 4)
