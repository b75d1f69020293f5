"""AP of spans: equal to a plain reading of ActivityNet's definition, for random spans, ties and empty classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.eval_util.span_metrics import ALL, AVERAGED, MatchedSpans, SpanTable

_SPAN = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 20), st.integers(1, 12), st.integers(0, 4))
_SPANS = st.lists(_SPAN, max_size=14)


def table(spans: list[Any]) -> SpanTable:
    """`spans` are (video, class, start, length, score)."""
    videos, classes, starts, lengths, scores = (
        (np.array(column) for column in zip(*spans, strict=True))
        if spans
        else (np.zeros(0, np.int64) for _ in range(5))
    )
    return SpanTable(videos, classes, starts.astype(float), (starts + lengths).astype(float), scores.astype(float))


def plain_ap(truth: list[Any], predicted: list[Any], number: int, threshold: float) -> float:
    """AP of a class, span by span."""
    true_spans = [span for span in truth if span[1] == number]
    ranked = sorted((span for span in predicted if span[1] == number), key=lambda span: -span[4])
    taken, hits = set[int](), list[bool]()
    for video, _, start, length, _ in ranked:
        shares = []
        for index, (other_video, _, other_start, other_length, _) in enumerate(true_spans):
            if other_video == video and index not in taken:
                shared = max(0, min(start + length, other_start + other_length) - max(start, other_start))
                shares.append((shared / (length + other_length - shared), -index))
        best = max(shares, default=(0.0, 0))
        hits.append(best[0] >= threshold)
        if hits[-1]:
            taken.add(-best[1])
    precisions = [sum(hits[: place + 1]) / (place + 1) for place in range(len(hits))]
    gains = [max(precisions[place:]) for place, is_hit in enumerate(hits) if is_hit]
    return sum(gains) / len(true_spans)


@given(_SPANS, _SPANS)
@examples(80)
def test_figures_are_those_of_a_plain_loop(truth: list[Any], predicted: list[Any]) -> None:
    figures = MatchedSpans(table(truth), table(predicted)).figures()
    classes = sorted({span[1] for span in truth})
    assert figures.classes.tolist() == classes
    for row, number in enumerate(classes):
        expected = [plain_ap(truth, predicted, number, threshold) for threshold in ALL]
        np.testing.assert_allclose(figures.aps[row], expected, rtol=0, atol=1e-12)
    if classes:
        means = [np.mean([plain_ap(truth, predicted, number, t) for number in classes]) for t in AVERAGED]
        assert figures.average_map == pytest.approx(np.mean(means), abs=1e-12)
    else:
        assert np.isnan(figures.average_map)


@given(_SPANS, _SPANS, st.lists(st.integers(0, 3), min_size=4, max_size=4))
@examples(100)
def test_repeated_videos_count_like_copies(truth: list[Any], predicted: list[Any], counts: list[int]) -> None:
    # Copies of a span tie, and follow one another as they do in a sorted list of whole videos repeated.
    distinct = [(*span[:4], span[4] * 100 + place) for place, span in enumerate(predicted)]
    figures = MatchedSpans(table(truth), table(distinct)).figures(np.array(counts))

    def copies(spans: list[Any]) -> list[Any]:
        return [(span[0] + 4 * copy, *span[1:]) for span in spans for copy in range(counts[span[0]])]

    for row, number in enumerate(figures.classes.tolist()):
        repeated = copies(truth)
        has_any = any(span[1] == number for span in repeated)
        expected = [plain_ap(repeated, copies(distinct), number, t) if has_any else np.nan for t in ALL]
        np.testing.assert_allclose(figures.aps[row], expected, rtol=0, atol=1e-12)


def test_a_span_that_is_found_twice_is_right_once() -> None:
    truth = table([(0, 0, 0, 10, 0)])
    figures = MatchedSpans(truth, table([(0, 0, 0, 9, 1), (0, 0, 0, 10, 3), (1, 0, 0, 10, 2)])).figures()
    assert figures.mean_ap(0.5) == 1.0
    figures = MatchedSpans(truth, table([(1, 0, 0, 10, 2), (0, 0, 0, 9, 1)])).figures()
    assert figures.mean_ap(0.5) == 0.5
    assert figures.aps[0, ALL.index(0.95)] == 0.0


def test_a_class_that_a_resample_does_not_have_does_not_count() -> None:
    count = 20
    numbers, zeros = np.arange(count), np.zeros(count)
    truth = SpanTable(numbers, numbers, zeros, zeros + 1, zeros)
    right = SpanTable(numbers, numbers, zeros + np.where(numbers % 2, 0, 5), zeros + np.where(numbers % 2, 1, 6), zeros)
    counts = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count))
    figures = MatchedSpans(truth, right).figures(counts)
    there = counts > 0
    assert figures.mean_ap(0.5) == pytest.approx((numbers[there] % 2).mean())
    assert 0 < there.sum() < count
    assert MatchedSpans(truth, truth).figures(counts).average_map == 1.0
