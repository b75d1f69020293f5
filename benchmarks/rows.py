"""Every row by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import input as reading
from benchmarks import metrics, runs, segments
from benchmarks.floors import DenseFloor
from benchmarks.measure import Measured

FEATURES, CLASSES, BATCH = 1152, 3862, 1024


@dataclass(frozen=True)
class Row:
    """One thing that is timed.

    Attributes:
      measure: from the number of repetitions to the samples; run in a process of its own.
      rate: examples a second to reach; None for no promise.
      ratio: share of the floor's speed to reach.
      peak_mb: memory to stay under.
    """

    measure: Callable[[int], Measured]
    rate: float | None = None
    ratio: float | None = None
    peak_mb: float | None = None


def _train_logistic(repeats: int) -> Measured:
    floor = DenseFloor(BATCH, FEATURES, CLASSES, training=True)
    return runs.train(runs.video_data(BATCH), "LogisticModel", repeats, floor)


def _evaluate_logistic(repeats: int) -> Measured:
    floor = DenseFloor(BATCH, FEATURES, CLASSES, training=False)
    return runs.evaluate(runs.video_data(BATCH), "LogisticModel", repeats, floor)


def _train_frame_logistic(repeats: int) -> Measured:
    return runs.train(runs.frame_data(), "FrameLevelLogisticModel", repeats)


ROWS: dict[str, Row] = {
    "train/LogisticModel": Row(_train_logistic, ratio=0.55, peak_mb=1500),
    "train/FrameLevelLogisticModel": Row(_train_frame_logistic, rate=1500),
    "eval/LogisticModel": Row(_evaluate_logistic, rate=15_000),
    "metrics/dense": Row(metrics.dense, rate=metrics.EXAMPLES / 1.0),
    "metrics/dense with ties": Row(metrics.dense_tied),
    "metrics/top-k columns": Row(metrics.from_columns),
    "segments/inference": Row(segments.inference, rate=20_000),
    "segments/ranking": Row(segments.ranking),
    "segments/judging": Row(segments.judging, rate=1000 * 100_000 / 60, peak_mb=3000),
    "input/video, for training": Row(reading.video_shuffled),
    "input/video, in order": Row(reading.video_in_order),
    "input/frame, for training": Row(reading.frame_shuffled),
}
