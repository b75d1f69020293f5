"""`yt8m eval --report --calibrated_run`: a run whose scores are those of another one, scaled to be probabilities.

sigmoid(slope * (x W + b) + intercept) is sigmoid(x W' + b') with W' = slope * W and b' = slope * b + intercept, so that
the scaling of a LogisticModel disappears in its weights. Every program takes the new run as any other.
"""

from __future__ import annotations

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.score_calibration import Calibration, PlattScaling
from yt8m.export import derived_runs
from yt8m.export.saved_model import refuse_used
from yt8m.lazy import tf
from yt8m.records import thresholds
from yt8m.records.thresholds import OperatingPoints
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.runs.opened_run import OpenedRun
from yt8m.storage import copies

_MODEL, _WEIGHTS, _BIASES = "LogisticModel", "tower/fully_connected/weights", "tower/fully_connected/biases"


def check(out: str, run: OpenedRun) -> None:
    """Refuses a run that cannot be calibrated, and a folder that exists.

    Raises:
      UsageError: the message says what to do.
    """
    refuse_used(out, "calibrated_run")
    if run.config.model.model != _MODEL:
        raise UsageError(
            f"--calibrated_run is for a {_MODEL}, whose weights can take the scaling up, such as yt8m from-text makes; "
            f"{run.folder} is a {run.config.model.model}. Leave it out: eval/report.json has the scaling."
        )


def write(
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
      calibration: that of the evaluated videos.
      points: the thresholds of the classes.
      names: names of the classes, to be shown in the file of thresholds.

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
            f"{out} is not written: on these videos higher scores are no likelier to be right (slope "
            f"{scaling.slope:.3g}), so no scaling makes probabilities of them."
        )
    reader, step = tf.train.load_checkpoint(copies.copy_of(checkpoint)), checkpoints.step_of(checkpoint)
    origin = f"{run.folder} at step {step}, with its logits times {scaling.slope:.6g} plus {scaling.intercept:.6g}"
    scaled = scaled_points(points, scaling)

    def value_of(name: str) -> np.ndarray:
        return _scaled(name, reader.get_tensor(name), scaling)

    def add_thresholds(folder: str) -> None:
        thresholds.write(storage.join(folder, thresholds.EVALUATION, thresholds.NAME), scaled, names, step)

    derived_runs.write(out, run, step, derived_runs.names_of_weights(run.config), value_of, origin, add_thresholds)
    logging.info("the calibrated run is %s: %s", out, origin)


def scaled_points(points: OperatingPoints, scaling: PlattScaling) -> OperatingPoints:
    """The thresholds that scaled scores reach if and only if the scores reach those of `points`."""
    scaled = np.where(np.isfinite(points.thresholds), scaling.apply(points.thresholds), points.thresholds)
    return points._replace(thresholds=scaled)


def _scaled(name: str, value: np.ndarray, scaling: PlattScaling) -> np.ndarray:
    """The value of a variable, whose name may be that of its moving average."""
    if not name.startswith((_WEIGHTS, _BIASES)):
        return value
    scaled = value.astype(np.float64) * scaling.slope
    return (scaled + scaling.intercept if name.startswith(_BIASES) else scaled).astype(value.dtype)
