"""HTTP with patience: requests does the talking, urllib3's Retry counts the tries and the waits between."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import requests
from urllib3 import Retry
from urllib3.exceptions import HTTPError, InvalidHeader, MaxRetryError, ProtocolError

from yt8m.errors import RunError

T = TypeVar("T")

_WORTH_ANOTHER_TRY = (408, 425, 429, 500, 502, 503, 504)
_PARTIAL, _NO_SUCH_RANGE, _NO_HEAD = 206, 416, (405, 501)
_BLOCK = 1 << 18
_LEAST_BYTES = 1024  # that a connection must bring in `stall_seconds`: a drip is a stall too


class StoppedError(Exception):
    """The download was told to stop."""


class BrokenError(Exception):
    """The connection ended early, stalled, or the server answered that it is busy; worth another try."""

    def __init__(self, reason: str, response: requests.Response | None = None) -> None:
        super().__init__(reason)
        self.response = response


class Client:
    """Requests of one program; usable from several threads.

    Args:
      retries: tries in a row that may gain nothing.
      backoff_seconds: wait before the second retry, doubled with each further one.
      stall_seconds: silence after which a connection is given up.

    Attributes:
      stop: once set, every wait and transfer ends with `StoppedError`.
    """

    def __init__(self, retries: int, backoff_seconds: float, stall_seconds: float) -> None:
        self._policy = Retry(
            total=retries, backoff_factor=backoff_seconds, backoff_jitter=backoff_seconds / 4, backoff_max=120
        )
        self._stall_seconds = stall_seconds
        self._threads = threading.local()
        self._transfers: set[requests.Response] = set()
        self.stop = threading.Event()

    def end(self) -> None:
        """Sets `stop`, and wakes the threads that wait for a server."""
        self.stop.set()
        for response in list(self._transfers):
            with contextlib.suppress(OSError, ValueError):  # it has ended by itself
                response.raw.shutdown()

    def persist(self, url: str, work: Callable[[], T], gained: Callable[[], int] = lambda: 0) -> T:
        """Does `work` until it succeeds.

        Args:
          url: what it is about.
          work: raises `BrokenError` where another try may help.
          gained: a number that grows as work gets on; the tries are counted anew when it has.

        Raises:
          RunError: too many tries in a row gained nothing.
          StoppedError: told to stop.
        """
        policy, before = self._policy, gained()
        while True:
            if self.stop.is_set():
                raise StoppedError
            try:
                return work()
            except BrokenError as broken:
                policy, before = (self._policy if gained() > before else policy), gained()
                policy = self._one_less(policy, url, broken)
                self._wait(policy, broken)

    def _one_less(self, policy: Retry, url: str, broken: BrokenError) -> Retry:
        try:
            return policy.increment("GET", url, error=ProtocolError(str(broken)))
        except MaxRetryError as error:
            tries = len(policy.history) + 1
            raise RunError(f"{url}: {broken} (given up after {tries} tries that gained nothing)") from error

    def _wait(self, policy: Retry, broken: BrokenError) -> None:
        """As long as the server asks for, at most two minutes, else as the policy says."""
        asked = None
        if broken.response is not None:
            with contextlib.suppress(InvalidHeader):
                asked = policy.get_retry_after(broken.response.raw)
        self.stop.wait(min(asked, policy.backoff_max) if asked else policy.get_backoff_time())

    def size(self, url: str) -> int | None:
        """Bytes of a file, where the server says so.

        Raises:
          RunError: there is no such file, or the server cannot be reached.
        """

        def ask() -> int | None:
            with self._open("HEAD", url) as response:
                is_told = response.status_code not in _NO_HEAD
                return _number(response.headers.get("Content-Length")) if is_told else None

        return self.persist(url, ask)

    def content(self, url: str) -> bytes:
        """All of a small file; raises as `size`."""

        def read() -> bytes:
            with self._open("GET", url) as response:
                return b"".join(self._blocks(response))

        return self.persist(url, read)

    def blocks(self, url: str, start: int) -> Iterator[tuple[int, bytes]]:
        """(place, bytes) of a file from byte `start` on; from 0 where the server gives it whole only.

        Raises:
          BrokenError: it ended early; what came is good to go on from.
          WrongRangeError: the server cannot go on from there.
          RunError: there is no such file.
        """
        with self._open("GET", url, start) as response:
            is_part = response.status_code == _PARTIAL
            if is_part and not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise WrongRangeError(url)
            place = start if is_part else 0
            for block in self._blocks(response):
                yield place, block
                place += len(block)

    def _open(self, method: str, url: str, start: int = 0) -> requests.Response:
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
        try:
            response = self._session().request(
                method, url, headers=headers, stream=True, timeout=self._stall_seconds, allow_redirects=True
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            raise BrokenError(f"no answer ({_reason(error)})") from error
        except requests.RequestException as error:
            raise RunError(f"{url}: {error}") from error
        if response.status_code == _NO_SUCH_RANGE:
            raise WrongRangeError(url)
        if response.status_code >= 400 and not (method == "HEAD" and response.status_code in _NO_HEAD):
            _refuse(response)
        return response

    def _session(self) -> requests.Session:
        """One a thread: a session is not meant to be shared."""
        if not hasattr(self._threads, "session"):
            self._threads.session = requests.Session()
        session: requests.Session = self._threads.session
        return session

    def _blocks(self, response: requests.Response) -> Iterator[bytes]:
        """The body as it comes; `read1` gives what is there, so that a drip of bytes is seen as it falls."""
        expected, got = _number(response.headers.get("Content-Length")), 0
        since, mark = time.monotonic(), 0
        self._transfers.add(response)
        try:
            while block := response.raw.read1(_BLOCK):
                if self.stop.is_set():
                    raise StoppedError
                got += len(block)
                yield block
                if time.monotonic() - since > self._stall_seconds:
                    if got - mark < _LEAST_BYTES:
                        raise BrokenError(f"{got - mark} bytes came in {self._stall_seconds:g} s")
                    since, mark = time.monotonic(), got
        except (HTTPError, OSError) as error:
            raise BrokenError(f"the connection broke ({_reason(error)})") from error
        finally:
            self._transfers.discard(response)
        if expected is not None and got < expected:
            raise BrokenError(f"the connection ended after {got} of {expected} bytes")


class WrongRangeError(Exception):
    """The server does not go on from where it was asked to."""


def _refuse(response: requests.Response) -> None:
    status = f"{response.status_code} {response.reason}"
    response.close()
    if response.status_code in _WORTH_ANOTHER_TRY:
        raise BrokenError(f"the server answered {status}", response)
    raise RunError(f"{response.url}: the server answered {status}")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _reason(error: BaseException) -> str:
    """The innermost cause, without the objects that libraries wrap around it."""
    while error.args and isinstance(error.args[-1], BaseException):
        error = error.args[-1]
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _reason(reason)
    return str(error).rpartition(": ")[2] or type(error).__name__
