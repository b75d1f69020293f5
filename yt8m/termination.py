"""Contexts in which SIGTERM and its like raise an exception, so that code can clean up, and in which Ctrl-C waits."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn

# Signals that announce the end: the terminal or the ssh session is gone; Slurm's `--signal=USR1@60`; the limit on CPU
# time is near. Their default action ends the process at once.
NOTICES = (signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)


class Terminated(KeyboardInterrupt):
    """A signal that asks for the end arrived. As a KeyboardInterrupt, it starts the same clean-up as Ctrl-C."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def stop_signals() -> list[signal.Signals]:
    """The signals that end a program in good order: SIGTERM, Ctrl-C and `NOTICES`.

    A signal that is ignored stays ignored, as `nohup` asks, and `NOTICES` for which the process has a handler of its
    own keep it.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, *NOTICES)}
    return [
        number
        for number, handler in handlers.items()
        if (handler is signal.SIG_DFL if number in NOTICES else handler is not signal.SIG_IGN)
    ]


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside the block the signals of `stop_signals` raise `Terminated`, except SIGINT: that is a KeyboardInterrupt.

    It is only for programs that wait in Python: while TensorFlow's runtime blocks, no Python handler runs.
    Outside the main thread it does nothing, because only the main thread may set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in stop_signals() if number != signal.SIGINT]
    former = {number: signal.signal(number, _terminate) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            # `handler` is None if C code had set the former handler, which Python cannot set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _terminate(number: int, _frame: object) -> NoReturn:
    raise Terminated(number)


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
