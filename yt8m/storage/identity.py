"""Which paths name one local file, and whether a file still has the same content."""

from __future__ import annotations

import contextlib
import os
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from absl import logging

_told: set[str] = set()  # paths of files named twice of which the log has warned
_PIECE, _DENSE, _SAMPLING_THREADS = 1 << 16, 1 << 26, 8


def samples(paths: Sequence[str]) -> dict[str, int]:
    """{path: a checksum of the first, the middle and the last 64 KiB} of those of the local files that can be read."""
    return _checksums(paths, lambda size: sorted({0, max(0, size // 2 - _PIECE // 2), max(0, size - _PIECE)}))


def dense_samples(paths: Sequence[str]) -> dict[str, int]:
    """{path: a checksum of its content, or of pieces all over it if it has more than 64 MiB} of the local files."""
    return _checksums(paths, lambda size: range(0, size, _PIECE * max(1, -(-size // _DENSE))))


def checksums(paths: Sequence[str]) -> dict[str, int]:
    """{path: the checksum of the whole content} of those of the local files that can be read."""
    return _checksums(paths, lambda size: range(0, size, _PIECE))


def _checksums(paths: Sequence[str], offsets_of: Callable[[int], Iterable[int]]) -> dict[str, int]:
    """{path: the checksum of the pieces at the offsets that `offsets_of` gives for the file's size}."""
    with ThreadPoolExecutor(_SAMPLING_THREADS) as threads:
        checksums = zip(paths, threads.map(lambda path: _checksum(path, offsets_of), paths), strict=True)
        return {path: checksum for path, checksum in checksums if checksum is not None}


def _checksum(path: str, offsets_of: Callable[[int], Iterable[int]]) -> int | None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for its writer
            return None
        with open(path, "rb", buffering=0) as file:
            size, checksum = os.fstat(file.fileno()).st_size, 0
            for offset in offsets_of(size):
                checksum = zlib.crc32(os.pread(file.fileno(), _PIECE, offset), checksum)
            return checksum
    except OSError:
        return None


def each_once(paths: Sequence[str]) -> list[str]:
    """The paths without those that name a file which an earlier path names; the log warns of such a file once.

    Paths of the same local file have the same device and inode, whatever links lead to it.
    """
    _warn_of_repeats(paths)
    paths = list(dict.fromkeys(paths))
    repeated = named_twice(paths)
    unheard = {path: first for path, first in repeated.items() if path not in _told}
    if unheard:
        _told.update(unheard)
        path, first = next(iter(unheard.items()))
        count = f"{len(unheard)} of the {len(paths)} files are named twice, such as " if len(unheard) > 1 else ""
        logging.warning("%s%s is the file %s: each file is read once", count, path, first)
    return [path for path in paths if path not in repeated]


def _warn_of_repeats(paths: Iterable[str]) -> None:
    """Logs a warning, once, if a path is there twice, as two patterns that match one file give it."""
    repeated = [path for path, count in Counter(paths).items() if count > 1 and path not in _told]
    _told.update(repeated)
    if repeated:
        text = f"{len(repeated)} files are" if len(repeated) > 1 else "a file is"
        logging.warning("%s named twice, %s: each file is read once", text, repeated[0])


def named_twice(paths: Sequence[str]) -> dict[str, str]:
    """{path: an earlier one of `paths` that names the same local file}."""
    first_by_file: dict[Any, str] = {}
    repeated = {}
    for path in paths if len(paths) > 1 else ():
        with contextlib.suppress(OSError):  # of a path in a bucket, or of a file that has just been removed
            status = os.stat(path)
            if not status.st_ino:  # the file system gives its files no numbers
                continue
            first = first_by_file.setdefault((status.st_dev, status.st_ino), path)
            if first != path:
                repeated[path] = first
    return repeated
