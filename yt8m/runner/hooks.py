"""The base class of callbacks, and the hooks of every run: input, step count, bad records, epochs, memory, log line.

`Runner._create_hooks` puts them in order: the input starts before another hook uses it, the step is counted before the
callbacks run, the log line is written after all callbacks have filled it in, and checkpoints are saved after that.

The hooks derive from a class of TensorFlow, so other modules import this one only when a session is about to open.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from absl import logging

from yt8m import huge_pages, storage
from yt8m.config import run_dir
from yt8m.errors import RunError, UsageError, shortened
from yt8m.graph import Inputter
from yt8m.lazy import tf
from yt8m.runner.metric_files import QuietlyFailing
from yt8m.runner.run_config import Context
from yt8m.runner.saver import SavedPosition, ShardPosition
from yt8m.storage import sending


class Callback(tf.train.SessionRunHook):
    """A SessionRunHook that has the run's context, and whose `close` is called however the run ends.

    Args:
      context: the context of the run.

    Attributes:
      saves: whether the callback saves checkpoints. Such a callback is called after the log line of the step has been
        written. Otherwise, if the run was killed between the save and the log line, no row of metrics.jsonl would ever
        be written for this step, because the resumed run begins after it.
    """

    saves: ClassVar[bool] = False

    def __init__(self, context: Context) -> None:
        self.context = context

    def close(self) -> None:
        """Releases files and threads. This is called in any case, even after an error of this or another callback."""


class InputHook(Callback):
    """Starts the data iterator at the saved position in the files, after the variables are restored.

    With parameter servers this happens again after each recovery of the session.

    Args:
      position: saves and restores the position in the data; None to start at the beginning.
    """

    def __init__(self, context: Context, files: Sequence[str], position: SavedPosition | None) -> None:
        super().__init__(context)
        self._files, self._position = files, position

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the iterator. This hook is called before the callbacks, which may need the input."""
        context, inputs = self.context, self.context.ops.input
        if self._position is not None and context.is_resumed:
            self._position.start(session, context.config.model_dir, int(session.run(context.ops.global_step)))
        else:
            session.run(inputs.initializer, {inputs.files: list(self._files)})

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the largest shard number among the examples of the step, if shards are counted."""
        if isinstance(self._position, ShardPosition):
            return tf.train.SessionRunArgs(self.context.ops.input.last_shard)
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts the shards. This hook is called before the callbacks that save the count with a checkpoint."""
        if isinstance(self._position, ShardPosition):
            self._position.count_shards(int(run_values.results))


class CompileHook(Callback):
    """Makes XLA compile the functions of the graph in a thread, while the first batch is read and the first save runs.

    Without this hook the first step would compile them, on one core. The session keeps the compiled code for each shape
    of the inputs. A function whose inputs have other unknown sizes than the number of rows is still compiled by the
    first step. If compiling fails in the thread, the first step compiles again and reports the error.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._thread: threading.Thread | None = None

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the thread that compiles."""
        rows = self.context.config.batch_size_per_gpu or 0
        calls = [op for op in session.graph.get_operations() if _is_compiled(op)]
        calls_with_sizes = [(op, sizes) for op in calls if (sizes := _sizes_of_inputs(op, rows)) is not None]
        if calls_with_sizes:
            self._thread = threading.Thread(target=_compile, args=(session, calls_with_sizes), daemon=True)
            self._thread.start()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Waits until the thread ends. Once a step has run, nothing is left to compile."""
        self.close()

    def close(self) -> None:
        """Waits until the thread ends, if it was started."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def _is_compiled(op: tf.Operation) -> bool:
    """Whether `op` calls a function that XLA compiles and that has no state.

    A function with state is not called here, because a call with zeros would change the state.
    """
    return op.type == "PartitionedCall" and op.node_def.attr["_XlaMustCompile"].b


def _sizes_of_inputs(call: tf.Operation, rows: int) -> list[list[int]] | None:
    """The shape of each input of a call.

    Returns:
      The shapes; None if another size is unknown, or an input is not numeric.
    """
    sizes_of_inputs: list[list[int]] = []
    for tensor in call.inputs:
        if tensor.shape.rank is None or tensor.dtype in (tf.string, tf.resource, tf.variant):
            return None
        sizes = tensor.shape.as_list()
        sizes_of_inputs.append([rows if axis == 0 and size is None else size for axis, size in enumerate(sizes)])
    return sizes_of_inputs if all(None not in sizes for sizes in sizes_of_inputs) else None


