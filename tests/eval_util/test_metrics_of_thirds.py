"""Head, middle and tail: the division against a sorted list, GAP and mAP against loops over the entries of each."""

from __future__ import annotations

import math

import numpy as np
import pytest
from eval_util import brute_force
from hypothesis import given
from hypothesis import strategies as st

from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.metrics import THIRDS, third_of_class, thirds


def divided(counts: list[int]) -> list[list[int]]:
    """The classes of head, middle and tail; of equally frequent ones the first goes first."""
    order = sorted(range(len(counts)), key=lambda c: (-counts[c], c))
    found: list[list[int]] = []
    for left in (3, 2, 1):
        size = math.ceil(len(order) / left)
        found, order = [*found, order[:size]], order[size:]
    return found


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_thirds_are_the_classes_in_order_of_their_counts(counts: list[int]) -> None:
    expected = divided(counts) if any(counts) else []
    assert [part.tolist() for part in thirds(np.array(counts))] == expected
    if any(counts):
        found = third_of_class(np.array(counts)).tolist()
        assert found == [next(n for n, part in enumerate(expected) if c in part) for c in range(len(counts))]


@st.composite
def evaluations(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Scores [B, C] with many ties, labels [B, C] and class counts [C]."""
    videos, classes = draw(st.integers(0, 7)), draw(st.integers(1, 8))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    scores = (random.integers(-1, 4, (videos, classes)) / 4).astype(np.float32)
    labels = random.random((videos, classes)) < draw(st.sampled_from([0.0, 0.3, 0.7]))
    return scores, labels, [int(one) for one in random.integers(0, 4, classes) + np.eye(classes, dtype=int)[0]]


@given(evaluations(), st.integers(1, 9))
def test_gap_and_map_of_each_third_equal_the_definitions(evaluation: tuple, k: int) -> None:
    scores, labels, counts = evaluation
    metrics = EvaluationMetrics(len(counts), k, class_counts=counts)
    for rows in np.array_split(np.arange(len(scores)), 2):
        assert not {"gap_head", "map_tail"} & metrics.accumulate(scores[rows], labels[rows]).keys()
    found = metrics.get()
    kept, aps = brute_force.entries(scores, labels, k), brute_force.class_ap(scores, labels, k, None)
    for name, classes in zip(THIRDS, divided(counts), strict=True):
        positives = int(labels[:, classes].sum())
        pooled = [(score, hit) for c, score, hit in kept if c in classes]
        gap = brute_force.expected_ap(pooled, positives) if positives else math.nan
        assert found[f"gap_{name}"] == pytest.approx(gap, nan_ok=True)
        mean = float(np.mean([aps[c] for c in classes if c in aps])) if positives else math.nan
        assert found[f"map_{name}"] == pytest.approx(mean, nan_ok=True)


@pytest.mark.parametrize("counts", [None, [0, 0, 0]])
def test_without_counts_there_are_no_thirds(counts: list[int] | None) -> None:
    metrics = EvaluationMetrics(3, class_counts=counts)
    metrics.accumulate(np.eye(3), np.eye(3))
    assert not [key for key in metrics.get() if key.rpartition("_")[2] in THIRDS]


def test_counts_are_those_of_the_classes() -> None:
    with pytest.raises(ValueError, match=r"class_counts must be \[3\]; they are \[2\]"):
        EvaluationMetrics(3, class_counts=[1, 2])
