"""The log line of a step: when it is due, which values callbacks put into it, and how it is formatted."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field


class Every:
    """Tells when something is due, every N steps or seconds. Step counts may jump, as they do in a cluster.

    >>> often = Every(steps=10)
    >>> often.fired(7)
    >>> [step for step in range(8, 21) if often.due(step)][0]
    10
    """

    def __init__(
        self, steps: int | None = None, seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._steps, self._seconds, self._clock = steps, seconds, clock
        self.fired(0)

    def due(self, step: int) -> bool:
        """Whether a multiple of the steps was passed, or the seconds have elapsed, since the last call of `fired`."""
        if self._steps and step // self._steps > self._step // self._steps:
            return True
        return self._seconds is not None and self._clock() - self._time >= self._seconds

    def fired(self, step: int) -> None:
        """Starts to count at `step` and the current time."""
        self._step, self._time = step, self._clock()


@dataclass
class StepValues:
    """The values of one line; None or empty if no callback gave one.

    Attributes:
      step: the global step in training, else the number of batches done.
      global_step: the step of the checkpoint, in evaluation and inference.
      figures: the metrics of the step, by the names under which they are printed.
      examples: number of examples so far, in evaluation and inference.
      elapsed_seconds: seconds since the first step.
      last_step: the step, counted as `step`, at which the run will end; None if that is not known.
      seconds_left: seconds until the last step, at the speed so far.
      unlogged: names of figures that are left out of the log line.
      is_validation: whether these are the values of a validation of this step, not of the step itself.
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
        """Whether no callback has put in a value."""
        return not self.figures and (self.loss, self.examples_per_second, self.examples) == (None, None, None)


class StepLine:
    """Collects the parts of one step's line and hands the whole line to its sinks, once.

    A callback asks `due` before the step, fetches what its part needs only then, and fills `values`
    after it. The engine's own last hook calls `emit`.

    Attributes:
      last_step: the step at which the run will end; None if that is not known.
      paused_seconds: seconds of this run in which no step ran because of a validation.
    """

    def __init__(self, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._clock = Every(steps=steps), clock
        self._sinks: list[tuple[Callable[[StepValues], None], bool]] = []  # each with: whether it wants validations
        self.values = StepValues()
        self.last_step: int | None = None
        self.paused_seconds = 0.0
        self.start(0)

    def start(self, step: int, last: int | None = None) -> None:
        """Starts to count at `step`; the run ends at step `last`, if that is known."""
        self._every.fired(step)
        self.last_step, self._since, self._is_first = last, (step, self._clock()), True

    def listen(self, sink: Callable[[StepValues], None], *, validations: bool = False) -> None:
        """Calls `sink` with the values of each line from now on, and if `validations` with those of each validation."""
        self._sinks.append((sink, validations))

    def due(self, step: int) -> bool:
        """Whether step number `step` gets a line."""
        return self._every.due(step)

    def emit(self, step: int, global_step: int) -> None:
        """Hands the values to the sinks, if there are any values, and starts the next line."""
        if self.values.is_empty():
            return
        values, self.values = self.values, StepValues()
        values.step, values.global_step = step, global_step
        values.last_step, values.seconds_left = self.last_step, self._left(step)
        self._every.fired(step)
        for sink, _ in self._sinks:
            sink(values)

    def tell(self, values: StepValues) -> None:
        """Hands the values of a validation to the sinks that asked for them."""
        for sink in (sink for sink, wants_validations in self._sinks if wants_validations):
            sink(values)

    def _left(self, step: int) -> float | None:
        """The seconds until the last step, at the speed since the first line, because the first steps take longer."""
        first, since = self._since
        if self.last_step is None or step <= first:
            return None
        now = self._clock()
        if self._is_first:
            self._since, self._is_first = (step, now), False
        return (now - since) / (step - first) * max(self.last_step - step, 0)


def training_line(values: StepValues) -> str:
    """`training step N | Loss: L Examples/sec: X | Hit@1: ... PERR: ... GAP: ... | step N of M | 0:01:15 left`.

    This is the published line, then what it lacks. A part is left out if its values are not given.
    """
    middle = []
    if values.loss is not None:
        middle.append(f"Loss: {values.loss:.2f}")
    if values.examples_per_second is not None:
        middle.append(f"Examples/sec: {values.examples_per_second:.2f}")
    figures = " ".join(f"{name}: {value:.2f}" for name, value in values.figures.items())
    published = [f"training step {values.step}", " ".join(middle), figures]
    return " | ".join(filter(None, [*published, *_progress(values)]))


def validation_line(values: StepValues) -> str:
    """`validation at step N | Loss: L | Hit@1: ... PERR: ... mAP: ... GAP: ... | N examples in S s`."""
    loss = [] if values.loss is None else [f"Loss: {values.loss:.4f}"]
    logged = {name: value for name, value in values.figures.items() if name not in values.unlogged}
    figures = " ".join(f"{name}: {value:.4f}" for name, value in logged.items())
    end = f"{values.examples or 0} examples in {values.elapsed_seconds or 0:.1f} s"
    return " | ".join(filter(None, [f"validation at step {values.step}", *loss, figures, end]))


def _progress(values: StepValues) -> list[str]:
    """`step N of M` and the time left, which the published lines lack; empty if not known."""
    if values.last_step is None:
        return []
    seconds = values.seconds_left
    time_left = [] if seconds is None else [f"{datetime.timedelta(seconds=round(seconds))} left"]
    return [f"step {values.step} of {values.last_step}", *time_left]


def evaluation_line(values: StepValues) -> str:
    """`examples_processed: N | global_step S | Batch Hit@1: ... | Batch Loss: ... | Examples_per_sec: X`.

    If the number of steps is known, ` | step N of M | 0:01:15 left` follows.
    """
    texts = [f"examples_processed: {values.examples or 0}", f"global_step {values.global_step}"]
    texts += [f"Batch {name}: {value:.3f}" for name, value in values.figures.items()]
    if values.loss is not None:
        texts.append(f"Batch Loss: {values.loss:.3f}")
    if values.examples_per_second is not None:
        texts.append(f"Examples_per_sec: {values.examples_per_second:.3f}")
    return " | ".join([*texts, *_progress(values)])


def inference_line(values: StepValues) -> str:
    """`num examples processed: N elapsed seconds: S examples/sec: X`, and ` | step N of M | 0:01:15 left` if known."""
    examples, seconds = values.examples or 0, values.elapsed_seconds or 0.0
    done = f"num examples processed: {examples} elapsed seconds: {seconds:.2f}"
    done += f" examples/sec: {examples / seconds:.2f}" if seconds else ""
    return " | ".join([done, *_progress(values)])


FORMATS: Mapping[str, Callable[[StepValues], str]] = {
    "train": training_line,
    "eval": evaluation_line,
    "infer": inference_line,
}
