"""Columns found by NumPy beside the graph against those of TensorFlow's ops."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.graph.protocols import Reduction
from yt8m.lazy import tf
from yt8m.video.scores import columns_on_host, scored_columns


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
        reports = scored_columns(tf.constant(scores), tf.constant(labels, tf.float32), 20)
        expected = session.run({name: report.tensor for name, report in reports.items()})
    found = columns_on_host(scores, labels, 20)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-7, err_msg=name)


def test_of_several_towers_the_labels_of_a_class_are_added() -> None:
    with tf.Graph().as_default():
        reports = scored_columns(tf.zeros([2, 30]), tf.zeros([2, 30]), 20)
    assert {name for name, report in reports.items() if report.reduction is Reduction.SUM} == {"label_counts"}
