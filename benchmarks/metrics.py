"""Times of the evaluation's figures on 20,000 examples of 3862 classes: python benchmarks/metrics.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from yt8m.eval_util import EvaluationMetrics, calculate_gap, calculate_hit_at_one
from yt8m.eval_util import calculate_precision_at_equal_recall_rate as calculate_perr
from yt8m.eval_util.columns import Columns, take_columns

EXAMPLES, CLASSES, BATCH = 20_000, 3862, 1024
LABELS_AN_EXAMPLE = 3


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float32 scores and bool labels, [EXAMPLES, CLASSES]; labels score higher than the rest."""
    draw = np.random.default_rng(seed)
    scores = draw.random((EXAMPLES, CLASSES), dtype=np.float32)
    labels = np.zeros(scores.shape, np.bool_)
    rows = np.repeat(np.arange(EXAMPLES), LABELS_AN_EXAMPLE)
    labels[rows, draw.integers(0, CLASSES, len(rows))] = True
    scores[labels] **= 0.01
    return scores, labels


def seconds(action: Callable[[], Any], repeats: int = 3) -> float:
    """The least of a few timings."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def dense(scores: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """A whole evaluation from dense batches."""
    metrics = EvaluationMetrics(CLASSES)
    for start in range(0, len(scores), BATCH):
        rows = slice(start, start + BATCH)
        metrics.accumulate(scores[rows], labels[rows], 0.0)
    return metrics.get()


def from_columns(batches: list[Columns]) -> dict[str, Any]:
    """A whole evaluation from columns that the graph took."""
    metrics = EvaluationMetrics(CLASSES)
    for columns in batches:
        metrics.accumulate_top_k(*columns, loss=0.0)
    return metrics.get()


def rows() -> list[dict[str, Any]]:
    """One row a measurement: `name` and `seconds`."""
    scores, labels = data()
    tied = np.round(scores, 1)
    batches = [
        take_columns(scores[i : i + BATCH], labels[i : i + BATCH], 20) for i in range(0, EXAMPLES, BATCH)
    ]
    actions: dict[str, Callable[[], Any]] = {
        "metrics/dense": lambda: dense(scores, labels),
        "metrics/dense_tied": lambda: dense(tied, labels),
        "metrics/from_top_k": lambda: from_columns(batches),
        "metrics/hit_at_one_batch": lambda: calculate_hit_at_one(scores[:BATCH], labels[:BATCH]),
        "metrics/perr_batch": lambda: calculate_perr(scores[:BATCH], labels[:BATCH]),
        "metrics/gap_batch": lambda: calculate_gap(scores[:BATCH], labels[:BATCH]),
    }
    return [{"name": name, "seconds": seconds(action)} for name, action in actions.items()]


def main() -> None:
    """Prints the measurements."""
    for row in rows():
        print(f"{row['name']:28s} {row['seconds']:.4f} s")


if __name__ == "__main__":
    main()
