"""How many records each epoch of a training should have, and how many the steps took.

What of the input was left out or changed: told as it happens and at the end.

The engine's own hooks around those of the callbacks: the input, the step count, the line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from absl import logging

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.records.shards import DamagedError
from yt8m.runner.metric_files import QuietlyFailing
from yt8m.runner.run_config import Context
from yt8m.runner.saver import Position, ShardPosition

_SHOWN = 3  # shards in one line


class Epochs(Protocol):
    """What the hook asks of an inputter.

    Attributes:
      records: of an epoch, as the shards' headers say.
      expected: how many records each file should have.
    """

    records: int
    expected: dict[str, int]

    def epoch_order(self, epoch: int) -> Sequence[str]:
        """The files in the order in which an epoch (from 0) begins them."""


class EpochHook(tf.train.SessionRunHook):
    """Counts the records that the steps take, by shard, and compares each epoch when it has ended.

    The first epoch of a resumed run is not compared: the run may have begun in the middle of it.

    Args:
      context: of the run; its graph numbers the shards of the examples.
      inputter: of the run.
      files: what is read.
    """

    def __init__(self, context: Context, inputter: Epochs, files: Sequence[str]) -> None:
        self._context, self._inputter, self._files = context, inputter, list(files)
        self._expected = sum(inputter.expected.values())
        self._total = 0
        self._epoch: int | None = None
        self._is_whole = False
        self._counts = np.zeros(len(self._files), np.int64)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the shards of the step's records: 8 bytes a record, on the host."""
        return tf.train.SessionRunArgs(self._context.ops.input.shards)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts. The records of an epoch all come before those of the next."""
        numbers = run_values.results
        self._total += len(numbers)
        epochs, places = np.divmod(numbers, len(self._files))
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
            if epoch != self._epoch:
                self._begin(epoch)
            self._counts += np.bincount(places[epochs == epoch], minlength=len(self._files))

    def end(self, session: tf.Session) -> None:
        """The last epoch, if it has ended, and the whole count."""
        if self._context.has_read_all or self._counts.sum() >= self._expected:
            self._tell()
        logging.info("%d records were read in this run; an epoch has %d", self._total, self._inputter.records)
        self._context.results["records"] = self._total

    def _begin(self, epoch: int) -> None:
        """Ends the epoch before, and counts from 0."""
        self._tell()
        self._is_whole = self._epoch is not None or not self._context.is_resumed
        self._epoch, self._counts[:] = epoch, 0

    def _tell(self) -> None:
        read = int(self._counts.sum())
        if self._epoch is None or not self._is_whole:
            return
        differing = self._differing(self._epoch)
        log = logging.warning if differing else logging.info
        told = "epoch %d: %d records expected, %d read%s"
        log(told, self._epoch + 1, self._expected, read, f" ({differing})" if differing else "")

    def _differing(self, epoch: int) -> str:
        """The shards of which more or fewer were read than there should be, in words; empty for none."""
        wanted = self._inputter.expected
        # To know the order a small graph is run, so only if no order gives these counts.
        if sorted(wanted.values()) == sorted(self._counts.tolist()):
            return ""
        order = self._inputter.epoch_order(epoch)
        found = [
            f"{path}: {count} instead of {wanted.get(path, 0)}"
            for path, count in zip(order, self._counts.tolist(), strict=True)
            if count != wanted.get(path, 0)
        ]
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return "; ".join(found[:_SHOWN]) + more


class SkippedHook(tf.train.SessionRunHook):
    """Writes each bad record into metrics.jsonl, and at the end all of them into the log.

    An inputter that goes on past bad records has a `tolerance` with what it skipped; a reader that sets
    values to 0 has `zeroed`. Their counts are left in the results under `bad_records` and `zeroed_values`.
    """

    def __init__(self, context: Context, inputter: Any) -> None:
        self._context, self._inputter = context, inputter
        path = storage.join(context.config.model_dir, "metrics.jsonl")
        self._path, self._quietly = path, QuietlyFailing(path)
        self._told = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes what is new."""
        skipped = self._skipped()
        for damage in skipped[self._told :]:
            logging.warning("a bad record, the rest of its shard is skipped: %s", damage)
            where = {"shard": damage.path, "record": damage.record, "what": damage.what}
            self._write({"bad_record": where})
        self._told = len(skipped)

    def end(self, session: tf.Session) -> None:
        """The summary."""
        self.after_run(None, None)
        skipped, zeroed = self._skipped(), self._zeroed()
        self._context.results.update(bad_records=len(skipped), zeroed_values=zeroed)
        if skipped:
            shards = "; ".join(f"{damage.path} from record {damage.record} on" for damage in skipped)
            logging.warning("%d bad records: left out are %s", len(skipped), shards)
        if zeroed:
            logging.warning("%d values were NaN, infinite or too large, and were set to 0", zeroed)
        if skipped or zeroed:
            self._write({"bad_records": len(skipped), "zeroed_values": zeroed})

    def close(self) -> None:
        """Lets go of what the inputter took to look into records."""
        close = getattr(self._inputter, "close", None)
        if close is not None:
            close()

    def _skipped(self) -> list[DamagedError]:
        tolerance = getattr(self._inputter, "tolerance", None)
        return list(tolerance.skipped.values()) if tolerance is not None else []

    def _zeroed(self) -> int:
        zeroed = getattr(getattr(self._inputter, "reader", None), "zeroed", None)
        return zeroed.count if zeroed is not None else 0

    def _write(self, values: dict[str, Any]) -> None:
        told = {"step": self._context.step, "mode": self._context.config.mode, **values}
        line = json.dumps(told, ensure_ascii=False)
        self._quietly(lambda: storage.append_line(self._path, line), (RunError,))


