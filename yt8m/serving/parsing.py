"""Parses request bodies in child processes, because a process that takes too long can be killed, unlike a thread.

Each child reads bodies from its standard input and writes results to its standard output. A message in either direction
is JSON followed by raw bytes; nothing that a child sends is executed. A child whose request was cancelled is killed and
replaced. The command of a child is `python -c "from yt8m.serving import parsing; parsing.main()" SETTINGS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, NamedTuple

import numpy as np
from absl import logging

from yt8m import child_processes, cores
from yt8m.child_processes import limit_address_space
from yt8m.errors import RunError
from yt8m.serving.bodies import BodyFeatures, BodyLimits, Parsed, RefusedError, parse_body
from yt8m.termination import NOTICES

_HEAD = struct.Struct("<IQ")  # the start of a message: the length of its JSON, and the length of its raw bytes
# The limit on the bytes of a child's address space is _BASE_MEMORY + _MEMORY_PER_BYTE * (largest size of a body).
_BASE_MEMORY, _MEMORY_PER_BYTE = 1 << 30, 48
_OUT_OF_MEMORY = 77  # the exit status of a child that has no memory for a message
_EXIT_SECONDS = 5.0  # time in which a child that has closed its pipe must end
_READY = {"ready": True}  # a child's first message
_CHILD_PROGRAM = "from yt8m.serving import parsing; parsing.main()"


class ParserSettings(NamedTuple):
    """The settings of a child, which it gets as JSON on its command line.

    Attributes:
      body_size: limit on the bytes of a body.
    """

    limits: tuple[int, int]
    features: tuple[Sequence[tuple[str, int]], bool]
    body_size: int


def send(file: IO[bytes], header: dict[str, Any], raw: bytes | bytearray = b"") -> None:
    """Writes one message to a pipe: `header` as JSON, followed by the bytes `raw`."""
    text = json.dumps(header).encode()
    file.write(_HEAD.pack(len(text), len(raw)) + text)
    file.write(raw)
    file.flush()


def receive(file: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Reads one message from a pipe: (its JSON, its raw bytes). None if the other process has ended."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, size = _HEAD.unpack(head)
    text, raw = file.read(length), file.read(size)
    return (json.loads(text), raw) if len(text) == length and len(raw) == size else None


def main() -> None:
    """The program of a child: parses bodies until the service closes the pipe.

    It ignores the signals that stop the service, because the requests in progress may still need the child.
    """
    for number in (signal.SIGINT, signal.SIGTERM, *NOTICES):
        signal.signal(number, signal.SIG_IGN)
    child_processes.end_with(os.getppid())
    settings = ParserSettings(*json.loads(sys.argv[1]))
    memory_limit = _BASE_MEMORY + _MEMORY_PER_BYTE * settings.body_size
    limit_address_space(memory_limit)
    try:
        send(sys.stdout.buffer, _READY)
        while (message := receive(sys.stdin.buffer)) is not None:
            header, body = message
            send(sys.stdout.buffer, *_parse_to_message(header["content_type"], body, settings))
    except BrokenPipeError:
        os._exit(0)  # the service was killed; a normal exit would try to flush the closed pipe
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)


def _parse_to_message(content_type: str, body: bytes, settings: ParserSettings) -> tuple[dict[str, Any], bytes]:
    """Parses a body; returns the message with the result.

    The JSON of the message has one of these: `sizes`, the length of each record in the raw bytes; `ids` and `frames`,
    the id and the number of frames of each video whose features are the raw bytes; or `status` and `text` of a refusal.
    """
    try:
        sizes, has_frames = settings.features
        of_body = BodyFeatures(tuple((name, size) for name, size in sizes), has_frames)
        records, ids, features = parse_body(content_type, body, of_body, BodyLimits(*settings.limits))
        if records:
            return {"sizes": list(map(len, records))}, b"".join(records)
        return {"ids": ids, "frames": list(map(len, features))}, np.concatenate(features).tobytes()
    except RefusedError as error:
        return {"status": error.status, "text": str(error)}, b""
    except MemoryError:
        return _TOO_MUCH_MEMORY, b""


# The message of a child that ran out of memory, and the answer for a child that was killed.
_TOO_MUCH_MEMORY = {"status": 413, "text": "the body needs too much memory to parse; send fewer videos in a request."}
_FAILED = {"status": 500, "text": "the service cannot parse bodies; its log says why."}


class _ParserProcess:
    """A child process, and its successors: if the process dies, another one takes its place.

    Only one thread may call `ask`; any thread may call `kill` and `close`.
    """

    def __init__(self, settings: ParserSettings) -> None:
        self._settings = settings
        self.replaced, self._is_closed = 0, False
        self._start()

    def _start(self) -> None:
        self._is_ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD_PROGRAM, json.dumps(self._settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that the terminal sends Ctrl-C to the service alone
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def ask(self, content_type: str, body: bytes | bytearray) -> tuple[dict[str, Any], bytes]:
        """Lets the child parse a body; returns the child's message (see `_parse_to_message`).

        If the child dies while it parses, a new process replaces it, and the message is a refusal that names memory:
        the child exceeded its limit, or `kill` ended it, after which nobody reads the message. If the child ends by an
        error of its own, or does not start, the message is a refusal with status 500.
        """
        if self._is_ready and not self.is_alive():
            logging.warning("a process that parses bodies has ended unexpectedly: status %s", self._process.returncode)
            self._restart()
        answer = None
        with contextlib.suppress(BrokenPipeError):
            answer = self._exchange(self._process, content_type, body)
        if answer is None:
            answer = (_FAILED if self._has_failed() else _TOO_MUCH_MEMORY), b""
            self._restart()
        return answer

    def _has_failed(self) -> bool:
        """Whether the process, which has closed its pipe, ended by an error of its own other than a want of memory."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._process.wait(_EXIT_SECONDS) not in (0, _OUT_OF_MEMORY) and self._process.returncode > 0:
                logging.error("a process that parses bodies failed; the lines above say why")
                return True
        return False

    def _restart(self) -> None:
        """Ends the process; starts another one, unless `close` was called."""
        self.end()
        if not self._is_closed:
            self.replaced += 1
            self._start()

    def _exchange(
        self, process: subprocess.Popen[bytes], content_type: str, body: bytes | bytearray
    ) -> tuple[dict[str, Any], bytes] | None:
        """Sends a body to the process, and receives its message; None if the process has died."""
        assert process.stdin is not None
        assert process.stdout is not None
        if not self.has_started():
            if process.wait() < 0:
                return None  # `kill` ended the process, because the request was cancelled
            logging.error("a process that parses bodies did not start; the lines above say why")
            return _FAILED, b""
        send(process.stdin, {"content_type": content_type}, body)
        return receive(process.stdout)

    def has_started(self) -> bool:
        """Waits until the process is ready for bodies; False if it has ended instead."""
        assert self._process.stdout is not None
        self._is_ready = self._is_ready or receive(self._process.stdout) is not None
        return self._is_ready

    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills the process, so that a call of `ask` that waits for it returns; `ask` then starts another process."""
        self._process.kill()

    def close(self) -> None:
        """Kills the process; after this, `ask` starts no other process."""
        self._is_closed = True
        self._process.kill()

    def end(self) -> None:
        """Kills the process, waits for it and closes its pipes. No `ask` may be in progress."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # closing writes bytes that are still buffered
                pipe.close()
        self._process.wait()


