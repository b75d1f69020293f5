"""Names, locks and removes the hidden files and folders that are not yet complete.

A file that becomes `NAME` is named `.NAME.PID.HOST.tmp` until it is complete. The process that writes the file holds a
lock on it (`flock`), which the kernel releases when the process dies. So another process can tell that an unfinished
file is an orphan, left by a killed process, and removes it.

While a new folder takes the place of an old folder `NAME`, the old one is named `.NAME.HASH.old`, and the process holds
a lock on it too.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from typing import NamedTuple

from yt8m.storage.base import process_lives

# The text for this machine in the names: several machines may write into a shared folder.
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_swept: set[str] = set()  # the folders from which this process has removed orphans


class Unfinished(NamedTuple):
    """A file or folder that is not complete.

    Attributes:
      host: the machine of that process, as `_HOST` is for this machine; None if the file's name does not have it.
    """

    path: str
    pid: int
    host: str | None

    def is_orphan(self) -> bool:
        """Whether a process of this machine was writing the file, and has died."""
        return self.host == _HOST and not process_lives(self.pid) and is_unlocked(self.path)


def temporary_path(path: str) -> str:
    """A new hidden path, in the folder of `path`, for an unfinished file or folder that becomes `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{_hidden_start(name)}.{os.getpid()}.{_HOST}{secrets.token_hex(4)}.tmp")


def former_path(path: str) -> str:
    """The hidden path, beside the folder `path`, of the old folder while a new one takes its place.

    The result is always the same for a folder, so that a later process finds the old folder. The hash distinguishes
    long names with the same start.
    """
    folder, name = os.path.split(path)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return os.path.join(folder, f"{_hidden_start(name)}.{digest}.old")


def put_back_or_discard(former: str, path: str) -> None:
    """Renames the old folder `former` to `path` if a killed process left it and `path` is missing, else removes it.

    Does nothing if there is no such folder, or if a running process has locked it.
    """
    if not os.path.lexists(former):
        return
    with contextlib.suppress(OSError):  # some network file systems have no locks
        if not is_unlocked(former):
            return
    if os.path.lexists(path):
        remove_all(former)
    else:
        os.rename(former, path)


@contextlib.contextmanager
def locked_folder(path: str) -> Iterator[None]:
    """Locks a folder during the block, even if it is renamed.

    The lock tells other processes that this folder is in use, so that they do not remove it as one that a killed
    process left. If the folder cannot be locked at once, the block runs without a lock.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        lock_until_closed(descriptor)
        yield
    finally:
        os.close(descriptor)


def lock_until_closed(descriptor: int) -> None:
    """Locks an open unfinished file or folder, which tells other processes that it is still being written."""
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unfinished_in(folder: str, name: str | None = None) -> list[Unfinished]:
    """The unfinished files and folders in `folder`; with `name`, only those that become `name`."""
    start = re.escape(_hidden_start(name)) if name is not None else r"\..+"
    pattern = re.compile(rf"{start}\.(\d+)\.([0-9a-f]{{8}})?[0-9a-f]{{8}}\.tmp", re.DOTALL)
    try:
        matches = filter(None, map(pattern.fullmatch, os.listdir(folder)))
    except FileNotFoundError:
        return []
    return [Unfinished(os.path.join(folder, match[0]), int(match[1]), match[2]) for match in matches]


def discard_orphans(folder: str, name: str | None = None) -> None:
    """Removes unfinished files and folders in `folder` whose processes on this machine have died.

    With `name`, removes only those that would have become `name`.
    """
    for orphan in unfinished_in(folder, name):
        # An orphan that belongs to another user stays, and all orphans stay if the file system has no locks.
        with contextlib.suppress(OSError):
            if orphan.is_orphan():
                remove_all(orphan.path)


def sweep_once(folder: str) -> None:
    """Calls `discard_orphans` for a folder; does nothing if this process called it for the folder before."""
    if folder not in _swept:
        _swept.add(folder)
        with contextlib.suppress(OSError):  # the folder may be writable although it cannot be listed
            discard_orphans(folder)


def remove_all(path: str) -> None:
    """Removes a file, or a folder with all its content."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def is_unlocked(path: str) -> bool:
    """Whether no process has locked the file or folder `path`.

    A lock is a better sign than a process number: a process in another container sees the lock, but not the process.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _hidden_start(name: str) -> str:
    """The text with which the names of unfinished files begin that become `name`: a dot, which hides them, and `name`.

    A long `name` is cut, because file systems limit the bytes of a name.
    """
    return "." + os.fsencode(name)[:100].decode(errors="ignore")
