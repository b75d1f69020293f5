"""This process' place in TensorFlow's distributed runtime.

A parameter server: holds variables until all who train have said that they are done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from absl import logging

from yt8m.deploy.cluster import PS, ClusterConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.runner.cluster import exchange
from yt8m.runner.cluster.watchdog import answers
from yt8m.runner.signals import StopSignals

# The chief is task 0 of the workers' job, so that it needs no devices of a name of its own.
WORKER_JOB, PS_JOB = "worker", "ps"


def server_device(index: int) -> str:
    """The device of one parameter server."""
    return f"/job:{PS_JOB}/task:{index}/device:CPU:0"


def start(cluster: ClusterConfig, device_count: dict[str, int] | None = None) -> Any:
    """A `tf.train.Server` that listens on this process' own port, on every network interface.

    TensorFlow offers no way to listen on one interface alone, so the log says it.

    Args:
      cluster: all processes, and which one this is.
      device_count: devices by kind where they are not those of the machine.

    Raises:
      UsageError: the port is taken, or is not this machine's to open.
    """
    _check_port(cluster)
    jobs = {WORKER_JOB: list(cluster.replicas)}
    if cluster.servers:
        jobs[PS_JOB] = list(cluster.servers)
    is_server = cluster.role == PS
    try:
        server = tf.train.Server(
            jobs,
            job_name=PS_JOB if is_server else WORKER_JOB,
            task_index=cluster.index if is_server else cluster.replica,
            config=tf.ConfigProto(device_count=device_count or {}),
        )
    except tf.errors.OpError as error:
        raise UsageError(_refusal(cluster, str(error))) from error
    host, _, port = cluster.address.rpartition(":")
    logging.warning(
        "%s listens on port %s of every network interface, not of %s alone: TensorFlow's server cannot do "
        "otherwise. Whoever reaches the port can run programs here; close it to all but the cluster",
        cluster.name,
        port,
        host,
    )
    return server


@contextlib.contextmanager
def seen_at(address: str) -> Iterator[None]:
    """Takes connections at `address`, so that others see that this process, which has no server, lives."""
    host, _, port = address.rpartition(":")
    # Other names may be a proxy's or a service's, which is no interface of this machine.
    interface = host if host == "localhost" or host.startswith("127.") else ""
    try:
        listener = socket.create_server((interface, int(port)))
    except OSError as error:
        logging.warning("cannot listen on %s (%s): an evaluator takes this chief for dead", address, error)
        yield
        return
    thread = threading.Thread(target=_greet, args=(listener,), name="seen-at", daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def _greet(listener: socket.socket) -> None:
    """Takes what comes and lets it go until the socket is shut down; else its queue would be full one day."""
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return


def _check_port(cluster: ClusterConfig) -> None:
    """Tries the port before the runtime does, which would say no more than that it could not start."""
    port = int(cluster.address.rpartition(":")[2])
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a killed process' port is free again
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError as error:
            raise UsageError(_refusal(cluster, error.strerror or str(error))) from error


def _refusal(cluster: ClusterConfig, reason: str) -> str:
    return (
        f"{cluster.name} cannot listen on {cluster.address}, the address that the cluster's description "
        f"gives it: {' '.join(reason.split())}. End the process that has the port, or name another port in "
        "the description of every process."
    )


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
        runtime = start(cluster, {"GPU": 0})
        logging.info("%s serves on %s", cluster.name, cluster.address)
        # Looked at, not waited for: a step that is given up while it takes a name would lose it.
        queue = exchange.queue_on(cluster.index)
        size, name = queue.size(), queue.dequeue()
        own = tf.ConfigProto(device_filters=[f"/job:{PS_JOB}/task:{cluster.index}"])
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