class _ParseJob:
    """A body that waits for a child, or that a child is parsing.

    Args:
      body: the bytes.
    """

    def __init__(self, content_type: str, body: bytes | bytearray) -> None:
        self._content_type, self._body = content_type, body
        self._lock = threading.Lock()
        self._child: _ParserProcess | None = None
        self._is_given_up = False

    def run(self, child: _ParserProcess) -> tuple[dict[str, Any], bytes]:
        """Lets the child parse the body; returns the child's message, see `_ParserProcess.ask`."""
        with self._lock:
            if self._is_given_up:
                return _TOO_MUCH_MEMORY, b""  # nobody reads the result of a cancelled request
            self._child = child
        try:
            return child.ask(self._content_type, self._body)
        finally:
            with self._lock:
                self._child = None

    def give_up(self) -> None:
        """Cancels the parsing: kills the child if it is parsing the body; otherwise `run` will not start to parse."""
        with self._lock:
            self._is_given_up = True
            if self._child is not None:
                self._child.kill()


class Parsers:
    """A pool of child processes. There are as many threads, each of which waits for the results of one child.

    Args:
      count: number of children; 0 for as many as there are CPU cores, but at least two and at most four.
    """

    def __init__(self, settings: ParserSettings, count: int = 0) -> None:
        count = count or max(2, min(4, cores.usable()))
        self._idle: queue.SimpleQueue[_ParserProcess] = queue.SimpleQueue()
        self._children = [_ParserProcess(settings) for _ in range(count)]
        for child in self._children:
            self._idle.put(child)
        self._threads = ThreadPoolExecutor(count, "parser")
        if not all(child.has_started() for child in self._children):
            self.close()
            raise RunError("the processes that parse bodies do not start; the lines above say why.")

    async def parse(self, content_type: str, body: bytes | bytearray) -> Parsed:
        """Parses a body in a child.

        If the calling task is cancelled, this kills the child that is parsing the body, and ends after that.

        Args:
          body: the bytes.
        """
        job = _ParseJob(content_type, body)
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
        return _unpack_message(header, raw)

    def _run(self, job: _ParseJob) -> tuple[dict[str, Any], bytes]:
        child = self._idle.get()  # never waits, because there are as many children as threads that run this
        try:
            return job.run(child)
        finally:
            self._idle.put(child)

    @property
    def replaced(self) -> int:
        """How many processes have died and were replaced so far."""
        return sum(child.replaced for child in self._children)

    def are_alive(self) -> bool:
        """Whether all children are running."""
        return all(child.is_alive() for child in self._children)

    def close(self) -> None:
        """Kills all children, drops the bodies that wait, and ends the threads."""
        for child in self._children:
            child.close()
        self._threads.shutdown(cancel_futures=True)
        for child in self._children:
            child.end()


def _unpack_message(header: dict[str, Any], raw: bytes) -> Parsed:
    """The content of a body, from a child's message without a refusal (see `_parse_to_message`)."""
    if "sizes" in header:
        ends = list(itertools.accumulate(header["sizes"]))
        return Parsed([raw[end - size : end] for size, end in zip(header["sizes"], ends, strict=True)], [], [])
    frames = np.frombuffer(raw, np.float32).reshape(sum(header["frames"]), -1)
    return Parsed([], header["ids"], np.split(frames, np.cumsum(header["frames"])[:-1]))
