"""Saves a checkpoint of a run: first the position in the data, then the variables, then the state file `checkpoint`.

The position that belongs to the checkpoint of step N is saved under the name `input-N`, in one of two ways. The file of
`ShardPosition` is small: it has the number of shards that the run has begun to read. The files of `Position`, which
--exact_resume uses, contain the state of the data iterator with its shuffle buffer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.errors import DamagedFileError, RunError, UsageError, first_line
from yt8m.graph import InputOps
from yt8m.graph.inputs import input_saver
from yt8m.graph.restore import model_variables
from yt8m.lazy import tf
from yt8m.runner import checkpoints, failed_input
from yt8m.storage import copies, own_runs, sending, state_files

# Before a save, the variables are read in groups of this many bytes to check that they are finite. The groups of the
# first save are large, because the first read of a group takes 30 ms. Later saves use smaller groups, because the
# batches of a running training need memory too.
_FIRST_GROUP_BYTES, _GROUP_BYTES = 64 << 20, 16 << 20


class RunSaver:
    """Saves checkpoints of a training run into its folder.

    Args:
      model_dir: the folder of the run, local or gs://. Files that an interrupted save has left there are removed.
      keep: number of newest checkpoints to keep; 0 keeps all.
      saved_step: the step of the newest checkpoint; None if there is no checkpoint.
      position: the position in the data, saved with each checkpoint; None to save no position.
      is_own: whether this user's own runs made the graph. Then its meta-graphs are registered in `own_runs`, so that a
        resume does not warn of them.
    """

    def __init__(
        self,
        model_dir: str,
        saver: tf.train.Saver,
        keep: int,
        saved_step: int | None = None,
        position: SavedPosition | None = None,
        is_own: bool = True,
    ) -> None:
        self._model_dir, self._saver, self._keep, self._is_own = model_dir, saver, keep, is_own
        self._saved_step, self._position = saved_step, position
        self._saved_at: float | None = None  # time.monotonic() of the last save; None before the first
        self._exported: tuple[tf.Graph, int, dict[str, int], bytes] | None = None  # see `_meta_graph_of`
        checkpoints.sweep(model_dir)

    def save(self, session: tf.Session, step: int) -> str:
        """Saves a checkpoint of a step, unless the newest checkpoint is already of this step."""
        path = checkpoints.path_of(self._model_dir, step)
        if step == self._saved_step:
            return path
        with session.graph.as_default():
            # At the start of a run the other variables, such as optimizer slots, have constant values, so they are not
            # checked.
            variables = model_variables() if step == 0 and self._saved_step is None else tf.global_variables()
        _check_finite(session, variables, _FIRST_GROUP_BYTES if self._saved_at is None else _GROUP_BYTES)
        storage.refuse_lost_lock(self._model_dir)
        try:
            self._write_checkpoint(session, step)
        except (tf.errors.OpError, RunError, UsageError, OSError, ValueError) as error:
            storage.refuse_lost_lock(self._model_dir)
            self._remove_files(step)
            raise RunError(
                f"cannot save the checkpoint {path}: {first_line(error)}. The checkpoint before it, if any, is "
                "intact. Remove the cause, such as a full disk, and start again with the same folder: training resumes "
                "from that checkpoint."
            ) from error
        if self._saved_step is not None:
            copies.forget(checkpoints.path_of(self._model_dir, self._saved_step))
        self._saved_step = step
        return path

    def _write_checkpoint(self, session: tf.Session, step: int) -> None:
        """Writes all files of a checkpoint and the state file, and deletes checkpoints that are no longer kept."""
        storage.makedirs(self._model_dir)
        folder = sending.local_folder_for(self._model_dir)
        # Once the input has failed, no checkpoint is deleted: the run resumes from one that was saved before.
        keep = self._keep if self._position is None or self._position.save(session, folder, step) else 0
        with session.graph.as_default():
            self._save_variables(session, folder, step)
        if folder != self._model_dir:
            self._upload(folder, step)
        now = time.monotonic()
        elapsed = None if self._saved_at is None else now - self._saved_at
        checkpoints.write_state(self._model_dir, step, keep, elapsed)
        self._saved_at = now
        sending.send_growing()
        # Checked here too: if this was the last save, a run that lost its lock would otherwise end with status 0.
        storage.refuse_lost_lock(self._model_dir)
        logging.info("saved %s", checkpoints.path_of(self._model_dir, step))

    def _save_variables(self, session: tf.Session, folder: str, step: int) -> None:
        """Writes the data, the index and the meta-graph of a checkpoint into a local folder, in this order.

        Data and index are written under hidden names and renamed when they are complete.
        """
        name = os.path.basename(checkpoints.path_of(folder, step))
        self._saver.save(session, os.path.join(folder, f".{name}"), write_meta_graph=False, write_state=False)
        hidden = [file for file in os.listdir(folder) if file.startswith(f".{name}.")]
        for file in sorted(hidden, key=lambda file: file.endswith(".index")):
            storage.rename(os.path.join(folder, file), os.path.join(folder, file[1:]))
        meta_graph = self._meta_graph_of(session.graph)
        storage.write(os.path.join(folder, f"{name}.meta"), meta_graph)
        if self._is_own and not own_runs.is_noted(meta_graph):
            # Noting fails if the user has no home folder. A resumed run then warns that the graph is a program.
            with contextlib.suppress(RunError):
                own_runs.note(meta_graph)

    def _meta_graph_of(self, graph: tf.Graph) -> bytes:
        """The serialized meta-graph, which is made again only if the graph has more ops or collections have changed."""
        collections = {name: len(graph.get_collection_ref(name)) for name in graph.collections}
        if self._exported is None or self._exported[:3] != (graph, graph.version, collections):
            self._exported = (graph, graph.version, collections, self._saver.export_meta_graph().SerializeToString())
        return self._exported[3]

    def _upload(self, folder: str, step: int) -> None:
        """Uploads a checkpoint to a bucket, in this order: position, data, index, meta-graph.

        A checkpoint can be read as soon as its index is in the bucket; without a meta-graph, a resumed run builds its
        graph from the model's code. The local files of the position are deleted, those of the variables are kept as a
        copy.
        """
        names = sorted(checkpoints.files_of(folder)[step], key=_upload_order)
        files = [os.path.join(folder, name) for name in names]
        try:
            storage.refuse_lost_lock(self._model_dir)
            sending.send_files(files, self._model_dir)
        except (RunError, UsageError) as error:
            rescued_folder = copies.rescue(files, checkpoints.NAME)
            raise RunError(f"{first_line(error)} (the files of the checkpoint are in {rescued_folder})") from error
        weights = [path for path in files if os.path.basename(path).startswith(checkpoints.NAME)]
        copies.keep(checkpoints.path_of(self._model_dir, step), weights)
        for path in set(files) - set(weights):
            storage.remove(path)

    def _remove_files(self, step: int) -> None:
        """Removes the files of a failed save of `step`. In a bucket they stay until the next start of the run.

        That start removes what cannot be used (`checkpoints.sweep`).
        """
        if storage.is_remote(self._model_dir):
            return
        stems = tuple(f"{stem}-{step}." for stem in (checkpoints.NAME, f".{checkpoints.NAME}", checkpoints.INPUT_NAME))
        for name in storage.names_in(self._model_dir):
            if name.startswith(stems):
                checkpoints.remove(self._model_dir, name, "a file of a failed save remains")


class WorkerSaver:
    """The saver of a worker, which saves nothing, because the chief saves the checkpoints of all replicas."""

    def __init__(self, model_dir: str) -> None:
        self._model_dir = model_dir

    def save(self, session: tf.Session, step: int) -> str:
        """Saves nothing; returns the path prefix that the chief's checkpoint of this step has."""
        return checkpoints.path_of(self._model_dir, step)


