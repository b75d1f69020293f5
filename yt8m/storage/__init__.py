"""Reads, writes and lists files: local ones and objects in buckets (gs://bucket/name) by the same functions.

A failure raises `RunError` (`NotFoundError` and `Locked` derive from it), or `UsageError` if the path itself cannot be
used (unknown scheme, missing bucket, no permission on the bucket). The methods of `local.LocalStore` and
`gcs.GcsStore` with the names of these functions do the work.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from yt8m.errors import UsageError
from yt8m.storage import local
from yt8m.storage.base import Locked as Locked
from yt8m.storage.base import NotFoundError as NotFoundError
from yt8m.storage.base import Stamp
from yt8m.storage.base import parse_json as parse_json
from yt8m.storage.local import LocalStore

if TYPE_CHECKING:
    from yt8m.storage.gcs import GcsStore

Path = str | os.PathLike[str]
Patterns = Path | Sequence[Path]


def is_remote(path: Path) -> bool:
    """Whether `path` lies in a bucket rather than on this machine."""
    return os.fspath(path).startswith("gs://")


def _store(path: Path) -> LocalStore | GcsStore:
    if is_remote(path):
        # Imported here, since the client library takes half a second to import.
        from yt8m.storage.gcs import GcsStore

        return GcsStore()
    scheme, separator, _ = os.fspath(path).partition("://")
    if separator and scheme.isalnum():
        raise UsageError(f"cannot use {path}: paths are local or start with gs://, not with {scheme}://")
    if not os.fspath(path):
        raise UsageError("an empty path was given where a file or folder is needed")
    return LocalStore()


def expanded(path: str) -> str:
    """Replaces `~` by the home folder in a path, or in patterns with commas between them.

    The shell replaces `~` only at the start of a word, so not in `--train_dir=~/runs/a`.
    """
    return _HOME.sub(lambda match: match[1] + os.path.expanduser(match[2]), path)


_HOME = re.compile(r"(^|,)\s*(~[^/,]*)")


def glob(pattern: str) -> list[str]:
    """The paths of the files and folders that match `pattern`, sorted and without duplicates.

    Args:
      pattern: one or several patterns with commas between them. `*`, `?` and `[...]` match inside one path component;
        `~` is the home folder. A name that begins with a dot matches only a pattern that begins with a dot. An existing
        path matches itself, even if it contains such characters or commas.
    """
    return sorted({path for _, paths in paths_by_pattern(pattern) for path in paths})


def paths_by_pattern(pattern: str) -> Iterator[tuple[str, list[str]]]:
    """Yields (pattern, sorted paths that match it) for each of the patterns with commas between them; see `glob`.

    A text between two commas that matches nothing is joined with the texts after it if the whole matches. So
    `a,b.mp4,c.mp4` names two videos if there is a file `a,b.mp4` and no file `a`.
    """
    if not is_remote(pattern) and os.path.lexists(pattern):
        yield pattern, [pattern]
        return
    pieces = expanded(pattern).split(",")
    while pieces:
        count, paths = _first_pattern(pieces)
        yield ",".join(pieces[:count]).strip(), paths
        del pieces[:count]


def _first_pattern(pieces: Sequence[str]) -> tuple[int, list[str]]:
    """(number of first pieces that form one pattern when joined by commas, paths that match it); (1, []) if none do."""
    for count in range(1, len(pieces) + 1):
        if count > 1 and is_remote(pieces[count - 1].strip()):
            break
        pattern = ",".join(pieces[:count]).strip()
        if paths := sorted(_store(pattern).glob(pattern)) if pattern else []:
            return count, paths
    return 1, []


def listed(text: str) -> list[str]:
    """The paths or patterns in a text with commas between them; an existing path may contain commas itself."""
    return [path for path, _ in paths_by_pattern(text) if path]


def named_files(
    patterns: Patterns, choose: Callable[[list[str]], list[str]] = list[str], kind: str = "file"
) -> list[str]:
    """The files that match the patterns of a user, each once: in the order of the patterns, those of a pattern sorted.

    Args:
      patterns: a text for `paths_by_pattern`, or several.
      choose: returns the files to use from the paths that match a pattern.
      kind: the kind of file, for the message.

    Raises:
      UsageError: no pattern is given, or `choose` returns no file for a pattern.
    """
    texts = [patterns] if isinstance(patterns, str | os.PathLike) else patterns
    chosen: dict[str, None] = {}
    for pattern, paths in itertools.chain.from_iterable(paths_by_pattern(os.fspath(text)) for text in texts):
        files = choose(paths)
        if not files:
            raise UsageError(f"no {kind} matches {pattern!r}. Check the path, and quote the pattern.")
        chosen.update(dict.fromkeys(files))
    if not chosen:
        raise UsageError(f"no {kind} is named.")
    return list(chosen)


def exists(path: Path) -> bool:
    """Whether a file or folder exists; in a bucket the folder `a` exists if the name of an object begins with `a/`."""
    return _store(path).exists(os.fspath(path))


def refuse_missing(path: Path, flag: str, hint: str = "") -> None:
    """Raises `UsageError` if the file that the flag `flag` names does not exist; the message ends with `hint`."""
    if not exists(path):
        raise UsageError(f"--{flag}={path}: there is no such file{f'; {hint}' if hint else ''}.")


def is_dir(path: Path) -> bool:
    """Whether `path` is a folder."""
    return _store(path).is_dir(os.fspath(path))


def why_no_folder(path: Path) -> str:
    """Part of a message: why `path`, which `is_dir` denies, is no folder."""
    return "this is a file" if exists(path) else "there is no such folder"


def is_special(path: Path) -> bool:
    """Whether `path` is a local pipe, terminal or device, so that reading it may never end."""
    return not is_remote(path) and local.is_special(os.fspath(path))


def open_read(path: Path) -> AbstractContextManager[BinaryIO]:
    """Opens a file for reading bytes; the file is seekable.

    Raises:
      NotFoundError: there is no such file.
      RunError: the file cannot be read.
    """
    return _store(path).open_read(os.fspath(path))


def read_bytes(path: Path) -> bytes:
    """The content of a file; raises like `open_read`."""
    with open_read(path) as file:
        return file.read()


def read_start(path: Path, count: int) -> bytes:
    """The first `count` bytes of a file, or all if the file is shorter; raises like `open_read`.

    Only these bytes are fetched from a bucket, and the checksum of the object is not checked.
    """
    return _store(path).read_start(os.fspath(path), count)


def read_text(path: Path) -> str:
    """The content of a UTF-8 text file, with its line ends unchanged; raises like `open_read`."""
    return read_bytes(path).decode("utf-8")


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises like `open_read`, or the `ValueError` of `parse_json`."""
    return parse_json(read_bytes(path))


