"""MAP@n of submissions and of dense scores: recorded figures, loops, what a submission may lack; columns of pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from evaluated_videos import add_rated
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.eval_util.segments import Pairs, RatedPairs, columns_of_pairs, mean_average_precision_at_n
from yt8m.eval_util.top_k import perr_of_rows, rated_only, take_columns

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdefg")), max_size=25)
RATINGS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdehi"), st.booleans()), max_size=25)


def columns(rows: list, width: int) -> list[list]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def by_hand(submitted: list, ratings: list, top_n: int | None) -> dict[int, float]:
    positive = {(number, name) for number, name, score in ratings if score}
    rated = {(number, name) for number, name, _ in ratings}
    aps = {}
    for number in sorted({number for number, _ in positive}):
        line = [pair for pair in submitted if pair[0] == number][:top_n]
        judged = [pair in positive for pair in dict.fromkeys(line) if pair in rated]
        ranks = [rank for rank, hit in enumerate(judged, 1) if hit]
        total = sum(pair[0] == number for pair in positive)
        aps[number] = sum(count / rank for count, rank in enumerate(ranks, 1)) / total
    return aps


def test_recorded() -> None:
    ratings = [line.strip().split(",") for line in golden("segment_map_labels.csv").open()]
    names, numbers, scores = (np.array(column) for column in zip(*ratings, strict=True))
    lines = [line.strip().split(",") for line in golden("segment_map_submission.csv").open()]
    submitted = [(int(number), name) for number, line in lines for name in line.split()]
    expected = np.load(golden("segment_map.npz"))
    for top_n, aps in zip(expected["top_n"], expected["aps"], strict=True):
        found = mean_average_precision_at_n(
            *columns(submitted, 2), numbers.astype(int), names, scores.astype(float), int(top_n) or None
        )
        # Class 31 is rated but was not submitted: the recorded figures leave it out, ours count 0.
        assert found.aps_class.tolist() == [3, 7, 8, 22, 31, 1831]
        np.testing.assert_allclose(np.delete(found.aps, 4), aps, rtol=1e-6)
        assert found.aps[4] == 0
        assert found.map == pytest.approx(aps.sum() / 6)


@given(PAIRS, RATINGS, st.one_of(st.none(), st.integers(1, 5)))
def test_equals_loops(submitted: list, ratings: list, top_n: int | None) -> None:
    found = mean_average_precision_at_n(*columns(submitted, 2), *columns(ratings, 3), top_n=top_n)
    expected = by_hand(submitted, ratings, top_n)
    assert found.aps_class.tolist() == list(expected)
    np.testing.assert_allclose(found.aps, list(expected.values()))
    assert math.isnan(found.map) if not expected else found.map == pytest.approx(found.aps.mean())


def test_bytes_and_text_are_the_same_ids() -> None:
    names = ["abc:0", "abc:5", "déf:10"]
    encoded = np.char.encode(np.array(names), "utf-8")
    fetched = encoded.astype(object)  # as a session gives strings
    for submitted, rated in ((names, encoded), (encoded, names), (fetched, names), (fetched, encoded)):
        found = mean_average_precision_at_n([1, 1, 1], submitted, [1, 1, 1], rated, [0, 1, 1])
        assert found.map == pytest.approx(7 / 12)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="submitted"):
        mean_average_precision_at_n([1, 2], ["a:0"], [1], ["a:0"], [1])
    with pytest.raises(ValueError, match="rated_scores"):
        mean_average_precision_at_n([1], ["a:0"], [1], ["a:0"], [1, 0])
    with pytest.raises(ValueError, match="top_n"):
        mean_average_precision_at_n([1], ["a:0"], [1], ["a:0"], [1], top_n=0)


@examples(50)
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
    assert len(RatedPairs(2).get().aps) == 0


def test_batches_that_are_refused() -> None:
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
    with pytest.raises(ValueError, match=r"\b3 classes.*\b4$"):
        whole.merge(RatedPairs(3))


@examples(50)
@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 10_000), st.floats(0, 1), st.integers(1, 30))
def test_columns_of_pairs_are_those_of_dense_scores_in_which_nothing_else_is_ranked(
    rows: int, classes: int, seed: int, share: float, k: int
) -> None:
    draw, k = np.random.default_rng(seed), min(k, classes)
    scores = draw.integers(-2, 4, (rows, classes)).astype(np.float32)  # many ties, and not all count for PERR
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
