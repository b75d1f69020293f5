"""The mean of several checkpoints of a run, as a checkpoint (Izmailov et al. 2018, equal weights).

The command `yt8m average-checkpoints`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from yt8m import program, storage
from yt8m.commands import saved_run, workload
from yt8m.config import flags, run_dir
from yt8m.config.programs import AverageConfig
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.export.saved_model import replaced_folder
from yt8m.graph.apply import names_in_checkpoint
from yt8m.lazy import tf
from yt8m.program import run_main
from yt8m.runner import checkpoints
from yt8m.storage import copies

_USUAL = 5


def average(config: AverageConfig) -> int:
    """Writes `config.out`, a folder that eval.py, inference.py and yt8m export take as a run's.

    It holds the run's config and one checkpoint, at the step of the newest of those averaged: what
    evaluation reads (weights, or their moving averages where the run kept such, and batch norm's
    statistics), and nothing of the optimizer.

    Raises:
      UsageError: no such run or checkpoint, too few of them, or the folder is there already.
      RunError: a checkpoint cannot be read, or is another model's.
    """
    train_dir = saved_run.find_run(config.train_dir)
    saved_run.refuse_used(config.out)
    run = saved_run.load_run(train_dir, None, {}, trust_code=config.trust_code)
    names = _names(run)

    def find() -> list[str]:
        return _paths(train_dir, config)

    checkpoints.with_newer(find(), find, list, lambda paths: _average(config, run, train_dir, paths, names))
    return 0


def _average(
    config: AverageConfig, run: TrainConfig, train_dir: str, paths: Sequence[str], names: Sequence[str]
) -> None:
    step = max(map(checkpoints.step_of, paths))
    with replaced_folder(config.out.rstrip("/")) as part:
        storage.makedirs(part)
        _write(checkpoints.path_of(part, step), step, paths, names)
        checkpoints.write_state(part, step, keep=1)
        run_dir.write(part, dataclasses.replace(run, train_dir=config.out), is_own=run_dir.is_own(train_dir))
    steps = ", ".join(str(checkpoints.step_of(path)) for path in paths)
    logging.info("the mean of steps %s is in %s", steps, config.out)


def _paths(train_dir: str, config: AverageConfig) -> list[str]:
    if config.checkpoints:
        return [saved_run.find_checkpoint(train_dir, step) for step in config.checkpoints]
    while True:
        steps, wanted = checkpoints.steps_in(train_dir), config.last or _USUAL
        if len(steps) < wanted:
            raise UsageError(
                f"{train_dir} has {len(steps)} checkpoints ({', '.join(map(str, steps)) or 'none'}), and "
                f"--last={wanted} are asked for; train with --keep_checkpoints and --save_checkpoint_steps."
            )
        try:
            return [saved_run.find_checkpoint(train_dir, str(step)) for step in steps[:wanted]]
        except (RunError, UsageError):
            if checkpoints.steps_in(train_dir)[:1] == steps[:1]:
                raise
        # Training has saved a newer one meanwhile, and deleted one of these.


def _names(run: TrainConfig) -> list[str]:
    """What evaluation reads of a checkpoint of this run, the step apart."""
    modeler = workload.create(run.data, run.model, "infer").modeler
    width = sum(run.data.feature_sizes)
    with tf.Graph().as_default():
        raw = tf.placeholder(tf.float32, [None, None, width] if run.data.frame_features else [None, width])
        modeler.predict_raw(raw, tf.placeholder(tf.int32, [None]))
        return sorted(names_in_checkpoint(run.optimizer.moving_average_decay))


def _write(path: str, step: int, paths: Sequence[str], names: Sequence[str]) -> None:
    """One variable at a time, so that one mean is in memory beside the new weights."""
    readers = [tf.train.load_checkpoint(copies.copy_of(one)) for one in paths]
    config = tf.ConfigProto(device_count={"GPU": 0})
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        _variable(session, "global_step", np.array(step, np.int64))
        for name in names:
            _variable(session, name, _mean(name, readers, paths))
        tf.train.Saver().save(session, path, write_meta_graph=False, write_state=False)


def _mean(name: str, readers: Sequence[Any], paths: Sequence[str]) -> np.ndarray:
    """The mean in float64, as the variable's own type; whole numbers as the newest has them."""
    for reader, path in zip(readers, paths, strict=True):
        if not reader.has_tensor(name):
            raise RunError(f"{path} is not of this model: it lacks {name}.")
    newest = int(np.argmax([checkpoints.step_of(path) for path in paths]))
    first = np.asarray(readers[newest].get_tensor(name))
    if not np.issubdtype(first.dtype, np.floating):
        return first
    total = np.zeros(first.shape, np.float64)
    for reader, path in zip(readers, paths, strict=True):
        value = reader.get_tensor(name)
        if value.shape != first.shape:
            raise RunError(f"{path}: {name} has shape {value.shape}; in {paths[newest]} it has {first.shape}.")
        total += value
    return np.asarray(total / len(readers), first.dtype)


def _variable(session: tf.Session, name: str, value: np.ndarray) -> None:
    variable = tf.get_variable(name, value.shape, value.dtype, tf.zeros_initializer(), use_resource=True)
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})


_PURPOSE = "Averages checkpoints of a run."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command on `argv`, by default this process' own; returns the exit status."""
    return run_main("yt8m average-checkpoints", _run, argv)


def _run(words: list[str]) -> int:
    config = flags.read(AverageConfig, "yt8m average-checkpoints", _PURPOSE, words)
    program.set_up_log()
    # Here, so that flag errors and --help come before the graph code is loaded.

    return average(config)


if __name__ == "__main__":
    sys.exit(main())
