"""How parameter servers learn that training is over: the others put their names into a queue on each."""

from __future__ import annotations

from typing import Any

from yt8m.deploy.cluster import ClusterConfig
from yt8m.lazy import tf
from yt8m.runner.cluster.server import PS_JOB, WORKER_JOB, server_device

_CAPACITY = 1000


def queue_on(index: int) -> Any:
    """The queue of names on one parameter server. A server may name no other's: it does not see them."""
    with tf.device(server_device(index)):
        return tf.FIFOQueue(_CAPACITY, tf.string, [[]], shared_name=f"done_{index}")


def tell_ops(name: str, servers: int) -> list[tf.Operation]:
    """Ops that tell every parameter server that the process called `name` needs it no longer."""
    return [queue_on(index).enqueue(name) for index in range(servers)]


def say_done(cluster: ClusterConfig, runtime: Any) -> None:
    """Tells each parameter server, in a session of its own, that this chief or worker is through.

    For a training whose graph is already finalised, or is not the runner's.

    Args:
      cluster: all processes, and which one this is.
      runtime: this process' server, as `server.start` gave it.
    """
    own = f"/job:{WORKER_JOB}/task:{cluster.replica}"
    with tf.Graph().as_default():
        told = tell_ops(cluster.replica_name(cluster.replica), len(cluster.servers))
        # A worker that has ended before is not waited for.
        filters = tf.ConfigProto(device_filters=[f"/job:{PS_JOB}", own])
        with tf.Session(runtime.target, config=filters) as session:
            session.run(told)
