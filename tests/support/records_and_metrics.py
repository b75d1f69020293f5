"""Reads records and computes every metric: what docs/users/future.md says of Python without TensorFlow.

`python -P tests/support/records_and_metrics.py SHARD...` prints the figures as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import yt8m
from yt8m import eval_util

Figures = dict[str, Any]


def figures(shards: Sequence[str]) -> Figures:
    """{what: figures} of some files of video-level records, with drawn scores that are higher for their labels."""
    batches = list(yt8m.read_records(list(shards), batch_size=7))
    labels = np.concatenate([batch.labels for batch in batches])
    scores = 0.45 * labels + 0.5 * np.random.default_rng(7).random(labels.shape, np.float32)
    return {
        "videos": [video for batch in batches for video in batch.ids],
        "features": {name: _digest([batch.features[name] for batch in batches]) for name in batches[0].features},
        **{name: compute(scores, labels) for name, compute in METRICS.items()},
    }


def _digest(arrays: Sequence[Any]) -> str:
    return hashlib.sha256(np.concatenate(arrays).tobytes()).hexdigest()


def _evaluation(scores: Any, labels: Any) -> Figures:
    metrics = eval_util.EvaluationMetrics(labels.shape[1])
    of_batch = metrics.accumulate(scores, labels, np.full(len(labels), 0.5))
    return {"batch": of_batch, "all": {name: np.asarray(value).tolist() for name, value in metrics.get().items()}}


def _average_precision(scores: Any, labels: Any) -> float:
    calculator = eval_util.AveragePrecisionCalculator()
    calculator.accumulate(scores[:, 0], labels[:, 0])
    return calculator.peek_ap_at_n()


def _mean_average_precision(scores: Any, labels: Any) -> list[float]:
    calculator = eval_util.MeanAveragePrecisionCalculator(labels.shape[1])
    calculator.accumulate(list(scores.T), list(labels.T))
    return [float(value) for value in calculator.peek_map_at_n()]


# {name in `yt8m.eval_util`: what computes its figures}
METRICS: dict[str, Callable[[Any, Any], Any]] = {
    "AveragePrecisionCalculator": _average_precision,
    "EvaluationMetrics": _evaluation,
    "MeanAveragePrecisionCalculator": _mean_average_precision,
    "calculate_gap": eval_util.calculate_gap,
    "calculate_hit_at_one": eval_util.calculate_hit_at_one,
    "calculate_precision_at_equal_recall_rate": eval_util.calculate_precision_at_equal_recall_rate,
}


if __name__ == "__main__":
    print(json.dumps(figures(sys.argv[1:])))
    assert not sys.modules.get("tensorflow")
