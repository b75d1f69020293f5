"""Evaluation and inference by several processes: orders go from the chief to the workers, results come back.

Both travel through queues of TensorFlow's runtime that live in the chief's process, so that nothing of
an earlier job can be taken for something of this one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from absl import logging

from yt8m.deploy.cluster import EVALUATOR, PS, ClusterConfig, from_environment
from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.runner.cluster import server
from yt8m.runner.watchdog import Watchdog, answers, unreachable

OTHER_DATA = (
    "{} found other shards than the chief, or shards of another size: they changed while the processes "
    "started. There is no result; start the whole job again."
)
POLL_SECONDS = 0.5
LAST_ORDER_SECONDS = 20.0
CLOSE_SECONDS = 5.0
_HELLO, _FAILED, _END = b"hello", b"failed", ""
_CHIEF = f"/job:{server.WORKER_JOB}/task:0"


def cluster_here() -> ClusterConfig | None:
    """The cluster, where several processes evaluate or predict together; None where this one is alone."""
    cluster = from_environment()
    return cluster if cluster is not None and len(cluster.replicas) > 1 else None


def has_no_part(cluster: ClusterConfig) -> bool:
    """Whether this process is one that only training needs."""
    if cluster.role not in (PS, EVALUATOR):
        return False
    logging.info("%s has nothing to do here: the chief and the workers share the data", cluster.name)
    return True


class Team:
    """A process' connection to the others; a context.

    A worker that leaves it by an exception tells the chief of that.

    Args:
      cluster: all processes, and which this is.
      stall_timeout: seconds that one may be out of reach.

    Raises:
      UsageError: the port is taken.
    """

    def __init__(self, cluster: ClusterConfig, stall_timeout: float) -> None:
        self.cluster, self._timeout = cluster, stall_timeout
        self._known: set[int] = set()
        self._order = _END

    def __enter__(self) -> Team:
        runtime = server.start(self.cluster)
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._build()
        own = f"/job:{server.WORKER_JOB}/task:{self.cluster.replica}"
        config = tf.ConfigProto(device_filters=[_CHIEF, own])
        with self._watched():
            self._session = tf.Session(runtime.target, self._graph, config)
            self._session.run(self._size)
            if not self.cluster.is_chief:
                self._put(b"", _HELLO)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, *unused: object) -> None:
        if self.cluster.is_chief:
            self._dismiss()
        # Of a chief that is gone, both words and close() wait for an answer without end.
        leaving = threading.Thread(target=self._leave, args=(error,), name="leave-team", daemon=True)
        leaving.start()
        leaving.join(CLOSE_SECONDS)

    def send(self, order: str) -> None:
        """The chief's: gives every worker the order; one that is not there yet gets it when it comes."""
        self._order = order
        for replica in self._known:
            self._give(replica)

    def collect(self) -> list[bytes]:
        """The chief's: what the workers made of the last order, in their order.

        Raises:
          RunError: a worker has failed, or is out of reach for the whole timeout; the text names it.
        """
        found: dict[int, bytes] = {}
        last_seen = dict.fromkeys(range(1, len(self.cluster.replicas)), time.monotonic())
        while missing := last_seen.keys() - found.keys():
            if not self._session.run(self._size):
                self._check_reach(missing, last_seen)
                time.sleep(POLL_SECONDS)
                continue
            number, order, result = self._session.run(self._get)
            replica = int(number)
            if result == _HELLO:
                self._known.add(replica)
                self._give(replica)
            elif order == _FAILED:
                self._known.discard(replica)
                raise RunError(f"{self._part_of(replica)} is missing: {result.decode()}")
            elif order.decode() == self._order:  # else of an order that was given up
                found[replica] = result
        return [found[replica] for replica in sorted(found)]

    def receive(self) -> str:
        """A worker's: the next order; empty at the end.

        Raises:
          RunError: the chief is gone.
        """
        with self._watched() as watchdog:
            while not self._session.run(self._left[self.cluster.replica]):
                watchdog.beat()
                time.sleep(POLL_SECONDS)
            self._order = self._session.run(self._next_order).decode()
        return self._order

    def reply(self, result: bytes) -> None:
        """A worker's: what it made of the order.

        Raises:
          RunError: the chief is gone.
        """
        with self._watched():
            self._put(self._order.encode(), result)

    def _build(self) -> None:
        with tf.device(f"{_CHIEF}/device:CPU:0"):
            count = len(self.cluster.replicas)
            orders = [tf.FIFOQueue(100, tf.string, [[]], shared_name=f"orders_{i}") for i in range(count)]
            results = tf.FIFOQueue(1000, [tf.string] * 3, [[]] * 3, shared_name="results")
            self._text = tf.placeholder(tf.string, [])
            self._parts = [tf.placeholder(tf.string, []) for _ in range(3)]
            self._give_ops = [queue.enqueue(self._text) for queue in orders]
            self._left = [queue.size() for queue in orders]
            self._next_order = orders[self.cluster.replica].dequeue()
            self._put_op, self._get, self._size = (
                results.enqueue(self._parts),
                results.dequeue(),
                results.size(),
            )

    def _give(self, replica: int) -> None:
        self._session.run(self._give_ops[replica], {self._text: self._order})

    def _put(self, order: bytes, result: bytes) -> None:
        values = (str(self.cluster.replica).encode(), order, result)
        self._session.run(self._put_op, dict(zip(self._parts, values, strict=True)))

    def _check_reach(self, missing: set[int], last_seen: dict[int, float]) -> None:
        for replica in missing:
            if answers(self.cluster.replicas[replica]):
                last_seen[replica] = time.monotonic()
            elif time.monotonic() - last_seen[replica] > self._timeout:
                raise RunError(
                    f"{self._part_of(replica)} is lost: it has not answered for {self._timeout:g} s "
                    "(--stall_timeout). There is no result; start the whole job again."
                )

    def _part_of(self, replica: int) -> str:
        count = len(self.cluster.replicas)
        return f"the part of {self.cluster.replica_name(replica)}, {replica + 1} of {count},"

    def _dismiss(self) -> None:
        """Lets the workers end, and waits until they have heard."""
        self.send(_END)
        deadline = time.monotonic() + LAST_ORDER_SECONDS
        left = [self._left[replica] for replica in self._known]
        while any(self._session.run(left)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        time.sleep(POLL_SECONDS)  # the last to hear still waits for the answer

    def _leave(self, error: BaseException | None) -> None:
        """Closes the session; a worker's last words go before."""
        if error is not None and not self.cluster.is_chief:
            is_worded = isinstance(error, UsageError | RunError)
            words = str(error) if is_worded else f"{type(error).__name__}: {error}"
            with contextlib.suppress(tf.errors.OpError):
                self._put(_FAILED, words.encode())
        self._session.close()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[Watchdog]:
        """Around what waits for the chief."""
        chief = {"the chief": self.cluster.replicas[0]}
        try:
            with Watchdog(self._timeout, lambda: unreachable(chief)) as watchdog:
                yield watchdog
        except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
            raise RunError(f"{self.cluster.replica_name(0)} is gone; start the whole job again.") from error
