"""How parameter servers learn that training is over: the others put their names into a queue on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from yt8m.lazy import tf
from yt8m.runner.cluster.server import server_device

_CAPACITY = 1000


def queue_on(index: int) -> Any:
    """The queue of names on one parameter server. A server may name no other's: it does not see them."""
    with tf.device(server_device(index)):
        return tf.FIFOQueue(_CAPACITY, tf.string, [[]], shared_name=f"done_{index}")


class DoneHook(tf.train.SessionRunHook):
    """Says at the end, after everything else, that this process needs the parameter servers no longer.

    Args:
      name: of this process.
      servers: how many there are.
      is_over: whether the process ends because its work is done; one that was told to stop comes again.
    """

    def __init__(self, name: str, servers: int, is_over: Callable[[], bool]) -> None:
        self._name, self._servers, self._is_over = name, servers, is_over
        self._ops: Sequence[tf.Operation] = ()

    def begin(self) -> None:
        """Makes the ops."""
        self._ops = [queue_on(index).enqueue(self._name) for index in range(self._servers)]

    def end(self, session: tf.Session) -> None:
        """Tells every server."""
        if self._is_over():
            for op in self._ops:
                session.run(op)
