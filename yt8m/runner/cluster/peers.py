"""The other processes of a training: which died, hang or are slow, and the end of one that waits for them in vain.

A process lives if it accepts connections at its port: a dead one cannot write that it is dead. The TensorFlow server in
a process accepts them as long as the process lives; a chief without parameter servers has no such server and opens its
port by `answering_at`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from yt8m.errors import RunError
from yt8m.runner.cluster.exchange import REMIND_SECONDS, end_process

NOTICE_SECONDS = 20.0
DEAD_SECONDS = 20.0  # a process that accepted connections, and then none for so long, is dead
LOST_SECONDS = 10.0  # after an aborted step, a process that died accepts no connection within this time
_SHARE = 0.25  # of a step; whoever makes the others wait longer is named
_WINDOW_SECONDS, _WINDOW_STEPS = 20.0, 5
# What a client of HTTP/2, and so of gRPC, sends first: the preface and empty settings. A server answers at once.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def answers(address: str, seconds: float = 1.0, greeting: bytes = b"") -> bool:
    """Whether a process accepts connections at `host:port` and, if it is sent a greeting, answers it."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), seconds) as connection:
            connection.sendall(greeting)
            return not greeting or bool(connection.recv(1))
    except OSError:
        return False


def responds(address: str, seconds: float = 2.0) -> bool:
    """Whether the TensorFlow server at `host:port` answers a greeting. That of a frozen process does not.

    The system accepts connections for a process that is stopped or out of memory.
    """
    return answers(address, seconds, _HELLO)


