"""Saving a run: the position in the data, then the variables, then the pointer to them.

A position is saved under the checkpoint's step, as `input-N`, in one of two ways: `ShardPosition` is a small file
with the number of shards that were begun; `Position` (exact_resume) holds the iterator with its shuffle buffer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError, first_line
from yt8m.graph import InputOps
from yt8m.graph.inputs import input_saver
from yt8m.graph.restore import model_variables
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.storage import copies, own_runs, sending

# Bytes of variables that are read together to check them. The first read of each group takes 30 ms, which count at the
# start of a run; later the memory is scarcer, because batches take it too.
_AT_FIRST, _LATER = 64 << 20, 16 << 20


class RunSaver:
    """Saves checkpoints of a training run into its folder.

    Args:
      model_dir: the folder of the run.
      saver: the saver of the variables.
      keep: number of newest checkpoints that stay.
      saved_step: the step of the newest checkpoint; None for none.
      position: the position in the data, saved with each checkpoint; None for none.
      notes_graph: whether the graph is this user's, so that it is noted as such and a resume does not warn of it.
    """

    def __init__(
        self,
        model_dir: str,
        saver: tf.train.Saver,
        keep: int,
        saved_step: int | None = None,
        position: SavedPosition | None = None,
        notes_graph: bool = True,
    ) -> None:
        self._model_dir, self._saver, self._keep, self._notes_graph = model_dir, saver, keep, notes_graph
        self._saved_step, self._position = saved_step, position
        self._saved_at: float | None = None  # time of the monotonic clock
        checkpoints.sweep(model_dir)

    def save(self, session: tf.Session, step: int) -> str:
        """Saves `step`, unless it is already saved; returns the checkpoint's path.

        Raises:
          RunError: a variable is not finite, or the files cannot be written; older ones stay as they are.
        """
        path = checkpoints.path_of(self._model_dir, step)
        if step == self._saved_step:
            return path
        with session.graph.as_default():
            # At the start of a run the others, such as an optimizer's slots, have just got their constants.
            variables = model_variables() if step == 0 and self._saved_step is None else tf.global_variables()
        _check_finite(session, variables, _AT_FIRST if self._saved_at is None else _LATER)
        storage.refuse_lost_lock(self._model_dir)
        try:
            self._write(session, step)
        except (tf.errors.OpError, RunError, UsageError, OSError, ValueError) as error:
            storage.refuse_lost_lock(self._model_dir)
            self._remove(step)
            raise RunError(
                f"cannot save the checkpoint {path}: {first_line(error)}. The one before it, if any, "
                "is intact; make room or name another folder, and start again to go on from it."
            ) from error
        if self._saved_step is not None:
            copies.forget(checkpoints.path_of(self._model_dir, self._saved_step))
        self._saved_step = step
        return path

    def _write(self, session: tf.Session, step: int) -> None:
        storage.makedirs(self._model_dir)
        folder = sending.local_folder_for(self._model_dir)
        if self._position is not None:
            self._position.save(session, folder, step)
        with session.graph.as_default():
            self._save_variables(session, folder, step)
        if folder != self._model_dir:
            self._send(folder, step)
        now = time.monotonic()
        elapsed = None if self._saved_at is None else now - self._saved_at
        checkpoints.write_state(self._model_dir, step, self._keep, elapsed)
        self._saved_at = now
        sending.send_growing()
        storage.refuse_lost_lock(self._model_dir)  # otherwise the run would end with status 0
        logging.info("saved %s", checkpoints.path_of(self._model_dir, step))

    def _save_variables(self, session: tf.Session, folder: str, step: int) -> None:
        """Writes the data, the index and the meta-graph; each gets its name once it is on the disk, in this order."""
        name = os.path.basename(checkpoints.path_of(folder, step))
        self._saver.save(session, os.path.join(folder, f".{name}"), write_meta_graph=False, write_state=False)
        hidden = [file for file in os.listdir(folder) if file.startswith(f".{name}.")]
        for file in sorted(hidden, key=lambda file: file.endswith(".index")):
            storage.rename(os.path.join(folder, file), os.path.join(folder, file[1:]))
        meta_graph = self._saver.export_meta_graph().SerializeToString()
        storage.write(os.path.join(folder, f"{name}.meta"), meta_graph)
        if self._notes_graph and not own_runs.is_noted(meta_graph):
            with contextlib.suppress(RunError):  # without a home folder the log warns of the graph when it is resumed
                own_runs.note(meta_graph)

    def _send(self, folder: str, step: int) -> None:
        """Uploads a checkpoint to a bucket, in this order: position, data, index, meta-graph.

        A checkpoint counts as present once its index is there; the meta-graph can be rebuilt.
        """
        order = sorted(checkpoints.files_of(folder)[step], key=_sending_order)
        files = [os.path.join(folder, name) for name in order]
        try:
            storage.refuse_lost_lock(self._model_dir)
            sending.send_files(files, self._model_dir)
        except (RunError, UsageError) as error:
            rescued_folder = copies.rescue(files, checkpoints.NAME)
            raise RunError(f"{first_line(error)} (its files are kept in {rescued_folder})") from error
        weights = [path for path in files if os.path.basename(path).startswith(checkpoints.NAME)]
        copies.keep(checkpoints.path_of(self._model_dir, step), weights)
        for path in set(files) - set(weights):
            storage.remove(path)

    def _remove(self, step: int) -> None:
        """Removes the partial files of a failed save; in a bucket, the next save overwrites them."""
        if storage.is_remote(self._model_dir):
            return
        stems = tuple(f"{stem}-{step}." for stem in (checkpoints.NAME, f".{checkpoints.NAME}", checkpoints.INPUT_NAME))
        for name in storage.names_in(self._model_dir):
            if name.startswith(stems):
                checkpoints.remove(self._model_dir, name, "a part of a checkpoint stays")


class SavedByTheChief:
    """Replaces the saver in a worker, since the chief saves for all."""

    def __init__(self, model_dir: str) -> None:
        self._model_dir = model_dir

    def save(self, session: tf.Session, step: int) -> str:
        """Saves nothing; returns the path that the chief would save to."""
        return checkpoints.path_of(self._model_dir, step)


def _sending_order(name: str) -> tuple[bool, bool, bool]:
    return name.startswith(checkpoints.NAME), name.endswith(".meta"), name.endswith(".index")


def _check_finite(session: tf.Session, variables: Sequence[tf.Variable], at_once: int) -> None:
    """Raises if a variable holds NaN or infinity: such a checkpoint would replace a good one.

    It reads the variables rather than add a check op to the graph, which is saved.
    """
    floats = [variable for variable in variables if variable.dtype.base_dtype.is_floating]
    for group in _groups(floats, at_once):
        for variable, value in zip(group, session.run(group), strict=True):
            # NumPy has no bfloat16
            if not np.isfinite(np.asarray(value, np.float32)).all():
                raise RunError(
                    f"the variable {variable.op.name} is not finite, so no checkpoint was saved; "
                    "the one before it, if any, is intact. Lower the learning rate, or check the data."
                )


def _groups(variables: Sequence[tf.Variable], at_once: int) -> Iterator[list[tf.Variable]]:
    """Groups of at most `at_once` bytes, or of one variable."""
    group: list[tf.Variable] = []
    group_size = 0
    for variable in variables:
        size = variable.shape.num_elements() * variable.dtype.base_dtype.size
        if group and group_size + size > at_once:
            yield group
            group, group_size = [], 0
        group.append(variable)
        group_size += size
    if group:
        yield group


class _PositionFile:
    """The file `input-N.json` of a position: a digest of the data that it belongs to, and further values.

    Args:
      ops: the graph's input side.
      files: the files of this run.
      shape: the other options that decide which examples are read, and in which order.
    """

    _suffix = ""  # of the names of the files

    def __init__(self, ops: InputOps, files: Sequence[str], shape: Mapping[str, Any]) -> None:
        self._ops, self._files = ops, list(files)
        self._digest = _digest([self._files, dict(shape)])

    def _path(self, model_dir: str, step: int) -> str:
        return checkpoints.path_of(model_dir, step, checkpoints.INPUT_NAME) + self._suffix

    def _write(self, path: str, **values: int | str) -> None:
        storage.write(f"{path}.json", json.dumps({"data": self._digest, **values}))

    def _read(self, path: str, step: int, use: Callable[[Mapping[str, Any]], None]) -> bool:
        """Calls `use` with the content of the file.

        Returns False, with a warning, if the file is missing or belongs to other data.
        """
        try:
            use(self._checked(f"{path}.json"))
        except (tf.errors.OpError, RunError) as error:
            logging.warning(
                "the position of step %d in the data cannot be used (%s): the pass starts again",
                step,
                first_line(error),
            )
            return False
        return True

    def _checked(self, path: str) -> Mapping[str, Any]:
        """The content of the file, if it belongs to these data."""
        try:
            position = storage.read_json(path)
            if "data" in position and position["data"] != self._digest:
                raise RunError("it is of other files, another batch size, seed or shuffling")
            return dict(position)
        except (ValueError, TypeError) as error:
            raise RunError(f"{path} cannot be read: {error}") from error


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


class ShardPosition(_PositionFile):
    """Counts the shards from which records were used so far; a resumed run skips these shards.

    Args:
      ops: the graph's input side, with numbered shards.
      files: the files of this run.
      order: the other options that decide in which order shards are begun.
      num_epochs: passes over the files; None for no end.
    """

    def __init__(self, ops: InputOps, files: Sequence[str], order: Mapping[str, Any], num_epochs: int | None) -> None:
        super().__init__(ops, files, order)
        self._shards, self._num_epochs, self._begun = len(files), num_epochs, 0

    def count_shards(self, last_shard: int) -> None:
        """Counts a completed step; `last_shard` is the largest shard number among its examples."""
        self._begun = max(self._begun, last_shard + 1)

    @property
    def share_begun(self) -> float:
        """The part of all shards of all epochs that was begun, from 0 to 1; 0 if the epochs have no end."""
        return min(self._begun / (self._shards * self._num_epochs), 1.0) if self._num_epochs else 0.0

    def save(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Writes `input-N.json`."""
        self._write(self._path(model_dir, step), begun=self._begun, shards=self._shards)

    def start(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Starts the iterator after the shards that were begun."""
        session.run(self._ops.initializer, {self._ops.files: self._files, **self.resume(model_dir, step)})

    def resume(self, model_dir: str, step: int) -> dict[tf.Tensor, int]:
        """Returns the feed for the start of the iterator; logs where in the data the run continues."""
        if self._read(self._path(model_dir, step), step, self._restore):
            epoch, shard = divmod(self._begun, self._shards)
            if self._num_epochs is not None and epoch >= self._num_epochs:
                logging.warning(
                    "all %d shards of the last epoch (%d of %d) were begun before: nothing is left to read; "
                    "--num_epochs allows for more",
                    *(self._shards, self._num_epochs, self._num_epochs),
                )
            else:
                logging.info(
                    "reading continues at epoch %d, shard %d of %d; %d begun shards are not read again in this epoch",
                    *(epoch + 1, shard + 1, self._shards, shard),
                )
        return {self._ops.begun: self._begun}

    def _restore(self, position: Mapping[str, Any]) -> None:
        if "begun" not in position:
            raise RunError("it belongs to --exact_resume")
        if "data" not in position or not isinstance(position["begun"], int):
            raise RunError("it is damaged: the number of shards that were begun is missing")
        self._begun = position["begun"]


class Position(_PositionFile):
    """The exact position in the data: the state of the iterator.

    Args:
      ops: the graph's input side.
      files: the files of this run.
      shape: the other options that decide which examples are read (batch size, seed, ...).
      replica: which of several processes this is; the first has the file `input-N`, the others `input-N.replicaR`.
    """

    def __init__(self, ops: InputOps, files: Sequence[str], shape: Mapping[str, Any], replica: int = 0) -> None:
        super().__init__(ops, files, shape)
        self._saver, self._suffix = input_saver(ops), f".replica{replica}" if replica else ""
        self._sizes = _digest([stamp.bytes for stamp in storage.stamps(files).values()])

    def save(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Writes `input-N`, and `input-N.json` with the digest of the data."""
        path = self._path(model_dir, step)
        self._write(path, sizes=self._sizes)
        self._saver.save(session, path, write_meta_graph=False, write_state=False)
        storage.sync([f"{path}.data-00000-of-00001", f"{path}.index"])

    def start(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Starts the iterator, and restores `input-N`."""
        path, feed = self._path(model_dir, step), {self._ops.files: self._files}

        def restore(position: Mapping[str, Any]) -> None:
            if "data" not in position:
                raise RunError(f"{path}.json has no digest of the data that it belongs to")
            if position.get("sizes") != self._sizes:
                raise RunError("a shard was rewritten since: it has another size")
            if not storage.exists(f"{path}.index"):
                raise RunError(f"there is no {path}.index")
            self._saver.restore(session, copies.copy_of(path))

        session.run(self._ops.initializer, feed)
        if not self._read(path, step, restore):
            # A failed restore can leave the iterator at any position.
            session.run(self._ops.initializer, feed)

    def save_part(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Saves this replica's position into the run's folder, local or in a bucket; the chief saves the rest."""
        folder = sending.local_folder_for(model_dir)
        storage.makedirs(model_dir)
        self.save(session, folder, step)
        if folder != model_dir:
            stem = os.path.basename(self._path(folder, step))
            files = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(f"{stem}.")]
            sending.send_files(sorted(files, key=lambda path: path.endswith(".index")), model_dir)
            for path in files:
                storage.remove(path)


SavedPosition = ShardPosition | Position
