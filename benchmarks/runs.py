"""Rows on the real runner: its default callbacks, files of the real formats, default sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from absl import logging

from benchmarks import data
from benchmarks.measure import Measured, Work
from benchmarks.stopwatch import FloorTurns
from yt8m import graph, runner
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, OptimizerConfig
from yt8m.readers import BatchQueue, reader_for
from yt8m.video import workload

# Steps of a block; a training block holds one summary and ten log lines.
TRAIN_BLOCK, EVAL_BLOCK = 100, 40
FEW_STEPS = 10  # one log line, no summary
# The default rate of 0.01 blows up the gradients of an LSTM over 300 frames within a few steps.
_GENTLY = OptimizerConfig(base_learning_rate=0.001)


def train(
    config: DataConfig,
    model: str,
    repeats: int,
    floors: Mapping[str, Work] | None = None,
    steps: int = TRAIN_BLOCK,
    model_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Measured:
    """Times training steps, from files to saved summaries; a sample is a step of blocks of `steps` steps.

    Args:
      model_options: hyper-parameters of the model that are not its defaults.
      settings: fields of `RunnerConfig`.
    """
    with tempfile.TemporaryDirectory() as folder:
        job = runner.RunnerConfig("train", folder, optimizer=_GENTLY, **settings)
        videos = create_workload("train", config, model, **(model_options or {}))
        return run(job, videos, repeats, floors or {}, steps)


def train_beside(config: DataConfig, model: str, repeats: int) -> Measured:
    """Times training steps; the floor is the steps that compute neither figures nor summaries."""
    measured = Measured(config.batch_size)
    options = {"measured": measured, "steps": TRAIN_BLOCK, "repeats": repeats}
    videos = create_workload("train", config, model)
    with tempfile.TemporaryDirectory() as folder:
        run_watched(runner.RunnerConfig("train", folder), videos.inputter, videos.modeler, "StepWatch", options)
    return measured


def evaluate(config: DataConfig, model: str, repeats: int, floors: Mapping[str, Work]) -> Measured:
    """Times evaluation steps, metrics included, on a checkpoint of step 1."""
    with tempfile.TemporaryDirectory() as folder:
        train_one_step(config, model, folder)
        job = runner.RunnerConfig("eval", folder)
        return run(job, create_workload("eval", config, model), repeats, floors, EVAL_BLOCK)


def train_one_step(config: DataConfig, model: str, folder: str) -> None:
    """Trains one step and leaves its checkpoint in `folder`."""
    videos = create_workload("train", config, model)
    job = runner.RunnerConfig("train", folder, max_steps=1)
    finish(runner.build(job, videos.inputter, videos.modeler, ["train_basic"]))


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


def create_workload(mode: str, config: DataConfig, model: str, **options: Any) -> workload.Workload:
    """The reader, inputter and modeler of a job. The data repeat without end, so that the steady state is timed."""
    videos = workload.create(config, ModelConfig(model, options), mode)
    return videos if mode == "train" else videos._replace(inputter=endless_queue(config))


def endless_queue(config: DataConfig) -> BatchQueue:
    """The queue of an evaluation, repeated without end."""
    return BatchQueue(reader_for(config), config.data_pattern, config.batch_size, num_epochs=None)


def run(
    job: runner.RunnerConfig,
    videos: workload.Workload,
    repeats: int,
    floors: Mapping[str, Work],
    steps: int,
    **options: Mapping[str, Any],
) -> Measured:
    """Runs a job with the usual callbacks and their `options`, and times it in blocks of `steps` steps."""
    measured = Measured(videos.inputter.batch_size)
    settings = {"turns": FloorTurns(measured, floors, repeats), "steps": steps}
    run_watched(job, videos.inputter, videos.modeler, "Stopwatch", settings, **options)
    return measured


def run_watched(
    job: runner.RunnerConfig,
    inputter: graph.Inputter,
    modeler: graph.Modeler,
    watch: str,
    settings: Mapping[str, Any],
    **options: Mapping[str, Any],
) -> None:
    """Runs a job with the callback `watch` of stopwatch.py, and with the usual callbacks and their `options`."""
    name = f"benchmarks.stopwatch:{watch}"
    callbacks = runner.CallbackConfig(options={name: settings, **options})
    finish(runner.build(job, inputter, modeler, callbacks))


def finish(job: runner.Runner) -> None:
    """Runs to the end; exits with an error if the run fails."""
    logging.set_verbosity(logging.WARNING)
    outcome = job.run()
    if outcome.exit_code:
        raise SystemExit(f"the run failed: {outcome.message}")
