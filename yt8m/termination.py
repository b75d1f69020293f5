"""Contexts in which SIGTERM raises an exception, so that code can clean up, and in which Ctrl-C is deferred."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived. It is a KeyboardInterrupt, so code that cleans up after Ctrl-C cleans up after it too."""


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside the block SIGTERM raises `Terminated`.

    It is only for programs that wait in Python: while TensorFlow's runtime blocks, no Python handler runs.
    Outside the main thread it does nothing, because only the main thread may set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise Terminated


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Defers Ctrl-C to the end of the block. Processes that are started inside do not get it at all.

    Outside the main thread it does nothing, like `terminable`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = list[int]()
    previous_handler = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    # Processes that are started inside inherit the mask, but not the handler.
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        signal.signal(signal.SIGINT, previous_handler)
    if signals:
        raise KeyboardInterrupt
