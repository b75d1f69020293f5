"""How replicas without parameter servers learn that one of them failed before it could start.

The others wait for its TensorFlow server. So the failed process opens the port of that server itself, and answers each
greeting with the reason, until all others have heard it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from absl import logging

from yt8m.deploy.cluster import ClusterConfig
from yt8m.runner.cluster.peers import HELLO, listen

ANNOUNCE_SECONDS = 60.0  # replicas that start later than this after the failure do not hear of it
_PREFIX = b"yt8m replica failed: "
_MOST_BYTES = 4096
_CALL_SECONDS = 2.0  # time limit of one exchange of messages


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
            connection.settimeout(_CALL_SECONDS)
            if not connection.recv(_MOST_BYTES):  # it only looks whether somebody is here
                return ""
            connection.sendall(_PREFIX + reason.encode()[: _MOST_BYTES - len(_PREFIX)])
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(_MOST_BYTES).decode("utf-8", "replace")
    return ""


def failure_at(cluster: ClusterConfig, address: str, seconds: float = _CALL_SECONDS) -> str:
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
        while len(content) < _MOST_BYTES and (part := connection.recv(_MOST_BYTES)):
            content += part
            if not _PREFIX.startswith(content[: len(_PREFIX)]):
                return ""  # a TensorFlow server
        connection.sendall(cluster.replica_name(cluster.replica).encode())
    return content.removeprefix(_PREFIX).decode("utf-8", "replace") if content.startswith(_PREFIX) else ""
