"""Callbacks that count and measure: loss, speed, metrics and TensorBoard's summaries.

`OneStepBehind` does the slow work on the host in a thread, while the next step runs.
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
    """Runs calls of a function in a thread, one at a time, at most one step late.

    NumPy releases Python's lock while it computes, and so does TensorFlow during a step. So both can use the cores at
    the same time.

    Args:
      work: the function.
    """

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="behind-the-steps")
        self._last: Future[Any] | None = None

    def put(self, *arguments: Any) -> None:
        """Waits for the previous call and raises its error if there was one; then starts the next call."""
        self.wait()
        self._last = self._executor.submit(self._work, *arguments)

    def wait(self) -> Any:
        """Waits for the last call; returns its result (None if there was no call) or raises its error."""
        return None if self._last is None else self._last.result()

    def close(self) -> None:
        """Ends the thread after the current call; an error of that call is lost."""
        self._executor.shutdown()


class TrainLoss(Callback):
    """Puts the label loss into the line. It is fetched only on steps with a line, since that takes time."""

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the loss if a line is due."""
        return tf.train.SessionRunArgs(self.context.ops.label_loss) if self.context.line_due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Puts the loss into the line; raises `RunError` if it is not finite."""
        if run_values.results is None:
            return
        loss = float(run_values.results)
        if not np.isfinite(loss):
            raise RunError(
                f"step {self.context.step}: the loss is {loss}. The last checkpoint was saved before this step."
            )
        self.context.line.values.loss = loss


class _ExampleCounter(Callback):
    """Counts examples from the moment at which the session is ready.

    Attributes:
      examples: number of examples so far.
      since: the time at which counting began.
      is_due: whether the current step gets a line.
    """

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
    """Examples per second of all towers since the previous line, in training and evaluation, without pauses."""

    _paused = 0.0  # the line's paused_seconds at the previous line

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the clock and the count; starts them again if a cluster opens a new session."""
        super().after_create_session(session, coord)
        self.examples, self._paused = 0, self.context.line.paused_seconds

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds the examples of the step; puts the speed into the line if one is due."""
        super().after_run(run_context, run_values)
        if self.is_due:
            now, paused = time.monotonic(), self.context.line.paused_seconds
            elapsed = now - self.since - (paused - self._paused)
            self.context.line.values.examples_per_second = self.examples / max(elapsed, 1e-9)
            self.examples, self.since, self._paused = 0, now, paused


class TrainAccuracy(Callback):
    """Puts the modeler's metrics of the current batch into the line."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._evaluator = context.modeler.evaluator()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the reports if a line is due."""
        if not self.context.ops.reports or not self.context.line_due:
            return None
        return tf.train.SessionRunArgs(dict(self.context.ops.reports))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Puts the evaluator's metrics of this batch alone into the line."""
        if run_values.results is not None:
            reports = self.context.modeler.completed(run_values.results)
            self.context.line.values.figures.update(self._evaluator.accumulate(reports, None))
            self._evaluator.clear()


class EvalBasic(_ExampleCounter):
    """Counts examples: `examples_processed: N` in the line, and `examples` in the results."""

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds the examples of the step; puts the count into the line if one is due."""
        super().after_run(run_context, run_values)
        if self.is_due:
            self._report()

    def end(self, session: tf.Session) -> None:
        """Puts the final count into the results, and into a last line unless a line already has it."""
        if self.context.results.setdefault("examples", 0) != self.examples:
            self._report()

    def _report(self) -> None:
        self.context.line.values.examples = self.context.results["examples"] = self.examples


class _InBackground(Callback):
    """Hands the fetched values of each step to `work` in a thread, at most one step later."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.thread = OneStepBehind(self.work)

    def work(self, *arguments: Any) -> Any:
        """Processes one step; called in the thread."""

    def end(self, session: tf.Session) -> None:
        """Waits for the last step."""
        self.thread.wait()

    def close(self) -> None:
        """Ends the thread."""
        self.thread.close()


class EvalMetrics(_InBackground):
    """Accumulates the reports and the loss of every step; the metrics of single batches go into the line.

    At the end the results have the metrics of all steps under `figures`, as the evaluator gives them, and the
    evaluator itself under `evaluator`.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._evaluator, self._is_due = context.modeler.evaluator(), False
        self._loss: float | None = None
        self._is_logged = True  # whether the last batch, if there was one, has a line

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the reports, and the loss if there is one."""
        self._is_due = self.context.line_due
        ops = self.context.ops
        loss = {} if ops.label_loss is None else {"loss": ops.label_loss}
        return tf.train.SessionRunArgs({"reports": dict(ops.reports), **loss})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Accumulates the values while the next step runs; if a line is due, waits for its metrics."""
        got = run_values.results
        self._loss = float(got["loss"]) if "loss" in got else None
        self.thread.put(got["reports"], self._loss)
        # Noted here rather than in `before_run`: the call that finds no more data has a `before_run`, but no values.
        self._is_logged = self._is_due
        if self._is_due:
            self._report()

    def _report(self) -> None:
        self.context.line.values.figures.update(self.thread.wait() or {})
        self.context.line.values.loss = self._loss

    def end(self, session: tf.Session) -> None:
        """Puts the metrics of all steps into the results, and those of the last into a last line if it has none."""
        super().end(session)
        if not self._is_logged:
            self._report()
        self.context.results |= {"figures": self._evaluator.get(), "evaluator": self._evaluator}

    def work(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Accumulates one step."""
        return self._evaluator.accumulate(self.context.modeler.completed(reports), loss)


