"""Folders of runs whose weights are computed from those of another run.

`yt8m average-checkpoints` averages checkpoints of a run with equal weights (Izmailov et al. 2018, "Averaging Weights
Leads to Wider Optima and Better Generalization").

`yt8m eval --report --calibrated_run` writes a run whose scores are the calibrated scores of another run. Calibration
(Platt scaling) multiplies the logits of the model by a slope, and adds an intercept. For a LogisticModel, the weights W
and the biases b can absorb this: sigmoid(slope * (x W + b) + intercept) is sigmoid(x W' + b') with W' = slope * W and
b' = slope * b + intercept. So every program can use the new run like any other.
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
from yt8m.export.saved_model import replaced_folder
from yt8m.export.small_weights import cpu_session
from yt8m.graph.apply import variables_by_saved_name
from yt8m.graph.restore import assign
from yt8m.lazy import tf
from yt8m.records import thresholds
from yt8m.records.thresholds import OperatingPoints
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import Status, checkpoints
from yt8m.runs.opened_run import OpenedRun, open_run
from yt8m.storage import copies
from yt8m.storage.new_outputs import new_output
from yt8m.video import workload


def names_of_weights(run: TrainConfig) -> list[str]:
    """The names of the variables that evaluation reads from a checkpoint of a run, without the global step.

    If the run has moving averages of its weights, these are the names of the averages.
    """
    modeler = workload.create_modeler(run.data, run.model, "infer")
    with tf.Graph().as_default():
        modeler.predict_placeholders(run.data.frame_features)
        return sorted(variables_by_saved_name(run.optimizer.moving_average_decay))


def write_run(
    out: str,
    source: OpenedRun,
    step: int,
    names: Sequence[str],
    value_of: Callable[[str], np.ndarray],
    origin: str,
    add_files: Callable[[str], None] = lambda _: None,
) -> None:
    """Writes the folder of a new run, completely or not at all.

    The new run has the config and the vocabulary of its source. Its only checkpoint has the variables that evaluation
    reads: the weights (their moving averages, if the source has them) and the statistics of batch norm. The optimizer's
    state is left out.
    """
    with replaced_folder(out.rstrip("/")) as folder:
        _save_checkpoint(checkpoints.path_of(folder, step), step, names, value_of)
        checkpoints.write_state(folder, step, keep=1)
        run_dir.write(folder, dataclasses.replace(source.config, train_dir=out), source.names, is_own=source.is_own)
        add_files(folder)
        run_dir.note_end(folder, Ended(Status.FINISHED, step, origin))


def _save_checkpoint(path: str, step: int, names: Sequence[str], value_of: Callable[[str], np.ndarray]) -> None:
    """Writes a checkpoint with the global step and the variables `names`; for arguments see `write_run`."""
    with tf.Graph().as_default() as graph, cpu_session(graph) as session:
        for name in ["global_step", *names]:
            value = np.array(step, np.int64) if name == "global_step" else value_of(name)
            variable = tf.get_variable(name, value.shape, value.dtype, tf.zeros_initializer(), use_resource=True)
            assign(session, variable, value)
        tf.train.Saver().save(session, path, write_meta_graph=False, write_state=False)


_DEFAULT_LAST = 5  # number of checkpoints that are averaged if neither --last nor --checkpoints is given


def run(config: AverageConfig) -> int:
    """Averages checkpoints: writes the folder of a run, `--out` (see `write_run`); returns the exit status 0.

    The new run has the step of the newest of the averaged checkpoints.

    Raises:
      UsageError: there is no such run or checkpoint, the run has fewer checkpoints than --last, or `--out` exists.
      RunError: a checkpoint cannot be read or belongs to another model, or the folder cannot be written.
    """
    with new_output(config.out, repr(config), sources=[config.train_dir]) as is_done:
        if is_done:
            return 0
        run = open_run(config.train_dir, trust_code=config.trust_code)
        names = names_of_weights(run.config)

        def choose() -> list[str]:
            return _choose_checkpoints(run, config)

        checkpoints.with_newer(choose(), choose, list, lambda paths: _average(config, run, paths, names))
    return 0


def _choose_checkpoints(run: OpenedRun, config: AverageConfig) -> list[str]:
    """The paths of the checkpoints that `config` selects: those of --checkpoints, or else the newest --last.

    If the run means its best checkpoint, those after it are left out.
    """
    if config.checkpoints:
        return [run.checkpoint(step) for step in config.checkpoints]
    count = config.last or _DEFAULT_LAST
    if run.choice() == "best":
        return _up_to_best(run, count)
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
        # While this loop looked, training saved a newer checkpoint and deleted one of these: list them again.


def _up_to_best(run: OpenedRun, count: int) -> list[str]:
    """The paths of the best checkpoint and of the newest ones before it, `count` together."""
    best = run.checkpoint()
    step = checkpoints.step_of(best)
    before = [earlier for earlier in checkpoints.steps_in(run.folder) if earlier < step]
    if len(before) < count - 1:
        listed = ", ".join(map(str, before)) or "none"
        raise UsageError(
            f"{run.folder} means the best checkpoint by validation, step {step}, and has {len(before)} before it "
            f"({listed}), fewer than --last={count} needs; name steps by --checkpoints, or train with "
            "--keep_checkpoints and --save_checkpoint_steps."
        )
    logging.info("the newest is step %d, the best by validation: those after it are left out", step)
    return [best, *(run.checkpoint(str(earlier)) for earlier in before[: count - 1])]


def _average(config: AverageConfig, run: OpenedRun, paths: Sequence[str], names: Sequence[str]) -> None:
    """Averages the variables `names` of the checkpoints in `paths`, and writes the run `--out`."""
    newest_first = sorted(paths, key=checkpoints.step_of, reverse=True)
    readers = {path: tf.train.load_checkpoint(copies.copy_of(path)) for path in newest_first}
    step, steps = checkpoints.step_of(newest_first[0]), ", ".join(str(checkpoints.step_of(path)) for path in paths)
    origin = f"the mean of steps {steps} of {run.folder}"
    write_run(config.out, run, step, names, lambda name: _mean_of_variable(name, readers), origin)
    logging.info("the mean of steps %s is in %s", steps, config.out)


def _mean_of_variable(name: str, readers: dict[str, Any]) -> np.ndarray:
    """The mean of a variable over checkpoints; of a variable of integers, the value in the newest checkpoint.

    The mean is computed in float64, and cast to the type of the variable.
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


