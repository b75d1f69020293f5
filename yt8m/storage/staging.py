"""Copies of remote shards in a local cache of bounded size, fetched ahead of reading.

All processes of a user share the cache. A file that a process reads has a second name (a hard link) in the workspace of
that process, so that another process may evict the file from the cache without harm.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import NamedTuple

from yt8m.errors import RunError, UsageError
from yt8m.storage import base, is_remote, makedirs
from yt8m.storage.copies import workspace

_AT_ONCE = 4
_ORPHANED_SECONDS = 24 * 3600.0  # an older unfinished file was left by a killed process


class _Shard(NamedTuple):
    """A completely fetched file in the cache."""

    path: str
    size: int


class _NoRoomYet(Exception):  # noqa: N818 - nothing went wrong
    """The cache is full of shards that will be read before this one."""


class Stage:
    """The interface of one process to the cache; any thread may call it.

    Args:
      in_use: number of files that are read at the same time. Twice as many are kept if there is space.

    Attributes:
      failure: the error that `take` raised last; None if it raised none.
    """

    def __init__(self, in_use: int) -> None:
        self.failure: RunError | None = None
        self._in_use, self._most = in_use, base.current_settings().stage_cache_bytes
        self._folder = os.path.join(base.cache_dir(), "shards")
        self._turns = threading.Semaphore(_AT_ONCE)
        self._changed = threading.Condition()
        self._coming: dict[str, Future[_Shard]] = {}
        self._demanded: list[str] = []
        # {shard: its file in the cache}, for shards that are announced but not yet taken
        self._targets: dict[str, str] = {}
        self._reserved: dict[str, int] = {}  # bytes of shards that are being fetched
        self._reading: dict[str, _Shard] = {}  # {path: shard}, in the order in which they were taken

    def announce(self, path: str) -> None:
        """Begins to fetch `path`, which will be taken soon."""
        if is_remote(path):
            with self._changed:
                self._begin(path)

    def take(self, path: str) -> str:
        """Waits until `path` is fetched; returns its copy, which must be opened at once. A local path is its own copy.

        Raises:
          RunError: the file cannot be fetched, or there is no space for it.
        """
        if not is_remote(path):
            return path
        try:
            while True:
                with self._changed:
                    coming = self._begin(path)
                    self._demanded.append(path)
                    self._changed.notify_all()
                try:
                    # Another process evicted the file just now, or its fetch was given up while it was only announced.
                    with contextlib.suppress(FileNotFoundError, _NoRoomYet):
                        return self._hold(path, coming.result())
                finally:
                    with self._changed:
                        self._demanded.remove(path)
                        self._forget(path)
        except UsageError as error:  # no permission; converted to a RunError, because training is running
            self.failure = RunError(str(error))
            raise
        except RunError as error:
            self.failure = error
            raise

    def again(self, path: str) -> str:
        """Like `take`, for a file that was taken before; it asks the bucket only if the file is no longer held."""
        with self._changed:
            if path in self._reading:
                return self._own_name(path)
        return self.take(path)

    def _own_name(self, path: str) -> str:
        return os.path.join(workspace(), "shards", path.removeprefix("gs://"))

    def _begin(self, path: str) -> Future[_Shard]:
        if path not in self._coming:
            coming: Future[_Shard] = Future()
            # This is not a thread of a pool: a pool would delay the end of the process until everything is fetched.
            threading.Thread(target=self._run, args=(path, coming), daemon=True).start()
            self._coming[path] = coming  # only now: if no thread can be started, nobody must wait for this one
        return self._coming[path]

    def _run(self, path: str, coming: Future[_Shard]) -> None:
        try:
            coming.set_result(self._fetch(path))
        except BaseException as error:
            coming.set_exception(error)

    def _hold(self, path: str, shard: _Shard) -> str:
        """Gives the file a second name of this process, and releases the file that was taken longest ago."""
        second_name = self._own_name(path)
        with self._changed:
            makedirs(os.path.dirname(second_name))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(second_name)
            os.link(shard.path, second_name)
            self._reading.pop(path, None)
            self._reading[path] = shard
            while len(self._reading) > 2 * self._in_use:
                self._let_go()
            self._changed.notify_all()
        return second_name

    def _let_go(self) -> None:
        """Removes the second name of the file that was taken longest ago."""
        oldest = next(iter(self._reading))
        del self._reading[oldest]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._own_name(oldest))

    def _fetch(self, path: str) -> _Shard:
        # Imported here, because the client library takes half a second to import.
        from yt8m.storage import gcs_client

        version, size = gcs_client.version_of(path)
        target = os.path.join(self._folder, f"{path.removeprefix('gs://')}@{version}")
        with self._changed:
            self._targets[path] = target
        if not os.path.exists(target):
            self._reserve(path, size)
            try:
                with (
                    self._turns
                    # This is acquired after the space is reserved: a shard that is needed now must not wait for others
                    # that wait for space.
                ):
                    gcs_client.fetch(path, target)
            finally:
                with self._changed:
                    del self._reserved[path]
                    self._changed.notify_all()
        with contextlib.suppress(OSError):
            os.utime(target, (time.time(), os.stat(target).st_mtime))  # the time of last use
        return _Shard(target, size)

    def _reserve(self, path: str, size: int) -> None:
        """Makes space for `size` bytes; if a call of `take` waits for the file, waits until there is space.

        Raises:
          _NoRoomYet: the file is only announced; it is fetched when it is taken.
          RunError: the cache is too small.
        """
        with self._changed:
            while True:
                while self._held() + size > self._most and len(self._reading) > self._in_use:
                    self._let_go()
                if self._held() + size > self._most:
                    raise self._too_small(path, size)
                self._evict(self._most - sum(self._reserved.values()) - size, path in self._demanded)
                used = sum(file_size for _, file_size, _ in self._cached())
                if used + sum(self._reserved.values()) + size <= self._most:
                    self._reserved[path] = size
                    return
                if path not in self._demanded:
                    self._forget(path)
                    raise _NoRoomYet
                self._changed.wait(1.0)

    def _held(self) -> int:
        """The total size in bytes of the shards that are being read."""
        return sum(shard.size for shard in self._reading.values())

    def _cached(self) -> Iterator[tuple[str, int, float]]:
        """(path, bytes, time of last use) of each file in the cache that is not being fetched."""
        fetched = {self._targets.get(path) for path in self._reserved}
        for here, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(here, name)
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(path)
                    is_young = time.time() - status.st_mtime < _ORPHANED_SECONDS
                    if path not in fetched and not (name.startswith(".") and is_young):
                        yield path, status.st_size, status.st_atime

    def _evict(self, most: int, ahead_too: bool) -> None:
        """Removes files, the longest unused first, until `most` bytes are left.

        Args:
          most: number of bytes that may stay.
          ahead_too: whether announced files may be removed too, the last announced first; `take` fetches them again.
        """
        protected = {shard.path for shard in self._reading.values()}
        protected |= {self._targets[path] for path in self._demanded if path in self._targets}
        ahead = {target: path for path, target in self._targets.items()}
        turns = {target: -turn for turn, target in enumerate(ahead)}
        cached = sorted(self._cached(), key=lambda file: (file[0] in ahead, turns.get(file[0], file[2])))
        total = sum(size for _, size, _ in cached)
        for path, size, _ in cached:
            if total <= most:
                return
            if path not in protected and (ahead_too or path not in ahead):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                self._forget(ahead.get(path, ""))
                total -= size

    def _forget(self, path: str) -> None:
        """Forgets the fetch of `path`, so that a later `take` fetches it again."""
        self._coming.pop(path, None)
        self._targets.pop(path, None)

    def _too_small(self, path: str, size: int) -> RunError:
        bytes_in_use = self._held()
        return RunError(
            f"--stage_cache_bytes={self._most} has no room for {path}: that file has {size} bytes, and the "
            f"{len(self._reading)} shards that are being read have {bytes_in_use}. Give at least "
            f"{bytes_in_use + size}, or read fewer files in parallel (--num_readers)."
        )
