"""Predictions on their way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from yt8m.lazy import tf
from yt8m.runner.behind import Behind
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.context import Context


class InferWriter(Callback):
    """Hands each step's reports to `consumer`, in the order of the data.

    Args:
      consumer: takes the reports by name, as the modeler offers them for inference (or evaluation). It is
        called in one thread, which is not that of the steps.
    """

    def __init__(self, context: Context, consumer: Callable[[Mapping[str, np.ndarray]], None]) -> None:
        super().__init__(context)
        self._consumer = consumer
        self._behind = Behind(self._consume)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the reports."""
        return tf.train.SessionRunArgs(dict(self.context.ops.reports))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Has them handed on while the next step runs."""
        self._behind.put(run_values.results)

    def end(self, session: tf.Session) -> None:
        """Waits until the last are handed on."""
        self._behind.wait()

    def close(self) -> None:
        """Ends the thread."""
        self._behind.close()

    def _consume(self, reports: Mapping[str, np.ndarray]) -> None:
        self._consumer(self.context.modeler.completed(reports))
