"""The workload's figures of the batch in the line."""

from __future__ import annotations

from typing import Any

from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.context import Context


class TrainAccuracy(Callback):
    """Hands the reports of the steps that get a line to the modeler's evaluator (Hit@1, PERR, GAP)."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._evaluator = context.modeler.evaluator()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks for the reports when a line is due."""
        if not self.context.ops.reports or not self.context.line_due:
            return None
        return tf.train.SessionRunArgs(dict(self.context.ops.reports))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Puts the figures of this batch alone into the line."""
        if run_values.results is not None:
            reports = self.context.modeler.completed(run_values.results)
            self.context.line.values.figures.update(self._evaluator.accumulate(reports, None))
            self._evaluator.clear()
