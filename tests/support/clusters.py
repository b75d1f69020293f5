"""Clusters of real processes on this machine. A test waits for the lines that the processes print."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 240.0  # several processes that import TensorFlow on a busy machine


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine on which no process listens."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


def environment_for(variables: dict[str, str]) -> dict[str, str]:
    """The environment of a Python process that can import the project and its tests, and prints without a buffer."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests/support", ROOT / "tests/runner/cluster")))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", **variables}


def opened(command: Sequence[str], variables: dict[str, str]) -> Any:
    """Starts a Python process with these arguments and additional variables; `stdout` has both streams."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, *command], env=environment_for(variables), **streams)


class Process:
    """A process, and the lines that it has printed on either stream.

    Args:
      name: the name of the process in messages of failures.
      command: the arguments of `python`.
      variables: variables of its environment, besides those of this process.
      start: function from `command` and `variables` to a Popen whose `stdout` has both streams.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        variables: dict[str, str],
        start: Callable[[Sequence[str], dict[str, str]], Any] = opened,
    ) -> None:
        self.name, self.lines = name, []
        self._popen = start(command, variables)
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        for line in self._popen.stdout:
            self._queue.put(line.rstrip())
        self._queue.put(None)

    def wait_for(self, pattern: str, patience: float = PATIENCE) -> re.Match[str]:
        """Waits for the next line that matches; fails if the process ends before, or if `patience` seconds pass."""
        deadline = time.monotonic() + patience
        while True:
            try:
                line = self._queue.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.name} did not print {pattern!r}:\n{self.log()}") from None
            if line is None:
                self._queue.put(None)
                raise AssertionError(f"{self.name} ended without {pattern!r}:\n{self.log()}")
            self.lines.append(line)
            if found := re.search(pattern, line):
                return found

    def wait_for_step(self, least: int) -> int:
        """Waits until the process prints a step of at least `least`; returns the step."""
        while (step := int(self.wait_for(r"^step (\d+)")[1])) < least:
            pass
        return step

    def end(self, patience: float = PATIENCE) -> int:
        """Waits until the process has ended; returns the exit status."""
        try:
            status = self._popen.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            self._drain()
            raise AssertionError(f"{self.name} does not end:\n{self.log()}") from None
        self._drain()
        return status

    def _drain(self) -> None:
        self._thread.join()
        while (line := self._queue.get()) is not None:
            self.lines.append(line)
        self._queue.put(None)

    def outcome(self) -> list[Any]:
        """Waits until the process has ended with status 0; returns the last list that it printed as JSON."""
        status = self.end()
        assert status == 0, f"{self.name} ended with {status}:\n{self.log()}"
        return json.loads(next(line for line in reversed(self.lines) if line.startswith("[")))

    def kill(self) -> None:
        """Sends SIGKILL, and waits until the process has ended."""
        self._popen.kill()
        self._popen.wait()

    def poll(self) -> int | None:
        """The exit status; None if the process is still running."""
        return self._popen.poll()

    def has_printed(self) -> bool:
        """Whether the process has printed a line that `wait_for` has not yet returned or skipped."""
        return not self._queue.empty()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._popen.pid

    def resident_bytes(self) -> int:
        """The resident memory of the process in bytes; 0 if it has ended."""
        try:
            pages = int(pathlib.Path(f"/proc/{self._popen.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process."""
        self._popen.send_signal(number)

    def steps(self) -> list[int]:
        """The steps in all lines that were read so far."""
        return [int(line.split()[1]) for line in self.lines if line.startswith("step ")]

    def close(self) -> None:
        """Kills the process if it still runs, and reads the rest of its lines."""
        self.kill()
        self._drain()
        self._popen.stdout.close()

    def whole_log(self) -> str:
        """Reads the rest of the lines of a process that has ended; returns the last 40 lines."""
        self._drain()
        return self.log()

    def log(self) -> str:
        """The last 40 lines that were read."""
        return "\n".join(self.lines[-40:])


class Cluster:
    """A chief, workers and parameter servers; each is started, killed and started again by the test."""

    def __init__(self, command: Sequence[str], workers: int = 1, servers: int = 1, start: Any = opened) -> None:
        self._command, self._start = command, start
        addresses = free_addresses(1 + workers + servers)
        self.jobs = {"chief": addresses[:1], "worker": addresses[1 : 1 + workers]}
        self.jobs["ps"] = addresses[1 + workers :]
        self._started: list[Process] = []

    def start(self, role: str, index: int = 0, *words: str, **variables: str) -> Process:
        """Starts a process of the cluster.

        Args:
          role: `chief`, `worker` or `ps`.
          index: number of the process among those of its role.
          words: further arguments of the command.
          variables: further variables of its environment.
        """
        spec = {
            "cluster": {job: tasks for job, tasks in self.jobs.items() if tasks},
            "task": {"type": role, "index": index},
        }
        variables = {"TF_CONFIG": json.dumps(spec), **variables}
        process = Process(f"{role} {index}", [*self._command, *words], variables, self._start)
        self._started.append(process)
        return process

    def start_all(self, *words: str) -> dict[str, list[Process]]:
        """Starts every process of the cluster once; returns {role: its processes}."""
        return {
            role: [self.start(role, index, *words) for index in range(len(tasks))]
            for role, tasks in reversed(self.jobs.items())
        }

    def close(self) -> None:
        """Ends all processes, and prints their last lines, which pytest shows if the test fails."""
        for process in self._started:
            process.close()
            print(f"--- {process.name}", *process.lines[-25:], sep="\n")
