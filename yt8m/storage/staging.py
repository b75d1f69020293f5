"""A local cache of limited size for shards in buckets, which are fetched before they are read.

All processes of a user share the cache. A process makes a hard link in its workspace to each file that it reads, so
that other processes may remove the file from the cache.
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

_AT_ONCE = 4  # number of shards that are fetched in parallel
_ORPHANED_SECONDS = 24 * 3600.0  # the age after which an unfinished file counts as left by a killed process


class _Shard(NamedTuple):
    """A completely fetched file in the cache, with its size in bytes."""

    path: str
    size: int


class _NoRoomYet(Exception):  # noqa: N818 - nothing went wrong
    """The cache has no room for an announced shard, because it is full of shards that will be read earlier."""


class Stage:
    """Gives one process access to the cache; any thread may call the methods.

    Args:
      in_use: number of files that are read at the same time. Twice this number are kept if there is space.

    Attributes:
      failure: the last error that `take` raised; None if it raised none.
    """

    def __init__(self, in_use: int) -> None:
        self.failure: RunError | None = None
        self._in_use, self._most = in_use, base.current_settings().stage_cache_bytes
        self._folder = os.path.join(base.cache_dir(), "shards")
        self._turns = threading.Semaphore(_AT_ONCE)
        self._changed = threading.Condition()
        self._coming: dict[str, Future[_Shard]] = {}
        self._demanded: list[str] = []  # shards for which a call of `take` waits
        # {shard: its file in the cache} of the shards that are announced but not yet taken
        self._targets: dict[str, str] = {}
        self._reserved: dict[str, int] = {}  # {shard that is being fetched: its size in bytes}
        self._reading: dict[str, _Shard] = {}  # {path: shard} of the taken shards, in the order of `take`

    def announce(self, path: str) -> None:
        """Begins to fetch `path`, which will be taken soon."""
        if is_remote(path):
            with self._changed:
                self._begin(path)

    def take(self, path: str) -> str:
        """Waits until `path` is fetched; returns the path of the copy, which must be opened at once.

        A local `path` is returned as it is.

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
                    # Tries again if another process removed the file, or if there was no room when it was announced.
                    with contextlib.suppress(FileNotFoundError, _NoRoomYet):
                        return self._hold(path, coming.result())
                finally:
                    with self._changed:
                        self._demanded.remove(path)
                        self._forget(path)
        except UsageError as error:  # no permission; recorded as a RunError, because training has begun
            self.failure = RunError(str(error))
            raise
        except RunError as error:
            self.failure = error
            raise

    def again(self, path: str) -> str:
        """Like `take`, for a file that was taken before; fetches it again only if its link was removed."""
        with self._changed:
            if path in self._reading:
                return self._own_name(path)
        return self.take(path)

    def _own_name(self, path: str) -> str:
        return os.path.join(workspace(), "shards", path.removeprefix("gs://"))

    def _begin(self, path: str) -> Future[_Shard]:
        if path not in self._coming:
            coming: Future[_Shard] = Future()
            # No thread of a pool, because a pool would delay the end of the process until all files are fetched.
            threading.Thread(target=self._run, args=(path, coming), daemon=True).start()
            self._coming[path] = coming  # set after `start`, so that nobody waits for a thread that could not start
        return self._coming[path]

    def _run(self, path: str, coming: Future[_Shard]) -> None:
        try:
            coming.set_result(self._fetch(path))
        except BaseException as error:
            coming.set_exception(error)

    def _hold(self, path: str, shard: _Shard) -> str:
        """Makes a link to the file in the workspace and returns its path; removes the oldest links if too many."""
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
        """Removes the link to the file that was taken longest ago."""
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
                # Acquired after the space is reserved, so that a shard that is needed now does not wait for shards that
                # wait for space.
                with self._turns:
                    gcs_client.fetch(path, target)
            finally:
                with self._changed:
                    del self._reserved[path]
                    self._changed.notify_all()
        with contextlib.suppress(OSError):
            os.utime(target, (time.time(), os.stat(target).st_mtime))  # the time of last use
        return _Shard(target, size)

    def _reserve(self, path: str, size: int) -> None:
        """Reserves `size` bytes; if a call of `take` waits for the file, waits until there is space.

        Raises:
          _NoRoomYet: there is no space, and the file is only announced; `take` fetches it later.
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
        """Yields (path, bytes, time of last use in seconds since 1970) of the files in the cache that are complete."""
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
        """Removes files, those unused for the longest time first, until `most` bytes are left.

        Args:
          most: number of bytes that may stay.
          ahead_too: whether to remove announced files too, the last announced first; `take` fetches them again.
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
            f"--stage_cache_bytes={self._most} has no room for {path}: this file has {size} bytes, and the "
            f"{len(self._reading)} shards that are being read have {bytes_in_use} bytes. Give at least "
            f"{bytes_in_use + size}, or read fewer files in parallel (--num_readers)."
        )
