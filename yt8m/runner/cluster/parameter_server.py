"""A parameter server: holds variables until all who train have said that they are done."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import NoReturn

from absl import logging

from yt8m.deploy.cluster import ClusterConfig
from yt8m.lazy import tf
from yt8m.runner.cluster import done, server
from yt8m.runner.signals import StopSignals
from yt8m.runner.watchdog import answers

POLL_SECONDS = 0.5
GRACE_SECONDS = 20.0  # once the chief is done, others may be lost
_PART_OF_GRACE = 0.9  # for others after a signal, so that what is left is enough to end in order


def serve(cluster: ClusterConfig, grace_seconds: float = GRACE_SECONDS) -> NoReturn:
    """Serves until the chief and all workers are done, or the chief is and the others are out of reach.

    Then the process ends here, with status 0, or 143 and 130 after a signal: the runtime's server cannot
    be stopped, and Python would wait for its threads. After a signal it serves on for the grace, as long as
    a chief or a worker lives: where all processes are told to stop at once, the chief has its step to save.

    Raises:
      UsageError: the port is taken.
    """
    with StopSignals(grace_seconds) as signals, tf.Graph().as_default():
        runtime = server.start(cluster, {"GPU": 0})
        logging.info("%s serves on %s", cluster.name, cluster.address)
        # Looked at, not waited for: a step that is given up while it takes a name would lose it.
        queue = done.queue_on(cluster.index)
        size, name = queue.size(), queue.dequeue()
        own = tf.ConfigProto(device_filters=[f"/job:{server.PS_JOB}/task:{cluster.index}"])
        with tf.Session(runtime.target, config=own) as session:
            heard = _Heard(cluster, grace_seconds)
            while not signals.requested and not heard.is_over():
                if session.run(size):
                    heard.add(session.run(name).decode())
                else:
                    time.sleep(POLL_SECONDS)
        if signals.requested:
            heard.outlive(_PART_OF_GRACE * grace_seconds)
            _leave(128 + (signals.signal or signal.SIGTERM))
        time.sleep(POLL_SECONDS)  # the last to say so still waits for the answer
        logging.info("%s ends: training is over", cluster.name)
        _leave(0)


def _leave(status: int) -> NoReturn:
    logging.flush()
    sys.stdout.flush()
    os._exit(status)


class _Heard:
    """Who has said that it is done, and who is given up.

    A worker that still runs is waited for, however slow its machine: without its parameter servers it could
    not close its session, and would fail after all the work was done.
    """

    def __init__(self, cluster: ClusterConfig, grace_seconds: float) -> None:
        replicas = range(len(cluster.replicas))
        self._missing = {cluster.replica_name(replica): cluster.replicas[replica] for replica in replicas}
        self._chief, self._grace = cluster.replica_name(0), grace_seconds
        self._deadline: float | None = None

    def add(self, name: str) -> None:
        """Takes a name from the queue."""
        logging.info("%s is done", name)
        self._missing.pop(name, None)
        if name == self._chief:
            self._renew()

    def is_over(self) -> bool:
        """Whether nobody is to be waited for any more."""
        if not self._missing:
            return True
        if self._deadline is None or time.monotonic() < self._deadline:
            return False
        if self.anybody_lives():
            self._renew()
            return False
        logging.warning("not waiting for %s any longer", ", ".join(sorted(self._missing)))
        return True

    def outlive(self, seconds: float) -> None:
        """Waits until nobody lives who needs this server, but no longer than that."""
        deadline = time.monotonic() + seconds
        while self.anybody_lives() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def anybody_lives(self) -> bool:
        """Whether a process that has not said that it is done takes connections."""
        return any(answers(address) for address in self._missing.values())

    def _renew(self) -> None:
        self._deadline = time.monotonic() + self._grace
