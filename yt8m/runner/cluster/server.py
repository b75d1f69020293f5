"""This process' place in TensorFlow's distributed runtime."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

from absl import logging

from yt8m.deploy.cluster import PS, ClusterConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf

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
