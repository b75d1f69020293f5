"""A trace of chosen steps."""

from __future__ import annotations

from typing import Any

from absl import logging

from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.context import Context


class TrainProfile(Callback):
    """Writes what each thread and device did in some steps, for the profiler of TensorBoard.

    The trace goes to `plugins/profile/<time>/<host>.xplane.pb`. A run that is resumed behind the first step
    traces nothing.

    Args:
      context: of the run.
      first: step whose beginning starts the trace.
      last: step whose end finishes it; the run's end does so too.
      folder: that TensorBoard is given; empty for the run's own.
    """

    def __init__(self, context: Context, first: int, last: int, folder: str = "") -> None:
        super().__init__(context)
        self._first, self._last, self._folder = first, last, folder or context.config.model_dir
        self._is_tracing = False

    def before_run(self, run_context: Any) -> None:
        """Starts the trace where the step about to run is the first."""
        if self.context.step + 1 == self._first:
            tf.compat.v2.profiler.experimental.start(self._folder)
            self._is_tracing = True

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends it behind the last."""
        if self._is_tracing and self.context.step >= self._last:
            self.close()

    def close(self) -> None:
        """Writes the trace."""
        if self._is_tracing:
            self._is_tracing = False
            tf.compat.v2.profiler.experimental.stop()
            logging.info("the trace of steps %d to %d is in %s", self._first, self.context.step, self._folder)
