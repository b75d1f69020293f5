"""What is timed, how often, and what comes out of it."""

from __future__ import annotations

import itertools
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks import machine


class Sample(NamedTuple):
    """One repetition: seconds on the clock, and seconds of all of the process's threads together."""

    seconds: float
    cpu: float


class Clock:
    """Takes samples; made when the first one begins."""

    def __init__(self) -> None:
        self._start = self._now()

    def sample(self, parts: int = 1) -> Sample:
        """One of the `parts` equal parts of what has passed since the clock was made."""
        now = self._now()
        return Sample(*((b - a) / parts for a, b in zip(self._start, now, strict=True)))

    @staticmethod
    def _now() -> Sample:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Sample(time.perf_counter(), used.ru_utime + used.ru_stime)


@dataclass(frozen=True)
class Measured:
    """The samples of one row.

    Attributes:
      count: examples that one sample stands for.
      samples: of what is measured.
      floors: of the bare work that it cannot do without: one before the first sample and one after each,
        or none at all.
    """

    count: int
    samples: list[Sample]
    floors: list[Sample]

    def summary(self) -> dict[str, Any]:
        """Median, least and most of each: examples a second (`rate`), examples a second of CPU time, which
        other programs disturb less (`cpu_rate`), and with floors the ratio to them by either clock.
        """
        found = {
            "rate": _spread([self.count / sample.seconds for sample in self.samples]),
            "cpu_rate": _spread([self.count / sample.cpu for sample in self.samples]),
        }
        if self.floors:
            found["ratio"] = _spread(self._ratios("seconds"))
            found["cpu_ratio"] = _spread(self._ratios("cpu"))
        return found

    def _ratios(self, field: str) -> list[float]:
        floors = [getattr(floor, field) for floor in self.floors]
        around = [(before + after) / 2 for before, after in itertools.pairwise(floors)]
        return [floor / getattr(sample, field) for floor, sample in zip(around, self.samples, strict=True)]


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def repeat(action: Callable[[], Any], count: int, repeats: int) -> Measured:
    """Times `action`, which does `count` examples, after once without the clock."""
    action()
    samples = []
    for _ in range(repeats):
        clock = Clock()
        action()
        samples.append(clock.sample())
    return Measured(count, samples, [])


def watched(measure: Callable[[int], Measured], repeats: int) -> dict[str, Any]:
    """The summary of a row with the peak memory of this process and the cores that others used meanwhile."""
    before, clock = machine.busy_seconds(), Clock()
    found = measure(repeats).summary()
    used = clock.sample()
    others = (machine.busy_seconds() - before - used.cpu) / used.seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**found, "peak_mb": peak, "others": max(0.0, others)}
