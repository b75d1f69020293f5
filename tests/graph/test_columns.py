"""Columns found by NumPy beside the graph against those of TensorFlow's ops."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.graph.columns import best_on_host, columns_on_host, scored_columns
from yt8m.graph.ops import Reduction
from yt8m.lazy import tf


def drawn(levels: int, rated: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores that tie, -inf where a pair was not rated, and labels, of which some rows have many."""
    draw = np.random.default_rng(levels)
    scores = draw.integers(-1, levels, (50, 700)).astype(np.float32) / levels
    labels = draw.random(scores.shape) < np.linspace(0, 0.1, len(scores))[:, np.newaxis]
    is_rated = draw.random(scores.shape) < rated
    return np.where(is_rated, scores, np.float32(-np.inf)), labels & is_rated


@pytest.mark.parametrize("levels", [3, 100_000])
@pytest.mark.parametrize("rated", [0.01, 1.0])
def test_the_columns_are_those_of_the_ops(levels: int, rated: float) -> None:
    scores, labels = drawn(levels, rated)
    with tf.Graph().as_default(), tf.Session() as session:
        of_ops = scored_columns(tf.constant(scores), tf.constant(labels, tf.float32), 20)
        on_host = columns_on_host(tf.constant(scores), tf.constant(labels), 20)
        expected, found = (
            session.run({name: report.tensor for name, report in reports.items()})
            for reports in (of_ops, on_host)
        )
    assert {name for name, report in on_host.items() if report.reduction is Reduction.SUM} == {"label_counts"}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("k", [1, 20, 700])
def test_the_best_are_those_of_the_op(k: int) -> None:
    scores, _ = drawn(50, 0.9)
    with tf.Graph().as_default(), tf.Session() as session:
        expected, found = session.run(
            [list(tf.nn.top_k(tf.constant(scores), k)), best_on_host(tf.constant(scores), k)]
        )
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
