"""The figures of an evaluation."""

from __future__ import annotations

from typing import Any

from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.context import Context


class EvalMetrics(Callback):
    """Accumulates every step's reports and loss; the batch's figures go into the line.

    The figures of all steps are left in the results under `figures`, as the evaluator gives them, and the
    evaluator itself under `evaluator`.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._evaluator = context.modeler.evaluator()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the reports, and the loss where there is one."""
        self._is_due = self.context.line_due
        ops = self.context.ops
        fetches: dict[str, Any] = {"reports": dict(ops.reports)}
        if ops.label_loss is not None:
            fetches["loss"] = ops.label_loss
        return tf.train.SessionRunArgs(fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Accumulates."""
        got = run_values.results
        loss = float(got["loss"]) if "loss" in got else None
        figures = self._evaluator.accumulate(got["reports"], loss)
        if self._is_due:
            self.context.line.values.figures.update(figures)
            self.context.line.values.loss = loss

    def end(self, session: tf.Session) -> None:
        """Leaves the figures of all steps."""
        self.context.results["figures"] = self._evaluator.get()
        self.context.results["evaluator"] = self._evaluator