def _upload_order(name: str) -> tuple[bool, bool, bool]:
    """The key by which the files of a checkpoint are sorted for the upload: position, data, index, meta-graph."""
    return name.startswith(checkpoints.NAME), name.endswith(".meta"), name.endswith(".index")


def _check_finite(session: tf.Session, variables: Sequence[tf.Variable], group_bytes: int) -> None:
    """Raises `RunError` if a variable has a NaN or an infinite value: a bad checkpoint must not replace a good one.

    The values are read and checked by NumPy, because an op that checks them would become part of the saved graph.

    Args:
      group_bytes: how many bytes of variables are read at a time.
    """
    float_variables = [variable for variable in variables if variable.dtype.base_dtype.is_floating]
    for group in _split_into_groups(float_variables, group_bytes):
        for variable, value in zip(group, session.run(group), strict=True):
            # The values are converted to float32, because NumPy cannot check bfloat16.
            if not np.isfinite(np.asarray(value, np.float32)).all():
                raise RunError(
                    f"the variable {variable.op.name} is not finite, so no checkpoint was saved. The checkpoint before "
                    "this step, if any, is intact. Lower the learning rate, or check the data."
                )


def _split_into_groups(variables: Sequence[tf.Variable], group_bytes: int) -> Iterator[list[tf.Variable]]:
    """Splits the variables into groups of at most `group_bytes` bytes; a larger variable is a group of its own."""
    group: list[tf.Variable] = []
    group_size = 0
    for variable in variables:
        size = variable.shape.num_elements() * variable.dtype.base_dtype.size
        if group and group_size + size > group_bytes:
            yield group
            group, group_size = [], 0
        group.append(variable)
        group_size += size
    if group:
        yield group


