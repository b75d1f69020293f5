"""Callbacks that time the steps of a real run, and the turns in which they do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from benchmarks.measure import WARM_STEPS, Clock, Measured, Sample, Work, now
from yt8m import huge_pages
from yt8m.lazy import tf
from yt8m.runner import Callback, Context

# Seconds to wait before a floor, so that background work of the last step (ranking, writing) has ended.
_PAUSE = 0.1


class Turns(Protocol):
    """Who decides when the next block begins."""

    def wait(self) -> bool:
        """Waits for the next turn; False if there is none."""

    def tell(self, sample: Sample) -> None:
        """Takes the sample of a turn."""


class FloorTurns:
    """Times the floors before the first block and after each; gives `repeats` turns."""

    def __init__(self, measured: Measured, floors: Mapping[str, Work], repeats: int) -> None:
        self._measured, self._floors, self._repeats = measured, floors, repeats

    def wait(self) -> bool:
        """Times the floors."""
        if self._floors:
            time.sleep(_PAUSE)
        for name, floor in self._floors.items():
            self._measured.floors.setdefault(name, []).append(floor())
        return len(self._measured.samples) < self._repeats

    def tell(self, sample: Sample) -> None:
        """Adds the sample."""
        self._measured.samples.append(sample)


class Stopwatch(Callback):
    """Times blocks of `steps` steps until there is no further turn, then requests the stop.

    A block is as long as the longest period of the usual callbacks, so that each holds its share of lines,
    figures and summaries.

    Args:
      turns: what happens between two blocks.
      steps: steps of a block; a sample is one of them.
      finish: what ends a block, and is timed with it.
    """

    def __init__(
        self, context: Context, turns: Turns, steps: int, finish: Callable[[Context], None] | None = None
    ) -> None:
        super().__init__(context)
        self._turns, self._steps, self._finish = turns, steps, finish
        self._done: int | None = None  # steps of this turn, below 0 while they are not timed; None before the first

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Begins and ends blocks."""
        if self._done is None:
            self._begin_turn(run_context)
            return
        self._done += 1
        if self._done == 0:
            huge_pages.move_memory()  # as a run does after ten seconds
            self._clock = Clock()
        elif self._done == self._steps:
            if self._finish:
                self._finish(self.context)
            self._turns.tell(self._clock.sample(self._steps))
            self._begin_turn(run_context)

    def _begin_turn(self, run_context: Any) -> None:
        self._done = -min(self._steps, WARM_STEPS)
        if not self._turns.wait():
            run_context.request_stop()


class StepWatch(Callback):
    """Times every step of `repeats` blocks. A sample is a block's mean; its floor is the mean of the plain steps.

    A plain step writes no log line and no summary. So the difference is the cost of figures and summaries.
    Both are means, since other programs slow down both kinds of steps.
    """

    def __init__(self, context: Context, measured: Measured, steps: int, repeats: int) -> None:
        super().__init__(context)
        self._measured, self._steps, self._repeats = measured, steps, repeats
        self._done, self._clock = -WARM_STEPS, Clock()
        self._block: list[tuple[bool, Sample]] = []
        self._plain = measured.floors.setdefault("plain steps", [])

    def before_run(self, run_context: Any) -> None:
        """Records whether the coming step is plain."""
        self._is_plain = not self.context.line_due

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Takes the time since the end of the previous step."""
        self._done += 1
        sample, self._clock = self._clock.sample(), Clock()
        if self._done > 0:
            self._block.append((self._is_plain, sample))
        if len(self._block) == self._steps:
            self._measured.samples.append(_mean([sample for _, sample in self._block]))
            self._plain.append(_mean([sample for is_plain, sample in self._block if is_plain]))
            self._block = []
            if len(self._plain) == self._repeats:
                run_context.request_stop()


def _mean(samples: Sequence[Sample]) -> Sample:
    return Sample(*(statistics.mean(values) for values in zip(*samples, strict=True)))


class StepTimes(Callback):
    """Notes when each step ends."""

    def __init__(self, context: Context, times: list[Sample]) -> None:
        super().__init__(context)
        self._times = times

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Notes the time."""
        self._times.append(now())


class Trace(Callback):
    """Traces one step: when each op ran.

    Args:
      step: the step to trace.
      spans: gets (name, begin, end) of each op, in seconds after the first.
    """

    def __init__(self, context: Context, step: int, spans: list[tuple[str, float, float]]) -> None:
        super().__init__(context)
        self._step, self._spans = step, spans

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
            self._spans.append((node.node_name, begin, begin + node.all_end_rel_micros / 1e6))
