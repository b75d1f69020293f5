"""Every row by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import input as reading
from benchmarks import metrics, products, runs, segments
from benchmarks.floors import Floor
from benchmarks.measure import Measured

BATCH = 1024


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


def _logistic(training: bool) -> Floor:
    return Floor(
        products.dense(BATCH, products.FEATURES, products.CLASSES, training=training, to_input=False)
    )


def _train_logistic(repeats: int) -> Measured:
    return runs.train(runs.video_data(BATCH), "LogisticModel", repeats, _logistic(training=True))


def _evaluate_logistic(repeats: int) -> Measured:
    return runs.evaluate(runs.video_data(BATCH), "LogisticModel", repeats, _logistic(training=False))


def _train_frames(
    model: str, batch: int, needed: Sequence[products.Product] = ()
) -> Callable[[int], Measured]:
    """A row of a large model on frames: few steps, since each takes a second or more."""

    def measure(repeats: int) -> Measured:
        floor = Floor(needed, steps=2) if needed else None
        return runs.train(runs.frame_data(batch), model, repeats, floor, steps=runs.FEW_STEPS)

    return measure


def _train_frame_logistic(repeats: int) -> Measured:
    return runs.train(runs.frame_data(), "FrameLevelLogisticModel", repeats)


ROWS: dict[str, Row] = {
    "train/LogisticModel": Row(_train_logistic, ratio=0.55, peak_mb=1500),
    "train/FrameLevelLogisticModel": Row(_train_frame_logistic, rate=1500),
    "train/DbofModel": Row(_train_frames("DbofModel", 64, products.dbof(64)), ratio=0.55),
    "train/DbofModel, no floor": Row(_train_frames("DbofModel", 64), peak_mb=2500),
    "train/NetVladModel": Row(_train_frames("NetVladModel", 80, products.net_vlad(80)), ratio=0.5),
    "train/LstmModel": Row(
        _train_frames("LstmModel", 32, products.recurrent(32, 1024, gates=(4,))), ratio=0.45
    ),
    "train/GruModel": Row(
        _train_frames("GruModel", 32, products.recurrent(32, 1200, gates=(2, 1))), ratio=0.45
    ),
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
