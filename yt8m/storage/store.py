"""What a kind of storage must be able to do; the functions of `yt8m.storage` say what each means."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, BinaryIO, NamedTuple, Protocol


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
