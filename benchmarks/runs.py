"""Rows on the real runner: its default callbacks, files of the real formats, default sizes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from benchmarks import data
from benchmarks.measure import Measured, Sample
from yt8m import runner
from yt8m.config.train_config import DataConfig, ModelConfig, OptimizerConfig
from yt8m.readers import BatchQueue
from yt8m.video import workload

Floor = Callable[[], Sample] | None

# Steps of a block; a training block holds one summary and ten log lines.
_TRAIN_BLOCK, _EVAL_BLOCK = 100, 40
# The default rate of 0.01 blows up the gradients of an LSTM over 300 frames within a few steps.
_GENTLY = OptimizerConfig(base_learning_rate=0.001)
FEW_STEPS = 10  # one log line, no summary


def train(
    config: DataConfig,
    model: str,
    repeats: int,
    floor: Floor = None,
    steps: int = _TRAIN_BLOCK,
    precision: str = "float32",
    xla: bool = False,
) -> Measured:
    """Times training steps, from files to saved summaries; a sample is `steps` steps."""
    with tempfile.TemporaryDirectory() as folder:
        settings = runner.RunnerConfig("train", folder, optimizer=_GENTLY, precision=precision, xla=xla)
        return _timed(settings, config, model, repeats, floor, steps)


def train_beside(config: DataConfig, model: str, repeats: int) -> Measured:
    """Times training steps; the floor is the steps that compute neither figures nor summaries."""
    with tempfile.TemporaryDirectory() as folder:
        measured = Measured(config.batch_size, [], [])
        options = {"into": measured, "steps": _TRAIN_BLOCK, "repeats": repeats}
        settings = runner.RunnerConfig("train", folder)
        return _watched(settings, config, model, "benchmarks.stopwatch:StepWatch", options)


def evaluate(config: DataConfig, model: str, repeats: int, floor: Floor = None) -> Measured:
    """Times evaluation steps, metrics included, on a checkpoint of step 1."""
    with tempfile.TemporaryDirectory() as folder:
        one_step(config, model, folder)
        settings = runner.RunnerConfig("eval", folder)
        return _timed(settings, config, model, repeats, floor, _EVAL_BLOCK)


def one_step(config: DataConfig, model: str, folder: str) -> None:
    """Trains one step and leaves its checkpoint in `folder`."""
    parts = _parts("train", config, model)
    settings = runner.RunnerConfig("train", folder, max_steps=1, batch_size_per_gpu=config.batch_size)
    finish(runner.build(settings, parts.inputter, parts.modeler, ["train_basic"]))


def frame_data(batch_size: int = 128) -> DataConfig:
    """The data config for frames of generated videos."""
    return DataConfig(
        data_pattern=data.shards("frame"),
        feature_names=("rgb", "audio"),
        frame_features=True,
        batch_size=batch_size,
        num_epochs=None,
    )


def video_data(batch_size: int = 1024) -> DataConfig:
    """The data config for generated videos."""
    return DataConfig(data_pattern=data.shards("video"), batch_size=batch_size, num_epochs=None)


def _timed(
    settings: runner.RunnerConfig, config: DataConfig, model: str, repeats: int, floor: Floor, steps: int
) -> Measured:
    measured = Measured(config.batch_size, [], [])
    options = {"into": measured, "steps": steps, "repeats": repeats, "floor": floor}
    return _watched(settings, config, model, "benchmarks.stopwatch:Stopwatch", options)


def _watched(
    settings: runner.RunnerConfig, config: DataConfig, model: str, watch: str, options: Mapping[str, Any]
) -> Measured:
    """Runs the job with the callback `watch` and returns its measurements."""
    parts = _parts(settings.mode, config, model)
    callbacks = runner.CallbackConfig((watch,), {watch: options})
    finish(runner.build(settings, parts.inputter, parts.modeler, callbacks))
    measured: Measured = options["into"]
    return measured


def _parts(mode: str, config: DataConfig, model: str) -> Any:
    """The inputter and modeler of a job. The data repeat without end, so that the steady state is timed."""
    parts = workload.create(config, ModelConfig(model), mode)
    if mode == "train":
        return parts
    return parts._replace(
        inputter=BatchQueue(parts.reader, config.data_pattern, config.batch_size, num_epochs=None, num_readers=1)
    )


def finish(run: runner.Runner) -> None:
    """Runs to the end; exits with an error if the run fails."""
    logging.set_verbosity(logging.WARNING)
    outcome = run.run()
    if outcome.exit_code:
        raise SystemExit(f"{os.path.basename(__file__)}: the run failed: {outcome.message}")
