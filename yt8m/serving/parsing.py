"""Parses bodies in child processes, because a process that takes too long can be killed, unlike a thread.

Each child reads bodies from its standard input and writes results to its standard output. A message is JSON and raw
bytes, in both directions; nothing that a child sends is executed. A child whose request was cancelled is killed and
replaced. The command of a child is `python -c "from yt8m.serving import parsing; parsing.main()" SETTINGS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import queue
import resource
import signal
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, NamedTuple

import numpy as np
from absl import logging

from yt8m.errors import RunError
from yt8m.serving.bodies import BodyLimits, Parsed, RefusedError, parse_body

_HEAD = struct.Struct("<IQ")  # the length of the JSON, and that of the raw bytes
_MEMORY, _MEMORY_OF_A_BYTE = 1 << 30, 48  # limit on the bytes of a child's address space: base, and per byte of a body
_READY = {"ready": True}
_START = "from yt8m.serving import parsing; parsing.main()"


class ParserSettings(NamedTuple):
    """The settings of a child.

    Attributes:
      limits: max_videos and max_frames of `BodyLimits`.
      feature_size: number of values of a frame.
      body_size: limit on the bytes of a body.
    """

    limits: tuple[int, int]
    feature_size: int
    body_size: int


def send(file: IO[bytes], header: dict[str, Any], raw: bytes | bytearray = b"") -> None:
    """Writes one message."""
    text = json.dumps(header).encode()
    file.write(_HEAD.pack(len(text), len(raw)) + text)
    file.write(raw)
    file.flush()


def receive(file: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Reads one message; None if the other side has ended."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, size = _HEAD.unpack(head)
    text, raw = file.read(length), file.read(size)
    return (json.loads(text), raw) if len(text) == length and len(raw) == size else None


def main() -> None:
    """Runs a child: parses bodies until the parent closes the pipe. Ignores the signals that stop the service."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    settings = ParserSettings(*json.loads(sys.argv[1]))
    most = _MEMORY + _MEMORY_OF_A_BYTE * settings.body_size
    with contextlib.suppress(ValueError):  # a lower limit is set already, or the system has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        send(sys.stdout.buffer, _READY)
        while (question := receive(sys.stdin.buffer)) is not None:
            send(sys.stdout.buffer, *_answer(question[0]["kind"], question[1], settings))
    except BrokenPipeError:
        os._exit(0)  # the service was killed; a normal exit would try to flush the closed pipe


def _answer(kind: str, body: bytes, settings: ParserSettings) -> tuple[dict[str, Any], bytes]:
    try:
        records, ids, features = parse_body(kind, body, settings.feature_size, BodyLimits(*settings.limits))
        if records:
            return {"sizes": list(map(len, records))}, b"".join(records)
        return {"ids": ids, "frames": list(map(len, features))}, np.concatenate(features).tobytes()
    except RefusedError as error:
        return {"status": error.status, "text": str(error)}, b""
    except MemoryError:
        return _TOO_MUCH, b""


_TOO_MUCH = {"status": 413, "text": "the body needs too much memory to parse."}


