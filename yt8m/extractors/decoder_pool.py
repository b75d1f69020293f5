"""Child processes that decode videos, with limits on time and memory. A malicious file can end only a child.

A child gets one request after another as JSON. It answers with messages (see `decoding.Message`): a JSON header and raw
bytes, never pickles. A limit keeps it from writing files. For each video that is being decoded, a thread of the parent
reads the messages ahead, up to 64 MiB. So the next videos are decoded while the parent computes the features of the
first.

If a child fails by an error of its own, another one decodes a sound file that is known to be good. If it cannot either,
no video can be decoded, and the command ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import wave
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from yt8m.child_processes import limit_address_space, usable_address_space
from yt8m.errors import RunError
from yt8m.extractors.base import Sound
from yt8m.extractors.decoder_messages import DecoderFailedError, UnusableDecoderError
from yt8m.extractors.decoding import DecodeError, Message, Request, decode, require_av
from yt8m.storage import copies
from yt8m.types import Closing

_MOST_WAITING_BYTES = 64 << 20  # for each video: reading ahead pauses while so many bytes wait to be taken
_POLL_SECONDS = 0.5  # time between two checks whether a child's answers are still needed
_SIZE_BYTES = 8  # size of the number that is sent before bytes
_MOST_HEAD_BYTES, _MOST_VALUES_BYTES = 1 << 20, 1 << 30  # a child that sends a larger message is ended
_EXIT_SECONDS = 5.0  # time in which a child that has closed its pipe must end


class Limits(NamedTuple):
    """The limits of one video.

    Attributes:
      megabytes: largest address space of a child, in MiB.
    """

    seconds: float = 600.0
    megabytes: int = 4096


class DecoderPool(Closing):
    """Decodes videos in child processes. Close it, or use it in a `with` block."""

    def __init__(self, jobs: int, limits: Limits) -> None:
        require_av()
        check = _DecoderCheck(limits)
        self._children = [_Child(limits, check) for _ in range(jobs)]

    def decode(self, requests: Iterable[Request]) -> Iterator[Decoding]:
        """Yields a `Decoding` for each request, in order, while the next videos are already being decoded.

        Take all messages of a `Decoding` before you ask for the next `Decoding`: that closes the former one, which
        drops its other messages.
        """
        begun: deque[tuple[_Child, Decoding]] = deque()
        idle, unsent = deque(self._children), iter(requests)
        try:
            while True:
                for request in unsent if idle else ():
                    child = idle.popleft()
                    begun.append((child, child.begin(request)))
                    if not idle:
                        break
                if not begun:
                    return
                child, decoding = begun[0]
                yield decoding
                decoding.close()
                begun.popleft()
                idle.append(child)
        finally:
            for _, decoding in begun:
                decoding.close()

    def close(self) -> None:
        """Ends the child processes."""
        for child in self._children:
            child.end()


class Decoding:
    """The messages of one video. A thread receives them while a child decodes the video."""

    def __init__(self) -> None:
        self._arrived: deque[Message | DecodeError] = deque()
        self._bytes, self._is_closed, self._is_over = 0, False, False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def is_closed(self) -> bool:
        """Whether `close` was called, so that nobody needs further messages."""
        return self._is_closed

    def start(self, source: Generator[Message]) -> None:
        """Starts a thread that takes the messages from `source`, and closes `source` at the end."""
        self._thread = threading.Thread(target=self._read_ahead, args=(source,), name="decoding", daemon=True)
        self._thread.start()

    def _read_ahead(self, source: Generator[Message]) -> None:
        try:
            for message in source:
                if not self._put(message, 0 if message.values is None else message.values.nbytes):
                    return
        except DecodeError as error:
            self._put(error, 0)
        finally:
            source.close()
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def _put(self, item: Message | DecodeError, size: int) -> bool:
        """Adds an item once the values that wait to be taken have fewer than _MOST_WAITING_BYTES bytes.

        Args:
          size: the size of the message's values in bytes.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._bytes < _MOST_WAITING_BYTES)
            self._arrived.append(item)
            self._bytes += size
            self._changed.notify_all()
            return not self._is_closed

    def messages(self) -> Iterator[Message]:
        """Yields the messages; the last one has the kind `end`. Raises `DecodeError`."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._arrived or self._is_over)
                if not self._arrived:
                    return
                item = self._arrived.popleft()
                self._bytes -= item.values.nbytes if isinstance(item, Message) and item.values is not None else 0
                self._changed.notify_all()
            if isinstance(item, DecodeError):
                raise item
            yield item

    def close(self) -> None:
        """Drops the messages not yet taken, and waits until the child is free for the next video."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()


