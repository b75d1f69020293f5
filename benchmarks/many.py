"""An evaluation's figures on as many videos as YouTube-8M validates: generated columns, batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import Measured, repeat
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.top_k import Columns

VIDEOS, BATCH, CLASSES, KEPT = 1_100_000, 1024, 3862, 20
_DIFFERENT = 64  # distinct batches; after these they repeat with other scores


def validation(repeats: int) -> Measured:
    """Times the figures of 1.1 million videos."""
    return repeat(lambda: figures(VIDEOS), VIDEOS, repeats)


def figures(videos: int, batch: int = BATCH, classes: int = CLASSES) -> dict[str, Any]:
    """All figures of this many videos, in whole batches."""
    metrics, draw = EvaluationMetrics(classes, KEPT), np.random.default_rng(0)
    drawn = [_draw(draw, batch, classes) for _ in range(_DIFFERENT)]
    for number in range(videos // batch):
        columns = drawn[number % _DIFFERENT]
        # A factor keeps the order of each row and makes new scores, so that nothing ties.
        scores = columns.scores * np.float32(1 - 1e-4 * (number // _DIFFERENT))
        metrics.accumulate_top_k(*columns._replace(scores=scores), loss=0.0)
    return metrics.get()


def _draw(draw: np.random.Generator, batch: int, classes: int) -> Columns:
    """The best columns of a batch; the class at rank n is right with probability 1 / (n + 2)."""
    kept = min(KEPT, classes)
    scores = -np.sort(-draw.random((batch, kept), dtype=np.float32), axis=1)
    named = draw.integers(0, classes, (batch, kept), dtype=np.int32)
    hits = draw.random((batch, kept)) < 1 / (np.arange(kept) + 2)
    counts = np.bincount(named[hits], minlength=classes)
    return Columns(scores, named, hits, hits.sum(axis=1), counts)
