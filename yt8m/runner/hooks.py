"""The base class of callbacks, and the engine's own: input, step count, bad records, epochs, log line, replicas.

`Runner._hooks` gives their order: the input starts before any other hook uses it, the step is counted before
any callback runs, the line is written after all callbacks have filled it in, and the step is saved after its line is
written.

They subclass a class of TensorFlow, so this module must be imported only when a session is about to open.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.deploy import ClusterConfig
from yt8m.errors import shortened
from yt8m.graph import Inputter, Synchrony
from yt8m.lazy import tf
from yt8m.runner.cluster.exchange import SharedState
from yt8m.runner.cluster.peers import Watch
from yt8m.runner.metric_files import QuietlyFailing
from yt8m.runner.run_config import Context
from yt8m.runner.saver import SavedPosition, ShardPosition
from yt8m.runner.signals import StopSignals


class Callback(tf.train.SessionRunHook):
    """A SessionRunHook that knows the run's context and is closed however the run ends.

    Attributes:
      saves: whether it saves checkpoints. It then runs after the line of the step was written: if a run was killed
        between the save and the line, the resumed run would lack that row of metrics.jsonl.
    """

    saves: ClassVar[bool] = False

    def __init__(self, context: Context) -> None:
        self.context = context

    def close(self) -> None:
        """Releases files and threads; also called after an error of this or another callback."""


class InputHook(Callback):
    """Starts the iterator on the files at the saved position.

    It does so after the variables are restored: in a single process once, in a cluster after each recovery.
    """

    def __init__(self, context: Context, files: Sequence[str], position: SavedPosition | None) -> None:
        super().__init__(context)
        self._files, self._position = files, position

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the iterator, before the callbacks use the session."""
        context, inputs = self.context, self.context.ops.input
        if self._position is not None and context.is_resumed:
            self._position.start(session, context.config.model_dir, int(session.run(context.ops.global_step)))
        else:
            session.run(inputs.initializer, {inputs.files: list(self._files)})

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the largest shard number of the step."""
        if isinstance(self._position, ShardPosition):
            return tf.train.SessionRunArgs(self.context.ops.input.last_shard)
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts the shards, before any callback saves."""
        if isinstance(self._position, ShardPosition):
            self._position.count_shards(int(run_values.results))


class CompileHook(Callback):
    """Compiles the functions of the step for XLA in a thread, while the first batch is read and the first save runs.

    Without it, the first step compiles them, and the other cores wait. The session keeps what is compiled for a shape.
    A function whose inputs have other unknown sizes than the number of rows is left to the step, which also reports
    what goes wrong.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._thread: threading.Thread | None = None

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the thread."""
        rows = self.context.config.batch_size_per_gpu or 0
        calls = [op for op in session.graph.get_operations() if _is_compiled(op)]
        calls_with_sizes = [(op, sizes) for op in calls if (sizes := _sizes_of_inputs(op, rows)) is not None]
        if calls_with_sizes:
            self._thread = threading.Thread(target=_compile, args=(session, calls_with_sizes), daemon=True)
            self._thread.start()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Waits for the thread, which has nothing left to compile once a step has run."""
        self.close()

    def close(self) -> None:
        """Waits for the thread."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _is_compiled(op: tf.Operation) -> bool:
    """Whether `op` calls a function that XLA compiles and that has no state, which a call on zeros would change."""
    return op.type == "PartitionedCall" and op.node_def.attr["_XlaMustCompile"].b


def _sizes_of_inputs(call: tf.Operation, rows: int) -> list[list[int]] | None:
    """The shape of each input, with `rows` as its first size if that is unknown; None if others are unknown."""
    sizes_of_inputs: list[list[int]] = []
    for tensor in call.inputs:
        if tensor.shape.rank is None or tensor.dtype in (tf.string, tf.resource, tf.variant):
            return None
        sizes = tensor.shape.as_list()
        sizes_of_inputs.append([rows if at == 0 and size is None else size for at, size in enumerate(sizes)])
    return sizes_of_inputs if all(None not in sizes for sizes in sizes_of_inputs) else None


