"""A callback that times blocks of steps of a real run, with the floor between them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.measure import Clock, Measured, Sample
from yt8m.lazy import tf
from yt8m.runner import Callback, Context

# Seconds to wait before a floor, so that background work of the last step (ranking, writing) has ended.
_BEHIND = 0.1

# Untimed steps after the start and after each floor: they use up the batches that were prefetched meanwhile.
_WARM_STEPS = 5


class Stopwatch(Callback):
    """Times `repeats` blocks of `steps` steps, then requests the stop.

    A block is as long as the longest period of the usual callbacks, so that each holds its share of lines,
    figures and summaries.
    """

    def __init__(
        self, context: Context, into: Measured, steps: int, repeats: int, floor: Callable[[], Sample] | None
    ) -> None:
        super().__init__(context)
        self._into, self._steps, self._repeats, self._floor = into, steps, repeats, floor
        self._done = 0
        self._clock: Clock | None = None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Begins and ends blocks."""
        self._done += 1
        if self._clock is None and self._done >= _WARM_STEPS:
            if self._floor and not self._into.floors:
                self._take_floor()
            else:
                self._done, self._clock = 0, Clock()
        elif self._clock is not None and self._done == self._steps:
            self._into.samples.append(self._clock.sample(self._steps))
            self._take_floor()
            if len(self._into.samples) == self._repeats:
                run_context.request_stop()

    def _take_floor(self) -> None:
        if self._floor:
            time.sleep(_BEHIND)
            self._into.floors.append(self._floor())
        self._done, self._clock = 0, None


class StepWatch(Callback):
    """Times every step of `repeats` blocks. A sample is a block's mean; its floor is the mean of the plain steps.

    A plain step writes no log line and no summary. So the difference is the cost of figures and summaries.
    Both are means, since other programs slow down both kinds of steps.
    """

    def __init__(self, context: Context, into: Measured, steps: int, repeats: int) -> None:
        super().__init__(context)
        self._into, self._steps, self._repeats = into, steps, repeats
        self._done, self._clock = 0, Clock()
        self._block: list[tuple[bool, Sample]] = []

    def before_run(self, run_context: Any) -> None:
        """Records whether the coming step is plain."""
        self._is_plain = not self.context.line_due

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Takes the time since the end of the previous step."""
        self._done += 1
        sample, self._clock = self._clock.sample(), Clock()
        if self._done <= _WARM_STEPS:
            return
        self._block.append((self._is_plain, sample))
        if len(self._block) == self._steps:
            self._take()
            if len(self._into.samples) == self._repeats:
                run_context.request_stop()

    def _take(self) -> None:
        floor = _mean([sample for is_plain, sample in self._block if is_plain])
        self._into.samples.append(_mean([sample for _, sample in self._block]))
        self._into.floors.append(floor)
        self._block = []


def _mean(samples: Sequence[Sample]) -> Sample:
    return Sample(*(statistics.mean(values) for values in zip(*samples, strict=True)))


class StepTimes(Callback):
    """Notes when each step ends.

    Args:
      into: gets the seconds of the monotonic clock.
    """

    def __init__(self, context: Context, into: list[float]) -> None:
        super().__init__(context)
        self._into = into

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Notes the time."""
        self._into.append(time.monotonic())


class Trace(Callback):
    """Traces one step: when each op ran.

    Args:
      step: the step to trace.
      into: gets (name, begin, end) of each op, in seconds after the first.
    """

    def __init__(self, context: Context, step: int, into: list[tuple[str, float, float]]) -> None:
        super().__init__(context)
        self._step, self._into = step, into

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the trace."""
        is_due = self.context.step + 1 == self._step
        return tf.train.SessionRunArgs(None, options=tf.RunOptions(trace_level=3 if is_due else 0))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps the trace."""
        if self.context.step != self._step:
            return
        nodes = [node for device in run_values.run_metadata.step_stats.dev_stats for node in device.node_stats]
        first = min(node.all_start_micros for node in nodes)
        for node in nodes:
            begin = (node.all_start_micros - first) / 1e6
            self._into.append((node.node_name, begin, begin + node.all_end_rel_micros / 1e6))
