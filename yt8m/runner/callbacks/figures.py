"""Callbacks that measure the loss, the speed and the metrics, count examples, and write TensorBoard's summaries.

`OneStepBehind` does slow work on the CPU in a thread, while the next step runs.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from yt8m.errors import RunError, UsageError
from yt8m.graph import summary_tags
from yt8m.lazy import tf
from yt8m.runner import metric_files
from yt8m.runner.hooks import Callback
from yt8m.runner.lines import Every, StepValues
from yt8m.runner.metric_files import EventFile
from yt8m.runner.run_config import Context


class OneStepBehind:
    """Calls a function in a background thread, one call at a time.

    NumPy and TensorFlow release Python's global lock while they compute, so the function and the next step run at the
    same time.
    """

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="behind-the-steps")
        self._last: Future[Any] | None = None

    def put(self, *arguments: Any) -> None:
        """Waits for the previous call of the function, raises its error if it failed, and starts the next call."""
        self.wait()
        self._last = self._executor.submit(self._work, *arguments)

    def wait(self) -> Any:
        """Waits for the last call of the function, and returns its result or raises its error; None without a call."""
        return None if self._last is None else self._last.result()

    def close(self) -> None:
        """Ends the thread after the current call; ignores an error of that call."""
        self._executor.shutdown()


class TrainLoss(Callback):
    """Puts the label loss into the log line. Only steps with a log line fetch the loss, since fetching takes time."""

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the loss if the step gets a log line."""
        return tf.train.SessionRunArgs(self.context.ops.label_loss) if self.context.line_due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Puts the loss into the log line; raises `RunError` if it is not finite."""
        if run_values.results is None:
            return
        loss = float(run_values.results)
        if not np.isfinite(loss):
            raise RunError(
                f"step {self.context.step}: the loss is {loss}. The last checkpoint was saved before this step; lower "
                "the learning rate, or check the data."
            )
        self.context.line.values.loss = loss


class _ExampleCounter(Callback):
    """The base class of callbacks that count examples, beginning when the session is ready."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.examples, self.since, self.is_due = 0, time.monotonic(), False

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the clock."""
        self.since = time.monotonic()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the number of examples, since the last batch may be smaller."""
        self.is_due = self.context.line_due
        return tf.train.SessionRunArgs(self.context.ops.examples)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds the examples of the step."""
        self.examples += int(run_values.results)


class Speed(_ExampleCounter):
    """Puts into each log line the number of examples per second, of all towers, since the previous log line.

    The time in which training pauses for a validation is not counted.
    """

    _paused = 0.0  # `paused_seconds` at the previous log line

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Begins to count. A cluster calls this again for each new session, and then counting begins anew."""
        super().after_create_session(session, coord)
        self.examples, self._paused = 0, self.context.line.paused_seconds

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds the examples of the step; puts the speed into the log line if the step gets one."""
        super().after_run(run_context, run_values)
        if self.is_due:
            now, paused = time.monotonic(), self.context.line.paused_seconds
            elapsed = now - self.since - (paused - self._paused)
            self.context.line.values.examples_per_second = self.examples / max(elapsed, 1e-9)
            self.examples, self.since, self._paused = 0, now, paused


class TrainAccuracy(Callback):
    """Puts into the log line the metrics that the modeler's evaluator computes for the current batch."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._evaluator = context.modeler.evaluator()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the modeler's reports if the step gets a log line."""
        if not self.context.ops.reports or not self.context.line_due:
            return None
        return tf.train.SessionRunArgs(dict(self.context.ops.reports))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Puts the metrics of this batch alone into the log line."""
        if run_values.results is not None:
            reports = self.context.modeler.completed(run_values.results)
            self.context.line.values.figures.update(self._evaluator.accumulate(reports, None))
            self._evaluator.clear()


class EvalBasic(_ExampleCounter):
    """Puts the count of examples (`examples_processed: N`) and the speed into the log line; the count into the results.

    The speed is that of the batches since the last log line.
    """

    _counted, _counted_at = 0, 0.0  # the count, and time.monotonic(), of the last log line

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the clock."""
        super().after_create_session(session, coord)
        self._counted_at = time.monotonic()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds the examples of the step; puts the count into the log line if the step gets one."""
        super().after_run(run_context, run_values)
        if self.is_due:
            self._report_count()

    def end(self, session: tf.Session) -> None:
        """Puts the final count into the results, and into a last log line unless a line already shows it."""
        if self.context.results.setdefault("examples", 0) != self.examples:
            self._report_count()

    def _report_count(self) -> None:
        """Puts the count and the speed into the log line, and the count into the results."""
        values, now = self.context.line.values, time.monotonic()
        values.examples = self.context.results["examples"] = self.examples
        values.examples_per_second = (self.examples - self._counted) / max(now - self._counted_at, 1e-9)
        self._counted, self._counted_at = self.examples, now


