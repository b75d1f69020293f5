"""SIGTERM as an exception, for code that waits in Python and has something to clean up; and Ctrl-C held back."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; code that cleans up after Ctrl-C cleans up after this too."""


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside the block SIGTERM raises `Terminated`.

    Only for programs that wait in Python: while TensorFlow's runtime blocks, no Python handler runs.
    Outside the main thread it does nothing, since only the main thread may set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise Terminated


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Holds Ctrl-C back until the end of the block. Processes that are started inside never get it.

    Outside the main thread it does nothing, as `terminable`.

    Raises:
      KeyboardInterrupt: at the end, if Ctrl-C was pressed meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived = list[int]()
    former = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # processes inherit it, but not the handler
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, former)
    if arrived:
        raise KeyboardInterrupt
