"""The count of examples in evaluation."""

from __future__ import annotations

from typing import Any

from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.context import Context


class EvalBasic(Callback):
    """Counts examples; `examples_processed: N` in the line and `examples` in the results."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._examples, self._told = 0, 0

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the number of examples."""
        self._is_due = self.context.line_due
        return tf.train.SessionRunArgs(self.context.ops.examples)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts."""
        self._examples += int(run_values.results)
        if self._is_due:
            self._tell()

    def end(self, session: tf.Session) -> None:
        """The whole count, in a last line unless it has had one."""
        self.context.results["examples"] = self._examples
        if self._told != self._examples:
            self._tell()

    def _tell(self) -> None:
        self.context.line.values.examples = self._told = self._examples