class _Child:
    """A child process. It is started at the first request, and again at the first request after it died."""

    def __init__(self, limits: Limits, check: Callable[[DecoderFailedError], None] | None = None) -> None:
        self._limits, self._check = limits, check
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: Connection | None = None
        self._answers: Connection | None = None
        self._errors: int | None = None  # the end of a pipe from which the child's error stream is read

    def begin(self, request: Request) -> Decoding:
        """Begins to decode a video; the child must have no other video in progress.

        Linux kills a child when the thread that started it ends (see `_set_limits`). So the process is started here, in
        the caller's thread, and not in the thread of the `Decoding`, which ends with its video.
        """
        self._start()
        decoding = Decoding()
        decoding.start(self._messages(request, decoding.is_closed))
        return decoding

    def _messages(self, request: Request, is_cancelled: Callable[[], bool]) -> Generator[Message]:
        """Sends the request, and yields the child's messages. Kills the child unless all of its messages have come."""
        is_complete = False
        try:
            self._send_request(request)
            seconds_left = self._limits.seconds
            while not is_complete:
                start = time.monotonic()
                message = self._receive(start + seconds_left, is_cancelled)
                seconds_left -= time.monotonic() - start
                is_complete = message.kind == "end"
                if message.kind == "error":
                    is_complete = True
                    details = message.details or {}
                    raise (DecoderFailedError if details.get("is_own") else DecodeError)(str(details.get("reason", "")))
                yield message
        except DecoderFailedError as error:
            if self._check is not None:
                self._check(error)
            raise
        finally:
            if not is_complete:
                self.end()

    def _start(self) -> None:
        """Starts the process, unless it runs."""
        if self._process is not None:
            self._read_errors()  # what earlier videos left there would fill the pipe
            return
        to_child, request_pipe = os.pipe()
        answer_pipe, from_child = os.pipe()
        words = [sys.executable, "-m", __name__, str(to_child), str(from_child), str(self._limits.megabytes)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self._errors, to_errors = os.pipe()
        for descriptor in (self._errors, to_errors):
            os.set_blocking(descriptor, False)  # a child whose pipe is full goes on, and its text is lost
        self._process = subprocess.Popen(
            words, pass_fds=(to_child, from_child), stdin=subprocess.DEVNULL, stderr=to_errors, env=environment
        )
        for descriptor in (to_child, from_child, to_errors):
            os.close(descriptor)
        os.set_blocking(answer_pipe, False)
        self._requests = Connection(request_pipe, readable=False)
        self._answers = Connection(answer_pipe, writable=False)

    def _send_request(self, request: Request) -> None:
        with contextlib.suppress(OSError):  # if the child is dead, `_receive` raises the error
            self._connection(self._requests).send_bytes(json.dumps(request).encode())

    def _receive(self, deadline: float, is_cancelled: Callable[[], bool]) -> Message:
        """Waits for the child's next message."""
        answer_pipe = self._connection(self._answers)

        def wait() -> None:
            while not answer_pipe.poll(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))):
                if is_cancelled():
                    raise DecodeError("its decoding was cancelled")  # ends `_messages`; no user sees this text
                if time.monotonic() >= deadline:
                    raise DecodeError(f"decoding takes longer than {self._limits.seconds:g} seconds")

        try:
            return _receive_message(answer_pipe, wait)
        except (OSError, EOFError) as error:
            raise DecoderFailedError(self._describe_exit()) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DecodeError("it makes the decoder process send bytes that are no message") from error

    def _describe_exit(self) -> str:
        """The text of the error if the child closed its pipe in the middle of a video: how the child ended."""
        try:
            status = self._process.wait(_EXIT_SECONDS) if self._process is not None else 0
        except subprocess.TimeoutExpired:
            return "it makes the decoder process stop sending messages"
        status_text = f"signal {-status}" if status < 0 else f"exit status {status}"
        lines = self._read_errors().decode("utf-8", "replace").splitlines()
        if status > 0 and lines:
            return f"the decoder process failed: {lines[-1][:300]}"
        return (
            f"it ends the decoder process ({status_text}), perhaps because decoding it needs more than "
            f"{usable_address_space(self._limits.megabytes << 20) >> 20} MB"
        )

    def _read_errors(self) -> bytes:
        """What the child wrote to its error stream since the last call, up to the size of a pipe."""
        text = b""
        with contextlib.suppress(BlockingIOError):
            while self._errors is not None and (part := os.read(self._errors, 1 << 16)):
                text += part
        return text

    @staticmethod
    def _connection(connection: Connection | None) -> Connection:
        """The connection; raises `DecodeError` if `end` has closed it meanwhile."""
        if connection is None:
            raise DecodeError("it was not decoded to its end, because this program closed the decoder process")
        return connection

    def end(self) -> None:
        """Kills the process, waits for its end, and closes its pipes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for connection in (self._requests, self._answers):
            if connection is not None:
                connection.close()
        if self._errors is not None:
            os.close(self._errors)
        self._process = self._requests = self._answers = self._errors = None


class _DecoderCheck:
    """Finds out whether any video can be decoded, once a child has failed; the result is kept."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self._failure: str | None = None  # empty if decoding works

    def __call__(self, error: DecoderFailedError) -> None:
        """Raises `UnusableDecoderError` if a sound file that is known to be good cannot be decoded either."""
        with self._lock:
            if self._failure is None:
                self._failure = self._try()
        if self._failure:
            raise UnusableDecoderError(
                f"no video can be decoded here: {self._failure}. The limit on the address space is "
                f"{usable_address_space(self._limits.megabytes << 20) >> 20} MB (--decode_memory, `ulimit -v`)."
            ) from error

    def _try(self) -> str:
        """Decodes a tenth of a second of silence; returns the error of the child, or an empty text."""
        child = _Child(self._limits)
        try:
            with copies.private_folder("yt8m-check-") as folder:
                with wave.open(path := f"{folder}/silence.wav", "wb") as sound:
                    sound.setparams((1, 2, 16000, 0, "NONE", ""))
                    sound.writeframes(bytes(3200))
                for _ in child.begin(Request(path, sounds=(Sound(16000, 1600, 1600),))).messages():
                    pass
        except (DecodeError, OSError, RunError) as error:  # another answer than a failure: the child works
            return str(error) if isinstance(error, DecoderFailedError) else ""
        finally:
            child.end()
        return ""


