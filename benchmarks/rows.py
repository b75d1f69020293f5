"""Every row by name."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import extracting, large_report, metrics, products, records, runs, segments
from benchmarks import input as reading
from benchmarks.floors import Floor
from benchmarks.measure import Measured, Sample
from yt8m.readers import BatchQueue

BATCH = 1024


@dataclass(frozen=True)
class Row:
    """One thing that is timed.

    Attributes:
      measure: takes the number of repetitions, returns the samples; runs in a process of its own.
      rate: target in examples a second; None for no target.
      ratio: target share of the floor's speed; if there is a rate too, reaching either is enough.
      peak_mb: upper limit of peak memory, MB.
      within: upper limit of the seconds for one example.
      beside: upper limit of the share of time that is not in the floor.
      cpu_ratio: target share of the floor's speed by CPU time, for a row that works in fewer threads than its floor.
    """

    measure: Callable[[int], Measured]
    rate: float | None = None
    ratio: float | None = None
    peak_mb: float | None = None
    within: float | None = None
    beside: float | None = None
    cpu_ratio: float | None = None


def _train_videos(
    model: str, needed: Sequence[products.Product], precision: str = "float32"
) -> Callable[[int], Measured]:
    """The `measure` of a row that trains a model on videos."""

    def measure(repeats: int) -> Measured:
        floor = Floor(needed, precision=precision)
        return runs.train(runs.video_data(BATCH), model, repeats, floor, precision=precision)

    return measure


def _train_frames(
    model: str, batch: int, needed: Sequence[products.Product] = (), precision: str = "float32"
) -> Callable[[int], Measured]:
    """The `measure` of a row that trains a large model on frames: few steps, since each takes a second or more."""

    def measure(repeats: int) -> Measured:
        floor = Floor(needed, steps=2, precision=precision) if needed else None
        data, steps = runs.frame_data(batch), runs.FEW_STEPS
        return runs.train(data, model, repeats, floor, steps=steps, precision=precision)

    return measure


def _train_frame_logistic(repeats: int) -> Measured:
    """The floor only reads the same batches. The fuller floor adds the products of the classifier."""
    config = runs.frame_data()
    read = reading.Reading(BatchQueue.for_config(config, "train"), steps=20)
    needed = products.dense(config.batch_size, products.FEATURES, products.CLASSES, to_input=False)
    multiply, fuller = Floor(needed), []

    def floor() -> Sample:
        sample = read()
        fuller.append(Sample(*map(operator.add, sample, multiply())))
        return sample

    measured = runs.train(config, "FrameLevelLogisticModel", repeats, floor)
    return dataclasses.replace(measured, fuller_floors=fuller, fuller_name="reading and products")


def _train_frame_logistic_alone(repeats: int) -> Measured:
    return runs.train(runs.frame_data(), "FrameLevelLogisticModel", repeats)


def _train_cached(repeats: int) -> Measured:
    with reading.cached(runs.video_data(BATCH)) as config:
        return runs.train(config, "LogisticModel", repeats, Floor(_LOGISTIC))


def _train_without_floor(repeats: int) -> Measured:
    return runs.train(runs.video_data(BATCH), "LogisticModel", repeats)


def _train_beside(repeats: int) -> Measured:
    return runs.train_beside(runs.video_data(BATCH), "LogisticModel", repeats)


def _evaluate_logistic(repeats: int) -> Measured:
    needed = products.dense(BATCH, products.FEATURES, products.CLASSES, training=False)
    return runs.evaluate(runs.video_data(BATCH), "LogisticModel", repeats, Floor(needed))


_LOGISTIC = products.dense(BATCH, products.FEATURES, products.CLASSES, to_input=False)
_MIXTURE = products.mixture(BATCH, products.FEATURES, to_input=False)
_LSTM, _GRU = products.recurrent(32, 1024, gates=(4,)), products.recurrent(32, 1200, gates=(2, 1))

# (products, target ratio in float32, target ratio in bfloat16); models on frames begin with the batch size.
_VIDEO_MODELS = {"LogisticModel": (_LOGISTIC, 0.70, 0.58), "MoeModel": (_MIXTURE, 0.68, 0.55)}
_FRAME_MODELS = {
    "DbofModel": (64, products.dbof(64), 0.62, 0.55),
    "NetVladModel": (80, products.net_vlad(80), 0.55, None),
    "LstmModel": (32, _LSTM, 0.50, None),
    "GruModel": (32, _GRU, 0.50, None),
    "TransformerModel": (32, products.transformer(32), 0.60, None),
}


def _training() -> dict[str, Row]:
    """The rows of every model with a floor, in both precisions."""
    rows = {}
    for model, (needed, *ratios) in _VIDEO_MODELS.items():
        for precision, ratio in zip(("float32", "bfloat16"), ratios, strict=True):
            rows[_name(model, precision)] = Row(_train_videos(model, needed, precision), ratio=ratio)
    for model, (batch, needed, *ratios) in _FRAME_MODELS.items():
        for precision, ratio in zip(("float32", "bfloat16"), ratios, strict=True):
            rows[_name(model, precision)] = Row(_train_frames(model, batch, needed, precision), ratio=ratio)
    return rows


def _name(model: str, precision: str) -> str:
    return f"train/{model}" if precision == "float32" else f"train/{model}, {precision}"


ROWS: dict[str, Row] = {
    **_training(),
    "train/LogisticModel, no floor": Row(_train_without_floor, peak_mb=1200),
    "train/LogisticModel, cached": Row(_train_cached, ratio=0.70),
    "train/LogisticModel, plain steps": Row(_train_beside, beside=0.02),
    "train/FrameLevelLogisticModel": Row(_train_frame_logistic, ratio=0.80),
    "train/FrameLevelLogisticModel, no floor": Row(_train_frame_logistic_alone, peak_mb=1200),
    "train/DbofModel, no floor": Row(_train_frames("DbofModel", 64), peak_mb=2500),
    "eval/LogisticModel": Row(_evaluate_logistic, ratio=0.75),
    "metrics/dense": Row(metrics.dense, rate=metrics.EXAMPLES / 0.5),
    "metrics/dense with ties": Row(metrics.dense_tied),
    "metrics/top-k columns": Row(metrics.from_columns, rate=metrics.EXAMPLES / 0.05),
    "report/50,000 videos": Row(large_report.page, rate=50_000 / 20),
    "segments/inference": Row(segments.inference, rate=30_000),
    "segments/ranking": Row(segments.ranking),
    "segments/judging": Row(segments.judging, rate=1000 * 100_000 / 60, peak_mb=3000),
    "make-records/100,000 videos": Row(records.make_records, ratio=1 / 3),
    "extract/decoding": Row(extracting.decoding),
    "extract/Inception-v3": Row(extracting.computing),
    "extract/both": Row(extracting.both, ratio=0.85),
    "input/video, for training": Row(reading.video_shuffled),
    "input/video, cached": Row(reading.video_cached),
    "input/video, in order": Row(reading.video_in_order),
    "input/frame, for training": Row(reading.frame_shuffled, ratio=0.85),
    "read_records/video, in order": Row(reading.numpy_videos, cpu_ratio=1.0),
    "read_records/video, shuffled": Row(reading.numpy_videos_shuffled, cpu_ratio=1.0),
    "read_records/frame, in order": Row(reading.numpy_frames, cpu_ratio=0.60),
}