def write_atomic(path: Path, mode: str = "wb") -> AbstractContextManager[IO[Any]]:
    """Opens a file for writing; `path` gets the whole content at once when the block ends without an error.

    Missing folders are made. A device or a pipe (such as /dev/stdout) is written directly.

    Args:
      path: the file to write; an existing file is replaced.
      mode: "wb" for bytes, "w" for UTF-8 text with `\\n` line ends.

    Raises:
      RunError: the file cannot be written (full disk, no permission); no temporary file remains.
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"mode is 'wb' or 'w', not {mode!r}")
    return _store(path).write_atomic(os.fspath(path), mode)


def write(path: Path, content: str | bytes) -> None:
    """Writes a whole file, text in UTF-8, whole or not at all; raises like `write_atomic`."""
    with write_atomic(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


def discard_unfinished(path: Path) -> None:
    """Removes all temporary files of `write_atomic` for `path`, even those that a process is writing, which then fails.

    Buckets have no such files.
    """
    _store(path).discard_unfinished(os.fspath(path))


def discard_orphans(path: Path) -> None:
    """Removes temporary files of `write_atomic` for `path` whose processes on this machine were killed.

    Temporary files of running processes and of other machines stay. Buckets have no such files.
    """
    _store(path).discard_orphans(os.fspath(path))


def append_line(path: Path, line: str) -> None:
    """Appends `line` and a line end to a UTF-8 file, which is made if it does not exist.

    Several processes may append to a local file. An object in a bucket is written again as a whole, so only one process
    may write it at a time.

    Raises:
      RunError: the file cannot be written.
    """
    _store(path).append(os.fspath(path), f"{line}\n".encode())


def write_at(path: Path, place: int, data: Iterable[Any]) -> None:
    """Writes pieces of bytes into a local file from byte `place` on; other bytes of the file stay as they are.

    Several threads may write parts of one file. The file and its folder are made if they do not exist.

    Raises:
      RunError: the file cannot be written.
    """
    LocalStore().write_at(os.fspath(path), place, data)


def truncate(path: Path, size: int) -> None:
    """Cuts a local file to its first `size` bytes.

    Raises:
      RunError: the file has fewer bytes, or cannot be written.
    """
    LocalStore().truncate(os.fspath(path), size)


def sync(paths: Iterable[str]) -> None:
    """Writes files, and folders with all their content, from memory to the disk, so that they survive a power cut.

    Call this for files that other libraries wrote, before another file refers to them. `write_atomic` and `rename` sync
    by themselves. Paths in buckets are ignored.

    Raises:
      NotFoundError: there is no such file.
      RunError: the disk has failed.
    """
    LocalStore().sync(path for path in paths if not is_remote(path))


def makedirs(path: Path) -> None:
    """Makes the folder and missing folders above it. Does nothing for buckets, which have no folders."""
    _store(path).makedirs(os.fspath(path))


def listdir(path: Path) -> list[str]:
    """The names in a folder, sorted; raises `NotFoundError` if there is no such folder."""
    return _store(path).listdir(os.fspath(path))


def names_in(path: Path) -> list[str]:
    """The sorted names in a folder; empty if there is no such folder."""
    return listdir(path) if is_dir(path) else []


def times(path: Path) -> dict[str, float]:
    """{name: time of the last write, in seconds since 1970} of the files directly in a folder; as `listdir`."""
    return _store(path).times(os.fspath(path))


def stamps(paths: Sequence[str]) -> dict[str, Stamp]:
    """{path: size and version} of the files that exist; a `Stamp` changes if its file is written again.

    In buckets this lists folders, which is faster than a request for each file.
    """
    stamps_by_path: dict[str, Stamp] = {}
    for remote in (False, True):
        part = [path for path in paths if is_remote(path) == remote]
        stamps_by_path |= _store(part[0]).stamps(part) if part else {}
    return stamps_by_path


def tree(folder: Path) -> dict[str, list[str]]:
    """{folder: sorted names of its files} of `folder` and of all folders below it; raises like `listdir`.

    Hidden folders are left out. Links to folders are followed, but each folder is listed once. A folder below that
    cannot be listed is left out, with a warning.
    """
    return _store(folder).tree(os.fspath(folder))


def remove(path: Path) -> None:
    """Removes one file; raises `NotFoundError` if there is no such file."""
    _store(path).remove(os.fspath(path))


def remove_tree(path: Path) -> None:
    """Removes a folder with all its content; raises `NotFoundError` if there is no such folder."""
    _store(path).remove_tree(os.fspath(path))


def rename(source: Path, target: Path) -> None:
    """Renames a file or folder, within this machine or within buckets; replaces an existing file.

    On a local file system this is atomic, after the content is synced to the disk. In a bucket each object is copied,
    then deleted.

    Raises:
      NotFoundError: the source does not exist.
      UsageError: one path is local and the other is not.
    """
    if is_remote(source) != is_remote(target):
        raise UsageError(f"cannot rename {source} to {target}: one is local, the other is not")
    _store(source).rename(os.fspath(source), os.fspath(target))


def size(path: Path) -> int:
    """The size of a file in bytes; raises `NotFoundError` if there is no such file."""
    return _store(path).size(os.fspath(path))


def join(folder: Path, *names: str) -> str:
    """`folder/name/...`, with `/` as separator in a bucket."""
    if is_remote(folder):
        return "/".join([os.fspath(folder).rstrip("/"), *(name.strip("/") for name in names)])
    return os.path.join(folder, *names)


def absolute(path: str) -> str:
    """The absolute path of a local file, so that each file has only one path; a path in a bucket stays as it is."""
    return path if is_remote(path) else os.path.abspath(path)


def absolute_patterns(patterns: str) -> str:
    """A text for `paths_by_pattern` with each pattern made an absolute path."""
    return ",".join(absolute(pattern) for pattern, _ in paths_by_pattern(patterns))


def lock(path: Path) -> AbstractContextManager[None]:
    """Holds the lock file `path` during the block, and removes the file afterwards.

    If the process dies, the kernel releases a local lock. A lock in a bucket is free if its holder was a process of
    this machine that died, or has not renewed it for `gcs.LEASE_SECONDS`.

    Raises:
      Locked: another process holds the lock; the message names that process, its host and the time.
    """
    return _store(path).lock(os.fspath(path))


def is_locked(path: Path) -> bool:
    """Whether a running process holds the lock file `path`; see `lock` for locks in buckets.

    Raises:
      RunError: the file cannot be read.
    """
    return _store(path).is_locked(os.fspath(path))


def refuse_lost_lock(folder: Path) -> None:
    """Raises `RunError` if this process has lost a lock in `folder`, or if the folder was removed or moved."""
    _store(folder).refuse_lost_lock(os.fspath(folder))
