"""The evaluation's figures: of 20,000 examples of 3862 classes, and of as many videos as YouTube-8M validates."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import Measured, repeat
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.top_k import Columns, take_columns

EXAMPLES, CLASSES, BATCH = 20_000, 3862, 1024
LABELS_AN_EXAMPLE = 3
VIDEOS, KEPT = 1_100_000, 20
_DIFFERENT = 64  # distinct batches of columns; after these they repeat with other scores


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


def validation(repeats: int) -> Measured:
    """Times the figures of 1.1 million videos: generated columns, batch by batch."""
    return repeat(lambda: figures(VIDEOS), VIDEOS, repeats)


def figures(videos: int) -> dict[str, Any]:
    """All figures of this many videos, in whole batches."""
    metrics, draw = EvaluationMetrics(CLASSES, KEPT), np.random.default_rng(0)
    drawn = [_draw_columns(draw) for _ in range(_DIFFERENT)]
    for number in range(videos // BATCH):
        columns = drawn[number % _DIFFERENT]
        # A factor keeps the order of each row and makes new scores, so that nothing ties.
        scores = columns.scores * np.float32(1 - 1e-4 * (number // _DIFFERENT))
        metrics.accumulate_top_k(*columns._replace(scores=scores), loss=0.0)
    return metrics.get()


def _draw_columns(draw: np.random.Generator) -> Columns:
    """The best columns of a batch; the class at rank n is right with probability 1 / (n + 2)."""
    scores = -np.sort(-draw.random((BATCH, KEPT), dtype=np.float32), axis=1)
    named = draw.integers(0, CLASSES, (BATCH, KEPT), dtype=np.int32)
    hits = draw.random((BATCH, KEPT)) < 1 / (np.arange(KEPT) + 2)
    return Columns(scores, named, hits, hits.sum(axis=1), np.bincount(named[hits], minlength=CLASSES))
