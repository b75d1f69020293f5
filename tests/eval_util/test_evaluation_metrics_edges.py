"""Every figure is defined where there is little or nothing to measure, and bad input is refused."""

from __future__ import annotations

import math
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import yt8m
from yt8m.eval_util import (
    EvaluationMetrics,
    calculate_gap,
    calculate_hit_at_one,
    calculate_precision_at_equal_recall_rate,
)
from yt8m.eval_util.top_k import take_columns

FUNCTIONS = [calculate_hit_at_one, calculate_precision_at_equal_recall_rate, calculate_gap]
SCORES = np.array([[0.1, 0.9, 0.5], [0.4, 0.2, 0.3]], np.float32)


def figures(scores: Any, labels: Any, num_class: int = 3) -> dict[str, Any]:
    metrics = EvaluationMetrics(num_class)
    metrics.accumulate(scores, labels, 0.25)
    return metrics.get()


@pytest.mark.promise("N2")
def test_no_example_at_all() -> None:
    total = EvaluationMetrics(3).get()
    assert (total["avg_hit_at_one"], total["avg_perr"], total["gap"], total["num_examples"]) == (0, 0, 0, 0)
    assert math.isnan(total["map"])
    assert math.isnan(total["avg_loss"])
    assert len(total["aps"]) == len(total["aps_class"]) == 0
    assert [function(np.zeros((0, 3)), np.zeros((0, 3))) for function in FUNCTIONS] == [0, 0, 0]


@pytest.mark.promise("N2")
def test_no_label() -> None:
    total = figures(SCORES, np.zeros((2, 3)))
    assert (total["avg_hit_at_one"], total["avg_perr"], total["gap"], total["num_examples"]) == (0, 0, 0, 2)
    assert math.isnan(total["map"])
    assert total["avg_loss"] == 0.25


@pytest.mark.promise("N2")
def test_one_positive() -> None:
    total = figures(SCORES, [[0, 0, 1], [0, 0, 0]])
    assert (total["avg_hit_at_one"], total["avg_perr"]) == (0, 0)
    assert total["gap"] == total["map"] * 0.5 == 0.5
    assert total["aps_class"].tolist() == [2]


@pytest.mark.promise("N2")
def test_all_scores_equal() -> None:
    total = figures(np.full((2, 3), 0.5), [[1, 0, 0], [0, 1, 0]])
    assert (total["avg_hit_at_one"], total["avg_perr"]) == (0.5, 0.5)
    # Two positives among six in random order; one among two for each class.
    expected = sum((1 + (rank - 1) / 5) / rank for rank in range(1, 7)) / 6
    assert total["gap"] == pytest.approx(expected)
    assert total["aps"].tolist() == [0.75, 0.75]


@pytest.mark.promise("N2")
def test_one_class() -> None:
    total = figures([[0.2], [0.7]], [[1], [0]], num_class=1)
    assert (total["avg_hit_at_one"], total["avg_perr"], total["gap"], total["map"]) == (0.5, 0.5, 0.5, 0.5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64])
def test_dtypes(dtype: Any) -> None:
    scores = np.array([[0, 3, 1]], dtype)
    assert figures(scores, np.array([[False, True, False]]))["gap"] == 1
    assert figures(scores, np.array([[0, 0.5, 0]]))["gap"] == 1  # any label above 0 is a positive


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_refuse(function: Any) -> None:
    with pytest.raises(ValueError, match="NaN"):
        function([[0.1, np.nan]], [[0, 1]])
    with pytest.raises(ValueError, match="shape"):
        function([[0.1, 0.2]], [[0, 1, 0]])
    with pytest.raises(ValueError, match="examples, classes"):
        function([0.1, 0.2], [0, 1])


def test_metrics_refuse() -> None:
    for arguments in ({"num_class": 0}, {"num_class": 3, "top_k": 0}, {"num_class": 3, "top_n": -1}):
        with pytest.raises(ValueError, match="positive integer"):
            EvaluationMetrics(**arguments)
    with pytest.raises(ValueError, match="positive integer"):
        calculate_gap(SCORES, SCORES, top_k=0)
    with pytest.raises(ValueError, match="4 classes"):
        EvaluationMetrics(4).accumulate(SCORES, SCORES, 0.0)
    metrics = EvaluationMetrics(3)
    with pytest.raises(ValueError, match="label_weights"):
        metrics.accumulate(SCORES, SCORES, 0.0, label_weights=[1, 1, 1])
    with pytest.raises(ValueError, match="NaN"):
        metrics.accumulate(SCORES * np.nan, SCORES, 0.0)
    assert metrics.get()["num_examples"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": SCORES}, "sorted"),
        ({"scores": [[np.nan] * 3] * 2}, "NaN"),
        ({"classes": [[0, 1, 3]] * 2}, "0..2"),
        ({"classes": [0, 1]}, r"\[B, k\]"),
        ({"hits": [[1, 0]] * 2}, "hits"),
        ({"num_labels": [1, 1]}, "add up"),
        ({"num_labels": [1]}, r"\[B, k\]"),
        ({"label_counts": [1, 1]}, "0..1"),
        ({"perr": [0.5]}, "perr"),
        ({"perr": [0.5, np.nan]}, "perr"),
    ],
)
def test_bad_columns_are_refused(change: dict[str, Any], message: str) -> None:
    columns = take_columns(SCORES, np.array([[1, 0, 0], [0, 1, 1]], bool), 3)._asdict()
    metrics = EvaluationMetrics(3)
    metrics.accumulate_top_k(**columns)
    with pytest.raises(ValueError, match=message):
        metrics.accumulate_top_k(**columns | change)


def test_too_few_columns_are_refused() -> None:
    labels = np.array([[1, 0, 0], [0, 1, 1]], bool)
    with pytest.raises(ValueError, match="2 columns"):
        EvaluationMetrics(3, top_k=2).accumulate_top_k(*take_columns(SCORES, labels, 1))
    with pytest.raises(ValueError, match="needs 2 columns"):
        EvaluationMetrics(3, top_k=1).accumulate_top_k(*take_columns(SCORES, labels, 1))


def test_no_tensorflow_and_no_reseeding() -> None:
    code = (
        "import random, sys; random.seed(7); state = random.getstate();"
        "from yt8m.eval_util import calculate_gap; calculate_gap([[0.5, 0.5]], [[1, 0]]);"
        "sys.exit(random.getstate() != state or 'tensorflow' in sys.modules)"
    )
    root = pathlib.Path(yt8m.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
