"""The figures of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from yt8m.lazy import tf
from yt8m.runner.behind import Behind
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
        self._behind = Behind(self._accumulate)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the reports, and the loss where there is one."""
        self._is_due = self.context.line_due
        ops = self.context.ops
        fetches: dict[str, Any] = {"reports": dict(ops.reports)}
        if ops.label_loss is not None:
            fetches["loss"] = ops.label_loss
        return tf.train.SessionRunArgs(fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Has them accumulated while the next step runs; a line waits for its figures."""
        got = run_values.results
        loss = float(got["loss"]) if "loss" in got else None
        self._behind.put(got["reports"], loss)
        if self._is_due:
            self.context.line.values.figures.update(self._behind.wait())
            self.context.line.values.loss = loss

    def end(self, session: tf.Session) -> None:
        """Leaves the figures of all steps."""
        self._behind.wait()
        self.context.results["figures"] = self._evaluator.get()
        self.context.results["evaluator"] = self._evaluator

    def close(self) -> None:
        """Ends the thread."""
        self._behind.close()

    def _accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        return self._evaluator.accumulate(self.context.modeler.completed(reports), loss)