def _compile(session: tf.Session, calls: Sequence[tuple[tf.Operation, list[list[int]]]]) -> None:
    """Runs the functions on zeros, so that they are compiled before the first step calls them."""
    options = tf.RunOptions(inter_op_thread_pool=-1)  # in this thread, so that no thread of the session has to wait
    zeros = {
        tensor: np.zeros(size, tensor.dtype.as_numpy_dtype)
        for op, sizes in calls
        for tensor, size in zip(op.inputs, sizes, strict=True)
    }
    try:
        session.run([op for op, _ in calls], zeros, options)
    except (tf.errors.OpError, RuntimeError, ValueError) as error:  # a closed session is a RuntimeError
        logging.debug("nothing is compiled ahead: %s", error)


class StepHook(Callback):
    """Keeps the step in the context up to date, and finds out which step will be the last."""

    def __init__(self, context: Context, inputter: Inputter, position: SavedPosition | None) -> None:
        super().__init__(context)
        self._inputter, self._position = inputter, position
        self._is_training = context.config.mode == "train"

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reads the step of the restored variables; a run on one machine that restored none is at step 0."""
        context = self.context
        is_new = self._is_training and not context.is_resumed and not context.config.is_distributed
        context.global_step = 0 if is_new else int(session.run(context.ops.global_step))
        context.step = context.global_step if self._is_training else 0
        if context.metrics is not None:
            context.metrics.go_back_to(context.step)
        context.line.start(context.step, self._last_step())

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the step as read after train_op; the variable itself could be read before or after it."""
        return tf.train.SessionRunArgs(self.context.ops.step) if self._is_training else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Updates the step."""
        if self._is_training:
            self.context.step = self.context.global_step = int(run_values.results)
        else:
            self.context.step += 1

    def _last_step(self) -> int | None:
        """The limit, or the end of the data if that comes first; None if neither is known."""
        config, inputter, before = self.context.config, self._inputter, self.context.step
        limit = config.max_steps if self._is_training else None
        if not inputter.records or not inputter.num_epochs:
            return limit
        in_all = inputter.records * inputter.num_epochs / (inputter.batch_size * config.towers)
        if config.checkpoints.exact_resume:
            before = 0
        elif isinstance(self._position, ShardPosition):
            in_all *= 1 - self._position.share_begun
        return min(before + math.ceil(in_all), limit or sys.maxsize)


class LineHook(Callback):
    """Emits the line that the callbacks have filled in."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Emits the line if one is due at this step."""
        self.end(None)

    def end(self, session: Any) -> None:
        """Emits the values that callbacks put into the line at the end."""
        self.context.line.emit(self.context.step, self.context.global_step)


