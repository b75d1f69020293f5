"""A local cache of limited size for shards in buckets, which are fetched before they are read.

All processes of a user share the cache. To read a shard, a process makes a hard link to its file in the workspace of
the process. So another process may remove the file from the cache, and the link still has its content. Where the file
system has no hard links, the process makes a copy.
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
from yt8m.storage.copies import link_or_copy, workspace

_PARALLEL_FETCHES = 4  # number of shards that are fetched in parallel
_ORPHANED_SECONDS = 24 * 3600.0  # an unfinished file of this age is regarded as left by a killed process


class _Shard(NamedTuple):
    """A shard in the cache that is completely fetched.

    Attributes:
      size: the size of the file in bytes.
    """

    path: str
    size: int


class _NoRoomYet(Exception):  # noqa: N818 - the shard is fetched later, so this is no error
    """The cache has no room for an announced shard, because it is full of shards that will be read earlier."""


class Stage:
    """Gives one process access to the cache; several threads may call the methods at the same time.

    The process announces each shard with `announce`, which begins to fetch it, and later asks for it with `take`.

    Args:
      in_use: number of files that are read at the same time. If there is space, links to twice this number of files are
        kept, so that `again` finds files that were taken before.

    Attributes:
      failure: the last error that `take` raised; None if it raised none.
    """

    def __init__(self, in_use: int) -> None:
        self.failure: RunError | None = None
        self._in_use, self._max_bytes = in_use, base.current_settings().stage_cache_bytes
        self._folder = os.path.join(base.cache_dir(), "shards")
        self._fetch_slots = threading.Semaphore(_PARALLEL_FETCHES)
        # The lock of this condition guards the attributes below. `_reserve` waits for the condition until the cache has
        # room; methods whose changes may make room notify it.
        self._state_changed = threading.Condition()
        # The keys of these dicts, and the items of the list, are the shards' paths in the bucket.
        self._fetches: dict[str, Future[_Shard]] = {}  # {shard: its fetch} of the shards announced and not yet taken
        self._demanded: list[str] = []  # the shards for which a call of `take` waits
        # {shard: its file in the cache} of the shards in `_fetches` whose present version is known
        self._targets: dict[str, str] = {}
        self._reserved: dict[str, int] = {}  # {shard: its size in bytes} of the shards that are being fetched
        self._reading: dict[str, _Shard] = {}  # {shard: its file} of the taken shards, in the order of `take`

    def announce(self, path: str) -> None:
        """Begins to fetch the shard `path`, for which `take` will be called; does nothing for a local path."""
        if is_remote(path):
            with self._state_changed:
                self._start_fetch(path)

    def take(self, path: str) -> str:
        """Waits until a shard is fetched, and links its copy into the workspace.

        Returns:
          The path of the link, which the caller must open before `take` is called for many other shards; a local path
          is returned as it is.
        """
        if not is_remote(path):
            return path
        try:
            while True:
                with self._state_changed:
                    fetch = self._start_fetch(path)
                    self._demanded.append(path)
                    self._state_changed.notify_all()
                try:
                    # The loop fetches the shard again if another process removed its file before it was linked, or if
                    # the cache had no room for it when it was announced.
                    with contextlib.suppress(FileNotFoundError, _NoRoomYet):
                        return self._link(path, fetch.result())
                finally:
                    with self._state_changed:
                        self._demanded.remove(path)
                        self._forget(path)
        except UsageError as error:  # no permission; `failure` is a RunError, because training has begun
            self.failure = RunError(str(error))
            raise
        except RunError as error:
            self.failure = error
            raise

    def again(self, path: str) -> str:
        """Like `take`, for a shard that was taken before; fetches it again only if its link was removed."""
        with self._state_changed:
            if path in self._reading:
                return self._link_path(path)
        return self.take(path)

    def _link_path(self, path: str) -> str:
        """The path of the link to a shard in the workspace."""
        return os.path.join(workspace(), "shards", path.removeprefix("gs://"))

    def _start_fetch(self, path: str) -> Future[_Shard]:
        """Starts a thread that fetches a shard, unless there is one; the caller must hold the lock `_state_changed`."""
        if path not in self._fetches:
            fetch: Future[_Shard] = Future()
            # This is no thread of a pool: a pool would delay the end of the process until all files are fetched.
            threading.Thread(target=self._run_fetch, args=(path, fetch), daemon=True).start()
            self._fetches[path] = fetch  # set after `start`, so that nobody waits for a thread that could not start
        return self._fetches[path]

    def _run_fetch(self, path: str, fetch: Future[_Shard]) -> None:
        """Fetches a shard, and stores the result or the error in `fetch`."""
        try:
            fetch.set_result(self._fetch(path))
        except BaseException as error:
            fetch.set_exception(error)

    def _link(self, path: str, shard: _Shard) -> str:
        """Makes a link to a shard's file in the workspace; removes the oldest links if there are too many."""
        link = self._link_path(path)
        with self._state_changed:
            makedirs(os.path.dirname(link))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)
            link_or_copy(shard.path, link)
            self._reading.pop(path, None)
            self._reading[path] = shard
            while len(self._reading) > 2 * self._in_use:
                self._remove_oldest_link()
            self._state_changed.notify_all()
        return link

    def _remove_oldest_link(self) -> None:
        """Removes the link to the shard that was taken longest ago."""
        oldest = next(iter(self._reading))
        del self._reading[oldest]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._link_path(oldest))

    def _fetch(self, path: str) -> _Shard:
        """Fetches a shard into the cache, unless the cache has its present version; raises like `_reserve`."""
        # Imported here, because the client library takes half a second to import.
        from yt8m.storage import gcs_client

        version, size = gcs_client.version_of(path)
        target = os.path.join(self._folder, f"{path.removeprefix('gs://')}@{version}")
        with self._state_changed:
            self._targets[path] = target
        if not os.path.exists(target):
            self._reserve(path, size)
            try:
                # The slot is acquired only after the space is reserved. So the shards that wait for space take no slots
                # from a shard for which `take` waits.
                with self._fetch_slots:
                    gcs_client.fetch(path, target)
            finally:
                with self._state_changed:
                    del self._reserved[path]
                    self._state_changed.notify_all()
        with contextlib.suppress(OSError):
            os.utime(target, (time.time(), os.stat(target).st_mtime))  # `_evict` takes the access time as the last use
        return _Shard(target, size)

    def _reserve(self, path: str, size: int) -> None:
        """Reserves space in the cache for a shard; removes other files if necessary.

        If a call of `take` waits for the shard, this waits until there is space.

        Args:
          size: its size in bytes.
        """
        with self._state_changed:
            while True:
                while self._reading_bytes() + size > self._max_bytes and len(self._reading) > self._in_use:
                    self._remove_oldest_link()
                if self._reading_bytes() + size > self._max_bytes:
                    raise self._too_small_error(path, size)
                self._evict(self._max_bytes - sum(self._reserved.values()) - size, path in self._demanded)
                used = sum(file_size for _, file_size, _ in self._cached_files())
                if used + sum(self._reserved.values()) + size <= self._max_bytes:
                    self._reserved[path] = size
                    return
                if path not in self._demanded:
                    self._forget(path)
                    raise _NoRoomYet
                self._state_changed.wait(1.0)

    def _reading_bytes(self) -> int:
        """The total size in bytes of the shards that are being read."""
        return sum(shard.size for shard in self._reading.values())

    def _cached_files(self) -> Iterator[tuple[str, int, float]]:
        """Yields (path, size in bytes, time of last use in seconds since 1970) of the files in the cache.

        Files that this or another process is still fetching are left out; those that killed processes left are not.
        """
        unfinished = {self._targets.get(path) for path in self._reserved}
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(path)
                    is_young = time.time() - status.st_mtime < _ORPHANED_SECONDS
                    if path not in unfinished and not (name.startswith(".") and is_young):
                        yield path, status.st_size, status.st_atime

    def _evict(self, max_bytes: int, even_announced: bool) -> None:
        """Removes files from the cache until it has at most `max_bytes` bytes, those unused for the longest time first.

        Files that are being read, or for which a call of `take` waits, stay.

        Args:
          max_bytes: number of bytes that may stay.
        """
        protected = {shard.path for shard in self._reading.values()}
        protected |= {self._targets[path] for path in self._demanded if path in self._targets}
        announced = {target: path for path, target in self._targets.items()}
        ranks = {target: -number for number, target in enumerate(announced)}
        files = sorted(self._cached_files(), key=lambda file: (file[0] in announced, ranks.get(file[0], file[2])))
        total = sum(size for _, size, _ in files)
        for path, size, _ in files:
            if total <= max_bytes:
                return
            if path not in protected and (even_announced or path not in announced):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                self._forget(announced.get(path, ""))
                total -= size

    def _forget(self, path: str) -> None:
        """Forgets the fetch of the shard `path`, so that a later `take` fetches it again."""
        self._fetches.pop(path, None)
        self._targets.pop(path, None)

    def _too_small_error(self, path: str, size: int) -> RunError:
        """The error that the cache has no room for the shard `path` of `size` bytes."""
        bytes_in_use = self._reading_bytes()
        return RunError(
            f"--stage_cache_bytes={self._max_bytes} has no room for {path}: this file has {size} bytes, and the "
            f"{len(self._reading)} shards that are being read have {bytes_in_use} bytes. Give at least "
            f"{bytes_in_use + size}, or read fewer files in parallel (--num_readers)."
        )
