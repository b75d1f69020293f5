"""How many records each epoch of a training should have, and how many the steps took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from absl import logging

from yt8m.lazy import tf
from yt8m.runner.context import Context

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
