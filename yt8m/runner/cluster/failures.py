"""What the failure of one replica means for a job with parameter servers, and how the other processes learn of it.

- A worker that was refused, because its model or flags differ from the chief's, ends the whole job: its share of the
  data would never be read.
- With --sync_replicas a step needs every replica. So a replica that ends with an error, or that died and is not started
  again within `DEAD_SECONDS`, ends the whole job.
- Otherwise the replicas train independently. The others go on, and the chief repeats who is missing.

Without parameter servers (all-reduce) a step needs every replica too; `early_failures` says how the others learn of one
that could not start, and `peers.Watch` finds those that die later.

A job that is over ends like this. The process that finds the reason writes it into the tables of the parameter servers,
and closes the queue in which replicas wait for the next common step. So each replica ends at its next look into the
table, or at once if it waits for a step. The chief saves the last step first. The servers end when all replicas have.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from absl import logging

from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError, first_line
from yt8m.lazy import tf
from yt8m.runner.cluster import early_failures
from yt8m.runner.cluster.exchange import PS_JOB, SharedState, server_device
from yt8m.runner.cluster.peers import responds

DEAD_SECONDS = 40.0  # a replica that is started again within this time after its death may go on
_CALL_MILLISECONDS = 5000  # time limit of a call to a parameter server
_told: list[Exception] = []  # the errors of this process of which the parameter servers were told


class JobOverError(RunError):
    """The whole job ends because of another process."""


def report(cluster: ClusterConfig, error: Exception, ends_job: bool, patience: float) -> None:
    """Tells the parameter servers that this replica ends with an error; nothing if they were told of this error before.

    If there are none, the other replicas are told, unless this one had started.

    Args:
      patience: seconds to wait for servers that have not started yet.
    """
    if any(error is reported for reported in _told):
        return
    _told.append(error)
    name, reason = cluster.replica_name(cluster.replica), first_line(error)
    if not cluster.servers:
        if not isinstance(error, JobOverError):
            early_failures.announce(cluster, reason)
        return
    over = f"{name} failed: {reason}" if ends_job and not isinstance(error, JobOverError) else ""
    _tell(cluster, {name: reason}, over, patience)


def refuse_failed(cluster: ClusterConfig, name: str, address: str) -> None:
    """Raises `JobOverError` if another replica, called `name`, says at its address that it failed."""
    reason = early_failures.failure_at(cluster, address)
    if reason:
        raise JobOverError(message_of_end(f"{name} failed: {reason}"))


def end_job(cluster: ClusterConfig, reason: str, lost: Sequence[str] = ()) -> None:
    """Tells the parameter servers and all replicas that the whole job is over."""
    _tell(cluster, dict.fromkeys(lost, "lost"), reason, patience=0)


def message_of_end(reason: str) -> str:
    """The error message of a process that ends because the job is over for this `reason`."""
    return (
        f"{reason.rstrip('.')}. This ends the whole job. Start all processes again: training resumes from the newest "
        "checkpoint."
    )


def _tell(cluster: ClusterConfig, failed: dict[str, str], over: str, patience: float) -> None:
    """Writes into the table of each parameter server that answers.

    Args:
      over: why the whole job is over; empty if it is not.
      patience: seconds to wait for servers that do not answer yet.
    """
    deadline = time.monotonic() + patience
    for index, address in enumerate(cluster.servers):
        while not (answered := responds(address)) and time.monotonic() < deadline:
            time.sleep(0.5)
        if not answered:
            logging.info("parameter server %d (%s) does not answer: it is not told of the error", index, address)
            continue
        try:
            _tell_server(index, address, failed, over)
        except (tf.errors.OpError, RuntimeError) as problem:
            logging.info("parameter server %d (%s) was not told of the error: %s", index, address, first_line(problem))


def _tell_server(index: int, address: str, failed: dict[str, str], over: str) -> None:
    """Writes into the table of one parameter server; see `_tell`. This process needs no server of its own for that."""
    config = tf.ConfigProto(device_filters=[f"/job:{PS_JOB}/task:{index}"], operation_timeout_in_ms=_CALL_MILLISECONDS)
    with tf.Graph().as_default():
        state = SharedState(server_device(index))
        with tf.device(server_device(index)):
            # The queue of TensorFlow's SyncReplicasOptimizer. It is made here if the replicas train independently.
            queue = tf.FIFOQueue(-1, tf.int64, shapes=(), name="sync_token_q", shared_name="sync_token_q")
            close_queue = queue.close(cancel_pending_enqueues=True)
        with tf.Session(f"grpc://{address}", config=config) as session:
            for name, reason in failed.items():
                state.set_failed(session, name, reason)
            if over:
                state.set_over(session, over)
                session.run(close_queue)


def describe_missing(failed: dict[str, str], silent: Iterable[str]) -> str:
    """A sentence that names the workers without which an independent training goes on; empty if there are none.

    Args:
      failed: {name of a worker that ended with an error: the error}.
    """
    states = [f"{name} failed ({reason.rstrip('.')})" for name, reason in failed.items()]
    states += [f"{name} accepts no connection" for name in silent if name not in failed]
    if not states:
        return ""
    return (
        f"MISSING: {'; '.join(states)}. Training goes on without their share of the data until they are started again"
    )