class InputHook(tf.train.SessionRunHook):
    """Starts the iterator on the files, then takes up the saved position.

    As a hook it runs after the variables' restore, in a plain session and after each recovery in a cluster.
    """

    def __init__(self, context: Context, files: Sequence[str], position: Position | ShardPosition | None) -> None:
        self._context, self._files, self._position = context, files, position

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Runs before any callback's."""
        context, position = self._context, self._position
        inputs, folder = context.ops.input, context.config.model_dir
        feed: dict[Any, Any] = {inputs.files: list(self._files)}
        step = int(session.run(context.ops.global_step)) if position and context.is_resumed else None
        if step is not None and isinstance(position, ShardPosition):
            feed |= position.resume(folder, step)
        session.run(inputs.initializer, feed)
        if step is not None and isinstance(position, Position):
            position.restore(session, folder, step)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks where the step's records are from."""
        if isinstance(self._position, ShardPosition):
            return tf.train.SessionRunArgs(self._position.last_shard)
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts, before any callback saves."""
        if isinstance(self._position, ShardPosition):
            self._position.note(int(run_values.results))


class StepHook(tf.train.SessionRunHook):
    """Keeps the context's step; comes before all callbacks."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reads where the variables are."""
        context = self._context
        context.global_step = int(session.run(context.ops.global_step))
        context.step = context.global_step if context.config.mode == "train" else 0
        context.line.start(context.step)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks for the step read after train_op: read beside it, it would be of an undefined moment."""
        if self._context.config.mode != "train":
            return None
        return tf.train.SessionRunArgs(self._context.ops.step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts."""
        context = self._context
        if context.config.mode != "train":
            context.step += 1
        else:
            context.step = context.global_step = int(run_values.results)


class LineHook(tf.train.SessionRunHook):
    """Gives out what the callbacks put into the line; comes after all of them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Once a line's step is complete."""
        self._context.line.emit(self._context.step, self._context.global_step)

    def end(self, session: tf.Session) -> None:
        """What a callback left at the end."""
        self._context.line.emit(self._context.step, self._context.global_step)
