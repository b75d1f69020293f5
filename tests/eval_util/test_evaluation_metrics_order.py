"""Cutting and ordering change nothing."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Entries
from yt8m.eval_util.metrics import HitAtOne

CLASSES = 5


def part(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """One batch with many ties."""
    draw = np.random.default_rng(seed)
    rows = int(draw.integers(0, 6))
    scores = (draw.integers(0, 4, (rows, CLASSES)) / 4).astype(np.float32)
    return scores, draw.random(scores.shape) < 0.4, float(draw.random())


def fed(*seeds: int) -> EvaluationMetrics:
    metrics = EvaluationMetrics(CLASSES, top_k=3, top_n=4)
    for seed in seeds:
        metrics.accumulate(*part(seed))
    return metrics


def assert_same(found: EvaluationMetrics, expected: EvaluationMetrics) -> None:
    ours, theirs = found.get(), expected.get()
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        if key in ("avg_perr", "avg_loss"):  # sums of floats, which round by order
            assert ours[key] == pytest.approx(value, rel=1e-12, nan_ok=True)
        else:
            np.testing.assert_array_equal(ours[key], value, err_msg=key)


@given(st.lists(st.integers(0, 10_000), max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_batches_changes_nothing(seeds: list[int], random: Any) -> None:
    ordered = list(seeds)
    random.shuffle(ordered)
    assert_same(fed(*ordered), fed(*seeds))


@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_batches_can_be_cut_and_ordered_in_any_way(seed: int, random: Any) -> None:
    scores, labels, loss = part(seed)
    rows = list(range(len(scores)))
    random.shuffle(rows)
    one_by_one = fed()
    for row in rows:
        one_by_one.accumulate(scores[[row]], labels[[row]], loss)
    assert_same(one_by_one, fed(seed))


@given(st.lists(st.integers(0, 10_000), max_size=9), st.lists(st.integers(0, 9), max_size=4), st.integers(0, 4))
@examples(25)
def test_merged_workers_have_what_one_accumulator_has(seeds: list[int], cuts: list[int], last: int) -> None:
    """Any split of the batches over workers, merged in another order; each worker came from another process."""
    places = [0, *sorted(min(cut, len(seeds)) for cut in cuts), len(seeds)]
    workers = [pickle.loads(pickle.dumps(fed(*seeds[i:j]))) for i, j in itertools.pairwise(places)]
    before = [worker.get() for worker in workers]
    merged = fed()
    for worker in workers[last:] + workers[:last]:
        merged.merge(worker)
    assert_same(merged, fed(*seeds))
    for worker, figures in zip(workers, before, strict=True):
        np.testing.assert_equal(worker.get(), figures)


def test_a_merged_accumulator_goes_on() -> None:
    merged, other = fed(1), fed(2)
    merged.merge(other)
    merged.accumulate(*part(3))
    assert_same(merged, fed(1, 2, 3))
    assert_same(other, fed(2))
    merged.merge(merged)
    assert_same(merged, fed(1, 2, 3, 1, 2, 3))


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (EvaluationMetrics(6, 3, 4), "num_class=5 .* num_class=6"),
        (EvaluationMetrics(CLASSES, 2, 4), "top_k=3 .* top_k=2"),
        (EvaluationMetrics(CLASSES, 3), "top_n=4 .* top_n=None"),
        (EvaluationMetrics(CLASSES, 3, 4, [HitAtOne]), "metric_classes"),
        (EvaluationMetrics(CLASSES, 3, 4, class_counts=range(5)), "class_counts"),
    ],
)
def test_accumulators_with_other_settings_are_not_merged(other: EvaluationMetrics, difference: str) -> None:
    metrics = fed(1)
    with pytest.raises(ValueError, match=difference):
        metrics.merge(other)
    assert_same(metrics, fed(1))


def test_clear() -> None:
    metrics = fed(1, 2)
    metrics.clear()
    assert_same(metrics, fed())
    metrics.accumulate(*part(3))
    assert_same(metrics, fed(3))


def test_memory_is_eight_bytes_an_entry() -> None:
    scores, labels = np.random.default_rng(6).random((1000, 50), dtype=np.float32), np.zeros((1000, 50), bool)
    metrics = EvaluationMetrics(50, top_k=7)
    for row in range(1000):
        metrics.accumulate(scores[[row]], labels[[row]], 0.0)
    held = metrics._entries
    assert sum(part.nbytes for part in held._chunks + held._recent) == 1000 * 7 * 8
    assert len(held._chunks) + len(held._recent) < 300


@pytest.mark.heavy
def test_merging_many_small_accumulators_keeps_few_arrays() -> None:
    merged = fed()
    for seed in range(1000):
        merged.merge(fed(seed))
    assert len(merged._entries._chunks) + len(merged._entries._recent) < 300
    assert_same(merged, fed(*range(1000)))


def test_entries_survive_many_parts() -> None:
    entries = Entries()
    for number in range(1000):
        entries.append(np.array([number], np.uint64))
    np.testing.assert_array_equal(np.sort(entries.all()), np.arange(1000))
