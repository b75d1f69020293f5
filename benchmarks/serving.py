"""Evaluation and inference from files: segments that were rated, frames, and predictions as CSV."""

from __future__ import annotations

import os
import tempfile

from benchmarks import data, products, runs
from benchmarks.input import reading
from benchmarks.measure import Measured
from yt8m import runner
from yt8m.config.train_config import DataConfig
from yt8m.records.prediction_files import PredictionWriter


def evaluate_frames(repeats: int) -> Measured:
    """FrameLevelLogisticModel, whole videos; the floor only reads the same batches."""
    config = runs.frame_data(128)
    floors = {"reading": reading(config, steps=20, is_shuffled=False)}
    return runs.evaluate(config, "FrameLevelLogisticModel", repeats, floors)


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
    return runs.evaluate(config, "FrameLevelLogisticModel", repeats, {})


def write_predictions(repeats: int) -> Measured:
    """LogisticModel, from data files to the submission CSV of the challenges."""
    config = runs.video_data()
    floor = products.floor(products.dense(1024, products.FEATURES, products.CLASSES, training=False))
    with tempfile.TemporaryDirectory() as folder:
        runs.train_one_step(config, "LogisticModel", folder)
        videos = runs.create_workload("infer", config, "LogisticModel")
        with open(os.path.join(folder, "predictions.csv"), "w") as file:
            job, writer = runner.RunnerConfig("infer", folder), {"consumer": PredictionWriter(file, 20)}
            return runs.run(job, videos, repeats, {"products": floor}, runs.EVAL_BLOCK, infer_writer=writer)
