"""Samples of a row, taken in turn with those of its floors, their summary, and what else this machine computes."""

from __future__ import annotations

import itertools
import os
import pathlib
import platform
import re
import resource
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from yt8m.numerics import precision

# {name in /proc/cpuinfo: name for people}, the fastest first
_INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16", "avx512f": "AVX-512", "avx2": "AVX2"}
QUIET = 0.1  # cores that other programs may use
WARM_STEPS = 5  # untimed steps before a block of steps: they use up the batches that were prefetched meanwhile


class Sample(NamedTuple):
    """One repetition: seconds on the clock, and seconds of all of the process's threads and child processes."""

    seconds: float
    cpu: float


Work = Callable[[], Sample]


class Clock:
    """Takes samples. The first one begins when the clock is made."""

    def __init__(self) -> None:
        self._start = now()

    def sample(self, steps: int = 1) -> Sample:
        """The time since the clock was made, divided by `steps`."""
        return Sample(*((after - before) / steps for before, after in zip(self._start, now(), strict=True)))


def now() -> Sample:
    """The clock, and the CPU time so far."""
    return Sample(time.perf_counter(), cpu_seconds())


def cpu_seconds() -> float:
    """CPU time of this process, of the children that it has waited for, and of its living descendants."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) + sum(map(tree_seconds, _children(os.getpid())))


def tree_seconds(process: int) -> float:
    """CPU time of a process, of the children that it has waited for, and of its living descendants; 0 if it ended."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks = sum(map(int, fields[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK") + sum(map(tree_seconds, _children(process)))
    except OSError:
        return 0.0


def _children(process: int) -> list[int]:
    tasks = pathlib.Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for path in tasks for child in path.read_text().split()]


