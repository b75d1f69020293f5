"""Contestants that take turns: each is a process that waits until it is told to work, then reports its time.

The parent writes a line to start a turn and reads a line with its sample. So only one contestant computes at a time,
and a change of the machine's speed affects all of them. Only their imports run side by side, before the first turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any, Self

from benchmarks.measure import WARM_STEPS, Clock, Sample
from yt8m.types import Closing

# Freed memory stays with the process. This project sets that by itself; a peer must be told.
_KEEPS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}


class Contestant(Closing):
    """A process that runs `python -m benchmarks.peers NAME WORK MODEL PRECISION FOLDER`, begun in a `with` block."""

    def __init__(self, name: str, *words: str) -> None:
        self.name, self._words = name, words
        self._log = pathlib.Path(words[-1], f"{name}.log")

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.peers", self.name, *self._words]
        with self._log.open("w") as log:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
            self._process = subprocess.Popen(command, text=True, env=_KEEPS_MEMORY | os.environ, **pipes)
        return self

    def turn(self) -> Sample:
        """The time of one step of one turn."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and its log says why
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise SystemExit(
                f"{self.name} ended with status {status} before its turn was over:\n{self._log.read_text()}"
            )
        return Sample(*json.loads(line))

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):  # what a process that failed was told and has not read
            self._process.communicate()


class PipeTurns:
    """The side of a contestant. Standard output is reserved for the samples; everything else goes to stderr."""

    def __init__(self) -> None:
        self._out: IO[str] = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._is_told = False

    def begin(self) -> bool:
        """Waits until the first turn is due, which the next `wait` then finds; False if there is none."""
        self._is_told = self.wait()
        return self._is_told

    def tell(self, sample: Sample) -> None:
        """Answers the parent."""
        self._out.write(json.dumps(sample) + "\n")
        self._out.flush()

    def wait(self) -> bool:
        """Waits for the next turn; False if there is none."""
        was_told, self._is_told = self._is_told, False
        return was_told or bool(sys.stdin.readline())

    def take(
        self, step: Callable[[], Any], steps: int, finish: Callable[[], Any] = lambda: None, warm: int = WARM_STEPS
    ) -> None:
        """Takes all turns of `steps` steps and what ends them, after `warm` steps that use up what was read ahead."""
        while self.wait():
            for _ in range(min(steps, warm)):
                step()
            clock = Clock()
            for _ in range(steps):
                step()
            finish()
            self.tell(clock.sample(steps))
