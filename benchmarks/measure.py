"""Repeated timings of a row, and their summary."""

from __future__ import annotations

import itertools
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks import machine

_BOTH = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


class Sample(NamedTuple):
    """One repetition: seconds on the clock, and seconds of all of the process's threads together."""

    seconds: float
    cpu: float


class Clock:
    """Takes samples. The first one begins when the clock is made. CPU time includes that of ended child processes."""

    def __init__(self) -> None:
        self._start = self._now()

    def sample(self, parts: int = 1) -> Sample:
        """The time since the clock was made, divided by `parts`."""
        now = self._now()
        return Sample(*((b - a) / parts for a, b in zip(self._start, now, strict=True)))

    @staticmethod
    def _now() -> Sample:
        return Sample(time.perf_counter(), _cpu_of_both())


@dataclass(frozen=True)
class Measured:
    """The samples of one row.

    Attributes:
      count: examples that one sample stands for.
      samples: of the measured work.
      floors: of the minimal work that the row cannot avoid: one before the first sample and one after each,
        or one that was taken together with each sample, or none at all.
      latencies: seconds of each request, if the work is requests.
      bare_latencies: seconds of each call that the floor makes in place of a request.
      fuller_floors: taken together with `floors`: the same work and more that the row cannot avoid.
      fuller_name: what that work is.
    """

    count: int
    samples: list[Sample]
    floors: list[Sample]
    latencies: list[float] = field(default_factory=list)
    bare_latencies: list[float] = field(default_factory=list)
    fuller_floors: list[Sample] = field(default_factory=list)
    fuller_name: str = ""

    def summary(self) -> dict[str, Any]:
        """Median, least and most of each: examples a second (`rate`), examples a second of CPU time, which
        other programs disturb less (`cpu_rate`), and with floors the ratio to them by either clock.

        Of requests also the `latency`: `p50` and `p99` in seconds, and `bare`, the median of the floor's calls.
        """
        found = {
            "rate": spread([self.count / sample.seconds for sample in self.samples]),
            "cpu_rate": spread([self.count / sample.cpu for sample in self.samples]),
        }
        if self.floors:
            found["ratio"] = spread(self._ratios(self.floors, "seconds"))
            found["cpu_ratio"] = spread(self._ratios(self.floors, "cpu"))
        if self.fuller_floors:
            ratios = {name: spread(self._ratios(self.fuller_floors, name)) for name in ("seconds", "cpu")}
            found["fuller"] = {"name": self.fuller_name, "ratio": ratios["seconds"], "cpu_ratio": ratios["cpu"]}
        if self.latencies:
            cuts = statistics.quantiles(self.latencies, n=100, method="inclusive")
            found["latency"] = {"p50": cuts[49], "p99": cuts[98], "bare": statistics.median(self.bare_latencies)}
        return found

    def _ratios(self, samples: list[Sample], field: str) -> list[float]:
        floors = [getattr(floor, field) for floor in samples]
        if len(floors) > len(self.samples):
            floors = [(before + after) / 2 for before, after in itertools.pairwise(floors)]
        return [floor / getattr(sample, field) for floor, sample in zip(floors, self.samples, strict=True)]


def spread(values: list[float]) -> dict[str, float]:
    """The median, the least and the most of some values."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def repeat(action: Callable[[], Any], count: int, repeats: int) -> Measured:
    """Times `action`, which processes `count` examples, after one untimed call."""
    action()
    samples = []
    for _ in range(repeats):
        clock = Clock()
        action()
        samples.append(clock.sample())
    return Measured(count, samples, [])


def watched(measure: Callable[[int], Measured], repeats: int) -> dict[str, Any]:
    """The summary of a row, its peak memory, and the cores that others used meanwhile.

    The peak memory is that of the largest process.
    """
    others = Others()
    found = measure(repeats).summary()
    peak = max(resource.getrusage(who).ru_maxrss for who in _BOTH) / 1024
    return {**found, "peak_mb": peak, "others": others.cores()}


class Others:
    """Counts what other programs compute from now on. Child processes that have ended do not count as others."""

    def __init__(self) -> None:
        self._before, self._start = self._seconds(), time.perf_counter()

    def cores(self) -> float:
        """The cores that other programs used so far, on average."""
        return max(0.0, (self._seconds() - self._before) / (time.perf_counter() - self._start))

    @staticmethod
    def _seconds() -> float:
        return machine.busy_seconds() - _cpu_of_both()


def _cpu_of_both() -> float:
    return sum(cpu_seconds(who) for who in _BOTH)


def cpu_seconds(who: int) -> float:
    """CPU time of this process (RUSAGE_SELF), or of those that it has waited for (RUSAGE_CHILDREN)."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
