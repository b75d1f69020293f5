"""The evaluation's figures on 20,000 examples of 3862 classes: accumulate all batches, then get."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import Measured, repeat
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.top_k import take_columns

EXAMPLES, CLASSES, BATCH = 20_000, 3862, 1024
LABELS_AN_EXAMPLE = 3


def dense(repeats: int) -> Measured:
    """Times `accumulate` on dense batches of scores."""
    scores, labels = _draw()
    return repeat(lambda: _evaluate(scores, labels), EXAMPLES, repeats)


def dense_tied(repeats: int) -> Measured:
    """As `dense`, with scores that tie by the thousand."""
    scores, labels = _draw()
    tied = np.round(scores, 1)
    return repeat(lambda: _evaluate(tied, labels), EXAMPLES, repeats)


def from_columns(repeats: int) -> Measured:
    """Times `accumulate_top_k` on the best columns, as the graph selects them."""
    scores, labels = _draw()
    batches = [take_columns(scores[rows], labels[rows], 20) for rows in _batches()]

    def evaluate() -> dict[str, Any]:
        metrics = EvaluationMetrics(CLASSES)
        for columns in batches:
            metrics.accumulate_top_k(*columns, loss=0.0)
        return metrics.get()

    return repeat(evaluate, EXAMPLES, repeats)


def _evaluate(scores: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    metrics = EvaluationMetrics(CLASSES)
    for rows in _batches():
        metrics.accumulate(scores[rows], labels[rows], 0.0)
    return metrics.get()


def _batches() -> list[slice]:
    return [slice(start, start + BATCH) for start in range(0, EXAMPLES, BATCH)]


def _draw() -> tuple[np.ndarray, np.ndarray]:
    """float32 scores and bool labels, [EXAMPLES, CLASSES]; labels score higher than the rest."""
    draw = np.random.default_rng(0)
    scores = draw.random((EXAMPLES, CLASSES), dtype=np.float32)
    labels = np.zeros(scores.shape, np.bool_)
    rows = np.repeat(np.arange(EXAMPLES), LABELS_AN_EXAMPLE)
    labels[rows, draw.integers(0, CLASSES, len(rows))] = True
    scores[labels] **= 0.01
    return scores, labels
