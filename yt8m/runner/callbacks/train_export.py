"""Exports of the model while it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.context import Context
from yt8m.runner.every import Every


class TrainExport(Callback):
    """Saves a checkpoint and has it exported, every `export_model_steps` and at the end.

    Args:
      exporter: takes the checkpoint's path and its step. The session's graph is finalized by then, so
        an exporter builds one of its own.
    """

    def __init__(self, context: Context, exporter: Callable[[str, int], None]) -> None:
        super().__init__(context)
        self._exporter, self._exported = exporter, -1
        self._every = Every(steps=context.config.checkpoints.export_model_steps)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Counts from where the run goes on."""
        self._every.fired(self.context.step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Exports when it is due."""
        if self._every.due(self.context.step):
            self._export(run_context.session)

    def end(self, session: tf.Session) -> None:
        """Exports the last step."""
        self._export(session)

    def _export(self, session: tf.Session) -> None:
        step = self.context.step
        if step != self._exported:
            self._exporter(self.context.saver.save(session, step), step)
            self._every.fired(step)
            self._exported = step
