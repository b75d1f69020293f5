"""A progress bar on a terminal: step, time left, and the values of the last log line."""

from __future__ import annotations

from typing import Any

from rich import progress as bars
from rich.console import Console
from rich.table import Column

from yt8m.lazy import tf
from yt8m.runner.hooks import Callback
from yt8m.runner.lines import StepValues
from yt8m.runner.run_config import Context

_VERBS = {"train": "training", "eval": "evaluating", "infer": "predicting"}


class Progress(Callback):
    """Draws the progress bar of a run; other output of the run appears above it.

    Args:
      console: the terminal to draw on; by default the error stream.
    """

    def __init__(self, context: Context, console: Console | None = None) -> None:
        super().__init__(context)
        self._console = console or Console(stderr=True)
        self._bar: bars.Progress | None = None
        self._task = bars.TaskID(0)
        self._validation_text = ""
        context.line.listen(self._update_figures, validations=True)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the bar at the step at which this process starts, so that earlier steps do not count for its speed."""
        if self._bar is None:
            step, last = self.context.step, self.context.line.last_step
            self._bar = _create_bar(self._console, last is not None)
            verb = _VERBS[self.context.config.mode]
            self._task = self._bar.add_task(verb, total=last, completed=step, figures="")
            self._bar.start()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Moves the bar to the current step."""
        if self._bar is not None:
            self._bar.update(self._task, completed=self.context.step)

    def close(self) -> None:
        """Stops the bar and leaves it on the terminal."""
        if self._bar is not None:
            self._bar.stop()

    def _update_figures(self, values: StepValues) -> None:
        """Shows the values of a log line or a validation beside the bar."""
        if self._bar is None:
            return
        if values.is_validation:
            self._validation_text = _format_validation(values)
        width = self._count_free_columns(self._bar.tasks[0])
        # The result of a validation stays until the next validation, and comes first, because it matters most.
        used = len(self._validation_text) + 2 if self._validation_text else 0
        step_text = "" if values.is_validation else _format_figures(values, width - used)
        text = "  ".join(filter(None, [self._validation_text, step_text]))
        self._bar.update(self._task, figures=text if len(text) <= width else _format_figures(values, width))

    def _count_free_columns(self, task: bars.Task) -> int:
        """The number of terminal columns that are left for metrics beside the step and the time."""
        last = f" of {task.total:.0f}" if task.total is not None else ""
        text = f"{task.description} step {task.total or task.completed:.0f}{last}"
        return self._console.width - len(text) - _TIME_AND_BAR


# The number of terminal columns for the time, the bar (at least 4) or the spinner, and the blanks between them.
_TIME_AND_BAR = len("10:00:00") + 4 + 3


def _create_bar(console: Console, has_end: bool) -> bars.Progress:
    """A bar with the time that is left, if the last step is known; else a spinner with the time that has passed."""
    step = "{task.description} step {task.completed:.0f}"
    columns: list[bars.ProgressColumn]
    if has_end:
        columns = [
            bars.TextColumn(step + " of {task.total:.0f}"),
            bars.BarColumn(),
            bars.TimeRemainingColumn(table_column=Column(no_wrap=True)),
        ]
    else:
        columns = [bars.TextColumn(step), bars.SpinnerColumn(), bars.TimeElapsedColumn()]
    return bars.Progress(*columns, bars.TextColumn("{task.fields[figures]}"), console=console)


def _format_figures(values: StepValues, width: int) -> str:
    """As many of the values as fit into `width` columns, such as `loss 12.34  GAP 0.43  123 examples/s  Hit@1 0.51`."""
    texts = [] if values.examples is None else [f"{values.examples} examples"]
    if values.loss is not None:
        texts.append(f"loss {values.loss:.2f}")
    figures = {name: f"{name} {value:.3f}" for name, value in values.figures.items()}
    # GAP comes before the other metrics, because only the first ones fit on a narrow terminal.
    texts += [figures.pop("GAP")] if "GAP" in figures else []
    rate = _examples_per_second(values)
    texts += [] if rate is None else [f"{rate:.0f} examples/s"]
    texts += figures.values()
    while len("  ".join(texts)) > width and texts:
        texts.pop()
    return "  ".join(texts)


def _format_validation(values: StepValues) -> str:
    """One metric of a validation, such as `validation GAP 0.43`.

    It is GAP if that was computed, else the first metric, or the loss if there is no metric.
    """
    figures = {"loss": values.loss or 0.0} if not values.figures else values.figures
    name = "GAP" if "GAP" in figures else next(iter(figures))
    return f"validation {name} {figures[name]:.3f}"


def _examples_per_second(values: StepValues) -> float | None:
    """Examples per second since the previous log line, or in inference since the start; None if that is not known."""
    if values.examples_per_second is None and values.examples and values.elapsed_seconds:
        return values.examples / values.elapsed_seconds
    return values.examples_per_second
