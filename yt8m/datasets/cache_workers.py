"""Parses shards into a cache in several processes, each of which gets one shard after another.

The processes are not those of `multiprocessing`, whose helpers print warnings and tracebacks after the command or one
of its workers was killed. A worker reads paths of shards from its standard input and writes results to its standard
output, in JSON. A worker that cannot parse a shard says only that: the command then parses the shard itself, and so
meets the same error with its type and attributes. The command of a worker is
`python -c "from yt8m.datasets import cache_workers; cache_workers.main()"`; the cache is the first line that it reads.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, NamedTuple

from yt8m import child_processes, termination
from yt8m.records.shard_cache import CachedShard, ShardCache
from yt8m.records.shards import EMPTY

_PROGRAM = "from yt8m.datasets import cache_workers; cache_workers.main()"


class ParsedShard(NamedTuple):
    """A shard that the cache has.

    Attributes:
      damage: (number of the bad record at which reading ended, what is wrong with it); None if no record is bad.
    """

    path: str
    records: int
    damage: tuple[int, str] | None


def parse_shard(cache: ShardCache, path: str) -> ParsedShard:
    """Parses the shard `path` into the cache, in this process."""
    cached = cache.parse_shard(path, cache.path_of(path))
    return describe_shard(path, cached)


def describe_shard(path: str, cached: CachedShard) -> ParsedShard:
    """A shard of the cache; one without a record counts as damaged, as for every other reader."""
    damage = cached.damage if len(cached) or cached.damage else (0, EMPTY)
    return ParsedShard(path, len(cached), damage)


def parse_in_processes(cache: ShardCache, paths: Sequence[str], processes: int) -> Iterator[ParsedShard]:
    """Parses shards in several processes, which end with the iteration; yields the results in the order of `paths`."""
    workers = [_ShardWorker(cache) for _ in range(processes)]
    idle_workers = queue.SimpleQueue[_ShardWorker]()
    for worker in workers:
        idle_workers.put(worker)

    def parse(path: str) -> ParsedShard | None:
        worker = idle_workers.get()
        try:
            return worker.parse(path)
        finally:
            idle_workers.put(worker)

    threads = ThreadPoolExecutor(processes)
    try:
        futures = [threads.submit(parse, path) for path in paths]
        for path, future in zip(paths, futures, strict=True):
            yield future.result() or parse_shard(cache, path)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        threads.shutdown()
        for worker in workers:
            worker.close()


class _ShardWorker:
    """A process that parses shards. It is started at its first shard, and again at the first shard after it died.

    One thread at a time may call `parse`; any thread may call `terminate`.
    """

    def __init__(self, cache: ShardCache) -> None:
        self._cache = base64.b64encode(pickle.dumps(cache))
        self._process: subprocess.Popen[bytes] | None = None
        self._lock, self._is_terminated = threading.Lock(), False

    def parse(self, path: str) -> ParsedShard | None:
        """Lets the process parse a shard; None if it cannot, or if it died."""
        answer = b""
        with contextlib.suppress(OSError):  # the process cannot be started, or it died
            if (process := self._process or self._start()) is not None:
                _pipe(process.stdin).write(json.dumps(path).encode() + b"\n")
                _pipe(process.stdin).flush()
                answer = _pipe(process.stdout).readline()
        if not answer.endswith(b"\n"):
            self.close()
            return None
        records, damage = json.loads(answer) or (None, None)
        return None if records is None else ParsedShard(path, records, damage and (damage[0], damage[1]))

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Starts the process, unless `terminate` was called."""
        with self._lock:
            if self._is_terminated:
                return None
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what goes wrong in a worker is said by the command, which tries it again
                start_new_session=True,  # so that the terminal sends Ctrl-C to the command alone
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        _pipe(self._process.stdin).write(self._cache + b"\n")
        return self._process

    def terminate(self) -> None:
        """Lets the process remove the file that it is writing, and end; after this, `parse` starts no other one."""
        with self._lock:
            self._is_terminated = True
            if self._process is not None:
                self._process.terminate()

    def close(self) -> None:
        """Ends the process, waits for its end, and closes its pipes. No `parse` may be in progress."""
        if self._process is None:
            return
        self._process.terminate()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # closing writes bytes that are still buffered
                _pipe(pipe).close()
        self._process.wait()
        self._process = None


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def main() -> None:
    """The program of a worker: parses shards until the command closes the pipe, terminates it or ends."""
    child_processes.end_with(os.getppid())
    with contextlib.suppress(termination.Terminated, BrokenPipeError), termination.terminable():
        cache: ShardCache = pickle.loads(base64.b64decode(sys.stdin.buffer.readline()))
        for line in sys.stdin.buffer:
            answer: tuple[int, tuple[int, str] | None] | None = None
            with contextlib.suppress(Exception):  # whatever it is, the command meets it too
                answer = parse_shard(cache, json.loads(line))[1:]
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
            sys.stdout.buffer.flush()
