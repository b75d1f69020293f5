"""HTTP requests with retries, and the download of one file.

A file is fetched under a hidden name, and renamed when its md5 is right. An interrupted transfer continues where it
ended. The library `requests` sends the requests; urllib3's `Retry` counts the tries and computes the waits between
them. The loop of the tries is in this module: that of `Retry` cannot end a wait when the download is stopped, and
cannot continue a transfer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import requests
from urllib3 import Retry
from urllib3.exceptions import HTTPError, InvalidHeader, MaxRetryError, ProtocolError

from yt8m import storage
from yt8m.errors import RunError
from yt8m.storage.partial_file import PartialFile

T = TypeVar("T")

_RETRIED_STATUSES = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses after which another try may help
# HTTP statuses: a part of a file is sent; the file has no such part; the server does not answer HEAD requests.
_PARTIAL, _NO_SUCH_RANGE, _NO_HEAD = 206, 416, (405, 501)
_BLOCK = 1 << 18  # largest number of bytes that are read from a connection at a time
_LONGEST_WAIT = 120  # largest number of seconds between two tries
_LEAST_BYTES = 1024  # a connection counts as stalled if fewer bytes than this arrive in `stall_seconds`


class StoppedError(Exception):
    """The download was stopped by `Client.end`."""


class BrokenError(Exception):
    """The connection ended early or stalled, or the server is busy; another try may help.

    Args:
      wait: seconds that the server asks the client to wait before the next try; 0 if it does not say.
    """

    def __init__(self, reason: str, wait: float = 0) -> None:
        super().__init__(reason)
        self.wait = wait


class WrongRangeError(BrokenError):
    """The server does not continue a file from the requested byte; the next try begins at byte 0."""

    def __init__(self) -> None:
        super().__init__("the server cannot continue in the middle of the file")


class _ThreadLocalSession(threading.local):
    """Gives each thread a session of its own, because threads must not share one."""

    def __init__(self) -> None:
        self.session = requests.Session()


class Client:
    """The HTTP client of a download. Several threads may call the methods at the same time.

    Args:
      retries: number of retries in a row that may fail without a byte received, after a first try that failed too.
      backoff_seconds: seconds to wait before the second retry; the wait doubles with each further retry.
      stall_seconds: number of seconds without data after which a connection is closed and opened again.
    """

    def __init__(self, retries: int, backoff_seconds: float, stall_seconds: float) -> None:
        self._policy = Retry(
            retries, backoff_factor=backoff_seconds, backoff_jitter=backoff_seconds / 4, backoff_max=_LONGEST_WAIT
        )
        self._stall_seconds = stall_seconds
        self._thread_local = _ThreadLocalSession()
        self._transfers: set[requests.Response] = set()
        self.stop = threading.Event()

    def end(self) -> None:
        """Stops the download: sets `stop`, and shuts down the open transfers, so that no thread waits for a server."""
        self.stop.set()
        for response in list(self._transfers):
            with contextlib.suppress(OSError, ValueError):  # raised if the transfer has just ended
                response.raw.shutdown()

    def retry(self, url: str, work: Callable[[], T], progress: Callable[[], int] = lambda: 0) -> T:
        """Calls a function until it succeeds, and returns its result.

        Args:
          progress: returns a number that grows with the progress of `work`. If it has grown since the last try, the
            count of failed tries begins again. By default the number never grows.
        """
        policy, earlier_progress = self._policy, progress()
        while not self.stop.is_set():
            try:
                return work()
            except BrokenError as broken:
                policy, earlier_progress = (self._policy if progress() > earlier_progress else policy), progress()
                try:
                    policy = policy.increment("GET", url, error=ProtocolError(str(broken)))
                except MaxRetryError as error:
                    tries = len(policy.history) + 1
                    raise RunError(
                        f"{url}: {broken} (given up after {tries} tries without progress; check the network, or "
                        "try later)"
                    ) from error
                self.stop.wait(min(broken.wait, _LONGEST_WAIT) or policy.get_backoff_time())
        raise StoppedError

    def size(self, url: str) -> int | None:
        """The size of a file in bytes; None if the server does not say."""

        def request_size() -> int | None:
            with self._open("HEAD", url) as response:
                length = response.headers.get("Content-Length", "")
                return int(length) if response.ok and length.isdecimal() else None

        return self.retry(url, request_size)

    def content(self, url: str) -> bytes:
        """Fetches a small file into memory; raises the same errors as `size`."""
        return self.retry(url, lambda: b"".join(block for _, block in self.blocks(url, 0)))

    def blocks(self, url: str, start: int) -> Iterator[tuple[int, bytes]]:
        """Fetches a file over one connection: from byte `start` on, or all if the server sends only whole files.

        Yields:
          (offset of the first byte, bytes) of each block that arrives.
        """
        with self._open("GET", url, start) as response:
            is_part = response.status_code == _PARTIAL
            if is_part and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise WrongRangeError
            offset = start if is_part else 0
            for block in self._body(response):
                yield offset, block
                offset += len(block)

    def _open(self, method: str, url: str, start: int = 0) -> requests.Response:
        """Sends a request for a file from byte `start` on, and returns the response when its header has arrived."""
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
        try:
            response = self._thread_local.session.request(
                method, url, headers=headers, stream=True, timeout=self._stall_seconds, allow_redirects=True
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            raise BrokenError(f"no answer ({_reason(error)})") from error
        except requests.RequestException as error:
            raise RunError(f"{url}: {error}") from error
        if response.ok or (method == "HEAD" and response.status_code in _NO_HEAD):
            return response
        response.close()
        if response.status_code == _NO_SUCH_RANGE:
            raise WrongRangeError
        answer = f"the server answered {response.status_code} {response.reason}"
        if response.status_code not in _RETRIED_STATUSES:
            raise RunError(f"{response.url}: {answer}")
        wait = None
        with contextlib.suppress(InvalidHeader):
            wait = self._policy.get_retry_after(response.raw)
        raise BrokenError(answer, wait or 0)

    def _body(self, response: requests.Response) -> Iterator[bytes]:
        """Yields the body of a response as it arrives."""
        started, received = time.monotonic(), 0
        self._transfers.add(response)
        try:
            # `read1` returns what has arrived and does not wait for a full block, so a very slow transfer is noticed.
            while block := response.raw.read1(_BLOCK):
                if self.stop.is_set():
                    raise StoppedError
                received += len(block)
                yield block
                if time.monotonic() - started > self._stall_seconds:
                    if received < _LEAST_BYTES:
                        raise BrokenError(f"{received} bytes arrived in {self._stall_seconds:g} s")
                    started, received = time.monotonic(), 0
        except (HTTPError, OSError) as error:
            raise BrokenError(f"the connection broke ({_reason(error)})") from error
        finally:
            self._transfers.discard(response)


def _reason(error: BaseException) -> str:
    """The message of the exception that was raised first, before libraries raised `error` in its place."""
    while error.__context__ is not None:
        error = error.__context__
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class Job(NamedTuple):
    """One file to fetch.

    Attributes:
      md5: md5 of the whole content, in hexadecimal.
    """

    url: str
    target: str
    md5: str

    @property
    def partial(self) -> str:
        """The path of the unfinished file. The dot before its name keeps it out of patterns such as `*.tfrecord`."""
        folder, name = os.path.split(self.target)
        return os.path.join(folder, f".{name}.{self.md5[:8]}.part")

    @property
    def lock(self) -> str:
        """The path of the lock that a process holds while it fetches the file."""
        return f"{self.partial}.lock"


def is_complete(job: Job, overwrite: bool) -> bool:
    """Whether the file exists with the right content; reads the whole file. Then removes the lock of a killed start.

    Args:
      overwrite: whether a file of this name with other content may be replaced.
    """
    if not storage.exists(job.target):
        return False
    with storage.open_read(job.target) as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()  # type: ignore[arg-type]
    if digest != job.md5 and not overwrite:
        raise RunError(
            f"{job.target} exists with the md5 {digest}; expected {job.md5}. Move it away, or add --overwrite to "
            "replace it."
        )
    if digest == job.md5 and storage.exists(job.lock):
        with contextlib.suppress(storage.Locked), storage.lock(job.lock):
            pass  # the lock is free, and its file is removed at the end of the block
    return digest == job.md5


def fetch(client: Client, job: Job, advance: Callable[[int], None]) -> None:
    """Fetches a file, checks its md5, and saves it; continues after the bytes that an interrupted download left.

    Args:
      advance: called with the number of bytes received since the last call; negative if bytes are discarded.
    """
    with storage.lock(job.lock), contextlib.closing(PartialFile(job.partial)) as file:
        advance(file.size)
        for _ in range(2):
            client.retry(job.url, lambda: _fetch_rest(client, job, file, advance), lambda: file.size)
            if (digest := file.md5()) == job.md5:
                file.complete(job.target)
                return
            _clear(file, advance)
        file.discard()
        raise RunError(
            f"{job.url}: its content has the md5 {digest}; expected {job.md5}. Try again later, or name another "
            "--mirror."
        )


def _fetch_rest(client: Client, job: Job, file: PartialFile, advance: Callable[[int], None]) -> None:
    """Fetches the missing bytes of a file over one connection.

    Does nothing if the md5 is already right: then the server announced more bytes than the file has, and the transfer
    seemed to end early.
    """
    if file.md5() == job.md5:
        return
    try:
        for offset, block in client.blocks(job.url, file.size):
            if offset != file.size:  # the server sends the whole file again
                _clear(file, advance)
            file.append(block)
            advance(len(block))
    except WrongRangeError:
        _clear(file, advance)
        raise


def _clear(file: PartialFile, advance: Callable[[int], None]) -> None:
    """Discards all received bytes of a file, so that the next transfer begins at byte 0."""
    advance(-file.size)
    file.clear()
