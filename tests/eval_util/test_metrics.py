"""The functions on a batch: each is the mean of its definition, and 0 where there is nothing to measure."""

from __future__ import annotations

import numpy as np
import pytest
from eval_util import brute_force

from yt8m.eval_util import calculate_gap, calculate_hit_at_one, calculate_precision_at_equal_recall_rate

FUNCTIONS = (calculate_hit_at_one, calculate_precision_at_equal_recall_rate, calculate_gap)


def test_each_is_the_mean_of_its_definition() -> None:
    draw = np.random.default_rng(2)
    scores, labels = draw.random((40, 30), dtype=np.float32), draw.random((40, 30)) < 0.2
    labels[0], labels[1, :25] = False, True  # none, and more than are usually ranked
    best = labels[np.arange(40), scores.argmax(axis=1)]
    assert calculate_hit_at_one(scores, labels) == pytest.approx(best.mean())
    expected = np.mean(brute_force.perr(scores, labels))
    assert calculate_precision_at_equal_recall_rate(scores, labels) == pytest.approx(expected)
    for k in (1, 3, 20, 30, 50):
        assert calculate_gap(scores, labels, k) == pytest.approx(brute_force.gap(scores, labels, k))
    assert calculate_gap(scores, labels) == calculate_gap(scores, labels, 20)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_an_example_each_is_a_plain_zero(function) -> None:
    found = function(np.zeros((0, 3)), np.zeros((0, 3)))
    assert (type(found), found) == (float, 0.0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_wrong_shape_is_named(function) -> None:
    with pytest.raises(
        ValueError, match=r"(actuals|labels) must have the shape of the predictions, \(2, 3\); it is \(2, 4\)"
    ):
        function(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"predictions must be \[examples, classes\].* the shape is \(3,\)"):
        function(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("wrong", [0, -1, 2.5])
def test_the_refused_number_is_named(wrong) -> None:
    with pytest.raises(ValueError, match=f"^top_k must be a positive integer; it is {wrong}$"):
        calculate_gap(np.zeros((1, 2)), np.zeros((1, 2)), wrong)
