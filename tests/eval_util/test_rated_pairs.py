"""MAP@n from batches of dense scores equals MAP@n of the submission that they make."""

from __future__ import annotations

import math

import numpy as np
import pytest
from evaluated_videos import add_rated
from hypothesis import given, settings
from hypothesis import strategies as st

from yt8m.eval_util.segments import RatedPairs, mean_average_precision_at_n


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 10_000), st.floats(0, 1))
def test_equals_the_submission_of_the_same_scores(rows: int, classes: int, seed: int, share: float) -> None:
    draw = np.random.default_rng(seed)
    scores = draw.permutation(rows * classes).reshape(rows, classes).astype(np.float32)
    rated, hits = draw.random(scores.shape) < share, draw.random(scores.shape) < 0.5
    pairs = RatedPairs(classes)
    for part in np.array_split(np.arange(rows), 3):
        add_rated(pairs, np.where(rated, scores, -np.inf)[part], hits[part])
    names = np.array([f"v:{row}" for row in range(rows)])
    order = np.argsort(-scores, axis=0)
    submitted = np.repeat(np.arange(classes), rows), names[order.T.ravel()]
    where = np.nonzero(rated)
    expected = mean_average_precision_at_n(*submitted, where[1], names[where[0]], hits[where], None)
    found = pairs.get()
    assert found.aps_class.tolist() == expected.aps_class.tolist()
    np.testing.assert_allclose(found.aps, expected.aps)


def test_the_cut_at_n_and_nothing_at_all() -> None:
    pairs = RatedPairs(2)
    assert math.isnan(pairs.get().map)
    add_rated(pairs, [[3.0, -np.inf], [2.0, -np.inf], [1.0, -np.inf]], [[0, 1], [1, 1], [1, 1]])
    assert pairs.get().map == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert pairs.get(1).map == 0
    pairs.clear()
    assert len(pairs.get().aps) == 0


def test_refusals() -> None:
    with pytest.raises(ValueError, match="NaN"):
        add_rated(RatedPairs(1), [[math.nan]], [[1]])


def test_merged_parts_are_the_whole():
    generator = np.random.default_rng(3)
    scores, hits = generator.random((40, 4)), generator.random((40, 4)) > 0.6
    scores[generator.random((40, 4)) > 0.7] = -np.inf
    whole, parts = RatedPairs(4), [RatedPairs(4) for _ in range(3)]
    add_rated(whole, scores, hits)
    for part, rows in zip(parts, np.array_split(np.arange(40), 3), strict=True):
        add_rated(part, scores[rows], hits[rows])
    parts[0].merge(parts[2])
    parts[0].merge(parts[1])
    assert parts[0].get().map == whole.get().map
    with pytest.raises(ValueError, match="3 classes into those of 4"):
        whole.merge(RatedPairs(3))
