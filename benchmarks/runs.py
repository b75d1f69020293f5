"""Rows on the real runner: its default callbacks, files of the real formats, default sizes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from absl import logging

from benchmarks import data
from benchmarks.measure import Measured, Sample
from yt8m import runner
from yt8m.config import DataConfig, ModelConfig
from yt8m.jobs import workload
from yt8m.readers import BatchQueue

Floor = Callable[[], Sample] | None

# One summary and ten lines of the log.
_TRAIN_BLOCK, _EVAL_BLOCK = 100, 40
FEW_STEPS = 10  # a line of the log, no summary


def train(
    config: DataConfig, model: str, repeats: int, floor: Floor = None, steps: int = _TRAIN_BLOCK
) -> Measured:
    """Steps of training, from files to the saved summaries; `steps` to a sample."""
    with tempfile.TemporaryDirectory() as folder:
        return _timed("train", config, model, repeats, floor, folder, steps)


def evaluate(config: DataConfig, model: str, repeats: int, floor: Floor = None) -> Measured:
    """Steps of evaluation, metrics included, on a checkpoint of one step."""
    with tempfile.TemporaryDirectory() as folder:
        one_step(config, model, folder)
        return _timed("eval", config, model, repeats, floor, folder, _EVAL_BLOCK)


def one_step(config: DataConfig, model: str, folder: str) -> None:
    """Leaves a checkpoint of one step in `folder`."""
    parts = _parts("train", config, model)
    settings = runner.RunnerConfig("train", folder, max_steps=1, batch_size_per_gpu=config.batch_size)
    finish(runner.build(settings, parts.inputter, parts.modeler, ["train_basic"]))


def frame_data(batch_size: int = 128) -> DataConfig:
    """Frames of generated videos."""
    return DataConfig(
        data_pattern=data.shards("frame"),
        feature_names=("rgb", "audio"),
        frame_features=True,
        batch_size=batch_size,
        num_epochs=None,
    )


def video_data(batch_size: int = 1024) -> DataConfig:
    """Generated videos."""
    return DataConfig(data_pattern=data.shards("video"), batch_size=batch_size, num_epochs=None)


def _timed(
    mode: str, config: DataConfig, model: str, repeats: int, floor: Floor, folder: str, steps: int
) -> Measured:
    parts, measured = _parts(mode, config, model), Measured(config.batch_size, [], [])
    name = "benchmarks.stopwatch:Stopwatch"
    options = {"into": measured, "steps": steps, "repeats": repeats, "floor": floor}
    settings = runner.RunnerConfig(mode, folder, batch_size_per_gpu=config.batch_size)
    callbacks = runner.CallbackConfig((name,), {name: options})
    finish(runner.build(settings, parts.inputter, parts.modeler, callbacks))
    return measured


def _parts(mode: str, config: DataConfig, model: str) -> Any:
    """As a job makes them, but without end: what is timed is the steady state."""
    parts = workload.create(config, ModelConfig(model), mode)
    if mode == "train":
        return parts
    return parts._replace(
        inputter=BatchQueue(
            parts.reader, config.data_pattern, config.batch_size, num_epochs=None, num_readers=1
        )
    )


def finish(run: runner.Runner) -> None:
    """Runs to the end, which must be a good one."""
    logging.set_verbosity(logging.WARNING)
    outcome = run.run()
    if outcome.exit_code:
        raise SystemExit(f"{os.path.basename(__file__)}: the run failed: {outcome.message}")
