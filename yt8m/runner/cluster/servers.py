"""Starts the TensorFlow server of a process, and runs a parameter server until the training is over."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
import time
from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Any, NoReturn

from absl import logging

from yt8m import forks
from yt8m.deploy.cluster import PS, ClusterConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.runner.cluster import exchange, peers
from yt8m.runner.cluster.exchange import PS_JOB, WORKER_JOB
from yt8m.runner.cluster.failures import message_of_end
from yt8m.runner.signals import StopSignals

POLL_SECONDS = 0.5  # the interval at which a server looks whether other processes still need it
# How long a server waits for workers that do not answer after the chief is done, and for all others after a signal.
GRACE_SECONDS = 20.0
OVER_SECONDS = 30.0  # how long a server waits for the other processes after the whole job is over
_CHECK_SECONDS = 5.0  # interval of the checks whether the chief or a worker is alive
# After a signal, a server waits for the other processes during this share of its grace period. It ends itself in the
# rest of the period.
_WAITING_SHARE = 0.9


def start(
    cluster: ClusterConfig, device_count: dict[str, int] | None = None, config: tf.ConfigProto | None = None
) -> Any:
    """Starts and returns the `tf.train.Server` of this process.

    TensorFlow's server listens on every network interface and cannot be limited to one; a warning in the log says so.

    Args:
      cluster: all processes, and the role of this one.
      device_count: {type, such as "GPU": number of devices to use}; by default all devices of the machine.
      config: further settings of the server.

    Raises:
      UsageError: the port is taken, or this process may not open it.
    """
    check_port(cluster)
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
        raise UsageError(_format_refusal(cluster, str(error))) from error
    host, _, port = cluster.address.rpartition(":")
    logging.warning(
        "%s listens on port %s of every network interface, not only of %s, because TensorFlow's server cannot be "
        "limited to one. Anyone who can reach the port can run programs here: close it to all but the cluster",
        cluster.name,
        port,
        host,
    )
    return server


def check_port(cluster: ClusterConfig) -> None:
    """Raises `UsageError` if the port of this process cannot be opened, for TensorFlow's error does not say why."""
    port = int(cluster.address.rpartition(":")[2])
    with contextlib.closing(socket.socket()) as probe:
        # Without this option the port of a process that has just died could not be opened.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen()
        except OSError as error:
            raise UsageError(_format_refusal(cluster, error.strerror or str(error))) from error


def _format_refusal(cluster: ClusterConfig, reason: str) -> str:
    """The message of the error if this process cannot open its port."""
    return (
        f"{cluster.name} cannot listen on {cluster.address}, its address in the description of the cluster: "
        f"{' '.join(reason.split()).rstrip('.')}. End the process that uses the port, or name another port in the "
        "description that every process gets."
    )


def serve(cluster: ClusterConfig, grace_seconds: float = GRACE_SECONDS, stall_timeout: float = math.inf) -> NoReturn:
    """Runs a parameter server, and then ends the process.

    The server ends with status 0 when the chief is done and every worker is done or no longer answers; with status 1 if
    the chief failed and no worker goes on, or if the whole job is over (see `failures`). The function does not return,
    because TensorFlow's server cannot be stopped and Python would wait for its threads.

    If the chief was killed or stopped by a signal, the server waits for it, because it may be started again. If the
    server itself gets a signal, it continues while the chief or a worker is alive, for at most `grace_seconds`, so that
    the chief can save its last step if all processes get a signal at once. The status is then 143 or 130.

    Args:
      cluster: all processes, and the role of this one, which is a parameter server.
      grace_seconds: seconds for which the server waits after a signal, and, once the chief is done, for workers that do
        not answer.
      stall_timeout: the server ends with status 1 if neither the chief nor a worker answers for this number of seconds.

    Raises:
      UsageError: the port cannot be opened.
    """
    with StopSignals(grace_seconds) as signals, tf.Graph().as_default():
        runtime = start(cluster, {"GPU": 0})
        logging.info("%s serves on %s", cluster.name, cluster.address)
        state = exchange.SharedState(exchange.server_device(cluster.index))
        own_device_only = tf.ConfigProto(device_filters=[f"/job:{PS_JOB}/task:{cluster.index}"])
        awaited, status = _AwaitedProcesses(cluster, grace_seconds, stall_timeout), None
        with forks.new_session(runtime.target, config=own_device_only) as session:
            while status is None and not signals.requested:
                time.sleep(POLL_SECONDS)
                status = awaited.end_status(state.done(session), state.failed(session), state.why_over(session))
        if status is None:
            awaited.wait_until_gone(_WAITING_SHARE * grace_seconds)
            status = 128 + (signals.signal or signal.SIGTERM)
        time.sleep(POLL_SECONDS)  # the last replica needs this time to receive the response to its `set_done`
        exchange.end_process(status)


