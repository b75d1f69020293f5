"""EvaluationMetrics against definitions written out with loops, ties and ratings included."""

from __future__ import annotations

import math

import numpy as np
import pytest
from eval_util import brute_force
from hypothesis import given
from hypothesis import strategies as st

from yt8m.eval_util import EvaluationMetrics, calculate_gap
from yt8m.eval_util.metrics import Gap, HitAtOne, MeanAveragePrecision, Metric, RankedEntries, load
from yt8m.eval_util.segments import Pairs
from yt8m.eval_util.top_k import take_columns


@st.composite
def batches(draw: st.DrawFn, levels: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many ties and labels, [B, C]."""
    shape = draw(st.integers(0, 7)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    scores = (random.integers(-1, levels, shape) / levels).astype(np.float32)
    return scores, random.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.6, 1.0]))


def check(total: dict, scores: np.ndarray, labels: np.ndarray, k: int, n: int | None) -> None:
    hits, perr = brute_force.hit_at_one(scores, labels), brute_force.perr(scores, labels)
    examples = int(((scores > -np.inf).any(axis=1) | labels.any(axis=1)).sum())
    assert total["num_examples"] == examples
    assert total["avg_hit_at_one"] == pytest.approx(sum(hits) / max(examples, 1))
    assert total["avg_perr"] == pytest.approx(sum(perr) / max(examples, 1))
    assert total["gap"] == pytest.approx(brute_force.gap(scores, labels, k))
    aps = brute_force.class_ap(scores, labels, k, n)
    assert total["aps_class"].tolist() == list(aps)
    np.testing.assert_allclose(total["aps"], list(aps.values()), atol=1e-12)
    assert total["map"] == pytest.approx(np.mean(list(aps.values())) if aps else np.nan, nan_ok=True)


@given(batches(), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 4)))
def test_equals_the_definitions(batch: tuple, k: int, n: int | None) -> None:
    scores, labels = batch
    metrics = EvaluationMetrics(scores.shape[1], k, n)
    batch_gap = metrics.accumulate(scores, labels, 1.0)["gap"]
    check(metrics.get(), scores, labels, k, n)
    assert batch_gap == metrics.get()["gap"]
    assert calculate_gap(scores, labels, k) == pytest.approx(brute_force.gap(scores, labels, k))


@given(batches(), st.integers(1, 8), st.integers(0, 2**32))
def test_pairs_not_rated_are_left_out(batch: tuple, k: int, seed: int) -> None:
    scores, labels = batch
    rated = np.random.default_rng(seed).random(scores.shape) < 0.5
    metrics = EvaluationMetrics(scores.shape[1], k)
    metrics.accumulate(scores, labels, 1.0, label_weights=rated.astype(np.float32))
    check(metrics.get(), np.where(rated, scores, -np.inf), labels & rated, k, None)


OF_BATCHES = {"hit_at_one", "perr", "gap", "loss"}


@given(batches(), st.integers(1, 6), st.integers(0, 3))
def test_columns_give_what_dense_scores_give(batch: tuple, k: int, more: int) -> None:
    scores, labels = batch
    built_in = load()[:12]  # a metric that was added may use more than k columns
    dense, columns = (EvaluationMetrics(scores.shape[1], k, metric_classes=built_in) for _ in range(2))
    expected = dense.accumulate(scores, labels, 0.5)
    taken = take_columns(scores, labels, k + more)
    perr = brute_force.perr(scores, labels)
    found = columns.accumulate_top_k(*taken, perr=perr, loss=0.5)
    assert found == pytest.approx(expected, nan_ok=True)
    assert_same(columns.get(), dense.get())
    if labels.sum(axis=1).max(initial=0) <= taken.scores.shape[1]:
        assert columns.accumulate_top_k(*taken)["perr"] == pytest.approx(np.mean(perr) if len(perr) else 0)


def assert_same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-12, atol=1e-12, err_msg=key)


def test_pairs_give_what_their_ratings_as_weights_give() -> None:
    draw = np.random.default_rng(9)
    scores, labels = draw.random((12, 7), dtype=np.float32), draw.random((12, 7)) < 0.4
    rated = draw.random((12, 7)) < 0.6
    by_weights, by_pairs = (EvaluationMetrics(7, top_k=4) for _ in range(2))
    expected = by_weights.accumulate(scores, labels, 0.5, rated)
    pairs = Pairs(rated.sum(axis=1), np.nonzero(rated)[1], scores[rated], labels[rated])
    assert by_pairs.accumulate_pairs(pairs, 0.5) == pytest.approx(expected)
    found = by_pairs.get()
    order = [np.argsort(-scores[:, number][rated[:, number]]) for number in range(7)]
    judged = [labels[:, number][rated[:, number]][places] for number, places in enumerate(order)]
    aps = [np.mean(np.cumsum(one)[one] / (np.flatnonzero(one) + 1)) for one in judged if one.any()]
    assert found.pop("map_at_n") == pytest.approx(np.mean(aps))
    assert_same(found, by_weights.get())


def test_a_batch_has_the_figures_of_batches_and_the_whole_has_all() -> None:
    metrics = EvaluationMetrics(3)
    scores, labels = np.array([[3, 2, 1], [1, 2, 3]]), np.array([[1, 1, 0], [1, 0, 0]])
    figures = metrics.accumulate(scores, labels, 0.5)
    assert figures.keys() >= OF_BATCHES
    total = metrics.get()
    assert not figures.keys() & {"map", "aps", "num_examples"}
    means = {"avg_hit_at_one", "avg_perr", "avg_loss"}
    assert total.keys() >= means | {"gap", "map", "aps", "aps_class", "aps_positives", "num_examples"}
    assert total["aps_class"].tolist() == [0, 1]
    assert total["aps_positives"].tolist() == [2, 1]
    assert total["num_examples"] == 2
    assert metrics.accumulate(scores[:1], labels[:1])["hit_at_one"] == 1
    assert metrics.get()["aps_positives"].tolist() == [3, 2]
    assert metrics.get()["num_examples"] == 3


class Examples(Metric):
    """A metric of the ranked entries alone; nothing for batches of one example."""

    name, key = "examples", "examples"

    def compute(self, ranked: RankedEntries) -> float | None:
        return ranked.num_examples if ranked.num_examples > 1 else None


def test_the_metrics_may_be_chosen() -> None:
    one = EvaluationMetrics(3, metric_classes=[Examples, HitAtOne])
    scores, labels = np.eye(3), np.eye(3)
    assert one.accumulate(scores[:2], labels[:2]) == {"examples": 2, "hit_at_one": 1}
    assert one.accumulate(scores[:1], labels[:1]) == {"hit_at_one": 1}
    assert one.get()["examples"] == 3
    assert "gap" not in one.get()
    assert set(EvaluationMetrics(3).metric_classes) >= {Gap, HitAtOne, MeanAveragePrecision}


def test_columns_kept_are_twenty_but_no_more_than_there_are_classes() -> None:
    kept = EvaluationMetrics(np.int64(30))
    assert (kept.num_class, kept.top_k, kept.top_n) == (30, 20, None)
    assert type(kept.num_class) is int
    assert EvaluationMetrics(30, top_k=40).top_k == 30
    assert EvaluationMetrics(3).top_k == 3


@pytest.mark.parametrize("name", ["num_class", "top_k", "top_n"])
def test_a_number_that_is_not_positive_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}\b.*positive integer"):
        EvaluationMetrics(**{"num_class": 3, name: 0})


def test_refusals_say_what_was_found() -> None:
    scores, labels = np.eye(3, dtype=np.float32), np.eye(3, dtype=bool)
    metrics = EvaluationMetrics(4, top_k=2)
    with pytest.raises(ValueError, match="must have 4 classes; they have 3"):
        metrics.accumulate(scores, labels)
    with pytest.raises(ValueError, match=r"\b2 columns.*\b4 label_counts.*\b2 and 3$"):
        metrics.accumulate_top_k(*take_columns(scores, labels, 2))
    metrics = EvaluationMetrics(3, top_k=2)
    with pytest.raises(ValueError, match=r"^perr must be \[3\]; it is \[2\]"):
        metrics.accumulate_top_k(*take_columns(scores, labels, 2), perr=[1, 1])
    with pytest.raises(ValueError, match=r"^perr holds NaN; give 0"):
        metrics.accumulate_top_k(*take_columns(scores, labels, 2), perr=[1, np.nan, 1])
    assert metrics.get()["num_examples"] == 0


@pytest.mark.heavy
def test_real_size_with_many_labels() -> None:
    draw = np.random.default_rng(5)
    scores = draw.random((60, 3862), dtype=np.float32)
    labels = draw.random(scores.shape) < draw.choice([0.0005, 0.01, 0.5], (60, 1))
    metrics = EvaluationMetrics(3862)
    metrics.accumulate(scores, labels, 0.0)
    check(metrics.get(), scores, labels, 20, None)


def test_losses() -> None:
    scores, labels = np.eye(3, dtype=np.float32), np.eye(3, dtype=bool)
    metrics = EvaluationMetrics(3)
    assert metrics.accumulate(scores, labels, [1.0, 2.0, 6.0])["loss"] == 3.0
    assert metrics.accumulate(scores[:1], labels[:1], 7.0)["loss"] == 7.0
    assert math.isnan(metrics.accumulate(scores, labels)["loss"])
    assert metrics.get()["avg_loss"] == 4.0
    rated = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 0]])
    assert metrics.accumulate(scores, labels, [1.0, 50.0, 2.0], label_weights=rated)["loss"] == 1.5


def test_threshold_counts_are_those_of_each_threshold_by_itself() -> None:
    draw = np.random.default_rng(8)
    scores = np.concatenate([draw.random((20, 6)), [[0, 0.25, 0.5, 0.75, 1, -0.5], [1.5, 0, 1, 0.1, 0.2, 0.3]]])
    scores, actuals = scores.astype(np.float32), draw.random((22, 6)) < 0.3
    metrics = EvaluationMetrics(6, top_k=6)
    metrics.accumulate(scores[:10], actuals[:10], 0.0)
    metrics.accumulate(scores[10:], actuals[10:], 0.0)
    for count in (2, 5, 11):
        found = metrics.threshold_counts(count)
        for place in range(count):
            # A score on the edge of two thresholds counts for the upper one; all lie within 0 and 1.
            above = np.floor(np.clip(scores, 0, 1) * np.float32(count - 1)) >= place
            expected = [(above & actuals).sum(), (above & ~actuals).sum()]
            expected += [(~above & ~actuals).sum(), (~above & actuals).sum()]
            assert found[:, place].tolist() == expected


def test_thresholds_count_the_labels_that_are_not_among_the_top_columns() -> None:
    metrics = EvaluationMetrics(3, top_k=1)
    metrics.accumulate(np.array([[0.9, 0.2, 0.1], [0.1, 0.4, 0.3]]), np.array([[1, 1, 0], [1, 0, 0]]))
    true, false, others, missed = metrics.threshold_counts(3).tolist()
    assert (true, false, others, missed) == ([1, 1, 0], [1, 0, 0], [2, 3, 3], [2, 2, 3])
