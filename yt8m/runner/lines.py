"""The log line of a step: which steps get a line, which values callbacks put into it, and how it is formatted."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field


class Every:
    """Decides at which steps to do something that is done every N steps or every so many seconds.

    In a cluster, the step numbers that one process sees may skip the multiples of N; the thing is then done at the next
    step after a multiple.

    Args:
      steps: N; None or 0 not to count steps.
      seconds: the time after which the thing is done in any case; None for no limit.
      clock: returns the current time in seconds.

    >>> often = Every(steps=10)
    >>> often.restart(7)
    >>> [step for step in range(8, 21) if often.due(step)][0]
    10
    """

    def __init__(
        self, steps: int | None = None, seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._steps, self._seconds, self._clock = steps, seconds, clock
        self.restart(0)

    def due(self, step: int) -> bool:
        """Whether, since the last `restart`, `step` reached or passed a multiple of N, or the seconds have elapsed."""
        if self._steps and step // self._steps > self._step // self._steps:
            return True
        return self._seconds is not None and self._clock() - self._time >= self._seconds

    def restart(self, step: int) -> None:
        """Counts steps from `step` and seconds from now on. Call this each time that the thing has been done."""
        self._step, self._time = step, self._clock()


@dataclass
class StepValues:
    """The values of one log line, or of one validation. A value that no callback has set is None or empty.

    Attributes:
      step: the global step in training, else the number of completed batches.
      global_step: the global step to which the values of the variables belong: in training the current one, else that
        of the checkpoint.
      loss: the label loss.
      examples_per_second: examples of all towers per second since the previous log line.
      figures: {name of a metric as it is printed: value}.
      examples: number of examples so far, in evaluation and inference.
      elapsed_seconds: seconds since the start of an inference or a validation.
      last_step: the value of `step` at which the run will end; None if that is not known.
      seconds_left: estimate of the seconds until the last step; None if that is not known.
      unlogged: names in `figures` that are left out of the log line.
      is_validation: whether these are the values of a validation that took place after the step, not of the step.
    """

    step: int = 0
    global_step: int = 0
    loss: float | None = None
    examples_per_second: float | None = None
    figures: dict[str, float] = field(default_factory=dict)
    examples: int | None = None
    elapsed_seconds: float | None = None
    last_step: int | None = None
    seconds_left: float | None = None
    unlogged: Collection[str] = ()
    is_validation: bool = False

    def is_empty(self) -> bool:
        """Whether no callback has set a value."""
        return not self.figures and (self.loss, self.examples_per_second, self.examples) == (None, None, None)


class StepLine:
    """Collects the values of a step's log line from the callbacks, and passes them to listeners.

    A callback calls `due` before the step. If the step gets a log line, the callback fetches its values, and puts them
    into `values` after the step. `LineHook`, which comes after these callbacks, calls `emit`.

    Args:
      steps: number of steps between two log lines.
      clock: returns the current time in seconds.

    Attributes:
      last_step: the step at which the run will end; None if that is not known.
      paused_seconds: seconds of this run during which training paused for validations.
    """

    def __init__(self, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._clock = Every(steps=steps), clock
        self._listeners: list[tuple[Callable[[StepValues], None], bool]] = []  # (listener, whether for validations too)
        self.values = StepValues()
        self.last_step: int | None = None
        self.paused_seconds = 0.0
        self.start(0)

    def start(self, step: int, last: int | None = None) -> None:
        """Counts steps and time from now on.

        Args:
          last: the step at which the run will end; None if that is not known.
        """
        self._every.restart(step)
        self.last_step, self._since, self._is_first = last, (step, self._clock()), True

    def listen(self, listener: Callable[[StepValues], None], *, validations: bool = False) -> None:
        """From now on, calls a function with the values of each log line."""
        self._listeners.append((listener, validations))

    def due(self, step: int) -> bool:
        """Whether a log line is written after step `step`."""
        return self._every.due(step)

    def emit(self, step: int, global_step: int) -> None:
        """Calls the listeners with `values` and starts the next log line, unless no callback has set a value."""
        if self.values.is_empty():
            return
        values, self.values = self.values, StepValues()
        values.step, values.global_step = step, global_step
        values.last_step, values.seconds_left = self.last_step, self._estimate_seconds_left(step)
        self._every.restart(step)
        for listener, _ in self._listeners:
            listener(values)

    def emit_validation(self, values: StepValues) -> None:
        """Calls the listeners that `listen` got with `validations=True` with the values of one validation."""
        for listener in (listener for listener, wants_validations in self._listeners if wants_validations):
            listener(values)

    def _estimate_seconds_left(self, step: int) -> float | None:
        """Estimates the seconds until the last step from the speed since the first log line.

        The steps before the first log line are slow. Only the estimate in that line itself is made from their speed.

        Returns:
          The estimate; None if the last step is not known, or no step was taken.
        """
        first, since = self._since
        if self.last_step is None or step <= first:
            return None
        now = self._clock()
        if self._is_first:
            self._since, self._is_first = (step, now), False
        return (now - since) / (step - first) * max(self.last_step - step, 0)


def training_line(values: StepValues) -> str:
    """Formats a line such as `training step N | Loss: L Examples/sec: X | Hit@1: ... PERR: ... GAP: ...`.

    The published code writes these three parts. If the last step is known, ` | step N of M | 0:01:15 left` follows. A
    part without values is left out.
    """
    loss_and_speed = []
    if values.loss is not None:
        loss_and_speed.append(f"Loss: {values.loss:.2f}")
    if values.examples_per_second is not None:
        loss_and_speed.append(f"Examples/sec: {values.examples_per_second:.2f}")
    figures = " ".join(f"{name}: {value:.2f}" for name, value in values.figures.items())
    published = [f"training step {values.step}", " ".join(loss_and_speed), figures]
    return " | ".join(filter(None, [*published, *_format_progress(values)]))


def validation_line(values: StepValues) -> str:
    """Formats a line such as `validation at step N | Loss: L | Hit@1: ... mAP: ... GAP: ... | N examples in S s`.

    The metrics in `values.unlogged` are left out, and so is the loss if it is None.
    """
    loss = [] if values.loss is None else [f"Loss: {values.loss:.4f}"]
    logged = {name: value for name, value in values.figures.items() if name not in values.unlogged}
    figures = " ".join(f"{name}: {value:.4f}" for name, value in logged.items())
    end = f"{values.examples or 0} examples in {values.elapsed_seconds or 0:.1f} s"
    return " | ".join(filter(None, [f"validation at step {values.step}", *loss, figures, end]))


def _format_progress(values: StepValues) -> list[str]:
    """[`step N of M`, `0:01:15 left`], or the first alone if the time is unknown; empty if the last step is unknown.

    The published code writes neither of the two.
    """
    if values.last_step is None:
        return []
    seconds = values.seconds_left
    time_left = [] if seconds is None else [f"{datetime.timedelta(seconds=round(seconds))} left"]
    return [f"step {values.step} of {values.last_step}", *time_left]


def evaluation_line(values: StepValues) -> str:
    """Formats a line such as `examples_processed: N | global_step S | Batch Hit@1: ... | Batch Loss: ...`.

    ` | Examples_per_sec: X` follows, and, if the number of steps is known, ` | step N of M | 0:01:15 left`.
    """
    texts = [f"examples_processed: {values.examples or 0}", f"global_step {values.global_step}"]
    texts += [f"Batch {name}: {value:.3f}" for name, value in values.figures.items()]
    if values.loss is not None:
        texts.append(f"Batch Loss: {values.loss:.3f}")
    if values.examples_per_second is not None:
        texts.append(f"Examples_per_sec: {values.examples_per_second:.3f}")
    return " | ".join([*texts, *_format_progress(values)])


def inference_line(values: StepValues) -> str:
    """Formats a line such as `num examples processed: N elapsed seconds: S examples/sec: X`.

    If the number of steps is known, ` | step N of M | 0:01:15 left` follows.
    """
    examples, seconds = values.examples or 0, values.elapsed_seconds or 0.0
    counts = f"num examples processed: {examples} elapsed seconds: {seconds:.2f}"
    counts += f" examples/sec: {examples / seconds:.2f}" if seconds else ""
    return " | ".join([counts, *_format_progress(values)])


# {mode: the function that formats its log lines}
FORMATS: Mapping[str, Callable[[StepValues], str]] = {
    "train": training_line,
    "eval": evaluation_line,
    "infer": inference_line,
}
