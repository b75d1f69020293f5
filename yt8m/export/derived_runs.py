"""Folders of runs whose weights are computed from those of another run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from yt8m.config import run_dir
from yt8m.config.run_dir import Ended
from yt8m.config.train_config import TrainConfig
from yt8m.export.saved_model import replaced_folder
from yt8m.export.small_weights import cpu_session
from yt8m.graph.apply import names_in_checkpoint
from yt8m.graph.restore import assign
from yt8m.lazy import tf
from yt8m.runner import Status, checkpoints
from yt8m.runs.opened_run import OpenedRun
from yt8m.video import workload


def names_of_weights(run: TrainConfig) -> list[str]:
    """The names of the variables that evaluation reads from a checkpoint of this run, without the step."""
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
    """Writes the folder of a run with the config and the vocabulary of another one, whole or not at all.

    It has one checkpoint, with the variables that evaluation reads: the weights (their moving averages if the run kept
    them) and the statistics of batch norm. The optimizer's state is left out.

    Args:
      out: the folder.
      run: the other run.
      step: the step of the checkpoint.
      names: the names of the variables, see `names_of_weights`.
      value_of: gives the value of a variable; only one is in memory at a time.
      origin: one sentence that says where the weights are from.
      add_files: writes further files into the folder that it gets.
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
