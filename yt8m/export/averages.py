"""`yt8m average-checkpoints`: writes the mean of several checkpoints of a run as one checkpoint.

All have equal weight (Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better Generalization").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from yt8m.config.programs import AverageConfig
from yt8m.errors import RunError, UsageError
from yt8m.export import derived_runs
from yt8m.export.saved_model import refuse_used
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.runs.opened_run import OpenedRun, open_run
from yt8m.storage import copies

_USUAL_COUNT = 5


def run(config: AverageConfig) -> int:
    """Writes `--out`, a folder that evaluation, inference and export take as a run's; returns the exit status.

    See `derived_runs.write`; the step of its checkpoint is that of the newest checkpoint averaged.

    Raises:
      UsageError: there is no such run or checkpoint, there are too few, or the folder exists already.
      RunError: a checkpoint cannot be read, or belongs to another model.
    """
    refuse_used(config.out)
    run = open_run(config.train_dir, trust_code=config.trust_code)
    names = derived_runs.names_of_weights(run.config)

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
                f"{run.folder} has {len(steps)} checkpoints ({', '.join(map(str, steps)) or 'none'}), and "
                f"--last={count} are asked for; train with --keep_checkpoints and --save_checkpoint_steps."
            )
        try:
            return [run.checkpoint(str(step)) for step in steps[:count]]
        except (RunError, UsageError):
            if checkpoints.steps_in(run.folder)[:1] == steps[:1]:
                raise
        # Training has meanwhile saved a newer checkpoint and deleted one of these: look again.


def _average(config: AverageConfig, run: OpenedRun, paths: Sequence[str], names: Sequence[str]) -> None:
    """Averages the checkpoints in `paths` and writes `--out`."""
    newest_first = sorted(paths, key=checkpoints.step_of, reverse=True)
    readers = {path: tf.train.load_checkpoint(copies.copy_of(path)) for path in newest_first}
    step, steps = checkpoints.step_of(newest_first[0]), ", ".join(str(checkpoints.step_of(path)) for path in paths)
    origin = f"the mean of steps {steps} of {run.folder}"
    derived_runs.write(config.out, run, step, names, lambda name: _mean(name, readers), origin)
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
