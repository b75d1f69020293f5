"""The common parts of local and remote storage: errors, safe parsing of JSON, lock holders, file versions, settings."""

from __future__ import annotations

import collections
import contextlib
import datetime
import errno
import json
import os
import re
import secrets
import socket
from dataclasses import dataclass
from typing import Any, NamedTuple

from yt8m.errors import RunError

WILD = re.compile(r"[*?\[]")  # the characters with a special meaning in patterns

DISK_FULL = {errno.ENOSPC, errno.EDQUOT}  # numbers of errors of the system
NO_ROOM = DISK_FULL | {errno.EFBIG}

_MAX_LEVELS = 100  # nested levels of JSON: files of this package have at most six; a few hundred exceed Python's stack


class NotFoundError(RunError):
    """There is no such file or folder."""


class Locked(RunError):  # noqa: N818 - the name tells the state of the file, rather than a failure
    """Another process holds the lock.

    Args:
      holder: the content of the lock file, {"pid": ..., "host": ..., "since": ...}; empty if the holder has not written
        it yet.
    """

    def __init__(self, path: str, holder: dict[str, Any], remedy: str = "") -> None:
        self.holder = holder
        process = "another process"
        if holder:
            process = f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}"
        super().__init__(f"{path} is held by {process}. Wait until it ends, or stop it.{remedy}")


def parse_json(text: str | bytes) -> Any:
    """Like `json.loads`, but refuses JSON that is nested so deeply that recursive functions would fail on it.

    An object that has a key twice is refused too, because only one of its values would be kept.
    """
    with contextlib.suppress(RecursionError):
        value = json.loads(text, object_pairs_hook=_object_of)
        level = [value]
        for _ in range(_MAX_LEVELS + 1):
            level = [part for part in level if isinstance(part, dict | list)]
            if not level:
                # JSON may spell half of a character (`"\\ud800"`), which no file and no terminal takes.
                if "\\u" in (text if isinstance(text, str) else text.decode("utf-8", "replace")):
                    json.dumps(value, ensure_ascii=False).encode()
                return value
            level = [part for outer in level for part in (outer.values() if isinstance(outer, dict) else outer)]
    raise ValueError(f"its lists or objects are nested deeper than {_MAX_LEVELS} levels")


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values_by_key = dict(pairs)
    if len(values_by_key) < len(pairs):
        repeated = collections.Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has the key {repeated[:100]!r} twice, and only one of its values would be read")
    return values_by_key


def this_holder() -> bytes:
    """The content of a lock file that this process holds; a random token makes each result unique."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
    return json.dumps({**holder, "token": secrets.token_hex(8)}).encode()


def parse_holder(content: bytes) -> dict[str, Any]:
    """The holder in the content of a lock file, {"pid": ..., "host": ..., "since": ...}; empty if it is not valid."""
    try:
        holder = parse_json(content)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def process_lives(pid: int) -> bool:
    """Whether this machine has a process with the number `pid`.

    It may be another process than the one that had this number earlier.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


class Stamp(NamedTuple):
    """Identifies a version of a file.

    Attributes:
      version: modification time in ns since 1970; for an object in a bucket, its generation, a number that the server
        changes with each write.
      status: the inode of a local file and the time at which that changed, which no program can set. They differ if
        another file of the same size and modification time took its place, as `tar`, `rsync -t` and `cp -p` do it.
    """

    bytes: int
    version: int
    status: str = ""


STAGE_BYTES = 20 << 30  # the default of `BucketSettings.stage_cache_bytes`
RETRY_SECONDS = 300.0  # the default of `BucketSettings.gs_retry_seconds`
RETRY_VARIABLE = "YT8M_GS_RETRY_SECONDS"  # environment variable, for programs without the flag --gs_retry_seconds


@dataclass(frozen=True)
class BucketSettings:
    """How this process uses buckets.

    Attributes:
      cache_dir: local folder for copies of objects; if empty, `yt8m` in XDG_CACHE_HOME or ~/.cache.
      stage_cache_bytes: largest number of bytes of all copies of shards in that folder.
      gs_retry_seconds: seconds for which a request is retried after transient errors.
    """

    cache_dir: str = ""
    stage_cache_bytes: int = STAGE_BYTES
    gs_reading: str = "staged"
    gs_retry_seconds: float = RETRY_SECONDS


_settings = BucketSettings()  # what `configure_storage` has set


def configure_storage(settings: BucketSettings) -> None:
    """Sets how this process uses buckets from now on."""
    global _settings
    _settings = settings


def current_settings() -> BucketSettings:
    """The settings that `configure_storage` set, or the default ones."""
    return _settings


def cache_dir() -> str:
    """The local folder for copies of files in buckets; it may not exist yet."""
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.abspath(_settings.cache_dir or os.path.join(user_cache, "yt8m"))


def retry_seconds() -> float:
    """Seconds that a request may take, with all retries.

    If the setting `gs_retry_seconds` has its default value and the environment variable `RETRY_VARIABLE` is a number,
    that number counts.
    """
    if _settings.gs_retry_seconds == RETRY_SECONDS:
        try:
            return float(os.environ.get(RETRY_VARIABLE, ""))
        except ValueError:
            pass
    return _settings.gs_retry_seconds
