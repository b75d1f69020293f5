"""MAP@n of segment submissions: recorded figures, loops, and what a submission may lack."""

from __future__ import annotations

import math

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given, settings
from hypothesis import strategies as st

from yt8m.eval_util.segments import mean_average_precision_at_n

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


@settings(deadline=None)
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