def _receive_message(answer_pipe: Connection, wait: Callable[[], None]) -> Message:
    """Receives a message that a child sent by `_send_message`.

    Args:
      wait: waits until the pipe has bytes, or raises an error to give up.
    """
    head = json.loads(_receive_bytes(answer_pipe, _MOST_HEAD_BYTES, wait))
    values = None
    if head["shape"] is not None:
        dtype = np.float32 if head["kind"] == "sound" else np.uint8
        received = _receive_bytes(answer_pipe, _MOST_VALUES_BYTES, wait)
        values = np.frombuffer(received, dtype).reshape(head["shape"])
    return Message(str(head["kind"]), int(head["form_index"]), int(head["row"]), values, head["details"])


def _receive_bytes(answer_pipe: Connection, most: int, wait: Callable[[], None]) -> bytearray:
    """Receives the bytes that `_send_bytes` sent; raises OSError if they are more than `most`."""
    size = int.from_bytes(_receive_exactly(answer_pipe, _SIZE_BYTES, wait))
    if size > most:
        raise OSError(f"a message of {size} bytes")
    return _receive_exactly(answer_pipe, size, wait)


def _receive_exactly(answer_pipe: Connection, size: int, wait: Callable[[], None]) -> bytearray:
    """Receives `size` bytes, however slowly they come. So a child that stops in the middle of a message blocks nobody.

    `Connection.recv_bytes` would block until the whole message has come.
    """
    received = bytearray(size)
    missing = memoryview(received)
    while missing:
        try:
            count = os.readv(answer_pipe.fileno(), [missing])
        except BlockingIOError:
            wait()
            continue
        if not count:
            raise EOFError
        missing = missing[count:]
    return received


def _send_message(answer_pipe: BinaryIO, message: Message) -> None:
    """Sends a message to the parent: JSON, then the bytes of its values, if any, whose shape the JSON gives."""
    shape = None if message.values is None else message.values.shape
    _send_bytes(answer_pipe, json.dumps({**message._asdict(), "values": None, "shape": shape}).encode())
    if message.values is not None:
        _send_bytes(answer_pipe, message.values.reshape(-1).view(np.uint8).data)
    answer_pipe.flush()


def _send_bytes(answer_pipe: BinaryIO, contents: bytes | memoryview) -> None:
    """Sends the number of bytes, and the bytes."""
    answer_pipe.write(len(contents).to_bytes(_SIZE_BYTES))
    answer_pipe.write(contents)


def _set_limits(megabytes: int) -> None:
    """Limits the address space of this process, forbids it to write files, and lets it end with its parent.

    Linux kills it when the thread of the parent that started it ends, not only when the parent process does.
    """
    import ctypes
    import resource

    limit_address_space(megabytes << 20)
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(kind, (0, 0))
    with contextlib.suppress(OSError, AttributeError):  # only Linux has prctl
        pr_set_pdeathsig, sigkill = 1, 9
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, sigkill)


def _run_child(words: list[str]) -> None:
    """The program of a child: answers requests until the parent closes the pipe."""
    request_pipe = Connection(int(words[0]), writable=False)
    _set_limits(int(words[2]))
    with contextlib.suppress(EOFError, BrokenPipeError), open(int(words[1]), "wb") as answer_pipe:
        while True:
            request: list[Any] = json.loads(request_pipe.recv_bytes())
            try:
                for message in decode(Request.from_json(request)):
                    _send_message(answer_pipe, message)
            except DecodeError as error:
                _send_message(answer_pipe, Message("error", details={"reason": str(error)}))
            except (EOFError, BrokenPipeError):
                raise
            except Exception as error:  # an error of this program or of a library, not of the video
                reason = f"the decoder process failed: {type(error).__name__}: {str(error)[:300]}"
                _send_message(answer_pipe, Message("error", details={"reason": reason, "is_own": True}))


if __name__ == "__main__":
    _run_child(sys.argv[1:])
