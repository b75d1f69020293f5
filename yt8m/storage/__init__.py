"""Reads, writes and lists files: local ones and objects in buckets (gs://bucket/name) by the same functions.

A failure raises `RunError` (`NotFoundError` and `Locked` derive from it), or `UsageError` if the path itself cannot be
used (unknown scheme, missing bucket, no permission on the bucket). Most functions call the method of the same name:
that of `local.LocalStore` for local paths, that of `gcs.GcsStore` for paths in buckets.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from glob import escape
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from yt8m import file_kinds
from yt8m.errors import DamagedFileError, RunError, UsageError, refusing
from yt8m.storage import identity, local
from yt8m.storage.base import WILD, Stamp
from yt8m.storage.base import Locked as Locked
from yt8m.storage.base import NotFoundError as NotFoundError
from yt8m.storage.base import parse_json as parse_json
from yt8m.storage.local import LocalStore

if TYPE_CHECKING:
    from yt8m.storage.gcs import GcsStore

_SAMPLED_FILES = 20  # so many files of a folder are looked into, to say what it holds

Path = str | os.PathLike[str]
Patterns = Path | Sequence[Path]  # patterns with commas between them, or a list of such texts; see `named_files`


def is_remote(path: Path) -> bool:
    """Whether `path` lies in a bucket rather than on this machine."""
    return os.fspath(path).startswith("gs://")


def _store(path: Path) -> LocalStore | GcsStore:
    """The object whose methods handle a path; raises `UsageError` if the path is empty or has an unknown scheme."""
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
    """Replaces `~` by the home folder in a path, or in several patterns with commas between them.

    The shell replaces `~` only at the start of a word, so not in `--train_dir=~/runs/a`.
    """
    return _HOME.sub(lambda match: match[1] + os.path.expanduser(match[2]), path)


_HOME = re.compile(r"(^|,)\s*(~[^/,]*)")  # `~` or `~user` at the start of a pattern


def glob(pattern: str) -> list[str]:
    """The paths of the files and folders that match `pattern`, sorted, each file once, as `named_files` says.

    Args:
      pattern: one or several patterns with commas between them. `*`, `?` and `[...]` match inside one path component;
        `~` is the home folder. A name that begins with a dot matches only a pattern that begins with a dot. An existing
        path matches itself, even if it contains such characters or commas.
    """
    return identity.each_once(sorted(path for _, paths in paths_by_pattern(pattern) for path in paths))


def pattern_in(folder: str, *names: str) -> str:
    """A pattern for `glob`: the pattern `names` inside `folder`, whose own characters stand for themselves."""
    return join(escape(folder), *names)


def glob_in(folder: str, *names: str) -> list[str]:
    """The sorted paths inside `folder` that match the pattern `names`; the path of the folder is no pattern."""
    return sorted(_store(folder).glob(pattern_in(folder, *names)))


def is_pattern(component: str) -> bool:
    """Whether a component of a path has characters with a special meaning in patterns."""
    return WILD.search(component) is not None


def paths_by_pattern(pattern: str) -> Iterator[tuple[str, list[str]]]:
    """Splits a text at its commas into patterns; yields (pattern, sorted paths that match it) for each. See `glob`.

    If a piece between two commas matches no file, but matches one together with the next pieces, they are one pattern.
    So `a,b.mp4,c.mp4` names two videos if there is a file `a,b.mp4` and no file `a`.
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
    """Finds the first pattern in the pieces of a text that was split at its commas.

    Returns:
      (the number of pieces from the start that, joined by commas, form a pattern which matches something; the paths
      that match it). (1, []) if no number of pieces does.
    """
    for count in range(1, len(pieces) + 1):
        if count > 1 and is_remote(pieces[count - 1].strip()):
            break
        pattern = ",".join(pieces[:count]).strip()
        if paths := sorted(_store(pattern).glob(pattern)) if pattern else []:
            return count, paths
    return 1, []


def listed(text: str) -> list[str]:
    """Splits a text at its commas into paths or patterns; an existing path may contain commas itself."""
    return [path for path, _ in paths_by_pattern(text) if path]


def pattern_texts(patterns: Any, kind: str = "file") -> list[str]:
    """The texts of one or several patterns that a user gave; anything else is refused."""
    texts: list[Any] = [patterns]
    if not isinstance(patterns, str | os.PathLike) and isinstance(patterns, Iterable):
        texts = list(patterns)
    if not all(isinstance(text, str | os.PathLike) for text in texts):
        type_name = "None" if patterns is None else f"a {type(patterns).__name__}"
        raise UsageError(f"expected a pattern of {kind}s or a list of patterns; found {type_name}.")
    return list(map(os.fspath, texts))


