"""An HTTP proxy in front of the storage emulator. It injects faults, and checks the precondition `ifGenerationMatch`.

Google's storage answers 412 if the object has another generation. The emulator ignores the precondition, so the proxy
answers in its place.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_KEPT = ("content-type", "content-length", "location", "x-goog-hash", "range", "content-range")


@dataclass
class Fault:
    """A fault that the proxy injects.

    Attributes:
      method: the HTTP method of the requests to which the fault happens.
      part: a text that their unquoted path or the beginning of their body contains.
      times: number of requests to which the fault happens; later ones are forwarded as usual.
      status: status to answer in place of the emulator's; 0 for the emulator's.
      cut: whether the proxy reads half of the body, and then ends the connection.
      lose_answer: whether the request is forwarded although `status` is answered.
      flip: whether one bit of the body of the emulator's answer is flipped.
      before: function to call before the request is forwarded.
    """

    method: str
    part: str = ""
    times: int = 10**9
    status: int = 0
    cut: bool = False
    lose_answer: bool = False
    flip: bool = False
    before: Callable[[], None] | None = None


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
      address: the address of the proxy, for STORAGE_EMULATOR_HOST.
      faults: the faults to inject; of those that fit a request, the first one happens to it.
      requests: `METHOD path` of each request so far.
      connections: the sockets of the clients.
    """

    address: str
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault_for(self, method: str, text: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.method == method and fault.part in text and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    """The HTTP server of a proxy.

    Attributes:
      proxy: the proxy.
      emulator: `host:port` of the emulator.
    """

    daemon_threads = True
    proxy: Proxy
    emulator: str


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.proxy.connections.append(self.connection)

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        path = urllib.parse.unquote(self.path)
        self.server.proxy.requests.append(f"{self.command} {path}")
        peek = b""
        if length:
            peek = self.rfile.read(min(length, length // 2 + 1))
        fault = self.server.proxy.fault_for(self.command, path + peek[:2000].decode("latin-1"))
        if fault and fault.cut:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        body = peek + self.rfile.read(length - len(peek))
        if fault and fault.before:
            fault.before()
        if fault and fault.status and not fault.lose_answer:
            self._answer(fault.status, {}, _error(fault.status))
            return
        status, headers, content = self._forwarded(path, body)
        if fault and fault.lose_answer:
            status, headers, content = fault.status, {}, _error(fault.status)
        if fault and fault.flip and content:
            content = bytes([content[0] ^ 1]) + content[1:]
        self._answer(status, headers, content)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve  # noqa: N815

    def _forwarded(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        wanted = re.search(r"[?&]ifGenerationMatch=(\d+)", path)
        if wanted and self.command != "PUT" and int(wanted[1]) != self._generation(path, body):
            return 412, {}, _error(412)
        status, headers, content = _ask(self.server.emulator, self.command, self.path, body, dict(self.headers))
        if b'"mediaLink"' in content:  # a link to the object at the emulator, which clients follow
            content = content.replace(
                self.server.emulator.encode(), self.server.proxy.address.removeprefix("http://").encode()
            )
        return status, headers, content

    def _generation(self, path: str, body: bytes) -> int:
        """The generation of the object that a request names in its path or its body; 0 if there is no such object."""
        bucket = re.search(r"/b/([^/?]+)", path)
        name_in_path = re.search(r"/o/([^?]+)", path)
        name_in_body = re.search(rb'"name":\s*"([^"]+)"', body[:4000])
        assert bucket, path
        name = name_in_path[1] if name_in_path else name_in_body[1].decode()
        quoted = urllib.parse.quote(name, safe="")
        status, _, content = _ask(self.server.emulator, "GET", f"/storage/v1/b/{bucket[1]}/o/{quoted}", b"", {})
        return int(json.loads(content)["generation"]) if status == 200 else 0

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() in _KEPT and name.lower() != "content-length":
                self.send_header(
                    name, value.replace(self.server.emulator, self.server.proxy.address.removeprefix("http://"))
                )
        self.send_header("Content-Length", str(len(content)))
        with contextlib.suppress(OSError):  # the client has gone
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


def _error(status: int) -> bytes:
    return json.dumps({"error": {"code": status, "message": f"injected {status}"}}).encode()


def _ask(host: str, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        sent = {k: v for k, v in headers.items() if k.lower() not in ("host", "connection", "accept-encoding")}
        connection.request(method, path, body or None, sent)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@contextlib.contextmanager
def running_proxy(emulator: str) -> Iterator[Proxy]:
    """A proxy in front of the emulator while the block runs."""
    proxy = Proxy("")
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy, server.emulator = proxy, urllib.parse.urlsplit(emulator).netloc
    proxy.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        for connection in proxy.connections:  # clients keep their connections open for further requests
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()
        thread.join()