def _compile(session: tf.Session, calls: Sequence[tuple[tf.Operation, list[list[int]]]]) -> None:
    """Runs the functions on zeros, so that they are compiled before the first step calls them."""
    # With this option the calling thread compiles, not a thread that the session needs for steps.
    options = tf.RunOptions(inter_op_thread_pool=-1)
    zeros = {
        tensor: np.zeros(size, tensor.dtype.as_numpy_dtype)
        for op, sizes in calls
        for tensor, size in zip(op.inputs, sizes, strict=True)
    }
    try:
        session.run([op for op, _ in calls], zeros, options)
    except (tf.errors.OpError, RuntimeError, ValueError) as error:  # a closed session raises RuntimeError
        logging.debug("the first step compiles the functions: %s", error)


class HugePagesHook(Callback):
    """Moves the memory of a run into huge pages, in a thread: when it has run for a while, and twice later.

    A short run would not get back the time, and at its first step a run does not have all its memory yet. Evaluations
    inside a training leave it to the training, because they share its process.

    Args:
      after_seconds: the seconds after the first step.
    """

    def __init__(self, context: Context, after_seconds: Sequence[float] = (10.0, 60.0, 600.0)) -> None:
        super().__init__(context)
        self._left = list(after_seconds)
        self._first_step: float | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = threading.Event()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Starts the thread if it is time."""
        if not self._left:
            return
        now = time.monotonic()
        if self._first_step is None:
            self._first_step = now
        if now - self._first_step >= self._left[0] and not (self._thread and self._thread.is_alive()):
            del self._left[0]
            thread = threading.Thread(target=huge_pages.move_memory, args=(self._is_closed.is_set,), daemon=True)
            with contextlib.suppress(RuntimeError):  # the system allows no more threads; the run does without
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """Ends the thread."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join()


class StepHook(Callback):
    """Keeps the step numbers in the context up to date, and computes which step will be the last.

    Args:
      position: the position in the data; None if it is not saved.
    """

    def __init__(self, context: Context, inputter: Inputter, position: SavedPosition | None) -> None:
        super().__init__(context)
        self._inputter, self._position = inputter, position
        self._is_training = context.config.mode == "train"

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Sets the step numbers: in training to the global step, which is 0 in a new run; else `step` to 0.

        Evaluation and inference count their batches in `step`. Rows of metrics.jsonl for later steps are removed.
        """
        context = self.context
        is_new = self._is_training and not context.is_resumed and not context.config.is_distributed
        context.global_step = 0 if is_new else int(session.run(context.ops.global_step))
        context.step = context.global_step if self._is_training else 0
        if context.metrics is not None:
            context.metrics.go_back_to(context.step)
        context.line.start(context.step, self._last_step())

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests `ops.step`, which is read after train_op. `ops.global_step` could be read before train_op."""
        return tf.train.SessionRunArgs(self.context.ops.step) if self._is_training else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Sets the step in the context to the one that was just completed."""
        if self._is_training:
            self.context.step = self.context.global_step = int(run_values.results)
        else:
            self.context.step += 1

    def _last_step(self) -> int | None:
        """The step at which the run will end, by max_steps or because all data were read; None if it is not known."""
        config, inputter, before = self.context.config, self._inputter, self.context.step
        limit = config.max_steps if self._is_training else None
        if not inputter.records or not inputter.num_epochs:
            return limit
        steps = inputter.records * inputter.num_epochs / (inputter.batch_size * config.towers)
        if isinstance(self._position, ShardPosition):
            steps *= 1 - self._position.share_begun
        elif config.checkpoints.exact_resume:
            before = self._position.first_step if self._position else 0
        return min(before + math.ceil(steps), limit or sys.maxsize)


class LineHook(Callback):
    """Makes the context's `StepLine` pass on the log line that the callbacks have filled in."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the log line, if callbacks have put values into it at this step."""
        self.end(None)

    def end(self, session: Any) -> None:
        """Writes a last log line, if callbacks have put values into it at the end of the run."""
        self.context.line.emit(self.context.step, self.context.global_step)

    def close(self) -> None:
        """Closes metrics.jsonl, which has the log lines too."""
        if self.context.metrics is not None:
            self.context.metrics.close()