class _PositionFile:
    """The base class of positions in the data. It reads and writes the file `input-N.json` of the position of step N.

    The file has a digest of the data to which the position belongs, and other values of the position.
    """

    _suffix = ""  # follows `input-N` in the names of the files, before the extension

    def __init__(self, ops: InputOps, files: Sequence[str], order: Mapping[str, Any]) -> None:
        self._ops, self._files = ops, list(files)
        self._digest = _digest([self._files, dict(order)])

    def _path(self, model_dir: str, step: int) -> str:
        """The path of the position's files of a step, without extension."""
        return checkpoints.path_of(model_dir, step, checkpoints.INPUT_NAME) + self._suffix

    def _write(self, path: str, **values: int | str) -> None:
        """Writes the file `path`.json with the digest of the data and other values."""
        state_files.write(f"{path}.json", {"data": self._digest, **values})

    def _read(self, path: str, step: int, use: Callable[[Mapping[str, Any]], None]) -> bool:
        """Reads the file `path`.json."""
        try:
            use(self._read_content(f"{path}.json"))
        except (tf.errors.OpError, RunError) as error:
            logging.warning(
                "the position in the data of step %d cannot be used (%s): the data are read from their beginning",
                step,
                first_line(error),
            )
            return False
        return True

    def _read_content(self, path: str) -> Mapping[str, Any]:
        """The content of the file `path`; raises `RunError` if the file cannot be read or belongs to other data."""
        try:
            position = state_files.read(path)
            if "data" in position and position["data"] != self._digest:
                raise RunError(
                    f"{path} belongs to other files, or to another batch size, seed, shuffling, or number of epochs, "
                    "of processes or of towers (which --num_gpu and the GPUs of this machine decide)"
                )
            return dict(position)
        except DamagedFileError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {error}") from error


def _digest(values: Any) -> str:
    """A hash of JSON values, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


class ShardPosition(_PositionFile):
    """The position in the data as the number of shards that the run has begun to read.

    A resumed run does not read these shards again.

    Args:
      order: {name: JSON value} of the other options that decide in which order shards are read.
      num_epochs: number of passes over the files; None for no limit.
    """

    def __init__(self, ops: InputOps, files: Sequence[str], order: Mapping[str, Any], num_epochs: int | None) -> None:
        super().__init__(ops, files, order)
        self._num_shards, self._num_epochs, self._num_begun_shards = len(files), num_epochs, 0

    def count_shards(self, last_shard: int) -> None:
        """Counts the shards that were begun up to a step; `last_shard` is the largest shard number of its examples."""
        self._num_begun_shards = max(self._num_begun_shards, last_shard + 1)

    @property
    def share_begun(self) -> float:
        """The share of the shards of all epochs that were begun, from 0 to 1; 0 if there is no limit of epochs."""
        return min(self._num_begun_shards / (self._num_shards * self._num_epochs), 1.0) if self._num_epochs else 0.0

    def save(self, session: tf.Session, model_dir: str, step: int) -> bool:
        """Writes `input-N.json` into the folder `model_dir`; returns True, since the number of shards has no errors."""
        self._write(self._path(model_dir, step), begun=self._num_begun_shards, shards=self._num_shards)
        return True

    def start(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Reads `input-N.json` and starts the data iterator after the shards that were begun."""
        session.run(self._ops.initializer, {self._ops.files: self._files, **self.resume(model_dir, step)})

    def resume(self, model_dir: str, step: int) -> dict[tf.Tensor, int]:
        """Reads `input-N.json` of a step, and logs the epoch and the shard at which reading continues.

        If the file cannot be used, the log has a warning, and the data are read from their beginning.

        Returns:
          {tensor: value} to feed when the iterator is initialised: the number of shards to skip.
        """
        if self._read(self._path(model_dir, step), step, self._restore):
            epoch, shard = divmod(self._num_begun_shards, self._num_shards)
            if self._num_epochs is not None and epoch >= self._num_epochs:
                logging.warning(
                    "all %d shards of the last epoch (%d of %d) were begun before: no data are left to read; "
                    "give a higher --num_epochs to train on",
                    *(self._num_shards, self._num_epochs, self._num_epochs),
                )
            else:
                begun = f"the first {shard} shards are not read again in it"
                if not shard:
                    begun = (
                        f"all shards of epoch {epoch} were begun, and are not read again" if epoch else "none was begun"
                    )
                logging.info(
                    "reading continues at epoch %d, shard %d of %d; %s", epoch + 1, shard + 1, self._num_shards, begun
                )
        return {self._ops.begun: self._num_begun_shards}

    def _restore(self, position: Mapping[str, Any]) -> None:
        """Takes the number of begun shards from the content of `input-N.json`; raises `RunError` if there is none."""
        if "begun" not in position:
            raise RunError("it was saved with --exact_resume")
        if "data" not in position or not isinstance(position["begun"], int):
            raise RunError("it is damaged: the number of shards that were begun is missing")
        self._num_begun_shards = position["begun"]