class _AwaitedProcesses:
    """The chief and the workers that still need a parameter server.

    The server waits for every worker that is alive, however slow it is, because a worker whose parameter servers have
    ended cannot close its session, and fails.
    """

    def __init__(self, cluster: ClusterConfig, grace_seconds: float, stall_timeout: float = math.inf) -> None:
        self._server, self._chief, self._missing = cluster.name, cluster.replica_name(0), cluster.named_replicas
        self._grace, self._stall_timeout = grace_seconds, stall_timeout
        self._last_answer = self._last_check = time.monotonic()
        self._over_since = 0.0  # time.monotonic() when the job was first seen to be over; 0 before

    def end_status(
        self, done: Set[str], failed: Mapping[str, str] = MappingProxyType({}), why_over: str = ""
    ) -> int | None:
        """The exit status with which the server can end now; None if it must continue.

        Args:
          why_over: why the whole job ends; empty if it goes on.
        """
        for name in sorted(self._missing.keys() & done):
            logging.info("%s is done", name)
            del self._missing[name]
        if why_over:
            return self._end_of_job(why_over, failed)
        is_chief_done = self._chief not in self._missing
        has_failed = self._chief in failed and self._missing.keys() <= failed.keys()
        if not self._missing:
            logging.info("%s ends: training is over", self._server)
        elif not self._is_silent(self._grace if is_chief_done or has_failed else self._stall_timeout):
            return None
        elif is_chief_done:
            logging.warning("%s ends: no longer waiting for %s", self._server, ", ".join(sorted(self._missing)))
        else:
            reason = f"neither the chief nor a worker has answered for {self._stall_timeout:g} s (--stall_timeout)"
            if has_failed:
                reason = "; ".join(f"{name} failed: {error.rstrip('.')}" for name, error in failed.items())
            logging.error(
                "%s ends: %s. Start all processes again; training resumes from the newest checkpoint",
                *(self._server, reason),
            )
            return 1
        return 0

    def _end_of_job(self, why_over: str, failed: Mapping[str, str]) -> int | None:
        """1 if all processes have ended, or had time to learn that the job is over; else None.

        A process that accepts no connection may not have started yet, and then has to learn it too.
        """
        self._over_since = self._over_since or time.monotonic()
        if self._missing.keys() - failed.keys() and time.monotonic() - self._over_since < OVER_SECONDS:
            return None
        logging.error("%s ends: %s", self._server, message_of_end(why_over))
        return 1

    def _is_silent(self, patience: float) -> bool:
        """Whether none of the processes has answered for `patience` seconds.

        Between two checks, which take place every few seconds, this is False.
        """
        if time.monotonic() - self._last_check < min(_CHECK_SECONDS, patience / 4):
            return False
        is_answered, self._last_check = self.is_any_alive(), time.monotonic()
        if is_answered:
            self._last_answer = self._last_check
        return self._last_check - self._last_answer > patience

    def wait_until_gone(self, seconds: float) -> None:
        """Waits, for at most `seconds`, until no process that needs this server is alive."""
        deadline = time.monotonic() + seconds
        while self.is_any_alive() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def is_any_alive(self) -> bool:
        """Whether a process that still needs this server accepts connections."""
        return any(peers.answers(address) for address in self._missing.values())
