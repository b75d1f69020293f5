"""Evaluation and inference from files: segments that were rated, frames, and predictions as CSV."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from benchmarks import data, products, runs
from benchmarks import input as reading
from benchmarks.floors import Floor
from benchmarks.measure import Measured
from yt8m import readers, runner
from yt8m.config.train_config import DataConfig, ModelConfig
from yt8m.records.prediction_files import PredictionWriter
from yt8m.video import workload

_WATCH = "benchmarks.stopwatch:Stopwatch"


def evaluate_frames(repeats: int) -> Measured:
    """FrameLevelLogisticModel, whole videos; the floor only reads the same batches."""
    config = runs.frame_data(128)
    floor = reading.Reading(reading.in_order(config), steps=20)
    return runs.evaluate(config, "FrameLevelLogisticModel", repeats, floor)


def evaluate_segments(repeats: int) -> Measured:
    """FrameLevelLogisticModel on rated segments, a few of each video."""
    config = DataConfig(
        data_pattern=data.shards("segment"),
        feature_names=("rgb", "audio"),
        frame_features=True,
        segment_labels=True,
        batch_size=1024,
        num_epochs=None,
    )
    return runs.evaluate(config, "FrameLevelLogisticModel", repeats)


def write_predictions(repeats: int) -> Measured:
    """LogisticModel, from data files to the submission CSV of the challenges."""
    config, measured = runs.video_data(), Measured(1024, [], [])
    floor = Floor(products.dense(1024, products.FEATURES, products.CLASSES, training=False))
    parts = workload.create(config, ModelConfig("LogisticModel"), "infer")
    queue = readers.BatchQueue(parts.reader, config.data_pattern, config.batch_size, num_epochs=None)
    with tempfile.TemporaryDirectory() as folder:
        runs.one_step(config, "LogisticModel", folder)
        with open(os.path.join(folder, "predictions.csv"), "w") as file:
            options: dict[str, Any] = {
                _WATCH: {"into": measured, "steps": 40, "repeats": repeats, "floor": floor},
                "infer_writer": {"consumer": PredictionWriter(file, 20)},
            }
            settings = runner.RunnerConfig("infer", folder, batch_size_per_gpu=config.batch_size)
            callbacks = runner.CallbackConfig((_WATCH,), options)
            runs.finish(runner.build(settings, queue, parts.modeler, callbacks))
    return measured
