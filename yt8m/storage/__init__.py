"""The one place that opens, lists or writes paths: local ones and gs://bucket/name alike.

Every function takes plain strings. A failure raises `RunError` (`NotFoundError` and `Locked` are kinds of it), or
`UsageError` if the path itself cannot be used (unknown scheme, missing bucket, no permission on it). `local.LocalStore`
and `gcs.GcsStore` do the work; both have a method for each function here.
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
    """Replaces `~` by the home folder in a path or in patterns (separated by commas) that a user typed.

    The shell replaces `~` only at the start of a word, so not in `--train_dir=~/runs/a`.
    """
    return _HOME.sub(lambda match: match[1] + os.path.expanduser(match[2]), path)


_HOME = re.compile(r"(^|,)\s*(~[^/,]*)")


def glob(pattern: str) -> list[str]:
    """The files and folders that match, sorted and without duplicates.

    Args:
      pattern: patterns separated by commas, with `*`, `?` and `[...]` inside one path component, and `~` (see
        `expanded`). A name that begins with a dot matches only a pattern that begins with a dot. An existing path
        matches itself, even if it contains such characters or commas.
    """
    return sorted({path for _, paths in paths_by_pattern(pattern) for path in paths})


def paths_by_pattern(pattern: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each of the patterns that commas separate with the sorted paths that match it; arguments as for `glob`.

    Text between two commas that matches nothing is joined with the text after it, as long as the whole matches:
    `a,b.mp4,c.mp4` are two videos if there is a file `a,b.mp4` and no `a`, and `d,e/*.mp4` are those of a folder `d,e`.
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
    """How many of the first pieces, joined by commas, are one pattern, and the paths that match it; 1 if none do."""
    for count in range(1, len(pieces) + 1):
        if count > 1 and is_remote(pieces[count - 1].strip()):
            break
        pattern = ",".join(pieces[:count]).strip()
        if paths := sorted(_store(pattern).glob(pattern)) if pattern else []:
            return count, paths
    return 1, []


def listed(text: str) -> list[str]:
    """The paths of a list that is separated by commas; a path that exists may contain commas itself."""
    return [path for path, _ in paths_by_pattern(text) if path]


def named_files(
    patterns: Patterns, choose: Callable[[list[str]], list[str]] = list[str], kind: str = "file"
) -> list[str]:
    """The files that match the patterns a user gave, each once: in the order of the patterns, those of one sorted.

    Args:
      patterns: a text for `paths_by_pattern`, or several.
      choose: replaces the paths that match a pattern by the files that count.
      kind: the kind of file, for the error.

    Raises:
      UsageError: no pattern is given, or no file that counts matches one of them.
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
    """Whether there is a file or a folder; a bucket has the folder `a` if the name of an object begins with `a/`."""
    return _store(path).exists(os.fspath(path))


def refuse_missing(path: Path, flag: str, hint: str = "") -> None:
    """Refuses a file that does not exist; raises `UsageError`, with the flag that names it and perhaps a hint."""
    if not exists(path):
        raise UsageError(f"--{flag}={path}: there is no such file{f'; {hint}' if hint else ''}.")


def is_dir(path: Path) -> bool:
    """Whether `path` is a folder."""
    return _store(path).is_dir(os.fspath(path))


def is_special(path: Path) -> bool:
    """Whether `path` is a pipe, terminal or device of this machine, which may never end."""
    return not is_remote(path) and local.is_special(os.fspath(path))


def open_read(path: Path) -> AbstractContextManager[BinaryIO]:
    """Opens a file for reading bytes; the file is seekable.

    Raises:
      NotFoundError: there is no such file.
      RunError: the file cannot be read.
    """
    return _store(path).open_read(os.fspath(path))


def read_bytes(path: Path) -> bytes:
    """All bytes of a file; raises like `open_read`."""
    with open_read(path) as file:
        return file.read()


def read_start(path: Path, count: int) -> bytes:
    """The first `count` bytes of a file, or all if it is shorter; raises like `open_read`.

    From a bucket only these bytes are fetched, and the checksum of the object is not compared.
    """
    return _store(path).read_start(os.fspath(path), count)


def read_text(path: Path) -> str:
    """All text of a UTF-8 file, with its line ends unchanged; raises like `open_read`."""
    return read_bytes(path).decode("utf-8")


def read_json(path: Path) -> Any:
    """The content of a file of JSON; raises like `open_read`, or the `ValueError` of `parse_json`."""
    return parse_json(read_bytes(path))