@dataclass(frozen=True)
class Measured:
    """The samples of one row.

    Attributes:
      count: examples that one sample stands for.
      samples: of the measured work.
      floors: of the least that the work could be, or of what it is compared with: one before the first sample and one
        after each, or one with each. The first floor is that of the table and of the row's targets.
      notes: what else was measured, as texts.
    """

    count: int
    samples: list[Sample] = field(default_factory=list)
    floors: dict[str, list[Sample]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Median, least and most of each: examples a second (`rate`), examples a second of CPU time, which
        other programs disturb less (`cpu_rate`), and with floors the ratio to the first of them by either clock.
        """
        summary = {**_rates(self.count, self.samples), **self._ratios(next(iter(self.floors.values()), []))}
        others = {name: self._ratios(floors) for name, floors in self.floors.items()} if len(self.floors) > 1 else {}
        texts = [
            f"{ratios['ratio']['median']:.0%} of {name} ({ratios['ratio']['low']:.0%}..{ratios['ratio']['high']:.0%}; "
            f"by cpu {ratios['cpu_ratio']['median']:.0%})"
            for name, ratios in others.items()
        ]
        return {**summary, "notes": [*self.notes, *texts]}

    def _ratios(self, floors: Sequence[Sample]) -> dict[str, dict[str, float]]:
        if len(floors) > len(self.samples):
            neighbours = itertools.pairwise(floors)
            floors = [Sample(*map(statistics.mean, zip(before, after, strict=True))) for before, after in neighbours]
        pairs = list(zip(floors, self.samples, strict=True)) if floors else []
        ratios = {
            "ratio": [floor.seconds / sample.seconds for floor, sample in pairs],
            "cpu_ratio": [floor.cpu / sample.cpu for floor, sample in pairs],
        }
        return {name: spread(values) for name, values in ratios.items() if values}


def _rates(count: int, samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    return {
        "rate": spread([count / sample.seconds for sample in samples]),
        "cpu_rate": spread([count / sample.cpu for sample in samples]),
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median, the least and the most of some values."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def timed(action: Callable[[], Any], steps: int = 1) -> Work:
    """Work that calls `action`, which takes `steps` steps; a sample is one step."""

    def work() -> Sample:
        clock = Clock()
        action()
        return clock.sample(steps)

    return work


def timed_steps(session: Any, fetch: Any, steps: int, warm: int = 2) -> Work:
    """Work that fetches the same from a session `steps` times, after `warm` untimed times; a sample is one step."""

    def run(count: int) -> None:
        for _ in range(count):
            session.run(fetch)

    def work() -> Sample:
        run(warm)
        return timed(lambda: run(steps), steps)()

    return work


def run_process(
    command: Sequence[str], environment: Mapping[str, str] | None = None, seconds: float | None = None
) -> str:
    """The standard output of a process; if it fails, or takes longer than `seconds`, this one exits with its messages.

    If it is given up, what it has started is killed with it.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            output, messages = process.communicate(timeout=seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise SystemExit(f"took longer than {seconds:.3g} s") from None
            raise
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with status {process.returncode}:\n{messages}")
    return output


def write_beside(path: pathlib.Path, text: str) -> None:
    """Writes a file beside and renames it into place."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text)
    os.replace(beside, path)


def describe_processor() -> str:
    """The processor's name, and the instructions that decide how fast it multiplies: `Intel Xeon with AMX, 2 cores`."""
    try:
        lines = pathlib.Path(precision.CPUINFO).read_text().splitlines()
    except OSError:
        lines = []
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = re.sub(r"\((?:R|TM)\)| (?:CPU|Processor)\b|@.*", "", fields.get("model name", platform.machine())).strip()
    flags = set(fields.get("flags", "").split())
    best = next((label for flag, label in _INSTRUCTIONS.items() if flag in flags), "")
    return f"{name}{best and f' with {best}'}, {cores()} cores"


def take_turns(count: int, work: Work, floors: Mapping[str, Work], repeats: int) -> Measured:
    """Times `work`, which processes `count` examples, in turn with its floors, after one turn that is not counted."""
    work()
    for floor in floors.values():
        floor()
    measured = Measured(count, floors={name: [floor()] for name, floor in floors.items()})
    for _ in range(repeats):
        measured.samples.append(work())
        for name, floor in floors.items():
            measured.floors[name].append(floor())
    return measured


def repeat(action: Callable[[], Any], count: int, repeats: int) -> Measured:
    """Times `action`, which processes `count` examples, after one untimed call."""
    return take_turns(count, timed(action), {}, repeats)


def watched(measure: Callable[[int], Measured], repeats: int) -> dict[str, Any]:
    """The summary of a row, its peak memory, and the cores that others used meanwhile.

    The peak memory is that of the largest process; `own_mb` is that of this process without the pages of files.
    """
    others = Others()
    with OwnMemory() as memory:
        summary = measure(repeats).summary()
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    return {**summary, "turns": repeats, "peak_mb": peak, "own_mb": memory.peak_mb, "others": others.cores()}


class OwnMemory:
    """Samples the resident memory of this process without the pages of mapped files.

    Attributes:
      peak_mb: the largest sample, in units of 2^20 bytes.
    """

    def __init__(self, interval: float = 0.1) -> None:
        self.peak_mb, self._interval, self._is_over = 0.0, interval, threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> OwnMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        is_over = False
        while True:
            lines = pathlib.Path("/proc/self/status").read_text().splitlines()
            kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
            self.peak_mb = max(self.peak_mb, kilobytes / 1024)
            if is_over:
                return
            is_over = self._is_over.wait(self._interval)  # what is held at the end is sampled once more


class Others:
    """Counts what other programs compute from now on."""

    def __init__(self) -> None:
        self._before, self._start = self._seconds(), time.perf_counter()

    def cores(self) -> float:
        """The cores that other programs used so far, on average."""
        return max(0.0, (self._seconds() - self._before) / (time.perf_counter() - self._start))

    @staticmethod
    def _seconds() -> float:
        return busy_seconds() - cpu_seconds()


def busy_seconds() -> float:
    """Busy seconds since boot, summed over all cores."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _wait, interrupts, soft, stolen = map(int, fields)
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))
