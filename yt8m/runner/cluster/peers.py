"""Finds which processes of a cluster are dead, frozen or slow; ends a process that waits for them in vain.

A process counts as alive if it accepts connections at its port. The TensorFlow server of a process accepts connections
as long as the process lives. A chief that trains alone has no such server, and opens its port with `answering_at`.
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

NOTICE_SECONDS = 20.0  # a warning is logged after this time without progress
DEAD_SECONDS = 20.0  # a process that accepts no connection for this time is dead
LOST_SECONDS = 10.0  # after a failed step, a dead process is searched for so long: its port may close late
_SLOW_SHARE = 0.25  # a replica is slow if the others wait for it during this share of the time
_WINDOW_SECONDS, _WINDOW_STEPS = 20.0, 5  # slowness is measured over at least this time and this number of steps
# The first message of a client of HTTP/2, and so of gRPC: the preface and empty settings. A server answers at once.
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def answers(address: str, seconds: float = 1.0, greeting: bytes = b"") -> bool:
    """Whether a process accepts a connection and answers a greeting.

    Args:
      greeting: the bytes to send; if empty, an accepted connection is enough.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), seconds) as connection:
            connection.sendall(greeting)
            return not greeting or bool(connection.recv(1))
    except (OSError, UnicodeError):  # sockets raise UnicodeError if the host has no valid form, such as `a..b`
        return False


def responds(address: str, seconds: float = 2.0) -> bool:
    """Whether the TensorFlow server of a process answers a greeting.

    A frozen process does not answer, although the operating system still accepts connections for it.
    """
    return answers(address, seconds, HELLO)


