"""Contestants that take turns: each is a process that waits until it is told to work, then reports its time.

The parent writes a line to start a turn and reads a line with its sample. So only one contestant computes at a time,
and a change of the machine's speed affects all of them.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO, Any

from benchmarks.measure import Sample

# Freed memory stays with the process. This project sets that by itself; a peer must be told.
_KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
_TICKS = os.sysconf("SC_CLK_TCK")


class Contestant:
    """A process that runs `python -m benchmarks.peers.worker NAME ROW FOLDER`."""

    def __init__(self, name: str, row: str, folder: str) -> None:
        command = [sys.executable, "-m", "benchmarks.peers.worker", name, row, folder]
        self.name = name
        self._log = pathlib.Path(folder, f"{name}.log")
        with self._log.open("w") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self._process = subprocess.Popen(command, text=True, env=_KEEPS_MEMORY | os.environ, **pipes)
        self.told = self._answer()

    def turn(self) -> Sample:
        """The time of one step of one turn."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return Sample(*self._answer())

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise SystemExit(
                f"{self.name} ended with status {status} before its turn was over:\n{self._log.read_text()}"
            )
        return json.loads(line)


class Turns:
    """The side of a contestant. Standard output is reserved for the answers; everything else goes to stderr."""

    def __init__(self) -> None:
        self._out: IO[str] = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def tell(self, value: Any) -> None:
        """Answers the parent."""
        self._out.write(json.dumps(value) + "\n")
        self._out.flush()

    def wait(self) -> bool:
        """Waits for the next turn; False if there is none."""
        return bool(sys.stdin.readline())

    def take(
        self, step: Callable[[], Any], steps: int, warm_steps: int = 0, finish: Callable[[], Any] | None = None
    ) -> None:
        """Takes all turns of `steps` steps and what ends them, after steps that use up what was read ahead."""
        while self.wait():
            for _ in range(warm_steps):
                step()
            before = now()
            for _ in range(steps):
                step()
            if finish is not None:
                finish()
            self.tell(since(before, steps))


def now() -> Sample:
    """The clock, and the CPU seconds of this process and of its living children."""
    return Sample(time.perf_counter(), _tree_seconds(os.getpid()))


def since(before: Sample, steps: int) -> Sample:
    """The time since `before`, per step."""
    after = now()
    return Sample((after.seconds - before.seconds) / steps, (after.cpu - before.cpu) / steps)


def _tree_seconds(process: int) -> float:
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / _TICKS
    for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        seconds += sum(_tree_seconds(int(child)) for child in children.read_text().split())
    return seconds
