"""New outputs of commands that refuse an output which exists already, and their repeat after a kill.

A local output gets its name when it is complete. If the command is killed after that and before its end, it has to
succeed when it is repeated, although its output exists. So a hidden file beside the output holds a hash of the command
while the command runs. If the output exists and the file is still there, the output is that of the killed command. In a
bucket, where a folder may be incomplete, it is written again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator

from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.storage import unfinished
from yt8m.storage.local import naming_errors

# Folders of a run that its evaluation and inference write: `eval --calibrated_run` itself changes them.
_OF_EVALUATIONS = ("eval", "inference_model", "segment_inference_model")


@contextlib.contextmanager
def new_output(path: str, command: str, flag: str = "out", *, sources: Iterable[str] = ()) -> Iterator[bool]:
    """Refuses an output file or folder that exists already, and marks it as begun during the block.

    Yields whether the output is complete, because an earlier start of this command was killed after it had written it.
    The log then says so.

    Args:
      sources: paths of what the output is made of: files, folders of runs, and prefixes of checkpoints. If one of them
        has changed since, the output of the killed command is of old content, and is refused like any other.
    """
    command = repr((command, _versions(sources)))
    exists = storage.exists(path) or storage.is_dir(path)
    if exists and not was_begun(path, command):
        raise UsageError(f"--{flag}={path} exists already; name another, or remove it first.")
    is_done = exists and not storage.is_remote(path)
    if is_done:
        logging.info("%s is complete: an earlier start of this command was killed after it had written it", path)
    with begun(path, command):
        yield is_done


def _versions(sources: Iterable[str]) -> list[tuple[str, int, int]]:
    """(path, size, version) of each file of the sources. Figures and hidden files do not say what a run has learned."""
    source_paths = [storage.absolute(source) for source in sources if source]
    stamps = storage.stamps(source_paths)  # all shards of a bucket at once; of folders on this machine, too
    files = {path: stamp for path, stamp in stamps.items() if storage.is_remote(path) or not storage.is_dir(path)}
    others = {path for source in dict.fromkeys(source_paths) if source not in files for path in _learned_files(source)}
    files |= storage.stamps(sorted(others))
    return sorted((path, stamp.bytes, stamp.version) for path, stamp in files.items())


def _learned_files(source: str) -> Iterator[str]:
    """The paths in the folder `source`, or those that begin with it, but for what says nothing of what was learned."""
    folder, _, start = (source, "", "") if storage.is_dir(source) else source.rpartition("/")
    for name in storage.names_in(folder or "/"):
        is_figure = name.startswith((".", "events.")) or name[-6:] == ".jsonl" or name in _OF_EVALUATIONS
        if name.startswith(start) and not is_figure:
            yield storage.join(folder, name)


def was_begun(path: str, command: str) -> bool:
    """Whether an earlier start of the same command was killed in the block of `begun` for this path."""
    if storage.is_remote(path):
        with contextlib.suppress(RunError):
            return storage.read_bytes(_remote_mark(path)) == _mark_of(path, command)
        return False
    marks = [mark for mark in unfinished.unfinished_in(*_split(path)) if os.path.isfile(mark.path)]
    with contextlib.suppress(OSError):  # some network file systems have no locks
        return any(_content(mark.path) == _mark_of(path, command) and mark.is_orphan() for mark in marks)
    return False


@contextlib.contextmanager
def begun(path: str, command: str) -> Iterator[None]:
    """Keeps a hidden file beside `path` during the block, by which `was_begun` recognizes the command.

    Folders above `path` are made; if the block leaves them empty, they are removed again.
    """
    if storage.is_remote(path):
        storage.write(_remote_mark(path), _mark_of(path, command))
        try:
            yield
        finally:
            storage.remove(_remote_mark(path))
        return
    folder = _split(path)[0]
    missing = _missing_folders(folder)
    storage.makedirs(folder)
    with contextlib.suppress(OSError):  # the folder may be writable although it cannot be listed
        unfinished.discard_orphans(*_split(path))
    mark = unfinished.temporary_path(os.path.join(*_split(path)))
    try:
        with naming_errors("write", path), open(mark, "xb", buffering=0) as file:
            unfinished.lock_until_closed(file.fileno())
            file.write(_mark_of(path, command))
            yield
    finally:
        for leftover, remove in [(mark, os.unlink), *((folder, os.rmdir) for folder in missing)]:
            with contextlib.suppress(OSError):  # the folders are not empty if the output is in them
                remove(leftover)


@contextlib.contextmanager
def locked_folder(folder: str, lock: str = ".lock") -> Iterator[None]:
    """Makes the folder of a command's results, if there is none, and holds its lock during the block.

    Folders that it made are removed again if nothing is in them at the end, because the command has refused its input.

    Args:
      lock: name of the lock file in the folder.
    """
    missing = [] if storage.is_remote(folder) else _missing_folders(os.path.realpath(folder))
    storage.makedirs(folder)
    try:
        with storage.lock(storage.join(folder, lock)):
            yield
    finally:
        with contextlib.suppress(OSError):  # another process has removed it, or wrote into it
            for made in itertools.takewhile(lambda folder: not os.listdir(folder), missing):
                os.rmdir(made)


def _mark_of(path: str, command: str) -> bytes:
    """The content of the hidden file of this command: a hash."""
    return hashlib.sha256(
        repr((storage.absolute(path.rstrip("/")), command)).encode("utf-8", "surrogateescape")
    ).digest()


def _remote_mark(path: str) -> str:
    folder, _, name = path.rstrip("/").rpartition("/")
    return storage.join(folder, f".{name}.begun")


def _split(path: str) -> tuple[str, str]:
    """The folder and the name of a local path, in the form in which files beside it are made and found."""
    return os.path.split(os.path.realpath(path))


def _missing_folders(folder: str) -> list[str]:
    """The folders up to `folder` that do not exist, the innermost first."""
    missing = []
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(100)
    except OSError:
        return b""
