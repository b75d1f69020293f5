"""The HTTP server: a listening socket, connections with deadlines, and a shutdown within a time limit.

uvicorn waits for the headers of a request without a time limit, and its limit on connections counts idle connections
too. So a few hundred clients that send half a header could lock out all others. `Connection` gives every connection a
deadline. If there are too many connections, it closes the one that has been idle longest.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http
import json
import math
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import h11
import uvicorn
from absl import logging
from uvicorn.protocols.http.h11_impl import H11Protocol

from yt8m.errors import RunError, UsageError
from yt8m.termination import stop_signals

_BACKLOG = 128  # number of connections that the operating system queues before the server accepts them
_HEAD_SECONDS = 10.0  # time limit for the headers of a request
_OTHER_FILES = 128  # number of file descriptors that are reserved for files other than connections
_LAST_SECONDS = 4.0  # at a shutdown, `LastResort` waits for `timeout` and then this long before it kills the process


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Opens a listening socket; yields the socket and its URL.

    Call this before the model is loaded, so that a wrong address is reported at once: loading takes long.

    Args:
      host: the name or the address of this machine; 0.0.0.0 for all of its addresses.
      port: the port; 0 for a free one.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        opened = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except UnicodeError as error:
        raise UsageError(
            f"--host={host} is neither a host name nor an IP address; give the name or the address of this machine, "
            "such as 127.0.0.1."
        ) from error
    except OSError as error:
        raise RunError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}; choose another by --host and --port."
        ) from error
    with opened:
        # Accepted connections inherit TCP_NODELAY; asyncio sets it only for sockets made with proto=IPPROTO_TCP.
        # Without it, the body of an answer waits until the client has acknowledged the headers: 40 ms on Linux.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = f"[{host}]" if ":" in host else host
        yield opened, f"http://{name}:{opened.getsockname()[1]}"


class Rules(NamedTuple):
    """The rules for all connections of a server.

    Attributes:
      timeout: seconds for a request to arrive; as many for its answer, and as many for the client to receive it.
      most: largest number of connections; for one more, the connection that has been idle longest is closed.
      count_refusal: called with the HTTP status if a `Connection` itself refuses a request, without the application.
    """

    timeout: float
    most: int
    count_refusal: Callable[[int], None]


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 connection with deadlines, and with refusals as JSON.

    Args:
      idle: the connections without a request in progress, as keys, the longest idle first. All connections of a server
        share this dictionary, and each adds and removes itself.
    """

    def __init__(self, rules: Rules, idle: dict[Connection, None], **settings: Any) -> None:
        super().__init__(**settings)
        self._rules, self._idle = rules, idle
        self._deadline: asyncio.TimerHandle | None = None
        self._request: object = None  # the request in progress; None if there is none
        self._has_begun = False  # whether the first bytes of the next request have arrived

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Sets the deadline of the headers; if there are too many connections, closes the longest idle one."""
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > self._rules.most:
            oldest = next(iter(self._idle))
            # If all other connections have a request in progress, this new connection is the longest idle one. Then its
            # client gets an answer that says why it is closed, as if its request had begun.
            oldest._has_begun |= oldest is self
            oldest._close(503, "there are too many connections; try again.")

    def data_received(self, data: bytes) -> None:
        """Receives bytes; if they begin a second or later request, sets the deadline of that request's headers."""
        self._has_begun = True
        super().data_received(data)
        self._update_request()
        if self._request is None and self._deadline is None:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """Makes the connection idle after an answer, unless its next request has already arrived."""
        self._has_begun = False
        super().on_response_complete()
        self._update_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the deadline, and removes the connection from the idle ones."""
        self._cancel_deadline()
        self._idle.pop(self, None)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuses bytes that are not HTTP with an answer in JSON, in place of uvicorn's plain text."""
        self._close(400, "this is not an HTTP/1.1 request, or its headers are longer than 16 kB.")

    def _update_request(self) -> None:
        """If a request has begun or ended, records whether the connection is idle, and changes the deadline."""
        request = None if self.cycle is None or self.cycle.response_complete else self.cycle
        if request is self._request:
            return
        self._cancel_deadline()
        self._request = request
        if request is None:
            self._idle[self] = None
        else:
            self._idle.pop(self, None)
            self._deadline = self.loop.call_later(3 * self._rules.timeout + 1, self.transport.abort)

    def _wait_for_head(self) -> None:
        """Makes the connection idle, and sets the deadline for the headers of its next request."""
        self._idle[self] = None
        seconds = min(_HEAD_SECONDS, self._rules.timeout)
        text = f"the headers did not arrive within {seconds:g} seconds."
        self._deadline = self.loop.call_later(seconds, self._close, 408, text)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self, status: int, text: str) -> None:
        """Closes the connection; if a request has begun and has no answer yet, first answers `status` and `text`."""
        self._cancel_deadline()
        self._idle.pop(self, None)
        is_passed_on = self.conn.our_state is h11.SEND_RESPONSE  # the application is reading the body of the request
        has_no_answer = is_passed_on or self.conn.our_state is h11.IDLE
        if self._has_begun and not self.transport.is_closing() and has_no_answer:
            body = json.dumps({"error": text}).encode()
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            headers += [("retry-after", "1")] if status == 503 else []
            events = (
                h11.Response(status_code=status, headers=headers, reason=http.HTTPStatus(status).phrase.encode()),
                h11.Data(data=body),
                h11.EndOfMessage(),
            )
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
            if is_passed_on:
                self.cycle.disconnected = True  # the application counts the request, but must not answer it too
            else:
                self._rules.count_refusal(status)
        self.transport.close()


