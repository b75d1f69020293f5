"""Handles SIGTERM, ctrl-C and the like: the run ends after the current step, which is aborted if it takes too long."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from absl import logging

from yt8m.termination import NOTICES, stop_signals

# Messages to the thread that reads the signals. No signal has these numbers.
_QUIT, _RENEW = b"\x00", b"\xff"
_AFTER_CLOSE_SECONDS = 2.0  # time between closing the session and ending the process


class StopSignals:
    """A context in which the signals of `stop_signals` set `requested`.

    A second SIGTERM or ctrl-C ends the process at once. Notices (SIGHUP, SIGUSR1, SIGXCPU) may come again, and before a
    SIGTERM: Slurm sends SIGUSR1 some time before the limit, and the kernel sends SIGXCPU every second.

    Python runs no signal handler while the main thread is in TensorFlow's C++ code. So the handlers do nothing, and a
    thread reads the numbers of the signals from Python's wake-up descriptor. If the main thread does not finish its
    step within the grace period, the thread closes the session, so that a step that waits for data fails. If the
    process still runs two seconds later, the thread ends it. Outside of the main thread, where Python allows no
    handlers, the context has no effect.

    Args:
      grace_seconds: the grace period: seconds for which a step may continue after the first signal.

    Attributes:
      signal: the number of the first signal; None if no signal has come.
      has_closed: whether the thread has closed the session. If so, errors of steps are a consequence of that.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace = grace_seconds
        self._session: Any = None
        self._deadline: float | None = None
        self._is_demanded = False  # by SIGTERM or ctrl-C
        self.signal: int | None = None
        self.has_closed = False

    @property
    def requested(self) -> bool:
        """Whether a signal was received."""
        return self.signal is not None

    def guard(self, session: Any) -> None:
        """Sets the session that is closed if a step takes longer than the grace period."""
        self._session = session

    @contextlib.contextmanager
    def guarding(self, session: Any) -> Iterator[None]:
        """A context in which `session` is the one that is closed if a step takes longer than the grace period."""
        former, self._session = self._session, session
        try:
            yield
        finally:
            self._session = former

    def renew_grace(self) -> None:
        """If a signal has come, starts a new grace period. Call this before the run saves its last step.

        From now on the session is not closed after a grace period, because saving needs it; the process is ended
        instead.
        """
        self._session = None
        if self._active:
            self._writer.send(_RENEW)

    def __enter__(self) -> StopSignals:
        self._active = threading.current_thread() is threading.main_thread()
        if self._active:
            self._reader, self._writer = socket.socketpair()
            self._writer.setblocking(False)
            # Python writes a signal to the wake-up descriptor only if the signal has a handler in Python.
            self._handlers = {number: signal.signal(number, lambda *_: None) for number in stop_signals()}
            self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._read_messages, name="stop-signals", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if not self._active:
            return
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            # `handler` is None if C code had set the former handler, which Python cannot set again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._writer.send(_QUIT)
        self._thread.join()
        self._reader.close()
        self._writer.close()

    def _read_messages(self) -> None:
        """The work of the thread: acts on signals, messages and the end of a grace period, until `_QUIT` comes."""
        while True:
            seconds_left = None if self._deadline is None else max(0.001, self._deadline - time.monotonic())
            self._reader.settimeout(seconds_left)
            try:
                message = self._reader.recv(1)
            except TimeoutError:
                self._end_overdue_run()
                continue
            if message == _QUIT:
                return
            if message == _RENEW:
                self._deadline = time.monotonic() + self._grace if self.requested else None
            elif message[0] in self._handlers:
                self._receive(message[0])

    def _receive(self, number: int) -> None:
        """Starts the grace period after the first signal; ends the process after a second SIGTERM or ctrl-C."""
        name, is_notice = signal.Signals(number).name, number in NOTICES
        if self._is_demanded and not is_notice:
            logging.warning("%s again: ending at once", name)
            os._exit(128 + number)
        self._is_demanded |= not is_notice
        if self.requested:
            return
        self._deadline = time.monotonic() + self._grace
        self.signal = number
        logging.warning(
            "%s: stopping after this step; send %s to end at once", name, "SIGTERM twice" if is_notice else "it again"
        )

    def _end_overdue_run(self) -> None:
        """Closes the session and gives the run two more seconds; ends the process if there is no session to close."""
        session, self._session = self._session, None
        if session is None:
            logging.error("the run did not end within the grace period: ending the process")
            os._exit(128 + (self.signal or signal.SIGTERM))
        self._deadline, self.has_closed = time.monotonic() + _AFTER_CLOSE_SECONDS, True
        logging.error("the step did not end within %g s: closing the session", self._grace)
        # Another thread closes the session, because close() can block, and this thread must continue.
        threading.Thread(target=session.close, name="close-session", daemon=True).start()