def check_calibrated(run: OpenedRun) -> None:
    """Refuses a run whose weights cannot absorb a calibration."""
    if run.config.model.model != _MODEL:
        raise UsageError(
            f"--calibrated_run needs a {_MODEL} (such as yt8m from-text writes), whose weights can absorb the scaling; "
            f"{run.folder} is a {run.config.model.model}. Leave the flag out: eval/report.json has the scaling."
        )
    if run.config.data.one_class:
        raise UsageError(
            "--calibrated_run scales the score of each class by itself, but each video of the training of "
            f"{run.folder} has one class, so the scores of a video add up to 1. Leave the flag out."
        )


def write_calibrated(
    out: str,
    run: OpenedRun,
    checkpoint: str,
    calibration: Calibration | None,
    points: OperatingPoints,
    names: Vocabulary,
) -> None:
    """Writes a run whose scores are the calibrated scores of the evaluated run.

    The new run also gets thresholds, with which it gives videos the same tags as the evaluated run.

    Args:
      calibration: the calibration that was fitted to the evaluated videos; None if it could not be fitted.
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
            f"{scaling.slope:.3g}), so no scaling can turn them into probabilities. Use a model that ranks better."
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
    new_points = scale_points(points, scaling)

    def value_of(name: str) -> np.ndarray:
        return _scale_variable(name, reader.get_tensor(name), scaling)

    def add_thresholds(folder: str) -> None:
        thresholds.write(storage.join(folder, thresholds.EVALUATION, thresholds.NAME), new_points, names, step)

    write_run(out, run, step, names_of_weights(run.config), value_of, origin, add_thresholds)
    logging.info("the calibrated run is %s: %s", out, origin)


def scale_points(points: OperatingPoints, scaling: PlattScaling) -> OperatingPoints:
    """Scales thresholds like scores: a scaled score reaches the new threshold if the score reaches the old one."""
    scaled = np.where(np.isfinite(points.thresholds), scaling.apply(points.thresholds), points.thresholds)
    return points._replace(thresholds=scaled)


def _scale_variable(name: str, value: np.ndarray, scaling: PlattScaling) -> np.ndarray:
    """The value of a variable of a LogisticModel after calibration.

    Only the weights, the biases and the moving averages of both change, which are recognised by `name`.
    """
    if not name.startswith((_WEIGHTS, _BIASES)):
        return value
    scaled = value.astype(np.float64) * scaling.slope
    return (scaled + scaling.intercept if name.startswith(_BIASES) else scaled).astype(value.dtype)