class LastResort:
    """Ends this process with status 1 a certain time after `begin`, unless the `with` block has ended by then.

    This is needed because a step of the model cannot be interrupted, and Python does not exit before the thread of the
    step has ended.

    Args:
      timeout: seconds that requests in progress have to finish; the process is ended four seconds later.
    """

    def __init__(self, timeout: float) -> None:
        self._timer = threading.Timer(timeout + _LAST_SECONDS, self._kill_process)
        self._timer.daemon = True

    def __enter__(self) -> LastResort:
        return self

    def __exit__(self, *unused: object) -> None:
        self._timer.cancel()

    def begin(self) -> None:
        """Starts the timer; further calls do nothing."""
        if self._timer.ident is None:
            self._timer.start()

    @staticmethod
    def _kill_process() -> None:
        logging.error("a step of the model did not end in time: ending the process")
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(1)


class _Server(uvicorn.Server):
    """uvicorn's server. A signal that stops the server also starts the timer of `LastResort`."""

    def __init__(self, config: uvicorn.Config, last_resort: LastResort) -> None:
        super().__init__(config)
        self._last_resort = last_resort
        self.is_interrupted = False
        self.stop_signals = {signal.SIGTERM, *stop_signals()}  # a service without SIGTERM could not be stopped

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig not in self.stop_signals:  # uvicorn handles SIGINT also where it was ignored before
            return
        self.is_interrupted |= sig == signal.SIGINT
        super().handle_exit(sig, frame)
        self._last_resort.begin()


def run(app: Any, opened: socket.socket, rules: Rules, last_resort: LastResort, greeting: str) -> None:
    """Serves until SIGTERM, its like (`stop_signals`) or Ctrl-C, then finishes the requests in progress and returns.

    Requests that are still in progress `rules.timeout` seconds after the signal are cancelled.

    Raises:
      KeyboardInterrupt: Ctrl-C stopped the server.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files != resource.RLIM_INFINITY:
        rules = rules._replace(most=max(1, min(rules.most, files - _OTHER_FILES)))
    protocol: Any = functools.partial(Connection, rules, {})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=math.ceil(rules.timeout),
    )
    server = _Server(config, last_resort)
    # uvicorn installs its handlers only when it runs, and after its shutdown it raises the signals again for the former
    # handlers. So the former handlers must be the server's too: otherwise a signal just before or after uvicorn's run
    # would end the process at once, or change its exit status.
    former = {number: signal.signal(number, server.handle_exit) for number in server.stop_signals}
    try:
        print(greeting, flush=True)
        server.run(sockets=[opened])
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if server.is_interrupted:
        raise KeyboardInterrupt