def named_files(
    patterns: Patterns, choose: Callable[[list[str]], list[str]] = list[str], kind: str = "file", by_name: bool = False
) -> list[str]:
    """The files that match the patterns of a user, each once: in the order of the patterns, those of a pattern sorted.

    A local file that is named twice, such as `a/b` and `./a/b`, or by a link to it, counts once too; the log warns of
    it.

    Args:
      patterns: one or several patterns with commas between them, or a list of such texts.
      choose: returns the files to use, given the paths that match a pattern; by default all of these paths.
    """
    matches = list[str]()
    for pattern, paths in itertools.chain.from_iterable(map(paths_by_pattern, pattern_texts(patterns, kind))):
        files = choose(paths)
        if not files:
            raise UsageError(f"no {kind} matches {pattern!r}. Check the path, and quote the pattern in the shell.")
        matches += dict.fromkeys(files)
    if not matches:
        raise UsageError(f"no {kind} is named: the list of patterns is empty. Give at least one path or pattern.")
    return list(dict.fromkeys(matches)) if by_name else identity.each_once(matches)


def exists(path: Path) -> bool:
    """Whether a file or folder exists; in a bucket the folder `a` exists if the name of an object begins with `a/`."""
    return _store(path).exists(os.fspath(path))


def refuse_missing(path: Path, flag: str, hint: str = "") -> None:
    """Raises a `UsageError` if the file that a flag names does not exist.

    Args:
      hint: the end of the message, for example how to make such a file; empty for none.
    """
    if not exists(path):
        raise UsageError(f"--{flag}={path}: there is no such file{f'; {hint}' if hint else ''}.")


def is_dir(path: Path) -> bool:
    """Whether `path` is a folder."""
    return _store(path).is_dir(os.fspath(path))


def why_no_folder(path: Path) -> str:
    """Says, for an error message, why a path that is not a folder is none: it is a file, or does not exist."""
    if exists(path):
        kind = kind_of(path)
        return f"this is {kind.description}; {kind.remedy}" if kind else "this is a file"
    return "this is a checkpoint in the folder of a run" if exists(f"{path}.index") else "there is no such folder"


def kind_of(path: Path) -> file_kinds.FileKind | None:
    """What a file is, by its first bytes; None if they say nothing, or cannot be read."""
    try:
        start = b"" if is_special(path) else read_start(path, file_kinds.SAMPLE_BYTES)
    except (RunError, UsageError):
        return None
    return file_kinds.find_kind(start, may_be_records=True)


def folder_kind(folder: Path) -> file_kinds.FileKind | None:
    """What a folder is, by its files; None if they say nothing."""
    names = sorted(names_in(folder))
    return file_kinds.find_folder_kind(names, (kind_of(join(folder, name)) for name in names[:_SAMPLED_FILES]))


def refuse_unusable_folder(folder: Path, flag: str) -> None:
    """Refuses a local folder for outputs in which this process cannot make files; the folder may not exist yet."""
    if is_remote(folder):
        return
    try:
        if local.is_writable(os.fspath(folder)):
            return
    except UsageError as error:  # its message begins with the path
        raise UsageError(f"--{flag}={error}") from error
    raise UsageError(f"--{flag}={folder} is not writable; change its permissions, or name another folder.")


def is_special(path: Path) -> bool:
    """Whether `path` is a local pipe, terminal or device, so that reading it may never end."""
    return not is_remote(path) and local.is_special(os.fspath(path))


def open_read(path: Path) -> AbstractContextManager[BinaryIO]:
    """Opens a file for reading bytes; the file is seekable."""
    return _store(path).open_read(os.fspath(path))


def read_bytes(path: Path) -> bytes:
    """Reads a whole file; raises like `open_read`."""
    with open_read(path) as file:
        return file.read()


def read_start(path: Path, count: int) -> bytes:
    """The first `count` bytes of a file, or all if the file is shorter; raises like `open_read`.

    Only these bytes are fetched from a bucket, and the checksum of the object is not checked.
    """
    return _store(path).read_start(os.fspath(path), count)


