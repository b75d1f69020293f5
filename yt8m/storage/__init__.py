"""The one place that opens, lists or writes paths: local ones and gs://bucket/name alike.

Every function takes plain strings. What goes wrong ends as `RunError` (`NotFoundError`, `Locked`), or as
`UsageError` where the path itself cannot be (unknown scheme, missing bucket, no permission on it).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any, BinaryIO

from yt8m.errors import UsageError
from yt8m.storage import local
from yt8m.storage.base import Locked, NotFoundError, Stamp, Store

__all__ = [
    "Locked",
    "NotFoundError",
    "append_line",
    "exists",
    "glob",
    "is_dir",
    "is_remote",
    "join",
    "listdir",
    "lock",
    "makedirs",
    "open_read",
    "read_bytes",
    "read_text",
    "remove",
    "remove_tree",
    "rename",
    "size",
    "stamps",
    "times",
    "write_atomic",
]

Path = str | os.PathLike[str]


def is_remote(path: Path) -> bool:
    """Whether `path` lies in a bucket rather than on this machine."""
    return os.fspath(path).startswith("gs://")


def _store(path: str) -> Store:
    if is_remote(path):
        # Here, since the client library takes half a second to import.
        from yt8m.storage.gcs import GcsStore

        return GcsStore()
    scheme, separator, _ = path.partition("://")
    if separator and scheme.isalnum():
        raise UsageError(f"cannot use {path}: paths are local or start with gs://, not with {scheme}://")
    if not path:
        raise UsageError("an empty path was given where a file or folder is needed")
    return local.LocalStore()


def glob(pattern: str) -> list[str]:
    """The files and folders that match, sorted, each once.

    Args:
      pattern: patterns separated by commas, with `*`, `?` and `[...]` inside one path component; names that
        begin with a dot are matched by a leading dot only. An existing path matches itself, whatever
        characters it has.
    """
    if not is_remote(pattern) and os.path.lexists(pattern):
        return [pattern]
    found: set[str] = set()
    for part in filter(None, (piece.strip() for piece in pattern.split(","))):
        found.update(_store(part).glob(part))
    return sorted(found)


def exists(path: Path) -> bool:
    """Whether there is a file or a folder; in a bucket, a folder is what some object lies under."""
    return _store(os.fspath(path)).exists(os.fspath(path))


def is_dir(path: Path) -> bool:
    """Whether `path` is a folder."""
    return _store(os.fspath(path)).is_dir(os.fspath(path))


@contextlib.contextmanager
def open_read(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading bytes; seekable.

    Raises:
      NotFoundError: there is no such file.
      RunError: it cannot be read.
    """
    with _store(os.fspath(path)).open_read(os.fspath(path)) as file:
        yield file


def read_bytes(path: Path) -> bytes:
    """All bytes of a file; raises as `open_read`."""
    with open_read(path) as file:
        return file.read()


def read_text(path: Path) -> str:
    """All text of a UTF-8 file, line ends as they are; raises as `open_read`."""
    return read_bytes(path).decode("utf-8")


@contextlib.contextmanager
def write_atomic(path: Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """A file object whose content appears under `path` whole, when the block ends well, or not at all.

    Missing folders are made. A device or a pipe (/dev/stdout) is written straight through.

    Args:
      path: where; what is there is replaced.
      mode: "wb" for bytes, "w" for UTF-8 text with `\\n` line ends.

    Raises:
      RunError: it cannot be written (full disk, no permission); nothing is left behind.
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"mode is 'wb' or 'w', not {mode!r}")
    with _store(os.fspath(path)).write_atomic(os.fspath(path), mode) as file:
        yield file


def discard_unfinished(path: Path) -> None:
    """Removes what processes that were killed in `write_atomic` have left beside `path`: nothing in buckets.

    Whoever still writes there fails.
    """
    _store(os.fspath(path)).discard_unfinished(os.fspath(path))


def discard_orphans(path: Path) -> None:
    """Removes what processes of this machine that were killed in `write_atomic` have left beside `path`.

    Files of living processes and of other machines stay. In buckets nothing is ever left.
    """
    _store(os.fspath(path)).discard_orphans(os.fspath(path))


def append_line(path: Path, line: str) -> None:
    """Adds `line` and a line end to a UTF-8 file, which is made if need be.

    Locally in one write, so that writers side by side never mix their lines. A bucket knows no appending:
    there the object is written anew, and one writer at a time is allowed.

    Raises:
      RunError: it cannot be written.
    """
    _store(os.fspath(path)).append(os.fspath(path), f"{line}\n".encode())


def makedirs(path: Path) -> None:
    """Makes the folder and those above it; nothing where it exists. Buckets have no folders to make."""
    _store(os.fspath(path)).makedirs(os.fspath(path))


def listdir(path: Path) -> list[str]:
    """The names in a folder, sorted; raises `NotFoundError` where there is no such folder."""
    return _store(os.fspath(path)).listdir(os.fspath(path))


def times(path: Path) -> dict[str, float]:
    """When each file right in a folder was last written, in seconds since 1970; raises as `listdir`."""
    return _store(os.fspath(path)).times(os.fspath(path))


def stamps(paths: Sequence[str]) -> dict[str, Stamp]:
    """Of each file that is there, what changes when it is written anew.

    Files in buckets are listed folder by folder, not asked for one by one.
    """
    found: dict[str, Stamp] = {}
    for remote in (False, True):
        part = [path for path in paths if is_remote(path) == remote]
        found |= _store(part[0]).stamps(part) if part else {}
    return found


def remove(path: Path) -> None:
    """Removes one file; raises `NotFoundError` where there is none."""
    _store(os.fspath(path)).remove(os.fspath(path))


def remove_tree(path: Path) -> None:
    """Removes a folder and all in it; raises `NotFoundError` where there is none."""
    _store(os.fspath(path)).remove_tree(os.fspath(path))


def rename(source: Path, target: Path) -> None:
    """Moves a file or folder within one store, over an existing file.

    At once on a local file system; in a bucket object by object (copied, then deleted).

    Raises:
      NotFoundError: there is no source.
      UsageError: one is local and the other is not.
    """
    if is_remote(source) != is_remote(target):
        raise UsageError(f"cannot rename {source} to {target}: one is local, the other is not")
    _store(os.fspath(source)).rename(os.fspath(source), os.fspath(target))


def size(path: Path) -> int:
    """Bytes of a file; raises `NotFoundError` where there is none."""
    return _store(os.fspath(path)).size(os.fspath(path))


def join(folder: Path, *names: str) -> str:
    """`folder/name/...`, with `/` as separator in a bucket."""
    if is_remote(folder):
        return "/".join([os.fspath(folder).rstrip("/"), *(name.strip("/") for name in names)])
    return os.path.join(folder, *names)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Holds the lock file `path` during the block; it is gone afterwards.

    Locally the kernel lets go of it when its holder dies, however that happens. In a bucket, a holder that
    died on this machine is noticed; one that died elsewhere is named in the error, for a person to judge.

    Raises:
      Locked: another holds it; the text names its process, host and since when.
    """
    with _store(os.fspath(path)).lock(os.fspath(path)):
        yield
