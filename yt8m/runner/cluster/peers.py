"""The other processes of a training without parameter servers: which died, hang, or are slow."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import logging

from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError
from yt8m.runner.cluster.exchange import REMIND_SECONDS, answers, end_process
from yt8m.types import Closing

PROBE_SECONDS = 2.0
DEAD_SECONDS = 10.0  # a process that accepted connections, and then none for so long, is dead
LEAVE_SECONDS = 10.0  # the main thread may take so long to end by itself
_SHARE = 0.25  # of a step; whoever makes the others wait longer is named
_WINDOW_SECONDS, _WINDOW_STEPS = 20.0, 5
# What a client of HTTP/2, and so of gRPC, sends first: the preface and empty settings. A server answers at once.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def responds(address: str, seconds: float = 2.0) -> bool:
    """Whether the TensorFlow server at `host:port` answers a greeting. That of a frozen process does not.

    The system accepts connections for a process that is stopped or out of memory, so `answers` cannot tell.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), seconds) as connection:
            connection.sendall(_HELLO)
            return bool(connection.recv(1))
    except OSError:
        return False


class Peers(Closing):
    """Watches the other replicas in a thread; a context.

    If one of them is dead, the main thread normally fails within a second, since its collective is aborted. If it does
    not, the thread ends the process, so that none waits forever.

    Args:
      cluster: all processes, and the role of this one.
    """

    def __init__(self, cluster: ClusterConfig) -> None:
        self._addresses = cluster.others
        self._seen: dict[str, float] = {}  # when each process was last seen alive
        self._over = threading.Event()

    def wait_for_all(self, is_stopped: Callable[[], bool], patience: float) -> bool:
        """Waits until every process listens; False if `is_stopped` says to give up.

        Raises:
          RunError: some do not listen after `patience` seconds.
        """
        deadline = time.monotonic() + patience
        while missing := _silent(self._addresses):
            if is_stopped():
                return False
            if time.monotonic() > deadline:
                raise RunError(
                    f"{', '.join(missing)} did not start within {patience:g} s (--stall_timeout). Start all processes "
                    "again; training goes on from the newest checkpoint."
                )
            logging.log_every_n_seconds(logging.INFO, "waiting for %s", REMIND_SECONDS, ", ".join(missing))
            time.sleep(0.5)
        self._seen = dict.fromkeys(self._addresses, time.monotonic())
        return True

    def watch(self) -> None:
        """Begins to watch; all processes have been seen."""
        self._thread = threading.Thread(target=self._watch, name="peers", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Ends the watch: from now on the others may end too."""
        self._over.set()

    def close(self) -> None:
        """Ends the watch, and its thread."""
        self.leave()
        if hasattr(self, "_thread"):
            self._thread.join()

    def lost(self, patience: float = DEAD_SECONDS) -> str:
        """Names the processes that accept no connection, after waiting up to `patience` for the first; may be empty."""
        deadline = time.monotonic() + patience
        while True:
            gone = _silent(self._addresses)
            if gone or time.monotonic() > deadline:
                return ", ".join(gone)
            time.sleep(0.1)

    def _watch(self) -> None:
        while not self._over.wait(PROBE_SECONDS):
            now = time.monotonic()
            for name, address in self._addresses.items():
                if answers(address):
                    self._seen[name] = time.monotonic()
            dead = [name for name, seen in self._seen.items() if now - seen > DEAD_SECONDS]
            if dead and not self._over.wait(LEAVE_SECONDS):
                logging.error("%s", message_of_loss(", ".join(dead)))
                end_process(1)


def _silent(addresses: Mapping[str, str]) -> list[str]:
    return [name for name, address in addresses.items() if not answers(address)]


def suspects(addresses: Mapping[str, str]) -> str:
    """A sentence that names those of the processes {name: address} that are dead or frozen."""
    dead = _silent(addresses)
    frozen = [name for name, address in addresses.items() if name not in dead and not responds(address)]
    found = [f"{', '.join(dead)} accepts no connection"] if dead else []
    if frozen:
        found.append(f"{', '.join(frozen)} accepts connections but does not answer: it is stopped or frozen")
    return "; ".join(found) or "all processes answer, so one of them is slow or blocked"


def message_of_loss(names: str) -> str:
    """What to tell the user about processes that died."""
    return (
        f"lost {names}: no connection is accepted there, so this process ends too. Start all processes again; "
        "training goes on from the newest checkpoint."
    )


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
