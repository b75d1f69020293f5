"""Forked processes that do jobs for this process, which repeats itself what they cannot do.

The threads of one process run Python code one at a time. That limits work that consists of many short operations on
arrays; processes do not limit each other.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from yt8m.types import Closing

# Modules that start threads of their own. A forked process has none of the threads of its parent, but the locks that
# they held.
_THREADED = ("tensorflow", "pyarrow", "torch", "jax", "grpc", "google.cloud.storage")


class JobError(Exception):
    """A job failed in a forked process, or the process ended."""


def usable_cores() -> int:
    """The number of CPU cores for forked processes; 1 if this process cannot be forked safely."""
    if sys.platform != "linux" or threading.active_count() > 1 or any(name in sys.modules for name in _THREADED):
        return 1
    return len(os.sched_getaffinity(0))


class SubmittedJob:
    """A job that a process does or will do.

    Args:
      worker: the process.
      size: the amount of work, in any unit.
    """

    def __init__(self, worker: _ForkedWorker, size: int) -> None:
        self._worker, self.size = worker, size
        self._answer: tuple[bool, Any] | None = None

    def result(self) -> Any:
        """Waits for the job to end, and returns what `work` returned.

        Raises:
          JobError: `work` raised an error, or the process ended.
        """
        while self._answer is None:
            self._worker.receive()
        is_done, value = self._answer
        if not is_done:
            raise JobError(value)
        return value

    def end(self, answer: tuple[bool, Any]) -> None:
        """Stores what the process sent: whether the job was done, and the result or the error as a text."""
        self._answer = answer


class ForkedWorkers(Closing):
    """Forks processes that call `work` with the arguments of jobs. Close it, or use it in a `with` block.

    Args:
      count: number of processes.
      work: the function. It sees the objects of this process as they are now.
    """

    def __init__(self, count: int, work: Callable[..., Any]) -> None:
        self._workers: list[_ForkedWorker] = []
        try:
            for _ in range(count):
                self._workers.append(_ForkedWorker(work, self._workers))
        except BaseException:
            self.close()
            raise

    def submit(self, size: int, *job: Any) -> SubmittedJob:
        """Gives a job to the process that has the least to do.

        Args:
          size: the amount of work, in any unit.
          *job: the arguments of `work`.

        Raises:
          JobError: the process ended.
        """
        return min(self._workers, key=lambda worker: worker.pending_size()).submit(size, job)

    def close(self) -> None:
        """Ends the processes at once, whatever they are doing."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.join()
        self._workers = []


class _ForkedWorker:
    """One forked process."""

    def __init__(self, work: Callable[..., Any], others: Sequence[_ForkedWorker]) -> None:
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe()
        self._pending: deque[SubmittedJob] = deque()
        # A process ends when nobody can send it a job, so no other process may hold this end of its connection.
        ours = [self._connection, *(worker._connection for worker in others)]
        self._process = context.Process(target=_serve, args=(work, theirs, ours), daemon=True)
        try:
            with warnings.catch_warnings():
                # Python warns of the threads of NumPy's linear algebra, which prepares itself for forks.
                warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
                self._process.start()
        finally:
            theirs.close()

    def pending_size(self) -> int:
        """How much the process still has to do."""
        while self._pending and self._connection.poll():
            self.receive()
        return sum(job.size for job in self._pending)

    def submit(self, size: int, job: tuple[Any, ...]) -> SubmittedJob:
        with self._as_job_error():
            self._connection.send(job)
        self._pending.append(SubmittedJob(self, size))
        return self._pending[-1]

    def receive(self) -> None:
        """Waits for the end of the oldest job."""
        with self._as_job_error():
            answer = self._connection.recv()
        self._pending.popleft().end(answer)

    @contextlib.contextmanager
    def _as_job_error(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            raise JobError(f"process {self._process.pid} ended") from error

    def kill(self) -> None:
        self._process.kill()

    def join(self) -> None:
        self._process.join()
        self._connection.close()


def _serve(work: Callable[..., Any], connection: Connection, others: Sequence[Connection]) -> None:
    """Does jobs until the parent closes its end of the connection or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches all processes; the parent ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()
    with contextlib.suppress(EOFError, OSError):
        while True:
            job = connection.recv()
            try:
                answer = True, work(*job)
            except Exception as error:
                answer = False, f"{type(error).__name__}: {error}"
            connection.send(answer)