class _ParserProcess:
    """One child process. Only one thread may call `ask`; any thread may call `kill` and `close`.

    Attributes:
      replaced: how often a new process replaced the child.
    """

    def __init__(self, settings: ParserSettings) -> None:
        self._settings = settings
        self.replaced, self._is_closed = 0, False
        self._start()

    def _start(self) -> None:
        self._is_ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, json.dumps(self._settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that Ctrl-C on the terminal reaches only the service
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def ask(self, kind: str, body: bytes | bytearray) -> tuple[dict[str, Any], bytes]:
        """(JSON, raw bytes), the result for one body. If the child dies while parsing, a new process replaces it."""
        if self._is_ready and not self.is_alive():
            logging.warning("a process that parses bodies has ended unexpectedly: status %s", self._process.returncode)
            self._restart()
        answer = None
        with contextlib.suppress(BrokenPipeError):
            answer = self._exchange(self._process, kind, body)
        if answer is None:
            self._restart()
        return answer or (_TOO_MUCH, b"")

    def _restart(self) -> None:
        self.end()
        if not self._is_closed:
            self.replaced += 1
            self._start()

    def _exchange(
        self, process: subprocess.Popen[bytes], kind: str, body: bytes | bytearray
    ) -> tuple[dict[str, Any], bytes] | None:
        assert process.stdin is not None
        assert process.stdout is not None
        if not self.has_started():
            if process.wait() < 0:
                return None  # killed, because the request was cancelled
            logging.error("a process that parses bodies did not start; the lines above say why")
            return {"status": 500, "text": "the service cannot parse bodies; its log says why."}, b""
        send(process.stdin, {"kind": kind}, body)
        return receive(process.stdout)

    def has_started(self) -> bool:
        """Waits until the process is ready for bodies; False if it has ended instead."""
        assert self._process.stdout is not None
        self._is_ready = self._is_ready or receive(self._process.stdout) is not None
        return self._is_ready

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills the process, so that a call of `ask` in progress returns."""
        self._process.kill()

    def close(self) -> None:
        """Kills the process; `ask` does not replace it any more."""
        self._is_closed = True
        self._process.kill()

    def end(self) -> None:
        """Kills the process, waits for it and closes its pipes. No `ask` may be in progress."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # from bytes that are still buffered
                pipe.close()
        self._process.wait()


class _Job:
    """A body that waits for a child, or that a child is parsing."""

    def __init__(self, kind: str, body: bytes | bytearray) -> None:
        self._kind, self._body = kind, body
        self._lock = threading.Lock()
        self._child: _ParserProcess | None = None
        self._is_given_up = False

    def run(self, child: _ParserProcess) -> tuple[dict[str, Any], bytes]:
        """Lets the child parse the body; returns its result, see `_ParserProcess.ask`."""
        with self._lock:
            if self._is_given_up:
                return _TOO_MUCH, b""
            self._child = child
        try:
            return child.ask(self._kind, self._body)
        finally:
            with self._lock:
                self._child = None

    def give_up(self) -> None:
        """Cancels the parsing: kills the child if it has the body."""
        with self._lock:
            self._is_given_up = True
            if self._child is not None:
                self._child.kill()


class Parsers:
    """A pool of child processes, each with a thread that waits for its results.

    Args:
      settings: the settings of the children.
      count: number of children; 0 for one per core, but at least two and at most four.

    Raises:
      RunError: the children do not start.
    """

    def __init__(self, settings: ParserSettings, count: int = 0) -> None:
        count = count or max(2, min(4, os.cpu_count() or 1))
        self._idle: queue.SimpleQueue[_ParserProcess] = queue.SimpleQueue()
        self._children = [_ParserProcess(settings) for _ in range(count)]
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(count, "parser")
        if not all(child.has_started() for child in self._children):
            self.close()
            raise RunError("the processes that parse bodies do not start; the lines above say why.")

    async def parse(self, kind: str, body: bytes | bytearray) -> Parsed:
        """The content of a body of content type `kind`.

        If the caller is cancelled, this returns only after the child that has the body was killed.

        Raises:
          RefusedError: the body is refused, or the child died while parsing it.
        """
        job = _Job(kind, body)
        future = self._threads.submit(self._run, job)
        work = asyncio.wrap_future(future)
        try:
            await asyncio.wait({work})
        finally:
            if not work.done() and not future.cancel():
                job.give_up()
                await asyncio.wait({work})
        header, raw = work.result()
        if "status" in header:
            raise RefusedError(header["status"], header["text"])
        return _unpacked(header, raw)

    def _run(self, job: _Job) -> tuple[dict[str, Any], bytes]:
        child = self._idle.get()  # never waits, because there are as many children as threads
        try:
            return job.run(child)
        finally:
            self._idle.put(child)

    @property
    def replaced(self) -> int:
        """Number of children that were replaced so far."""
        return sum(child.replaced for child in self._children)

    def are_alive(self) -> bool:
        """Whether all children are running."""
        return all(child.is_alive() for child in self._children)

    def close(self) -> None:
        """Ends all children and threads at once."""
        for child in self._children:
            child.close()
        self._threads.shutdown(cancel_futures=True)
        for child in self._children:
            child.end()


def _unpacked(header: dict[str, Any], raw: bytes) -> Parsed:
    if "sizes" in header:
        ends = list(itertools.accumulate(header["sizes"]))
        return Parsed([raw[end - size : end] for size, end in zip(header["sizes"], ends, strict=True)], [], [])
    frames = np.frombuffer(raw, np.float32).reshape(sum(header["frames"]), -1)
    return Parsed([], header["ids"], np.split(frames, np.cumsum(header["frames"])[:-1]))