def read_text(path: Path) -> str:
    """Reads a UTF-8 text file, with its line ends unchanged; raises `DamagedFileError` if it is not UTF-8."""
    content = read_bytes(path)
    kind = file_kinds.find_kind(content[: file_kinds.SAMPLE_BYTES], may_be_records=True)
    hint = f": {kind}" if kind and not kind.is_text else ""
    with refusing(lambda error: DamagedFileError(f"{path} is damaged, or is not text in UTF-8{hint or f' ({error})'}")):
        return content.decode("utf-8")


def read_json(path: Path) -> Any:
    """Reads the value in a JSON file; raises `DamagedFileError` if it is not JSON."""
    with refusing(lambda error: DamagedFileError(f"{path} is cut short or damaged ({error})")):
        return parse_json(read_bytes(path))


def write_atomic(path: Path, mode: str = "wb") -> AbstractContextManager[IO[Any]]:
    """Opens a temporary file for writing, which replaces the file `path` when the block ends without an error.

    If the block raises an error, the file `path` stays as it was before. Missing folders are made. A device or a pipe
    (such as /dev/stdout) is written directly.

    Args:
      path: the file to write; an existing file is replaced.
      mode: "wb" for bytes, "w" for UTF-8 text with `\\n` line ends. Where the name of a file has a byte HH that is not
        UTF-8, Python puts the character U+DCHH; it is written as `\\udcHH`, which JSON reads as that character.
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"mode is 'wb' or 'w', not {mode!r}")
    return _store(path).write_atomic(os.fspath(path), mode)


def write(path: Path, content: str | bytes) -> None:
    """Writes a file, whole or not at all; an existing file is replaced. Raises like `write_atomic`.

    Args:
      content: bytes, or text, which is written as in the mode "w" of `write_atomic`.
    """
    with write_atomic(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


def discard_unfinished(path: Path) -> None:
    """Removes all temporary files that `write_atomic` made for `path`.

    A process that is still writing one of them fails. Buckets have no such files.
    """
    _store(path).discard_unfinished(os.fspath(path))


def discard_orphans(path: Path) -> None:
    """Removes the temporary files that killed processes of this machine left when they wrote `path`.

    Temporary files of running processes and of other machines stay. Buckets have no such files.
    """
    _store(path).discard_orphans(os.fspath(path))


def append_line(path: Path, line: str) -> None:
    """Appends `line` and a line end to a file of text (see `write_atomic`), which is made if it does not exist.

    Several processes may append to a local file. An object in a bucket is written again as a whole, so only one process
    may write it at a time.
    """
    _store(path).append(os.fspath(path), f"{line}\n".encode("utf-8", "backslashreplace"))


def write_at(path: Path, offset: int, data: Iterable[Any]) -> None:
    """Writes bytes into a local file from an offset on; other bytes of the file stay as they are.

    Several threads may write parts of one file. The file and its folder are made if they do not exist.

    Args:
      offset: the offset in bytes of the first written byte.
      data: pieces of bytes (bytes, or NumPy arrays), which are written one after the other.
    """
    LocalStore().write_at(os.fspath(path), offset, data)


def sync(paths: Iterable[str]) -> None:
    """Writes files, and folders with all their content, from memory to the disk, so that they survive a power cut.

    Call this for files that other libraries wrote, before another file refers to them. `write_atomic` and `rename` sync
    by themselves. Paths in buckets are ignored.
    """
    LocalStore().sync(path for path in paths if not is_remote(path))


def makedirs(path: Path) -> None:
    """Makes a folder and missing folders above it; does nothing in a bucket, which has no folders."""
    _store(path).makedirs(os.fspath(path))


def listdir(path: Path) -> list[str]:
    """The sorted names of the files and folders in a folder; raises `NotFoundError` if there is no such folder."""
    return _store(path).listdir(os.fspath(path))


def names_in(path: Path) -> list[str]:
    """The sorted names of the files and folders in a folder; empty if there is no such folder."""
    return listdir(path) if is_dir(path) else []


def times(path: Path) -> dict[str, float]:
    """{name: time of the last write, in seconds since 1970} of the files directly in a folder."""
    return _store(path).times(os.fspath(path))


def stamps(paths: Sequence[str]) -> dict[str, Stamp]:
    """{path: size and version} of those of the files that exist; a `Stamp` changes if its file is written again.

    In buckets, the folders of the files are listed, which is faster than a request for each file.
    """
    stamps_by_path: dict[str, Stamp] = {}
    for remote in (False, True):
        paths_of_store = [path for path in paths if is_remote(path) == remote]
        stamps_by_path |= _store(paths_of_store[0]).stamps(paths_of_store) if paths_of_store else {}
    return stamps_by_path


def named_twice(paths: Sequence[str]) -> dict[str, str]:
    """{path: an earlier one of `paths` that names the same file}; in a bucket each object has one name."""
    return identity.named_twice(paths)


def samples(paths: Sequence[str]) -> dict[str, int]:
    """{path: a checksum of some parts of its content} of those of the files that are on this machine and can be read.

    It tells apart files whose `Stamp` is the same, and it is the same for a copy of a file. Of a file in a bucket, the
    generation in its `Stamp` is the better sign.
    """
    return identity.samples([path for path in dict.fromkeys(paths) if not is_remote(path)])


def dense_samples(paths: Sequence[str]) -> dict[str, int]:
    """{path: a checksum of its content, of large files in part} of those of the files that are on this machine.

    It reads up to 64 MiB of each file, which suits a file that is read now anyway, or whose `Stamp.status` has changed
    and nothing else: it tells a copy from a file of other content.
    """
    return identity.dense_samples([path for path in dict.fromkeys(paths) if not is_remote(path)])


def checksums(paths: Sequence[str]) -> dict[str, int]:
    """{path: the checksum of its whole content} of those of the files that are on this machine and can be read.

    Unlike `samples`, it is for files that are read whole anyway, such as tables: one label may differ anywhere.
    """
    return identity.checksums([path for path in dict.fromkeys(paths) if not is_remote(path)])


def tree(folder: Path, has_hidden: bool = False) -> dict[str, list[str]]:
    """{folder: sorted names of its files} of a folder and of all folders below it.

    Hidden folders below it are left out, unless `has_hidden` is true. Links to folders are followed, but each folder is
    listed once. A folder below `folder` that cannot be listed is left out, with a warning in the log.
    """
    return _store(folder).tree(os.fspath(folder), has_hidden)


def remove(path: Path) -> None:
    """Removes one file; raises `NotFoundError` if there is no such file."""
    _store(path).remove(os.fspath(path))


def remove_tree(path: Path) -> None:
    """Removes a folder with all its content; raises `NotFoundError` if there is no such folder."""
    _store(path).remove_tree(os.fspath(path))


def rename(source: Path, target: Path) -> None:
    """Renames a file or folder on this machine, or an object or folder within buckets; replaces an existing file.

    A local rename is atomic; before it, the content is synced to the disk. In a bucket, each object is copied and then
    deleted.
    """
    if is_remote(source) != is_remote(target):
        raise UsageError(f"cannot rename {source} to {target}: one is local and the other in a bucket; copy it instead")
    _store(source).rename(os.fspath(source), os.fspath(target))


def size(path: Path) -> int:
    """The size of a file in bytes; raises `NotFoundError` if there is no such file."""
    return _store(path).size(os.fspath(path))


def join(folder: Path, *names: str) -> str:
    """The path `folder/name/...`; in a bucket, the separator is always `/`."""
    if is_remote(folder):
        return "/".join([os.fspath(folder).rstrip("/"), *(name.strip("/") for name in names)])
    return os.path.join(folder, *names)


def absolute(path: str) -> str:
    """The absolute path of a local file, without `..`; a path in a bucket is returned unchanged."""
    return path if is_remote(path) else os.path.abspath(path)


def absolute_patterns(patterns: str) -> str:
    """Makes each of the patterns in a text, with commas between them, an absolute path."""
    return ",".join(absolute(pattern) for pattern, _ in paths_by_pattern(patterns))


def lock(path: Path) -> AbstractContextManager[None]:
    """Makes the lock file `path` and holds the lock during the block, then removes the file.

    If this process dies, the kernel releases a local lock. A lock in a bucket is taken over by the next process that
    asks for it, if the holder was a process of the same machine that died, or has not renewed it for
    `gcs.LEASE_SECONDS`.
    """
    return _store(path).lock(os.fspath(path))


def is_locked(path: Path) -> bool:
    """Whether a running process holds the lock file `path`; `lock` says when a lock in a bucket is free."""
    return _store(path).is_locked(os.fspath(path))


def refuse_lost_lock(folder: Path) -> None:
    """Raises a `RunError` if this process has lost a lock in `folder`, or the locked folder was removed or moved."""
    _store(folder).refuse_lost_lock(os.fspath(folder))
