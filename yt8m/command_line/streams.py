"""Lets a program end well although its standard output or error stream is closed, or the disk behind it is full."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from yt8m.lazy import open_closed_descriptors


class _LastingStream:
    """A text stream that drops all further text after the first write that fails, and keeps the error.

    The work whose result is printed goes on, so that its files are still written.
    """

    def __init__(self, stream: TextIO, stops_early: bool) -> None:
        self._stream, self._stops_early = stream, stops_early
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes the text, or drops it; returns its length."""
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flushes the stream."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[[], Any]) -> None:
        if self.error is not None:
            return
        try:
            action()
        except (OSError, ValueError) as error:
            if isinstance(error, BrokenPipeError) and self._stops_early:
                raise
            if isinstance(error, ValueError) and not self._stream.closed:
                raise
            self.error = error
            discard(self._stream)


def discard(stream: TextIO) -> None:
    """Leads a stream to /dev/null, so that Python finds no error either when it flushes the stream at its exit."""
    with contextlib.suppress(OSError, ValueError):
        target = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, target)
        os.close(null)


@contextlib.contextmanager
def lasting_streams() -> Iterator[Callable[[], str]]:
    """Makes errors of the standard output and error streams harmless inside the block.

    A stream that was closed before the start (`>&-`) takes text and drops it. Text for the error stream is dropped as
    soon as that cannot be written.

    Yields:
      A function that flushes the standard output and returns why it could not be written; empty if it could.
    """
    if isinstance(sys.stdout, _LastingStream):  # a command inside of `yt8m`, which has done this
        yield lambda: ""
        return
    open_closed_descriptors()
    former = sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        out, errors = (stream or stack.enter_context(open(os.devnull, "w")) for stream in former)
        if isinstance(out, io.TextIOWrapper) and not out.closed:
            # `print` shows the name of a file that is not UTF-8 by escapes, as the error stream does anyway.
            out.reconfigure(errors="backslashreplace")
        lasting = _LastingStream(out, stops_early=True)
        sys.stdout, sys.stderr = lasting, _LastingStream(errors, stops_early=False)

        def lost_output() -> str:
            lasting.flush()
            error = lasting.error
            return "" if error is None else getattr(error, "strerror", None) or str(error)

        try:
            yield lost_output
        finally:
            sys.stdout, sys.stderr = former
