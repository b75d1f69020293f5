"""This project as a contestant: bare steps on batches in memory, and whole runs from files by the real runner."""

from __future__ import annotations

import copy
import os
import pathlib
import re
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import runs
from benchmarks.peers.comparison import OURS, Comparison, losses_path
from benchmarks.peers.contestants import PipeTurns
from yt8m import deploy, graph, huge_pages, runner
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.lazy import tf
from yt8m.records.prediction_files import PredictionWriter
from yt8m.runner import Context
from yt8m.types import Batch
from yt8m.video import workload
from yt8m.video.modeler import VideoModeler

BATCHES = 4  # batches in memory
LOSSES = 4  # steps whose losses are compared
# The default rate of 0.01 blows up the gradients of an LSTM over 300 frames within a few steps.
OPTIMIZER = OptimizerConfig(base_learning_rate=0.001, learning_rate_schedule="constant")


class Stored(graph.Inputter):
    """Gives the first batches of another inputter again and again, from memory."""

    def __init__(self, whole: graph.Inputter, *, draws_frames: bool) -> None:
        self._whole, self.batch_size, self._draws_frames = whole, whole.batch_size, draws_frames

    def files(self) -> Any:
        """The files of the other inputter."""
        return self._whole.files()

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """The stored batches; if frames are drawn, those of a video are its first one, repeated."""
        batches = self._whole.dataset(files, batch_size).take(BATCHES)
        return (batches.map(_of_first_frame) if self._draws_frames else batches).cache().repeat()


def _of_first_frame(batch: Batch) -> Batch:
    real = tf.sequence_mask(batch.num_frames, tf.shape(batch.features[0])[1], tf.uint8)[:, :, tf.newaxis]
    return batch._replace(features=tuple(feature[:, :1] * real for feature in batch.features))


def take_turns(turns: PipeTurns, row: Comparison, folder: pathlib.Path, _name: str) -> None:
    """Takes the turns of a row."""
    if row.work == "step":
        _step(turns, row, folder)
    else:
        _run_from_files(turns, row, folder)


def _step(turns: PipeTurns, row: Comparison, folder: pathlib.Path) -> None:
    """Trains on batches in memory; at first it stores these, the first weights and the first losses for the peers."""
    inputter, modeler = stored_inputter(row), create_workload(row, "train").modeler
    deployment, _ = deploy.local(1, 0)
    with tf.Graph().as_default(), tf.Session(config=deployment.session_config()) as session:
        tf.set_random_seed(0)
        ops = graph.build(inputter, modeler, deployment, OPTIMIZER, DeviceConfig(precision=row.precision))
        batch = tf.data.make_one_shot_iterator(inputter.dataset(inputter.files(), row.network.batch)).get_next()
        session.run(tf.global_variables_initializer())
        session.run(ops.input.initializer, {ops.input.files: inputter.files()})
        _store(session, batch, folder)
        losses = [session.run([ops.label_loss, ops.train_op])[0] for _ in range(LOSSES)]
        np.save(losses_path(folder, OURS), losses)
        huge_pages.move_memory()  # as a run does after ten seconds
        turns.take(lambda: session.run(ops.train_op), row.network.steps, warm=1)


def stored_inputter(row: Comparison) -> Stored:
    """The first batches of a row's data, from memory."""
    return Stored(create_workload(row, "eval").inputter, draws_frames=row.network.draws_frames)


def _store(session: tf.Session, batch: Batch, folder: pathlib.Path) -> None:
    variables = {variable.op.name: variable for variable in tf.trainable_variables()}
    np.savez(folder / "weights.npz", **session.run(variables))
    for number in range(BATCHES):
        arrays = session.run({"labels": batch.labels, "num_frames": batch.num_frames, "features": batch.features})
        features = {f"feature_{index}": values for index, values in enumerate(arrays.pop("features"))}
        np.savez(folder / f"batch_{number}.npz", **arrays, **features)


def _run_from_files(turns: PipeTurns, row: Comparison, folder: pathlib.Path) -> None:
    """Trains, evaluates or predicts by the runner, with its default callbacks."""
    mode = "train" if row.work == "files" else row.work
    videos, settings = create_workload(row, mode), {"turns": turns, "steps": row.network.steps, "finish": _finish}
    with tempfile.TemporaryDirectory() as first_folder, tempfile.TemporaryDirectory() as new_folder:
        runs.train_one_step(_data(row), row.model, first_folder)
        _store_checkpoint(first_folder, folder)
        run_folder = new_folder if mode == "train" else first_folder
        job = runner.RunnerConfig(mode, run_folder, optimizer=OPTIMIZER, precision=row.precision)
        modeler = _with_shared_evaluator(videos.modeler) if mode == "eval" else videos.modeler
        with open(os.path.join(run_folder, "predictions.csv"), "w") as file:
            options = {"infer_writer": {"consumer": PredictionWriter(file, 20)}} if mode == "infer" else {}
            runs.run_watched(job, videos.inputter, modeler, "Stopwatch", settings, **options)


def _store_checkpoint(run_folder: str, folder: pathlib.Path) -> None:
    """Stores the weights of a run for the peers."""
    checkpoint = tf.train.load_checkpoint(run_folder)
    names = [name for name in checkpoint.get_variable_to_shape_map() if re.match("tower/(?!.*Adam)", name)]
    np.savez(folder / "weights.npz", **{name: checkpoint.get_tensor(name) for name in names})


def _finish(context: Context) -> None:
    """Computes the figures of a turn, if the run collects any: one evaluator serves all callbacks."""
    evaluator = context.modeler.evaluator()
    if isinstance(evaluator, _Shared):
        evaluator.get()
        evaluator.clear()


class _Shared:
    """An evaluator for two threads: one accumulates a step while the other one computes the figures."""

    def __init__(self, evaluator: Any) -> None:
        self._evaluator, self._lock = evaluator, threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with self._lock:
                return getattr(self._evaluator, name)(*arguments)

        return call


def _with_shared_evaluator(modeler: VideoModeler) -> VideoModeler:
    shared, changed = _Shared(modeler.evaluator()), copy.copy(modeler)
    object.__setattr__(changed, "evaluator", lambda: shared)
    return changed


def _data(row: Comparison) -> DataConfig:
    network = row.network
    return runs.video_data(network.batch) if network.level == "video" else runs.frame_data(network.batch)


def create_workload(row: Comparison, mode: str) -> workload.Workload:
    """The data, network and options of a row."""
    return runs.create_workload(mode, _data(row), row.model, **row.network.options)