@contextlib.contextmanager
def answering_at(address: str) -> Iterator[None]:
    """A context in which this process accepts connections, so that other processes see that it is alive.

    If the port cannot be opened, the log has a warning.
    """
    try:
        listener = listen(address)
    except OSError as error:
        logging.warning("cannot listen on %s (%s): an evaluator will take this chief for dead", address, error)
        yield
        return

    def accept_all() -> None:
        with contextlib.suppress(OSError):  # accept() raises this error when the socket is shut down
            while True:
                listener.accept()[0].close()  # without this, the queue of waiting connections would become full

    thread = threading.Thread(target=accept_all, name="answering-at", daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def listen(address: str) -> socket.socket:
    """A socket that listens on the port of `host:port`; raises OSError if the port cannot be opened.

    Except for the loopback interface, the port is opened on all network interfaces, for IPv4 and IPv6: the host may be
    the name of a proxy, whose address no interface of this machine has.
    """
    host, _, port = address.rpartition(":")
    if host == "localhost" or host.startswith("127."):
        return socket.create_server((host, int(port)))
    if host == "[::1]":
        return socket.create_server(("::1", int(port)), family=socket.AF_INET6)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", int(port)))


def find_silent(addresses: Mapping[str, str]) -> list[str]:
    """The names of the processes in {name: address} that accept no connection."""
    return [name for name, address in addresses.items() if not answers(address)]


def describe_suspects(addresses: Mapping[str, str]) -> str:
    """A sentence that says which processes in {name: address} are dead or frozen, for a process that waits for them."""
    dead = find_silent(addresses)
    frozen = [name for name, address in addresses.items() if name not in dead and not responds(address)]
    sentences = [f"{', '.join(dead)} accepts no connection"] if dead else []
    if frozen:
        sentences.append(f"{', '.join(frozen)} accepts connections but does not answer: it is stopped or frozen")
    return "; ".join(sentences) or "all processes answer, so one of them is slow or blocked"


def wait_for_all(
    addresses: Mapping[str, str],
    is_stopped: Callable[[], bool],
    patience: float,
    greet: Callable[[str, str], None] | None = None,
) -> bool:
    """Waits until other processes accept connections.

    Args:
      addresses: {name: address} of the processes.
      patience: seconds after which waiting ends with an error.
      greet: called once for each process that accepts a connection; raises an error if waiting is of no use.
    """
    deadline, greeted = time.monotonic() + patience, set[str]()
    while True:
        missing = find_silent(addresses)
        for name in addresses.keys() - greeted - set(missing):
            greeted.add(name)
            if greet is not None:
                greet(name, addresses[name])
        if not missing:
            return True
        if is_stopped():
            return False
        if time.monotonic() > deadline:
            raise RunError(
                f"{', '.join(missing)} did not start within {patience:g} s (--stall_timeout). Start all processes "
                "again; training resumes from the newest checkpoint."
            )
        logging.log_every_n_seconds(logging.INFO, "waiting for %s", REMIND_SECONDS, ", ".join(missing))
        time.sleep(0.5)


def find_lost(addresses: Mapping[str, str]) -> list[str]:
    """Searches, for at most `LOST_SECONDS`, for processes that died.

    Args:
      addresses: {name: address} of the processes.

    Returns:
      The names of those that accept no connection; empty if all do until the end of the search.
    """
    deadline = time.monotonic() + LOST_SECONDS
    while not (lost := find_silent(addresses)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return lost


def message_of_loss(names: Sequence[str]) -> str:
    """The error message of a process that ends because the processes called `names` have died."""
    return (
        f"lost {', '.join(names)}: no connection is accepted there, so this process ends too. Start all processes "
        "again; training resumes from the newest checkpoint."
    )


def _end_without(names: Sequence[str]) -> None:
    """Ends this process with status 1, because the processes called `names` have died."""
    logging.error("%s", message_of_loss(names))
    end_process(1)


class Watch:
    """A context with a thread that ends this process if it makes no progress, or if a process that it needs died.

    TensorFlow's runtime waits forever for a process that died, even if a step has a time limit, and nothing can
    interrupt the main thread while it waits. So the thread logs a message that names the dead processes, and ends this
    process.

    Args:
      addresses: {name: address} of the other processes.
      stall_timeout: seconds without a call of `beat` after which this process ends with status 1. A warning is logged
        after half of that time, or after `NOTICE_SECONDS` if that is earlier.
    """

    def __init__(self, addresses: Mapping[str, str], stall_timeout: float) -> None:
        self._addresses, self._timeout = addresses, stall_timeout
        self._notice = min(NOTICE_SECONDS, stall_timeout / 2)
        self._last, self._is_noticed = time.monotonic(), False
        self._alone_since: float | None = None
        self._is_fine: Callable[[], bool] = lambda: True
        self._seen: dict[str, float] = {}  # {a process that this one needs: when it was last seen alive}
        self._needed: Mapping[str, str] = {}  # {name: address} of processes that this one needs once they were seen
        self._dead_seconds = DEAD_SECONDS
        self._act_on_deaths: Callable[[Sequence[str]], None] = _end_without
        self._is_over = threading.Event()

    def beat(self) -> None:
        """Records that this process has made progress."""
        self._last = time.monotonic()

    def need_all(self) -> None:
        """From now on, this process ends if another process dies. When this is called, all others must be alive.

        Normally TensorFlow aborts the step within a second after the death. This method is for deaths that TensorFlow
        does not report.
        """
        self._seen = dict.fromkeys(self._addresses, time.monotonic())

    def need_once_seen(
        self, addresses: Mapping[str, str], seconds: float, act: Callable[[Sequence[str]], None]
    ) -> None:
        """From now on, this process needs others that have been alive.

        Args:
          addresses: {name: address} of these processes; they may not have started yet.
          seconds: a process that accepts no connection for so long is dead, unless it never did.
        """
        self._seen, self._needed, self._dead_seconds, self._act_on_deaths = {}, addresses, seconds, act

    def need_none(self) -> None:
        """From now on, the other processes may end."""
        self._seen, self._needed = {}, {}

    def leave_alone(self, is_fine: Callable[[], bool]) -> None:
        """From now on, this process may take any time without a call of `beat`, as long as `is_fine` returns True.

        Call this before work that needs no step of the other processes, such as the save and export at the end.
        """
        self._is_fine, self._alone_since = is_fine, time.monotonic()
        self.beat()

    def __enter__(self) -> Watch:
        self.beat()
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        """The work of the thread: checks at least once per second, until the context is left."""
        while not self._is_over.wait(min(1.0, self._notice / 4)):
            self._check_progress(time.monotonic() - self._last)
            self._check_deaths(self._seen)

    def _check_progress(self, idle: float) -> None:
        """Warns or ends this process if it has made no progress for too long; `idle` is that time in seconds."""
        if idle >= self._notice and self._alone_since is not None and self._is_fine():
            logging.info("the final save and export have taken %.0f s so far", time.monotonic() - self._alone_since)
            self.beat()
        elif idle >= self._timeout:
            logging.error("no progress for %.0f s: %s. Ending with status 1.", idle, describe_suspects(self._addresses))
            end_process(1)
        elif idle >= self._notice and not self._is_noticed:
            self._is_noticed = True
            logging.warning(
                "no progress for %.0f s: %s. The run ends after %g s without progress (--stall_timeout).",
                *(idle, describe_suspects(self._addresses), self._timeout),
            )
        elif idle < self._notice and self._is_noticed:
            self._is_noticed = False
            logging.warning("the run makes progress again")

    def _check_deaths(self, seen: dict[str, float]) -> None:
        """Acts if a process that this one needs is dead: it has accepted no connection for some time."""
        names = {**dict.fromkeys(seen), **dict.fromkeys(self._needed)}
        seen.update((name, time.monotonic()) for name in names if answers(self._addresses[name]))
        dead = [name for name, last in seen.items() if time.monotonic() - last > self._dead_seconds]
        if dead and seen is self._seen:
            self.need_none()
            self._act_on_deaths(dead)


class Stragglers:
    """Finds a slow replica, for which the others wait.

    The replica that enters a collective last waits the shortest time in it. A replica is slow if, over at least 20 s
    and 5 steps, at least half of the others waited longer than this replica, by at least a quarter of the time.

    Args:
      names: the names of the replicas, in the order of their indices.
      now: the current time in seconds.
    """

    def __init__(self, names: Sequence[str], now: float) -> None:
        self._names = names
        self._restart(now)

    def _restart(self, now: float) -> None:
        """Begins a new measurement at the time `now`."""
        self._waited, self._steps, self._since = np.zeros(len(self._names)), 0, now

    def add(self, waited: np.ndarray, now: float) -> str:
        """Adds the waiting times of one step.

        Args:
          waited: [replicas], the seconds that each replica spent in the collectives of the step.
          now: the current time in seconds.

        Returns:
          A sentence that names a slow replica; empty if none was found.
        """
        self._waited += waited
        self._steps += 1
        elapsed = now - self._since
        if elapsed < _WINDOW_SECONDS or self._steps < _WINDOW_STEPS:
            return ""
        slowest = int(self._waited.argmin())
        others = np.sort(np.delete(self._waited, slowest))
        lag = float(others[(len(others) - 1) // 2] - self._waited[slowest])
        steps = self._steps
        self._restart(now)
        if lag < _SLOW_SHARE * elapsed:
            return ""
        return (
            f"{self._names[slowest]} is slow: in the last {steps} steps, the others waited for it {lag / steps:.2g} s "
            f"of {elapsed / steps:.2g} s per step"
        )