class Position(_PositionFile):
    """The exact position in the data, which is the state of the data iterator (--exact_resume).

    Args:
      order: {name: JSON value} of the other options that decide which examples are read in which order (batch size,
        seed, ...).
      replica: the index of this replica. The chief, replica 0, writes the files `input-N`, replica R the files
        `input-N.replicaR`.

    Attributes:
      first_step: the step at which the run began to read the data from the beginning: 0, or the step at which a resumed
        run could not use the saved position.
    """

    def __init__(
        self,
        ops: InputOps,
        files: Sequence[str],
        order: Mapping[str, Any],
        replica: int = 0,
        contents: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(ops, files, order)
        self._saver, self._suffix = input_saver(ops), f".replica{replica}" if replica else ""
        self._contents = _digest(dict(contents))
        self._sizes = _digest([stamp.bytes for stamp in storage.stamps(files).values()])
        self.first_step = 0

    def save(self, session: tf.Session, model_dir: str, step: int) -> bool:
        """Writes `input-N.json` and the state of the iterator, `input-N.index` and `input-N.data-...`."""
        path = self._path(model_dir, step)
        self._saver.save(session, path, write_meta_graph=False, write_state=False)
        has_failed = failed_input.discard_failed_state(path)
        self._write(
            path,
            sizes=self._sizes,
            records=self._contents,
            first_step=self.first_step,
            **{failed_input.FAILED: has_failed},
        )
        if not has_failed:
            storage.sync([f"{path}.data-00000-of-00001", f"{path}.index"])
        return not has_failed

    def start(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Starts the data iterator, and restores its state from the files `input-N`.

        If they cannot be used, the log has a warning, and the data are read from their beginning.
        """
        path, feed = self._path(model_dir, step), {self._ops.files: self._files}

        def restore(position: Mapping[str, Any]) -> None:
            if "data" not in position:
                raise RunError(f"{path}.json has no digest of the data that it belongs to")
            if (
                position.get("first_step") == step
            ):  # the data begin at this step, and the iterator is at their beginning
                self.first_step = step
                return
            if position.get("sizes") != self._sizes:
                raise RunError("a shard has another size now: it was written again")
            if position.get("records", self._contents) != self._contents:  # earlier versions saved none
                raise RunError("a shard has another content now: another file took its place")
            if failed_input.has_failed(path, step):
                raise RunError("the input had failed before it was saved")
            if not storage.exists(f"{path}.index"):
                raise RunError(f"there is no {path}.index")
            self._saver.restore(session, copies.copy_of(path))
            self.first_step = int(position.get("first_step", 0))

        session.run(self._ops.initializer, feed)
        if not self._read(path, step, restore):
            # The iterator is started once more, because a failed restore can leave it at any position.
            session.run(self._ops.initializer, feed)
            self.first_step = step

    def save_part(self, session: tf.Session, model_dir: str, step: int) -> None:
        """Saves the position of a worker of a cluster for a checkpoint, whose other files the chief saves.

        Args:
          model_dir: the folder of the run, local or gs://.
        """
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