class SkippedHook(Callback):
    """Writes each bad record that the inputter skips into metrics.jsonl, and at the end all of them into the log.

    Puts their number (`bad_records`) and the number of values set to 0 (`zeroed_values`) into the results.
    """

    def __init__(self, context: Context, inputter: Inputter) -> None:
        super().__init__(context)
        self._inputter = inputter
        self._path = storage.join(context.config.model_dir, "metrics.jsonl")
        self._quietly = QuietlyFailing(self._path)
        self._logged = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the new bad records."""
        skipped = self._inputter.bad_records()
        for damage in skipped[self._logged :]:
            logging.warning("a bad record, the rest of its shard is skipped: %s", damage)
            self._write({"bad_record": {"shard": damage.path, "record": damage.record, "what": damage.what}})
        self._logged = len(skipped)

    def end(self, session: tf.Session) -> None:
        """Logs the summary."""
        self.after_run(None, None)
        skipped, zeroed = self._inputter.bad_records(), self._inputter.zeroed_values()
        counts = {"bad_records": len(skipped), "zeroed_values": zeroed}
        self.context.results.update(counts)
        if skipped:
            shards = "; ".join(f"{damage.path} from record {damage.record} on" for damage in skipped)
            logging.warning("%d bad records: left out are %s", len(skipped), shards)
        if zeroed:
            logging.warning("%d values were NaN, infinite or too large, and were set to 0", zeroed)
        if skipped or zeroed:
            self._write(counts)

    def close(self) -> None:
        """Closes the inputter, which may hold a session for the inspection of records."""
        self._inputter.close()

    def _write(self, values: dict[str, Any]) -> None:
        line = {"step": self.context.step, "mode": self.context.config.mode, **values}
        text = json.dumps(line, ensure_ascii=False)
        self._quietly(lambda: storage.append_line(self._path, text))


class EpochHook(Callback):
    """Counts the records that the steps take, by shard, and compares each epoch with the expected counts.

    The first epoch of a resumed run is not compared, because the run may have begun in the middle of it.

    Args:
      context: the context of the run, whose graph numbers the shards of the examples.
      inputter: the inputter of the run, whose `records` are known.
      files: the files that are read.
    """

    def __init__(self, context: Context, inputter: Inputter, files: Sequence[str]) -> None:
        super().__init__(context)
        self._inputter, self._files = inputter, list(files)
        self._expected = sum(inputter.expected_records.values())
        self._total = 0
        self._epoch: int | None = None
        self._is_whole = False
        self._counts = np.zeros(len(self._files), np.int64)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the shard numbers of the step's records: 8 bytes per record, on the host."""
        return tf.train.SessionRunArgs(self.context.ops.input.shards)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts the records. All records of an epoch come before those of the next."""
        numbers = run_values.results
        self._total += len(numbers)
        epochs, places = np.divmod(numbers, len(self._files))
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
            if epoch != self._epoch:
                self._log()
                self._is_whole = self._epoch is not None or not self.context.is_resumed
                self._epoch, self._counts[:] = epoch, 0
            self._counts += np.bincount(places[epochs == epoch], minlength=len(self._files))

    def end(self, session: tf.Session) -> None:
        """Logs the last epoch, if it has ended, and the count of the whole run."""
        if self.context.has_read_all or self._counts.sum() >= self._expected:
            self._log()
        logging.info("%d records were read in this run; an epoch has %d", self._total, self._inputter.records)
        self.context.results["records"] = self._total

    def _log(self) -> None:
        """Logs the number of records in the epoch that has just ended."""
        if self._epoch is None or not self._is_whole:
            return
        differing = self._differing(self._epoch)
        log = logging.warning if differing else logging.info
        line, read = "epoch %d: %d records expected, %d read%s", int(self._counts.sum())
        log(line, self._epoch + 1, self._expected, read, f" ({differing})" if differing else "")

    def _differing(self, epoch: int) -> str:
        """The shards with more or fewer records than expected, in words; empty for none."""
        wanted = self._inputter.expected_records
        # `epoch_order` runs a small graph, so it is called only if the counts are wrong in every order.
        if sorted(wanted.values()) == sorted(self._counts.tolist()):
            return ""
        order = self._inputter.epoch_order(epoch)
        differences = [
            f"{path}: {count} instead of {wanted.get(path, 0)}"
            for path, count in zip(order, self._counts.tolist(), strict=True)
            if count != wanted.get(path, 0)
        ]
        return shortened(differences)


class ReplicaHook(tf.train.SessionRunHook):
    """The first hook of a replica: prepares each new session, and lets a replica without data continue.

    With common steps a replica that has read all its data continues with weight 0, until no replica has data.

    Args:
      cluster: the processes, and the role of this one.
      state: the shared state, in which it records whether it has data.
      signals: closes the session if the process gets a signal to stop.
      synchrony: starts the common steps; None if each replica steps by itself.

    Attributes:
      is_idle: whether this replica has read all its data.
      steps: number of common steps that it took without data.
    """

    def __init__(
        self, cluster: ClusterConfig, state: SharedState, signals: StopSignals, synchrony: Synchrony | None
    ) -> None:
        self._cluster, self._state, self._signals, self._synchrony = cluster, state, signals, synchrony
        self.is_idle, self.steps = False, 0

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Runs before the other hooks' `after_create_session`; all variables have values at this point."""
        self._signals.guard(session)
        self._state.set_ended(session, self._cluster.replica, False)
        if self._synchrony is not None:
            self._synchrony.start(session, coord, self._cluster.is_chief)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Fetches the number of examples of the common step, which is the same for every replica."""
        if not self.is_idle or self._synchrony is None:
            return None
        return tf.train.SessionRunArgs(self._synchrony.examples, {self._synchrony.counts: 0.0})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the loop after a step without any example."""
        if self.is_idle:
            self.steps += 1
            if int(run_values.results) == 0:
                run_context.request_stop()


class BeatHook(tf.train.SessionRunHook):
    """Tells the watch about each step. It is the last hook of a replica, because the other hooks may take long."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """A new session counts as progress too."""
        self._watch.beat()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """A step counts as progress."""
        self._watch.beat()
