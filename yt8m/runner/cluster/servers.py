"""Starts TensorFlow servers, and runs parameter servers, which hold variables until training is over."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import time
from collections.abc import Set
from typing import Any, NoReturn

from absl import logging

from yt8m.deploy.cluster import PS, ClusterConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.runner.cluster import exchange, peers
from yt8m.runner.cluster.exchange import PS_JOB, WORKER_JOB
from yt8m.runner.signals import StopSignals

POLL_SECONDS = 0.5
GRACE_SECONDS = 20.0  # how long processes may be unreachable after the chief is done
_ASK_SECONDS = 5.0  # between two questions whether anybody still lives
_PART_OF_GRACE = 0.9  # the share of the grace spent on waiting for others; the rest is for an orderly end


def start(
    cluster: ClusterConfig, device_count: dict[str, int] | None = None, config: tf.ConfigProto | None = None
) -> Any:
    """Starts a `tf.train.Server`, which listens on the port of this process, on every network interface.

    TensorFlow cannot be limited to one interface; the log warns of that.

    Args:
      cluster: all processes, and which one this is.
      device_count: {kind: number of devices to use}; by default all of the machine.
      config: further settings of the server.

    Raises:
      UsageError: the port is taken, or this process may not open it.
    """
    _check_port(cluster)
    jobs = {WORKER_JOB: list(cluster.replicas)}
    if cluster.servers:
        jobs[PS_JOB] = list(cluster.servers)
    is_server = cluster.role == PS
    settings = tf.ConfigProto(device_count=device_count or {})
    settings.MergeFrom(config or tf.ConfigProto())
    try:
        server = tf.train.Server(
            jobs,
            job_name=PS_JOB if is_server else WORKER_JOB,
            task_index=cluster.index if is_server else cluster.replica,
            config=settings,
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


def _check_port(cluster: ClusterConfig) -> None:
    """Tests the port, because TensorFlow would only report that its server could not start."""
    port = int(cluster.address.rpartition(":")[2])
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # allows the port of a process that was just killed
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


def serve(cluster: ClusterConfig, grace_seconds: float = GRACE_SECONDS, stall_timeout: float = math.inf) -> NoReturn:
    """Serves as a parameter server until all replicas are done, or the chief is done and the others do not answer.

    Then the process exits here, with status 0, or with 143 or 130 after a signal, because TensorFlow's server cannot
    be stopped, and Python would wait for its threads. After a signal it continues as long as a chief or worker
    lives, but at most for `GRACE_SECONDS`. So if all processes are told to stop at once, the chief can still save.

    A chief that was told to stop or was killed may be restarted, so it is not done, and the server waits for it. If no
    chief and no worker answers for `stall_timeout` seconds, the server ends with status 1.

    Raises:
      UsageError: the port is taken.
    """
    with StopSignals(grace_seconds) as signals, tf.Graph().as_default():
        runtime = start(cluster, {"GPU": 0})
        logging.info("%s serves on %s", cluster.name, cluster.address)
        state = exchange.SharedState(exchange.server_device(cluster.index))
        own_device_alone = tf.ConfigProto(device_filters=[f"/job:{PS_JOB}/task:{cluster.index}"])
        awaited, status = _Awaited(cluster, grace_seconds, stall_timeout), None
        with tf.Session(runtime.target, config=own_device_alone) as session:
            while status is None and not signals.requested:
                time.sleep(POLL_SECONDS)
                status = awaited.end_status(state.done(session))
        if status is None:
            awaited.wait_until_gone(_PART_OF_GRACE * grace_seconds)
            status = 128 + (signals.signal or signal.SIGTERM)
        time.sleep(POLL_SECONDS)  # the last replica still waits for the response to its `done`
        exchange.end_process(status)


class _Awaited:
    """The chief and the workers that a parameter server waits for.

    The server waits for every worker that still runs, however slow its machine. Without its parameter servers it could
    not close its session, and would fail at the end of training.
    """

    def __init__(self, cluster: ClusterConfig, grace_seconds: float, stall_timeout: float = math.inf) -> None:
        self._server, self._chief, self._missing = cluster.name, cluster.replica_name(0), cluster.named_replicas
        self._grace, self._stall_timeout = grace_seconds, stall_timeout
        self._answered = self._asked = time.monotonic()  # when one of them last answered, and when they were last asked

    def end_status(self, done: Set[str]) -> int | None:
        """The status with which the server can end; None if it must go on.

        Args:
          done: the processes that no longer need the server.
        """
        for name in sorted(self._missing.keys() & done):
            logging.info("%s is done", name)
            del self._missing[name]
        is_chief_done = self._chief not in self._missing
        if not self._missing:
            logging.info("%s ends: training is over", self._server)
        elif not self._is_silence(self._grace if is_chief_done else self._stall_timeout):
            return None
        elif is_chief_done:
            logging.warning("%s ends: no longer waiting for %s", self._server, ", ".join(sorted(self._missing)))
        else:
            logging.error(
                "%s ends: neither the chief nor a worker has answered for %g s (--stall_timeout). To go on from the "
                "newest checkpoint, start all processes again",
                *(self._server, self._stall_timeout),
            )
            return 1
        return 0

    def _is_silence(self, patience: float) -> bool:
        """Whether none of them has answered for `patience` seconds. They are asked every few seconds."""
        if time.monotonic() - self._asked < min(_ASK_SECONDS, patience / 4):
            return False
        is_answered, self._asked = self.anybody_lives(), time.monotonic()
        if is_answered:
            self._answered = self._asked
        return self._asked - self._answered > patience

    def wait_until_gone(self, seconds: float) -> None:
        """Waits until no process that needs this server is alive, at most `seconds`."""
        deadline = time.monotonic() + seconds
        while self.anybody_lives() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def anybody_lives(self) -> bool:
        """Whether a process that is not done accepts connections."""
        return any(peers.answers(address) for address in self._missing.values())
