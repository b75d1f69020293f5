"""Folders of runs whose weights are computed from those of another run.

`yt8m average-checkpoints` averages checkpoints of a run with equal weights (Izmailov et al. 2018, "Averaging Weights
Leads to Wider Optima and Better Generalization").

`yt8m eval --report --calibrated_run` writes a run whose scores are the calibrated scores of another run. For a
LogisticModel, sigmoid(slope * (x W + b) + intercept) is sigmoid(x W' + b') with W' = slope * W and b' = slope * b +
intercept, so the weights absorb the scaling, and every program can use the new run like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.programs import AverageConfig
from yt8m.config.run_dir import Ended
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.score_calibration import Calibration, PlattScaling
from yt8m.export.saved_model import refuse_used, replaced_folder
from yt8m.export.small_weights import cpu_session
from yt8m.graph.apply import names_in_checkpoint
from yt8m.graph.restore import assign
from yt8m.lazy import tf
from yt8m.records import thresholds
from yt8m.records.thresholds import OperatingPoints
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import Status, checkpoints
from yt8m.runs.opened_run import OpenedRun, open_run
from yt8m.storage import copies
from yt8m.video import workload


def names_of_weights(run: TrainConfig) -> list[str]:
    """The names of the variables that evaluation reads from a checkpoint of this run, without the global step."""
    modeler = workload.create_modeler(run.data, run.model, "infer")
    with tf.Graph().as_default():
        modeler.predict_placeholders(run.data.frame_features)
        return sorted(names_in_checkpoint(run.optimizer.moving_average_decay))


def write(
    out: str,
    run: OpenedRun,
    step: int,
    names: Sequence[str],
    value_of: Callable[[str], np.ndarray],
    origin: str,
    add_files: Callable[[str], None] = lambda _: None,
) -> None:
    """Writes the folder of a run with the config and the vocabulary of another one, completely or not at all.

    The run has one checkpoint, with the variables that evaluation reads: the weights (their moving averages if the
    other run has them) and the statistics of batch norm. The optimizer's state is left out.

    Args:
      out: the folder.
      run: the other run.
      step: the step of the checkpoint.
      names: the names of the variables, see `names_of_weights`.
      value_of: gives the value of a variable; only one is in memory at a time.
      origin: how the weights were computed, as text for the record of the training's end.
      add_files: called with the folder before it is renamed; writes further files into it.
    """
    with replaced_folder(out.rstrip("/")) as part:
        _save(checkpoints.path_of(part, step), step, names, value_of)
        checkpoints.write_state(part, step, keep=1)
        run_dir.write(part, dataclasses.replace(run.config, train_dir=out), run.names, is_own=run.is_own)
        add_files(part)
        run_dir.note_end(part, Ended(Status.FINISHED, step, origin))


def _save(path: str, step: int, names: Sequence[str], value_of: Callable[[str], np.ndarray]) -> None:
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        for name in ["global_step", *names]:
            value = np.array(step, np.int64) if name == "global_step" else value_of(name)
            variable = tf.get_variable(name, value.shape, value.dtype, tf.zeros_initializer(), use_resource=True)
            assign(session, variable, value)
        tf.train.Saver().save(session, path, write_meta_graph=False, write_state=False)


_USUAL_COUNT = 5


def run(config: AverageConfig) -> int:
    """Writes `--out`, the folder of a run (see `write`), for evaluation, inference and export; returns the exit status.

    The step of its checkpoint is that of the newest checkpoint averaged.

    Raises:
      UsageError: there is no such run or checkpoint, there are too few, or the folder exists already.
      RunError: a checkpoint cannot be read, or belongs to another model.
    """
    refuse_used(config.out)
    run = open_run(config.train_dir, trust_code=config.trust_code)
    names = names_of_weights(run.config)

    def choose() -> list[str]:
        return _chosen(run, config)

    checkpoints.with_newer(choose(), choose, list, lambda paths: _average(config, run, paths, names))
    return 0


def _chosen(run: OpenedRun, config: AverageConfig) -> list[str]:
    """The paths of the checkpoints that `config` selects: those of --checkpoints, or else the newest --last."""
    if config.checkpoints:
        return [run.checkpoint(step) for step in config.checkpoints]
    count = config.last or _USUAL_COUNT
    while True:
        steps = checkpoints.steps_in(run.folder)
        if len(steps) < count:
            raise UsageError(
                f"{run.folder} has {len(steps)} checkpoints ({', '.join(map(str, steps)) or 'none'}), fewer than "
                f"--last={count}; train with --keep_checkpoints and --save_checkpoint_steps."
            )
        try:
            return [run.checkpoint(str(step)) for step in steps[:count]]
        except (RunError, UsageError):
            if checkpoints.steps_in(run.folder)[:1] == steps[:1]:
                raise
        # Training has meanwhile saved a newer checkpoint and deleted one of these: list the checkpoints again.


def _average(config: AverageConfig, run: OpenedRun, paths: Sequence[str], names: Sequence[str]) -> None:
    """Averages the checkpoints in `paths` and writes `--out`."""
    newest_first = sorted(paths, key=checkpoints.step_of, reverse=True)
    readers = {path: tf.train.load_checkpoint(copies.copy_of(path)) for path in newest_first}
    step, steps = checkpoints.step_of(newest_first[0]), ", ".join(str(checkpoints.step_of(path)) for path in paths)
    origin = f"the mean of steps {steps} of {run.folder}"
    write(config.out, run, step, names, lambda name: _mean(name, readers), origin)
    logging.info("the mean of steps %s is in %s", steps, config.out)


def _mean(name: str, readers: dict[str, Any]) -> np.ndarray:
    """The mean of a variable, computed in float64 and cast to its own type; for an integer variable the newest value.

    Args:
      name: the variable's name.
      readers: {path: reader} of the checkpoints, the newest first.
    """
    for path, reader in readers.items():
        if not reader.has_tensor(name):
            raise RunError(f"{path} is not a checkpoint of this model: it has no variable {name}.")
    (newest, reader), *others = readers.items()
    first = np.asarray(reader.get_tensor(name))
    if not np.issubdtype(first.dtype, np.floating):
        return first
    total = first.astype(np.float64)
    for path, reader in others:
        value = reader.get_tensor(name)
        if value.shape != first.shape:
            raise RunError(f"{path}: {name} has shape {value.shape}; in {newest} it has shape {first.shape}.")
        total += value
    return np.asarray(total / len(readers), first.dtype)


_MODEL, _WEIGHTS, _BIASES = "LogisticModel", "tower/fully_connected/weights", "tower/fully_connected/biases"


def check_calibrated(out: str, run: OpenedRun) -> None:
    """Refuses a run whose weights cannot absorb a calibration, and an output folder that exists.

    Raises:
      UsageError: the run is no LogisticModel, or `out` exists.
    """
    refuse_used(out, "calibrated_run")
    if run.config.model.model != _MODEL:
        raise UsageError(
            f"--calibrated_run needs a {_MODEL} (such as yt8m from-text writes), whose weights can absorb the scaling; "
            f"{run.folder} is a {run.config.model.model}. Leave the flag out: eval/report.json has the scaling."
        )


def write_calibrated(
    out: str,
    run: OpenedRun,
    checkpoint: str,
    calibration: Calibration | None,
    points: OperatingPoints,
    names: Vocabulary,
) -> None:
    """Writes the calibrated run, with the thresholds that give the same tags.

    Args:
      out: the folder.
      run, checkpoint: the evaluated run, a LogisticModel, and the path of its checkpoint.
      calibration: the calibration that was fitted to the evaluated videos; None if it could not be fitted.
      points: the thresholds of the classes for the scores before scaling.
      names: names of the classes for the file of thresholds.

    Raises:
      RunError: the scores cannot be calibrated, or the run cannot be written.
    """
    if calibration is None:
        raise RunError(
            f"{out} is not written: each half of the videos needs right and wrong predictions to calibrate the scores. "
            "Evaluate more videos with labels."
        )
    scaling = calibration.scaling
    if scaling.slope <= 0:
        raise RunError(
            f"{out} is not written: on these videos higher scores are not right more often (slope "
            f"{scaling.slope:.3g}), so no scaling can turn them into probabilities."
        )
    if calibration.log_loss_scaled > calibration.log_loss:
        logging.warning(
            "scaling makes the scores worse on videos that it was not fitted to (log loss %.4g, before %.4g): "
            "evaluate more videos with labels before you use %s",
            calibration.log_loss_scaled,
            calibration.log_loss,
            out,
        )
    reader, step = tf.train.load_checkpoint(copies.copy_of(checkpoint)), checkpoints.step_of(checkpoint)
    origin = f"{run.folder} at step {step}, with its logits times {scaling.slope:.6g} plus {scaling.intercept:.6g}"
    scaled = scaled_points(points, scaling)

    def value_of(name: str) -> np.ndarray:
        return _scaled(name, reader.get_tensor(name), scaling)

    def add_thresholds(folder: str) -> None:
        thresholds.write(storage.join(folder, thresholds.EVALUATION, thresholds.NAME), scaled, names, step)

    write(out, run, step, names_of_weights(run.config), value_of, origin, add_thresholds)
    logging.info("the calibrated run is %s: %s", out, origin)


def scaled_points(points: OperatingPoints, scaling: PlattScaling) -> OperatingPoints:
    """The thresholds that scaled scores reach if and only if the scores reach those of `points`."""
    scaled = np.where(np.isfinite(points.thresholds), scaling.apply(points.thresholds), points.thresholds)
    return points._replace(thresholds=scaled)


def _scaled(name: str, value: np.ndarray, scaling: PlattScaling) -> np.ndarray:
    """The scaled value of a variable; `name` may be that of its moving average."""
    if not name.startswith((_WEIGHTS, _BIASES)):
        return value
    scaled = value.astype(np.float64) * scaling.slope
    return (scaled + scaling.intercept if name.startswith(_BIASES) else scaled).astype(value.dtype)
