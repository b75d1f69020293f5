"""A socket, and uvicorn on it until a signal comes."""

from __future__ import annotations

import contextlib
import math
import signal
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from yt8m.errors import RunError

_BACKLOG = 128  # connections that the system keeps while none is accepted


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """A listening socket and its address as a URL, taken before the model is loaded.

    Raises:
      RunError: the address is not this machine's, or the port is taken.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.create_server(place[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise RunError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; "
            "choose another by --host and --port."
        ) from error
    with opened:
        name = f"[{host}]" if ":" in host else host
        yield opened, f"http://{name}:{opened.getsockname()[1]}"


def run(app: FastAPI, opened: socket.socket, timeout: float, max_connections: int) -> None:
    """Answers requests until SIGTERM or SIGINT, then those that are at work, then returns.

    Args:
      app: answers them.
      opened: the listening socket.
      timeout: seconds that requests at work get to end.
      max_connections: further ones are answered 503 by uvicorn itself.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        limit_concurrency=max_connections,
        timeout_graceful_shutdown=math.ceil(timeout),
    )
    # uvicorn ends in order and then raises the signal again, which would kill us with another exit status.
    former = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        uvicorn.Server(config).run(sockets=[opened])
    finally:
        signal.signal(signal.SIGTERM, former)
