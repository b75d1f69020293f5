"""How many records an epoch should have and how many were read."""

from __future__ import annotations

from typing import Any

from absl import logging

from yt8m.lazy import tf
from yt8m.runner.context import Context


class EpochHook(tf.train.SessionRunHook):
    """Counts the examples of a training whose epochs are known, and tells of each epoch.

    Args:
      context: of the run.
      records: examples of an epoch.
      expected: what they should be, where a manifest says so.
    """

    def __init__(self, context: Context, records: int, expected: int) -> None:
        self._context, self._records, self._expected = context, records, expected
        self._read = self._epochs = 0

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the number of examples, as others do anyway."""
        return tf.train.SessionRunArgs(self._context.ops.examples)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts; a resumed run is somewhere in an epoch, so that it tells at its end alone."""
        self._read += int(run_values.results)
        while not self._context.is_resumed and self._read >= (self._epochs + 1) * self._records:
            self._epochs += 1
            log = logging.info if self._records == self._expected else logging.warning
            log("epoch %d: %d records expected, %d read", self._epochs, self._expected, self._records)

    def end(self, session: tf.Session) -> None:
        """The whole count."""
        logging.info("%d records were read in this run; an epoch has %d", self._read, self._records)
        self._context.results["records"] = self._read