class SkippedHook(Callback):
    """Writes each bad record that the inputter skips into metrics.jsonl, and a list of all to the log at the end.

    At the end, `bad_records` in the results is the number of these records, and `zeroed_values` the number of feature
    values that were set to 0. The hook also closes the inputter.
    """

    def __init__(self, context: Context, inputter: Inputter) -> None:
        super().__init__(context)
        self._inputter = inputter
        self._path = storage.join(context.config.model_dir, "metrics.jsonl")
        self._quietly = QuietlyFailing(self._path)
        self._logged = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the bad records that were found since the last call."""
        skipped = self._inputter.bad_records()
        for damage in skipped[self._logged :]:
            logging.warning("bad record; the rest of its shard is skipped: %s", damage)
            self._write_row({"bad_record": {"shard": damage.path, "record": damage.record, "what": damage.what}})
        self._logged = len(skipped)

    def end(self, session: tf.Session) -> None:
        """Logs all bad records and the number of values set to 0."""
        self.after_run(None, None)
        skipped, zeroed = self._inputter.bad_records(), self._inputter.zeroed_values()
        counts = {"bad_records": len(skipped), "zeroed_values": zeroed}
        self.context.results.update(counts)
        if skipped:
            shards = "; ".join(f"{damage.path} from record {damage.record} on" for damage in skipped)
            logging.warning("%d bad records; not read: %s", len(skipped), shards)
        if zeroed:
            logging.warning("%d feature values were NaN, infinite or too large, and were set to 0", zeroed)
        if skipped or zeroed:
            self._write_row(counts)

    def close(self) -> None:
        """Closes the inputter, which may have an open session of its own, in which it inspects records."""
        self._inputter.close()

    def _write_row(self, values: dict[str, Any]) -> None:
        """Appends a row with the current step, the mode and `values` to metrics.jsonl."""
        line = {"step": self.context.step, "mode": self.context.config.mode, **values}
        text = json.dumps(line, ensure_ascii=False)
        self._quietly(lambda: self._append(text))

    def _append(self, text: str) -> None:
        """Appends a line to metrics.jsonl, unless the file is in a bucket and another process trains the run.

        A training replaces such a file as a whole, and refuses to do so once another process has written it.
        """
        path, lock = sending.growing_part(self._path), storage.join(self.context.config.model_dir, run_dir.LOCK)
        try:
            if not (storage.is_remote(path) and storage.is_locked(lock)):
                storage.append_line(path, text)
        except UsageError as error:  # no permission, which an evaluation or inference does not need
            raise RunError(str(error)) from error


_FIRST_EPOCHS, _SECONDS_BETWEEN_EPOCHS = 5, 10.0


class EpochHook(Callback):
    """Counts the records that the steps read, and compares each epoch with the expected number.

    The first epoch of a resumed run is not compared, because the run may resume in the middle of an epoch. Few videos
    have many short epochs: after the first ones, one that was read whole is logged only every so many seconds.

    Args:
      context: the context of the run; its `ops.input.shards` must not be None.
      inputter: the inputter of the run; its `records` must not be None.
    """

    def __init__(self, context: Context, inputter: Inputter, files: Sequence[str]) -> None:
        super().__init__(context)
        self._inputter, self._shards = inputter, len(files)
        self._expected = sum(inputter.expected_records.values())
        self._total = self._count = 0
        self._epoch: int | None = None
        self._is_complete = False
        self._logged = -math.inf  # when the last line of an epoch was logged

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the shard number of each record of the step."""
        return tf.train.SessionRunArgs(self.context.ops.input.shards)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts the records of the step; logs the count of each epoch that has ended.

        A shard number tells the epoch. All records of an epoch come before those of the next epoch.
        """
        epochs = run_values.results // self._shards
        self._total += len(epochs)
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
            if epoch != self._epoch:
                self._log_epoch()
                self._is_complete = self._epoch is not None or not self.context.is_resumed
                self._epoch, self._count = epoch, 0
            self._count += int((epochs == epoch).sum())

    def end(self, session: tf.Session) -> None:
        """Logs how many records were read in the last epoch, if it was read to its end, and in the whole run."""
        if self.context.has_read_all or self._count >= self._expected:
            self._log_epoch(is_last=True)
        logging.info("%d records were read in this run; an epoch has %d", self._total, self._inputter.records)
        self.context.results["records"] = self._total

    def _log_epoch(self, *, is_last: bool = False) -> None:
        """Logs the number of records that were read in the epoch that has just ended, if it was read from its start."""
        if self._epoch is None or not self._is_complete:
            return
        line = f"epoch {self._epoch + 1}: {self._expected} records expected, {self._count} read"
        if self._count == self._expected:
            is_due = time.monotonic() - self._logged >= _SECONDS_BETWEEN_EPOCHS
            if is_due or is_last or self._epoch < _FIRST_EPOCHS:
                self._logged = time.monotonic()
                logging.info("%s", line)
            return
        changed = [f"{path} has changed or is gone" for path in self._inputter.changed_files()]
        logging.warning("%s%s", line, f" ({shortened(changed)})" if changed else "")
