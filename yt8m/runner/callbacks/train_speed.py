"""Examples a second in the line."""

from __future__ import annotations

import time
from typing import Any

from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.context import Context


class TrainSpeed(Callback):
    """Examples of all towers since the line before, by the time they took."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._examples, self._since = 0, time.monotonic()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the clock."""
        self._examples, self._since = 0, time.monotonic()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the number of examples; the last batch of all is a small one."""
        self._is_due = self.context.line_due
        return tf.train.SessionRunArgs(self.context.ops.examples)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts; on the steps that get a line, gives the speed."""
        self._examples += int(run_values.results)
        if self._is_due:
            now = time.monotonic()
            self.context.line.values.examples_per_second = self._examples / max(now - self._since, 1e-9)
            self._examples, self._since = 0, now
