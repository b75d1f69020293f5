"""The count of examples and the time in inference."""

from __future__ import annotations

import time

from yt8m.lazy import tf
from yt8m.runner.callbacks.eval_basic import EvalBasic
from yt8m.runner.context import Context


class InferBasic(EvalBasic):
    """`num examples processed: N elapsed seconds: S` in the line, and both in the results."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._start = time.monotonic()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the clock."""
        self._start = time.monotonic()

    def end(self, session: tf.Session) -> None:
        """The whole count and time."""
        super().end(session)
        self.context.results["elapsed_seconds"] = time.monotonic() - self._start

    def _tell(self) -> None:
        super()._tell()
        self.context.line.values.elapsed_seconds = time.monotonic() - self._start