class InferBasic(EvalBasic):
    """Puts `num examples processed: N elapsed seconds: S` into the line, and both numbers into the results."""

    def end(self, session: tf.Session) -> None:
        """Puts the final count and time into the results."""
        super().end(session)
        self.context.results["elapsed_seconds"] = time.monotonic() - self.since

    def _report(self) -> None:
        super()._report()
        self.context.line.values.elapsed_seconds = time.monotonic() - self.since


class InferWriter(_InBackground):
    """Hands each step's reports to `consumer`, in the order of the data.

    Args:
      consumer: called with {name: report} from the modeler, for inference (or evaluation). It is called in one thread,
          which is not the thread of the steps.
    """

    def __init__(self, context: Context, consumer: Callable[[Mapping[str, np.ndarray]], None]) -> None:
        super().__init__(context)
        self._consumer = consumer

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the reports."""
        return tf.train.SessionRunArgs(dict(self.context.ops.reports))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Hands the reports to the consumer while the next step runs."""
        self.thread.put(run_values.results)

    def work(self, reports: Mapping[str, np.ndarray]) -> None:
        """Calls the consumer with one step."""
        self._consumer(self.context.modeler.completed(reports))


# The published tags, which users have in their dashboards; only PERR is spelled differently there.
_FIGURE_TAG, _SPEED_TAG = "model/Training_{}", "global_step/Examples/Second"
_BATCH_TAG = "GlobalStep/Eval_{}"


def published_spelling(name: str) -> str:
    """The name of a metric in the published tags: `Perr`, `Avg_Perr`."""
    return name.replace("PERR", "Perr")


class EvalSummary(Callback):
    """Writes the values of each log line of an evaluation under the published tags of batches.

    Args:
      context: the context of the run.
      events: the event file, which stays open.
    """

    def __init__(self, context: Context, events: EventFile) -> None:
        super().__init__(context)
        self._events = events
        context.line.listen(self._write_line)

    def _write_line(self, values: StepValues) -> None:
        tagged = {published_spelling(name): value for name, value in values.figures.items()}
        others = {"Loss": values.loss, "Example_Second": values.examples_per_second}
        tagged |= {name: value for name, value in others.items() if value is not None}
        scalars = {_BATCH_TAG.format(name): value for name, value in tagged.items()}
        self._events.add_scalars(scalars, values.global_step)


class TrainSummary(Callback):
    """Writes the graph's summaries at the first step and every `save_summary_steps`, and each log line's values.

    The summaries are fetched as part of a step, so they never consume a batch.

    Args:
      context: the context of the run.
      folder: the folder of the event files; empty for the run's own.
      hyper_parameters: those of the run, for TensorBoard's table; None to leave the run out of the table.
    """

    def __init__(
        self, context: Context, folder: str = "", hyper_parameters: Mapping[str, bool | float | str] | None = None
    ) -> None:
        super().__init__(context)
        self._hyper_parameters, self._is_open, self._has_written = hyper_parameters, False, False
        self._every = Every(steps=context.config.save_summary_steps)
        self._events = EventFile(folder or context.config.model_dir)
        context.line.listen(self._write_line)

    def begin(self) -> None:
        """Raises `UsageError` if an entry of `summary_names` matches none of the graph's summaries."""
        tags = summary_tags(self.context.ops.summary_op)
        for name in self.context.config.summary_names:
            if not any(fnmatch.fnmatchcase(tag, name) for tag in tags):
                raise UsageError(
                    f"summary_names: {name!r} matches none of the summaries of this graph ({', '.join(sorted(tags))}); "
                    "name some of these (* stands for any letters). The values of log lines are always written."
                )

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Writes the graph and the hyper-parameters, and starts to count."""
        self._every.fired(self.context.step)
        graph = session.graph.as_graph_def(add_shapes=True)
        self._events.add_graph(graph)
        if self._hyper_parameters and not self._is_open:
            self._events.add(metric_files.session_start(self._hyper_parameters), self.context.step)
            self._is_open = True

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the summaries if they are due."""
        is_first = self.context.config.save_summary_steps > 0 and not self._has_written
        is_due = is_first or self._every.due(self.context.step + 1)
        return tf.train.SessionRunArgs(self.context.ops.summary_op) if is_due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Writes the summaries."""
        if run_values.results is None:
            return
        self._every.fired(self.context.step)
        self._has_written = True
        summary = tf.Summary.FromString(run_values.results)
        if names := self.context.config.summary_names:
            values = [v for v in summary.value if any(fnmatch.fnmatchcase(v.tag, name) for name in names)]
            summary = tf.Summary(value=values)
        self._events.add(summary, self.context.step)

    def end(self, session: tf.Session) -> None:
        """Records that the run ended well."""
        self._end(is_well=True)

    def close(self) -> None:
        """Closes the event file; a run that did not reach `end` failed."""
        self._end(is_well=False)
        self._events.close()

    def _end(self, is_well: bool) -> None:
        if self._is_open:
            self._events.add(metric_files.session_end(is_well), self.context.step)
            self._is_open = False

    def _write_line(self, values: StepValues) -> None:
        tagged = {_FIGURE_TAG.format(published_spelling(name)): value for name, value in values.figures.items()}
        if values.examples_per_second is not None:
            tagged[_SPEED_TAG] = values.examples_per_second
        if values.loss is not None:
            tagged["model/Training_Loss"] = values.loss
        self._events.add_scalars(tagged, values.step)
