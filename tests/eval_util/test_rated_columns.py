"""Columns of rated pairs are those of dense scores in which nothing else is ranked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yt8m.eval_util.arrays import places_within
from yt8m.eval_util.segments import Pairs, columns_of_pairs
from yt8m.eval_util.top_k import perr_of_rows, rated_only, take_columns


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 10_000), st.floats(0, 1), st.integers(1, 30))
def test_equal_those_of_dense_scores(rows: int, classes: int, seed: int, share: float, k: int) -> None:
    draw, k = np.random.default_rng(seed), min(k, classes)
    scores = draw.integers(-2, 4, (rows, classes)).astype(np.float32)  # much ties, and not all count for PERR
    rated, labels = draw.random(scores.shape) < share, draw.random(scores.shape) < 0.5
    dense, positives = rated_only(scores, labels, rated)
    expected = take_columns(dense, positives, k)
    pairs = Pairs(rated.sum(axis=1), np.nonzero(rated)[1], scores[rated], labels[rated])
    found, perr = columns_of_pairs(pairs, k, classes)
    ranked = expected.ranked
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.classes[ranked], expected.classes[ranked])
    np.testing.assert_array_equal(found.hits, expected.hits)
    np.testing.assert_array_equal(found.num_labels, expected.num_labels)
    np.testing.assert_array_equal(found.label_counts, expected.label_counts)
    np.testing.assert_array_equal(perr, perr_of_rows(dense, positives, expected))


def test_a_score_that_is_nan_is_refused() -> None:
    one = np.ones(1, np.int64)
    with pytest.raises(ValueError, match="NaN"):
        columns_of_pairs(Pairs(one, one, np.full(1, np.nan, np.float32), one > 0), 2, 3)


def test_places_begin_anew_in_each_row() -> None:
    np.testing.assert_array_equal(places_within(np.array([2, 0, 3])), [0, 1, 0, 1, 2])