@contextlib.contextmanager
def answering_at(address: str) -> Iterator[None]:
    """Accepts connections at `address` during the block, so that others see that this process lives."""
    host, _, port = address.rpartition(":")
    # Another name may be that of a proxy or a service, and no interface of this machine has its address.
    interface = host if host == "localhost" or host.startswith("127.") else ""
    try:
        listener = socket.create_server((interface, int(port)))
    except OSError as error:
        logging.warning("cannot listen on %s (%s): an evaluator will regard this chief as dead", address, error)
        yield
        return

    def accept_all() -> None:
        with contextlib.suppress(OSError):  # the socket is shut down
            while True:
                listener.accept()[0].close()  # so that the queue does not fill up

    thread = threading.Thread(target=accept_all, name="answering-at", daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def silent(addresses: Mapping[str, str]) -> list[str]:
    """The names of those processes {name: address} that accept no connection."""
    return [name for name, address in addresses.items() if not answers(address)]


def suspects(addresses: Mapping[str, str]) -> str:
    """A sentence that names those of the processes {name: address} that are dead or frozen."""
    dead = silent(addresses)
    frozen = [name for name, address in addresses.items() if name not in dead and not responds(address)]
    sentences = [f"{', '.join(dead)} accepts no connection"] if dead else []
    if frozen:
        sentences.append(f"{', '.join(frozen)} accepts connections but does not answer: it is stopped or frozen")
    return "; ".join(sentences) or "all processes answer, so one of them is slow or blocked"


def wait_for_all(addresses: Mapping[str, str], is_stopped: Callable[[], bool], patience: float) -> bool:
    """Waits until every process {name: address} listens; False if `is_stopped` says to give up.

    Raises:
      RunError: some do not listen after `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while missing := silent(addresses):
        if is_stopped():
            return False
        if time.monotonic() > deadline:
            raise RunError(
                f"{', '.join(missing)} did not start within {patience:g} s (--stall_timeout). Start all processes "
                "again; training goes on from the newest checkpoint."
            )
        logging.log_every_n_seconds(logging.INFO, "waiting for %s", REMIND_SECONDS, ", ".join(missing))
        time.sleep(0.5)
    return True


def find_lost(addresses: Mapping[str, str]) -> list[str]:
    """The names of the processes that accept no connection, after a wait for the first; may be empty."""
    deadline = time.monotonic() + LOST_SECONDS
    while not (lost := silent(addresses)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return lost


def message_of_loss(names: Sequence[str]) -> str:
    """What to tell the user about processes that died."""
    return (
        f"lost {', '.join(names)}: no connection is accepted there, so this process ends too. Start all processes "
        "again; training goes on from the newest checkpoint."
    )


class Watch:
    """A thread that ends this process if it waits too long for others, or if one that it needs died; a context.

    TensorFlow's runtime waits forever for a process that died, even if a step has a time limit, and the main thread
    cannot be woken from that. So the thread ends the process, after a message that names the others.

    Args:
      addresses: {name: address} of the other processes.
      stall_timeout: seconds without a beat after which the process ends with status 1. A warning comes after at most
        20 s.
    """

    def __init__(self, addresses: Mapping[str, str], stall_timeout: float) -> None:
        self._addresses, self._timeout = addresses, stall_timeout
        self._notice = min(NOTICE_SECONDS, stall_timeout / 2)
        self._last, self._is_noticed = time.monotonic(), False
        self._alone_since: float | None = None
        self._is_fine: Callable[[], bool] = lambda: True
        self._seen: dict[str, float] = {}  # when each process that is needed was last seen alive
        self._over = threading.Event()

    def beat(self) -> None:
        """Records that the process has made progress."""
        self._last = time.monotonic()

    def need_all(self) -> None:
        """From now on this process ends if one of the others dies, all of which listen now.

        Normally its main thread fails within a second, since its collective is aborted. This is for the case that the
        runtime does not report the death.
        """
        self._seen = dict.fromkeys(self._addresses, time.monotonic())

    def need_none(self) -> None:
        """From now on the others may end too."""
        self._seen = {}

    def leave_alone(self, is_fine: Callable[[], bool]) -> None:
        """Call before work for which this process needs no step of the others, such as saving and exporting at the end.

        From now on the process may take any time, as long as `is_fine()` holds.
        """
        self._is_fine, self._alone_since = is_fine, time.monotonic()
        self.beat()

    def __enter__(self) -> Watch:
        self.beat()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(min(1.0, self._notice / 4)):
            self._check_progress(time.monotonic() - self._last)
            self._check_deaths(self._seen)

    def _check_progress(self, idle: float) -> None:
        if idle >= self._notice and self._alone_since is not None and self._is_fine():
            logging.info("saving and closing at the end: %.0f s so far", time.monotonic() - self._alone_since)
            self.beat()
        elif idle >= self._timeout:
            logging.error("no progress for %.0f s: %s. Ending with status 1.", idle, suspects(self._addresses))
            end_process(1)
        elif idle >= self._notice and not self._is_noticed:
            self._is_noticed = True
            logging.warning(
                "no progress for %.0f s: %s. The run ends after %g s without progress (--stall_timeout).",
                *(idle, suspects(self._addresses), self._timeout),
            )
        elif idle < self._notice and self._is_noticed:
            self._is_noticed = False
            logging.warning("there is progress again")

    def _check_deaths(self, seen: dict[str, float]) -> None:
        seen.update((name, time.monotonic()) for name in seen if answers(self._addresses[name]))
        dead = [name for name, last in seen.items() if time.monotonic() - last > DEAD_SECONDS]
        if dead and seen is self._seen:
            logging.error("%s", message_of_loss(dead))
            end_process(1)


class Stragglers:
    """Finds the replica for which all others wait.

    In a collective the last to arrive waits least. A replica is named if, over at least 20 s and 5 steps, at least half
    of the others waited longer than it by a quarter of the time.

    Args:
      names: the replicas.
      now: the current time in seconds.
    """

    def __init__(self, names: Sequence[str], now: float) -> None:
        self._names = names
        self._restart(now)

    def _restart(self, now: float) -> None:
        self._waited, self._steps, self._since = np.zeros(len(self._names)), 0, now

    def add(self, waited: np.ndarray, now: float) -> str:
        """Adds a step.

        Args:
          waited: [replicas], the seconds that each spent in the collectives.
          now: the current time in seconds.

        Returns:
          A sentence that names a straggler, or an empty text.
        """
        self._waited += waited
        self._steps += 1
        elapsed = now - self._since
        if elapsed < _WINDOW_SECONDS or self._steps < _WINDOW_STEPS:
            return ""
        last = int(self._waited.argmin())
        others = np.sort(np.delete(self._waited, last))
        lag = float(others[(len(others) - 1) // 2] - self._waited[last])
        steps = self._steps
        self._restart(now)
        if lag < _SHARE * elapsed:
            return ""
        return (
            f"{self._names[last]} is slow: in the last {steps} steps the others waited {lag / steps:.2g} s of "
            f"{elapsed / steps:.2g} s per step for it"
        )
