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
      context: the context of the run; `context.line.last_step` is the end of the bar, if it is known.
      console: the terminal to draw on; by default the error stream.
    """

    def __init__(self, context: Context, console: Console | None = None) -> None:
        super().__init__(context)
        self._console = console or Console(stderr=True)
        self._bar: bars.Progress | None = None
        self._task = bars.TaskID(0)
        self._validated = ""
        context.line.listen(self._show, validations=True)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts the bar at the step at which this process starts, so that earlier steps do not count for its speed."""
        if self._bar is None:
            step, last = self.context.step, self.context.line.last_step
            self._bar = _bar(self._console, last is not None)
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

    def _show(self, values: StepValues) -> None:
        if self._bar is None:
            return
        if values.is_validation:
            self._validated = _validated(values)
        room = self._room(self._bar.tasks[0])
        # The result of a validation stays until the next validation, and comes first, because it matters most.
        taken = len(self._validated) + 2 if self._validated else 0
        step_figures = "" if values.is_validation else _figures(values, room - taken)
        shown = "  ".join(filter(None, [self._validated, step_figures]))
        self._bar.update(self._task, figures=shown if len(shown) <= room else _figures(values, room))

    def _room(self, task: bars.Task) -> int:
        """The number of terminal columns that are left for metrics beside the step and the time."""
        last = f" of {task.total:.0f}" if task.total is not None else ""
        text = f"{task.description} step {task.total or task.completed:.0f}{last}"
        return self._console.width - len(text) - _TIME_AND_BAR


# Terminal columns for the time, the bar (at least 4) or the spinner, and the blanks between.
_TIME_AND_BAR = len("10:00:00") + 4 + 3


def _bar(console: Console, has_end: bool) -> bars.Progress:
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


def _figures(values: StepValues, room: int) -> str:
    """`loss 12.34  GAP 0.43  1234 examples/s  Hit@1 0.51`: as many of the known values as fit into `room` columns."""
    texts = [] if values.examples is None else [f"{values.examples} examples"]
    if values.loss is not None:
        texts.append(f"loss {values.loss:.2f}")
    figures = {name: f"{name} {value:.3f}" for name, value in values.figures.items()}
    # GAP is first, because it matters most if the bar is narrow
    texts += [figures.pop("GAP")] if "GAP" in figures else []
    rate = _rate(values)
    texts += [] if rate is None else [f"{rate:.0f} examples/s"]
    texts += figures.values()
    while len("  ".join(texts)) > room and texts:
        texts.pop()
    return "  ".join(texts)


def _validated(values: StepValues) -> str:
    """`validation GAP 0.43`: GAP if it was computed, else the first metric; the loss if there is no metric."""
    figures = {"loss": values.loss or 0.0} if not values.figures else values.figures
    name = "GAP" if "GAP" in figures else next(iter(figures))
    return f"validation {name} {figures[name]:.3f}"


def _rate(values: StepValues) -> float | None:
    """Examples per second since the previous line; in inference the mean since the start; None if neither is known."""
    if values.examples_per_second is None and values.examples and values.elapsed_seconds:
        return values.examples / values.elapsed_seconds
    return values.examples_per_second