def write_atomic(path: Path, mode: str = "wb") -> AbstractContextManager[IO[Any]]:
    """Opens a file for writing; the whole content appears under `path` when the block ends, unless it raises an error.

    Missing folders are made. A device or a pipe (/dev/stdout) is written directly.

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
    """Writes a whole file at once, text in UTF-8; raises like `write_atomic`."""
    with write_atomic(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


def discard_unfinished(path: Path) -> None:
    """Removes every temporary file of `write_atomic` for `path`; a process that is still writing one of them fails.

    Buckets have no such files.
    """
    _store(path).discard_unfinished(os.fspath(path))


def discard_orphans(path: Path) -> None:
    """Removes the temporary files that killed processes of this machine left in `write_atomic` for `path`.

    Temporary files of living processes and of other machines stay. Buckets have no such files.
    """
    _store(path).discard_orphans(os.fspath(path))


def append_line(path: Path, line: str) -> None:
    """Adds `line` and a line end to a UTF-8 file, which is made if it does not exist.

    In a local file both are written at once, so that several writers never mix their lines. An object in a bucket
    cannot be appended to: it is rewritten as a whole, so only one process may write it at a time.

    Raises:
      RunError: the file cannot be written.
    """
    _store(path).append(os.fspath(path), f"{line}\n".encode())


def write_at(path: Path, place: int, data: Iterable[Any]) -> None:
    """Writes pieces of bytes into a local file from byte `place` on; what the file holds before and after them stays.

    So several threads may write parts of one file. The file and its folder are made if they do not exist.

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
    """Writes files, and folders with everything in them, to the disk, so that they survive a power cut.

    Call it for files that other libraries write, before a name or a file promises that they are complete. What this
    module writes whole or renames is synced already. Buckets need no syncing.

    Raises:
      NotFoundError: there is no such file.
      RunError: the disk has failed.
    """
    LocalStore().sync(path for path in paths if not is_remote(path))


def makedirs(path: Path) -> None:
    """Makes the folder, and folders above it, unless they exist. Does nothing for buckets, which have no folders."""
    _store(path).makedirs(os.fspath(path))


def listdir(path: Path) -> list[str]:
    """The names in a folder, sorted; raises `NotFoundError` if there is no such folder."""
    return _store(path).listdir(os.fspath(path))


def names_in(path: Path) -> list[str]:
    """The sorted names in a folder; empty if there is no such folder."""
    return listdir(path) if is_dir(path) else []


def times(path: Path) -> dict[str, float]:
    """When each file directly in a folder was last written, in seconds since 1970; raises like `listdir`."""
    return _store(path).times(os.fspath(path))


def stamps(paths: Sequence[str]) -> dict[str, Stamp]:
    """The size and version of each file that exists; the pair changes if the file is rewritten.

    Files in buckets are listed folder by folder rather than asked for one by one.
    """
    stamps_by_path: dict[str, Stamp] = {}
    for remote in (False, True):
        part = [path for path in paths if is_remote(path) == remote]
        stamps_by_path |= _store(part[0]).stamps(part) if part else {}
    return stamps_by_path


def tree(folder: Path) -> dict[str, list[str]]:
    """{folder: names of the files in it} of `folder` and of all folders below, sorted; raises like `listdir`.

    Hidden folders are left out. Links to folders are followed, but each folder counts once. A folder below that cannot
    be listed is left out with a warning in the log.
    """
    return _store(folder).tree(os.fspath(folder))


def remove(path: Path) -> None:
    """Removes one file; raises `NotFoundError` if there is none."""
    _store(path).remove(os.fspath(path))


def remove_tree(path: Path) -> None:
    """Removes a folder and everything in it; raises `NotFoundError` if there is none."""
    _store(path).remove_tree(os.fspath(path))


def rename(source: Path, target: Path) -> None:
    """Moves a file or folder within one store and replaces an existing file.

    This is atomic on a local file system, and what gets the new name is synced to the disk before. In a bucket each
    object is copied, then deleted.

    Raises:
      NotFoundError: the source does not exist.
      UsageError: one path is local and the other is not.
    """
    if is_remote(source) != is_remote(target):
        raise UsageError(f"cannot rename {source} to {target}: one is local, the other is not")
    _store(source).rename(os.fspath(source), os.fspath(target))


def size(path: Path) -> int:
    """The size of a file in bytes; raises `NotFoundError` if there is none."""
    return _store(path).size(os.fspath(path))


def join(folder: Path, *names: str) -> str:
    """`folder/name/...`, with `/` as separator in a bucket."""
    if is_remote(folder):
        return "/".join([os.fspath(folder).rstrip("/"), *(name.strip("/") for name in names)])
    return os.path.join(folder, *names)


def absolute(path: str) -> str:
    """The absolute path, so that each file has only one name; a remote one as it is."""
    return path if is_remote(path) else os.path.abspath(path)


def absolute_patterns(patterns: str) -> str:
    """The patterns of a text for `paths_by_pattern`, each as an absolute path."""
    return ",".join(absolute(pattern) for pattern, _ in paths_by_pattern(patterns))


def lock(path: Path) -> AbstractContextManager[None]:
    """Holds the lock file `path` during the block and removes it afterwards.

    The kernel releases a local lock when its holder dies, however that happens. In a bucket, a lock is free if its
    holder died on this machine, or has not renewed it for `gcs.LEASE_SECONDS`.

    Raises:
      Locked: another process holds the lock; the message names that process, its host and the time.
    """
    return _store(path).lock(os.fspath(path))


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock file `path`. In a bucket, see `lock` for when a holder counts as dead.

    Raises:
      RunError: the file cannot be read.
    """
    return _store(path).is_locked(os.fspath(path))


def refuse_lost_lock(folder: Path) -> None:
    """Raises if this process has lost a lock in `folder`, or if the folder was removed together with its lock.

    Raises:
      RunError: the lock is lost; the message names the lock or the folder.
    """
    _store(folder).refuse_lost_lock(os.fspath(folder))