class _BackgroundCallback(Callback):
    """The base class of callbacks that process the values of each step in a background thread, by `work`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.thread = OneStepBehind(self.work)

    def work(self, *arguments: Any) -> Any:
        """Processes the values of one step."""

    def end(self, session: tf.Session) -> None:
        """Waits until the last step is processed."""
        self.thread.wait()

    def close(self) -> None:
        """Ends the thread."""
        self.thread.close()


class EvalMetrics(_BackgroundCallback):
    """Computes the metrics of an evaluation: those of all steps for the results, and those of one batch for a log line.

    At the end, `results["figures"]` has the metrics of all steps, and `results["evaluator"]` is the evaluator.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._evaluator, self._is_due = context.modeler.evaluator(), False
        self._loss: float | None = None
        self._is_logged = True  # whether the last batch has a log line; True if there was no batch

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the reports, and the loss if there is one."""
        self._is_due = self.context.line_due
        ops = self.context.ops
        loss = {} if ops.label_loss is None else {"loss": ops.label_loss}
        return tf.train.SessionRunArgs({"reports": dict(ops.reports), **loss})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Accumulates the values while the next step runs; if the step gets a log line, waits for its metrics."""
        values = run_values.results
        self._loss = float(values["loss"]) if "loss" in values else None
        self.thread.put(values["reports"], self._loss)
        # This is set here, not in `before_run`, which is called once more at the end of the data, without a batch.
        self._is_logged = self._is_due
        if self._is_due:
            self._report_batch()

    def _report_batch(self) -> None:
        """Puts the metrics and the loss of the last batch into the log line."""
        self.context.line.values.figures.update(self.thread.wait() or {})
        self.context.line.values.loss = self._loss

    def end(self, session: tf.Session) -> None:
        """Puts the metrics of all steps into the results, and those of the last batch into a log line of its own."""
        super().end(session)
        if not self._is_logged:
            self._report_batch()
        self.context.results |= {"figures": self._evaluator.get(), "evaluator": self._evaluator}

    def work(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Accumulates the reports and the loss of one step; returns the metrics of its batch."""
        return self._evaluator.accumulate(self.context.modeler.completed(reports), loss)


class InferBasic(EvalBasic):
    """Puts the number of examples and the elapsed seconds into the log line, and at the end into the results."""

    def end(self, session: tf.Session) -> None:
        """Puts the final count and time into the results."""
        super().end(session)
        self.context.results["elapsed_seconds"] = time.monotonic() - self.since

    def _report_count(self) -> None:
        """Puts the count and the elapsed time into the log line, and the count into the results."""
        super()._report_count()
        self.context.line.values.elapsed_seconds = time.monotonic() - self.since


class InferWriter(_BackgroundCallback):
    """Passes the reports of each step to a consumer, in the order of the data.

    Args:
      consumer: called with {name of a report: array [B, ...]}, the result of `Modeler.completed`, always in the same
        background thread.
    """

    def __init__(self, context: Context, consumer: Callable[[Mapping[str, np.ndarray]], None]) -> None:
        super().__init__(context)
        self._consumer = consumer

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the reports."""
        return tf.train.SessionRunArgs(dict(self.context.ops.reports))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Calls the consumer while the next step runs."""
        self.thread.put(run_values.results)

    def work(self, reports: Mapping[str, np.ndarray]) -> None:
        """Calls the consumer with the reports of one step."""
        self._consumer(self.context.modeler.completed(reports))


# The tags of the published code, which users may have in their dashboards. In these tags PERR is spelled Perr.
_FIGURE_TAG, _SPEED_TAG = "model/Training_{}", "global_step/Examples/Second"
_BATCH_TAG = "GlobalStep/{}_{}"


def published_spelling(name: str) -> str:
    """A metric's name as the tags of the published code spell it: `Perr` for `PERR`, `Avg_Perr` for `Avg_PERR`."""
    return name.replace("PERR", "Perr")


class EvalSummary(Callback):
    """Writes the values of each log line of an evaluation into an event file, under the tags of the published code."""

    def __init__(self, context: Context, events: EventFile, scope: str = "Eval") -> None:
        super().__init__(context)
        self._events, self._scope = events, scope
        context.line.listen(self._write_line)

    def _write_line(self, values: StepValues) -> None:
        """Writes the values of one log line."""
        value_by_name = {published_spelling(name): value for name, value in values.figures.items()}
        others = {"Loss": values.loss, "Example_Second": values.examples_per_second}
        value_by_name |= {name: value for name, value in others.items() if value is not None}
        scalars = {_BATCH_TAG.format(self._scope, name): value for name, value in value_by_name.items()}
        self._events.add_scalars(scalars, values.global_step)


class TrainSummary(Callback):
    """Writes an event file for TensorBoard with the graph's summaries and the values of each log line.

    The summaries are written at the first step and every `save_summary_steps` steps; never if that is 0. They are
    fetched together with a training step, so they need no batch of their own.

    Args:
      folder: the folder of the event file; empty for the folder of the run.
      hyper_parameters: {name: value} for TensorBoard's table of runs; None to leave the run out of the table.
    """

    def __init__(
        self, context: Context, folder: str = "", hyper_parameters: Mapping[str, bool | float | str] | None = None
    ) -> None:
        super().__init__(context)
        self._hyper_parameters, self._is_in_table, self._has_written = hyper_parameters, False, False
        self._every = Every(steps=context.config.save_summary_steps)
        self._events = EventFile(folder or context.config.model_dir)
        context.line.listen(self._write_line)

    def begin(self) -> None:
        """Checks that each pattern in `summary_names` matches a summary of the graph."""
        tags = summary_tags(self.context.ops.summary_op)
        for name in self.context.config.summary_names:
            if not any(fnmatch.fnmatchcase(tag, name) for tag in tags):
                raise UsageError(
                    f"summary_names: {name!r} matches none of the summaries of this graph ({', '.join(sorted(tags))}); "
                    "name some of these (* stands for any letters). The values of log lines are always written."
                )

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Writes the graph, and for the first session the hyper-parameters; counts steps for summaries from here on."""
        self._every.restart(self.context.step)
        graph = session.graph.as_graph_def(add_shapes=True)
        self._events.add_graph(graph)
        if self._hyper_parameters and not self._is_in_table:
            self._events.add(metric_files.session_start(self._hyper_parameters), self.context.step)
            self._is_in_table = True

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the summaries if they are written at this step."""
        is_first = self.context.config.save_summary_steps > 0 and not self._has_written
        is_due = is_first or self._every.due(self.context.step + 1)
        return tf.train.SessionRunArgs(self.context.ops.summary_op) if is_due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the summaries of the step, if they were requested; only those that `summary_names` selects."""
        if run_values.results is None:
            return
        self._every.restart(self.context.step)
        self._has_written = True
        summary = tf.Summary.FromString(run_values.results)
        if names := self.context.config.summary_names:
            values = [v for v in summary.value if any(fnmatch.fnmatchcase(v.tag, name) for name in names)]
            summary = tf.Summary(value=values)
        self._events.add(summary, self.context.step)

    def end(self, session: tf.Session) -> None:
        """Tells TensorBoard that the run ended without an error."""
        self._write_end(is_well=True)

    def close(self) -> None:
        """Closes the event file. If `end` was not called before, tells TensorBoard that the run failed."""
        self._write_end(is_well=False)
        self._events.close()

    def _write_end(self, is_well: bool) -> None:
        """Writes, once, for TensorBoard's table of runs that the run has ended."""
        if self._is_in_table:
            self._events.add(metric_files.session_end(is_well), self.context.step)
            self._is_in_table = False

    def _write_line(self, values: StepValues) -> None:
        """Writes the values of one log line."""
        tagged = {_FIGURE_TAG.format(published_spelling(name)): value for name, value in values.figures.items()}
        if values.examples_per_second is not None:
            tagged[_SPEED_TAG] = values.examples_per_second
        if values.loss is not None:
            tagged["model/Training_Loss"] = values.loss
        self._events.add_scalars(tagged, values.step)
