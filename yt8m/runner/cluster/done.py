"""How parameter servers learn that training is over: the others put their names into a queue on each."""

from __future__ import annotations

from typing import Any

from yt8m.lazy import tf
from yt8m.runner.cluster.server import server_device

_CAPACITY = 1000


def queue_on(index: int) -> Any:
    """The queue of names on one parameter server. A server may name no other's: it does not see them."""
    with tf.device(server_device(index)):
        return tf.FIFOQueue(_CAPACITY, tf.string, [[]], shared_name=f"done_{index}")


def tell_ops(name: str, servers: int) -> list[tf.Operation]:
    """Ops that tell every parameter server that the process called `name` needs it no longer."""
    return [queue_on(index).enqueue(name) for index in range(servers)]
