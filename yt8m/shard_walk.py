"""How many records a shard holds, by its headers alone: a cut that TensorFlow reads as a clean end is found.

Only the 12 bytes in front of each record are looked at. What is inside a record is for whoever reads it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from yt8m import record_reader, storage
from yt8m.record_reader import DamagedError

_AROUND = 16  # bytes of a record beside its content: length, checksum of the length, checksum of the content
_CHUNK, _HEADER = 1 << 18, 64
_LARGE = 1 << 16  # past such a record only the header of the next one is read
_THREADS = 8


def count_records(path: str) -> int:
    """The number of records of a shard; one in a bucket is fetched for it.

    Raises:
      DamagedError: it is empty, torn, or its lengths do not lead to its end.
      RunError: it cannot be read.
    """
    with storage.open_read(path) as file:
        count = _walk(file)
    if count == 0:
        raise DamagedError(path, 0, "the file is empty: it holds no example")
    if count is None:
        raise _damage(path)
    return count


def count_all(paths: Sequence[str]) -> list[int | Exception]:
    """`count_records` of each path, side by side; what it raises stands in place of the count."""

    def count(path: str) -> int | Exception:
        try:
            return count_records(path)
        except Exception as error:
            return error

    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(count, paths))


def _walk(file: BinaryIO) -> int | None:
    """From header to header; None where that does not lead to the end of the file."""
    descriptor, end = file.fileno(), os.fstat(file.fileno()).st_size
    place = count = length = 0
    while place < end:
        chunk = os.pread(descriptor, _HEADER if length > _LARGE else _CHUNK, place)
        within = 0
        while within + 12 <= len(chunk):
            (length,) = struct.unpack_from("<Q", chunk, within)
            within += length + _AROUND
            count += 1
        if within == 0:
            return None
        place += within
    return count if place == end else None


def _damage(path: str) -> DamagedError:
    """Where it is damaged, by reading it whole."""
    number = -1
    try:
        for number, _payload in enumerate(record_reader.read_shard(path)):  # noqa: B007 - told below
            pass
    except DamagedError as error:
        return error
    return DamagedError(path, number + 1, "the file changed while it was read")
