"""How storage fails, and who holds a lock.

What the use of buckets needs to know for the whole process: where to keep copies, how long to try.

What a kind of storage must be able to do; the functions of `yt8m.storage` say what each means.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, NamedTuple, Protocol

from yt8m.errors import RunError
from yt8m.storage import json_text


class NotFoundError(RunError):
    """There is no such file or folder."""


class Locked(RunError):  # noqa: N818 - it is a state of the file, and reads so where it is caught
    """Another process holds the lock.

    Attributes:
      holder: what it wrote down of itself (pid, host, since); empty where it had not done so yet.
    """

    def __init__(self, path: str, holder: dict[str, Any]) -> None:
        self.holder = holder
        who = "another process"
        if holder:
            who = f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}"
        super().__init__(f"{path} is held by {who}. Wait until it ends, or stop it.")


def this_holder() -> bytes:
    """What this process writes into a lock file; never twice the same."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
    return json.dumps({**holder, "token": secrets.token_hex(8)}).encode()


def parse_holder(content: bytes) -> dict[str, Any]:
    """What a lock file says of its holder; empty where it says nothing readable."""
    try:
        holder = json_text.parse(content)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


STAGE_BYTES = 20 << 30
RETRY_SECONDS = 300.0
GIVEN_RETRY = "YT8M_GS_RETRY_SECONDS"  # for tools, which have no such flag


@dataclass(frozen=True)
class Settings:
    """How buckets are used.

    Attributes:
      cache_dir: a local folder for copies; empty for `yt8m` in XDG_CACHE_HOME or ~/.cache.
      stage_cache_bytes: how much of the copies of shards stays there.
      gs_reading: how shards are read: `staged` through the cache, or `direct` by TensorFlow.
      gs_retry_seconds: how long one request is tried again where that can help.
    """

    cache_dir: str = ""
    stage_cache_bytes: int = STAGE_BYTES
    gs_reading: str = "staged"
    gs_retry_seconds: float = RETRY_SECONDS


_settings = Settings()


def configure_storage(settings: Settings) -> None:
    """Makes `settings` those of this process."""
    global _settings
    _settings = settings


def current_settings() -> Settings:
    """Those last given to `configure`."""
    return _settings


def cache_dir() -> str:
    """The local folder for copies; it may not exist yet."""
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.abspath(_settings.cache_dir or os.path.join(usual, "yt8m"))


def retry_seconds() -> float:
    """Seconds that one request may take with all its repetitions."""
    given = os.environ.get(GIVEN_RETRY, "")
    if _settings.gs_retry_seconds != RETRY_SECONDS or not given:
        return _settings.gs_retry_seconds
    try:
        return float(given)
    except ValueError:
        return RETRY_SECONDS


class Stamp(NamedTuple):
    """What tells one version of a file from another.

    Attributes:
      bytes: of the file.
      version: when it was written, in ns since 1970; of an object in a bucket, its generation.
    """

    bytes: int
    version: int


class Store(Protocol):
    """One kind of storage. Paths are whole, as the user wrote them."""

    def glob(self, pattern: str) -> list[str]: ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def open_read(self, path: str) -> AbstractContextManager[BinaryIO]: ...

    def write_atomic(self, path: str, mode: str) -> AbstractContextManager[IO[Any]]: ...

    def discard_unfinished(self, path: str) -> None: ...

    def discard_orphans(self, path: str) -> None: ...

    def append(self, path: str, data: bytes) -> None: ...

    def makedirs(self, path: str) -> None: ...

    def listdir(self, path: str) -> list[str]: ...

    def times(self, path: str) -> dict[str, float]: ...

    def stamps(self, paths: Sequence[str]) -> dict[str, Stamp]: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None: ...

    def size(self, path: str) -> int: ...

    def lock(self, path: str) -> AbstractContextManager[None]: ...
