"""A server like a mirror of YouTube-8M, which can cut and stall transfers, send wrong data, and answer errors."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

Handler = Any
Fault = Callable[[Handler, bytes, int], None]


class ShardServer:
    """Serves `files`, {published name: content}, as the partition 2/frame/train.

    Attributes:
      faults: {name: faults}; each fault happens to one GET of this name, in order.
      head_sizes: {name: wrong size that HEAD answers}.
      head_status: the status that HEAD answers; 0 for the right answer.
      plan: the bytes of a wrong download plan; None for the right plan.
      gets: (name, first requested byte) of each GET, in order.
      gate: a barrier at which each GET waits for others; None for none.
      most_at_once: the largest number of files that were served at the same time.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.faults = files, dict[str, list[Fault]]()
        self.gets, self.head_sizes = list[tuple[str, int]](), dict[str, int]()
        self.md5 = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
        self.plan: bytes | None = None
        self.head_status = 0
        self.release, self.lock = threading.Event(), threading.Lock()
        self.running = self.most_at_once = 0
        self.gate: threading.Barrier | None = None
        self.connections = set[socket.socket]()
        self.url = ""

    def plan_bytes(self) -> bytes:
        return json.dumps({"files": self.md5}).encode() if self.plan is None else self.plan

    def hang_up(self) -> None:
        """Closes the connections that clients keep open for further requests."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def fault(self, name: str) -> Fault:
        """Removes and returns the next fault of a name; `whole` if there is none."""
        with self.lock:
            waiting = self.faults.get(name)
            return waiting.pop(0) if waiting else whole

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a GET that is served in the block, for `most_at_once`."""
        with self.lock:
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
        try:
            if self.gate:
                self.gate.wait(120)
            yield
        finally:
            with self.lock:
                self.running -= 1


def send(handler: Handler, body: bytes, start: int, length: int | None = None, total: int = 0) -> None:
    """Sends headers and a body that begins at byte `start` of `total`; `length` is a wrong Content-Length."""
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)
    handler.wfile.flush()


def whole(handler: Handler, content: bytes, start: int) -> None:
    if start >= len(content) > 0:
        handler.send_error(416)
        return
    send(handler, content[start:], start, total=len(content))


def cut(at: int) -> Fault:
    """A fault: ends the connection after `at` more bytes."""

    def serve(handler: Handler, content: bytes, start: int) -> None:
        send(handler, content[start : start + at], start, len(content) - start, len(content))
        handler.close_connection = True

    return serve


def stall(at: int) -> Fault:
    """A fault: sends `at` bytes, then nothing more, and keeps the connection open."""

    def serve(handler: Handler, content: bytes, start: int) -> None:
        send(handler, content[start : start + at], start, len(content) - start, len(content))
        handler.server.shards.release.wait(600)
        handler.close_connection = True

    return serve


def drip(handler: Handler, content: bytes, start: int) -> None:
    """A fault: sends one byte at a time, so slowly that the transfer hardly ends."""
    send(handler, b"", start, len(content) - start, len(content))
    with contextlib.suppress(OSError):
        for place in range(start, len(content)):
            handler.wfile.write(content[place : place + 1])
            handler.wfile.flush()
            if handler.server.shards.release.wait(0.05):
                break
    handler.close_connection = True


def wrong_bytes(handler: Handler, content: bytes, start: int) -> None:
    whole(handler, bytes(byte ^ 1 for byte in content), start)


def lie(difference: int) -> Fault:
    """A fault: the Content-Length differs from the number of bytes that are sent."""

    def serve(handler: Handler, content: bytes, start: int) -> None:
        send(handler, content[start:], start, len(content) - start + difference, len(content))
        handler.close_connection = True

    return serve


def no_ranges(handler: Handler, content: bytes, start: int) -> None:
    """A fault: sends the whole file, although a part was requested."""
    send(handler, content, 0)


def other_range(handler: Handler, content: bytes, start: int) -> None:
    """A fault: answers 206, as if with the requested part, but sends the file from its beginning."""
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 0-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def status(code: int, retry_after: str | None = None) -> Fault:
    def serve(handler: Handler, content: bytes, start: int) -> None:
        handler.send_response(code)
        if retry_after is not None:
            handler.send_header("Retry-After", retry_after)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return serve


class _Requests(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.shards.connections.add(self.connection)

    def do_GET(self) -> None:
        shards, name = self.server.shards, self.path.rpartition("/")[2]
        if self.path == "/2/download_plans/frame_train.json":
            shards.fault("plan")(self, shards.plan_bytes(), 0)
            return
        if not self.path.startswith("/2/frame/train/") or name not in shards.files:
            self.send_error(404)
            return
        start = int((re.findall(r"bytes=(\d+)-", self.headers.get("Range", "")) or ["0"])[0])
        with shards.lock:
            shards.gets.append((name, start))
        with shards.counted(), contextlib.suppress(ConnectionError):
            shards.fault(name)(self, shards.files[name], start)

    def do_HEAD(self) -> None:
        shards, name = self.server.shards, self.path.rpartition("/")[2]
        if shards.head_status:
            self.send_response(shards.head_status)
            self.end_headers()
            return
        if name not in shards.files:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(shards.head_sizes.get(name, len(shards.files[name]))))
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


@contextlib.contextmanager
def serving(files: dict[str, bytes]) -> Iterator[ShardServer]:
    """Runs the server on a free port of this machine during the block; yields its `ShardServer`."""
    shards = ShardServer(files)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Requests)
    server.daemon_threads, server.shards = True, shards
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    shards.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield shards
    finally:
        shards.release.set()
        server.shutdown()
        shards.hang_up()
        thread.join()
        server.server_close()
