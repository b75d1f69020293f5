"""Work on the host that is done while the next step runs.

The loss in the line.

Examples a second in the line.

The workload's figures of the batch in the line.

The count of examples in evaluation.

The figures of an evaluation.

Examples a second of an evaluation, in the line.

The count of examples and the time in inference.

Predictions on their way out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.run_config import Context


class OneStepBehind:
    """Calls a function in a thread of its own, one call after the other, and one step behind at most.

    NumPy lets go of Python's lock while it computes, and so does a step: what one of them leaves of the cores
    is the other's.

    Args:
      work: what is called.
    """

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="behind-the-steps")
        self._last: Future[Any] | None = None

    def put(self, *given: Any) -> None:
        """Begins a call with what is given, once the one before has ended; raises what that has raised."""
        self.wait()
        self._last = self._executor.submit(self._work, *given)

    def wait(self) -> Any:
        """What the last call returned, None where there was none; raises what it has raised."""
        return None if self._last is None else self._last.result()

    def close(self) -> None:
        """Ends the thread, once the call in hand has ended; what that raises is lost."""
        self._executor.shutdown()


class TrainLoss(Callback):
    """Fetches the label loss on the steps that get a line, and on no others: it is not free."""

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks for the loss when a line is due."""
        return tf.train.SessionRunArgs(self.context.ops.label_loss) if self.context.line_due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Puts it into the line; raises `RunError` where it is not finite."""
        if run_values.results is None:
            return
        loss = float(run_values.results)
        if not np.isfinite(loss):
            raise RunError(f"step {self.context.step}: the loss is {loss}. The last checkpoint is from before.")
        self.context.line.values.loss = loss


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


class EvalMetrics(Callback):
    """Accumulates every step's reports and loss; the batch's figures go into the line.

    The figures of all steps are left in the results under `figures`, as the evaluator gives them, and the
    evaluator itself under `evaluator`.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._evaluator = context.modeler.evaluator()
        self._behind = OneStepBehind(self._accumulate)

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


class EvalSpeed(TrainSpeed):
    """As in training: examples since the line before, by the time they took."""


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


class InferWriter(Callback):
    """Hands each step's reports to `consumer`, in the order of the data.

    Args:
      consumer: takes the reports by name, as the modeler offers them for inference (or evaluation). It is
        called in one thread, which is not that of the steps.
    """

    def __init__(self, context: Context, consumer: Callable[[Mapping[str, np.ndarray]], None]) -> None:
        super().__init__(context)
        self._consumer = consumer
        self._behind = OneStepBehind(self._consume)

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
