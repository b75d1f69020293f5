"""What the failure of one replica means for a job with parameter servers, and how the other processes learn of it.

- A worker that was refused, because its model or flags differ from the chief's, ends the whole job: its share of the
  data would never be read.
- With --sync_replicas a step needs every replica. So a replica that ends with an error, or that died and is not started
  again within `DEAD_SECONDS`, ends the whole job.
- Otherwise the replicas train independently. The others go on, and the chief repeats who is missing.

Without parameter servers (all-reduce) a step needs every replica too. The others wait for the TensorFlow server of one
that could not start. So that process opens the port of its server itself, and answers each greeting with the reason,
until all others have heard it (`announce`). `peers.Watch` finds replicas that die later.

A job that is over ends like this. The process that finds the reason writes it into the tables of the parameter servers,
and closes the queue in which replicas wait for the next common step. So each replica ends at its next look into the
table, or at once if it waits for a step. The chief saves the last step first. The servers end when all replicas have.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterable, Sequence

from absl import logging

from yt8m import forks
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError, first_line
from yt8m.lazy import tf
from yt8m.runner.cluster.exchange import PS_JOB, SharedState, server_device
from yt8m.runner.cluster.peers import HELLO, listen, responds

DEAD_SECONDS = 40.0  # a replica that is started again within this time after its death may go on
_CALL_MILLISECONDS = 5000  # time limit of a call to a parameter server
_told: list[Exception] = []  # the errors of this process of which the parameter servers were told
# Without parameter servers:
ANNOUNCE_SECONDS = 60.0  # replicas that start later than this after the failure do not hear of it
_ANSWER, _MOST_BYTES_OF_ANSWER = b"yt8m replica failed: ", 4096
_GREETING_SECONDS = 2.0  # time limit of one exchange of messages


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
            announce(cluster, reason)
        return
    over = f"{name} failed: {reason}" if ends_job and not isinstance(error, JobOverError) else ""
    _tell(cluster, {name: reason}, over, patience)


def refuse_failed(cluster: ClusterConfig, name: str, address: str) -> None:
    """Raises `JobOverError` if another replica, called `name`, says at its address that it failed."""
    reason = failure_at(cluster, address)
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
        with forks.new_session(f"grpc://{address}", config=config) as session:
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


def announce(cluster: ClusterConfig, reason: str) -> None:
    """Tells all other replicas that this one failed; does nothing if its port is in use, as by its own server.

    Others that have failed too need not be told.
    """
    try:
        listener = listen(cluster.address)
    except OSError:
        return
    logging.info(
        "telling the other replicas, for up to %g s, that this one failed: %s", *(ANNOUNCE_SECONDS, reason.rstrip("."))
    )
    missing, deadline = set(cluster.others), time.monotonic() + ANNOUNCE_SECONDS
    with contextlib.closing(listener):

        def answer_all() -> None:
            while missing and time.monotonic() < deadline:
                missing.discard(_answer(listener, reason))

        listener.settimeout(0.2)
        # In a thread of its own: two failed replicas ask each other at the same time.
        answering = threading.Thread(target=answer_all, name="early-failure", daemon=True)
        answering.start()
        while answering.is_alive():
            for name in sorted(missing):
                if failure_at(cluster, cluster.others[name]):
                    missing.discard(name)
            answering.join(0.2)


def _answer(listener: socket.socket, reason: str) -> str:
    """Answers one greeting, if there is one; returns the name of the replica that heard the reason, or nothing."""
    with contextlib.suppress(OSError):
        connection = listener.accept()[0]
        with connection:
            connection.settimeout(_GREETING_SECONDS)
            if not connection.recv(_MOST_BYTES_OF_ANSWER):  # it only looks whether somebody is here
                return ""
            connection.sendall(_ANSWER + reason.encode()[: _MOST_BYTES_OF_ANSWER - len(_ANSWER)])
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(_MOST_BYTES_OF_ANSWER).decode("utf-8", "replace")
    return ""


def failure_at(cluster: ClusterConfig, address: str, seconds: float = _GREETING_SECONDS) -> str:
    """Why the replica at `address` failed, if it says so there; else empty. It learns that this replica heard it.

    Args:
      seconds: how long to wait for the connection, and for the answer.
    """
    host, _, port = address.rpartition(":")
    content = b""
    with (
        contextlib.suppress(OSError, UnicodeError),
        socket.create_connection((host.strip("[]"), int(port)), seconds) as connection,
    ):
        connection.sendall(HELLO)
        while len(content) < _MOST_BYTES_OF_ANSWER and (part := connection.recv(_MOST_BYTES_OF_ANSWER)):
            content += part
            if not _ANSWER.startswith(content[: len(_ANSWER)]):
                return ""  # a TensorFlow server
        connection.sendall(cluster.replica_name(cluster.replica).encode())
    return content.removeprefix(_ANSWER).decode("utf-8", "replace") if content.startswith(_ANSWER) else ""
