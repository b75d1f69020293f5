"""Hidden files and folders that are not yet complete, and the removal of those that killed processes left.

A file that becomes `NAME` is named `.NAME.PID.HOST.tmp` until it is complete. The process that writes it holds a lock
on it (`flock`), which the kernel releases when the process dies.
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
from typing import NamedTuple

from yt8m.storage.base import process_lives

# Identifies this machine in the names, because several machines may write into a shared folder.
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_swept: set[str] = set()  # the folders that this process has swept


class Unfinished(NamedTuple):
    """A file or folder that is not complete.

    Attributes:
      path: its hidden path.
      pid: the number of the process that writes it.
      host: the machine of that process, in the form of `_HOST`; None if the name does not have it.
    """

    path: str
    pid: int
    host: str | None

    def is_orphan(self) -> bool:
        """Whether a process of this machine wrote it and has died."""
        return self.host == _HOST and not process_lives(self.pid) and is_unlocked(self.path)


def temporary_path(path: str) -> str:
    """A new hidden path, beside `path`, for an unfinished file that becomes `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{_hidden(name)}.{os.getpid()}.{_HOST}{secrets.token_hex(4)}.tmp")


def lock_until_closed(descriptor: int) -> None:
    """Locks an unfinished file or folder, as a sign for other processes that it is still being written."""
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unfinished_in(folder: str, name: str | None = None) -> list[Unfinished]:
    """The unfinished files and folders in `folder`; with `name`, only those that become `name`."""
    start = re.escape(_hidden(name)) if name is not None else r"\..+"
    form = re.compile(rf"{start}\.(\d+)\.([0-9a-f]{{8}})?[0-9a-f]{{8}}\.tmp", re.DOTALL)
    try:
        matches = filter(None, map(form.fullmatch, os.listdir(folder)))
    except FileNotFoundError:
        return []
    return [Unfinished(os.path.join(folder, match[0]), int(match[1]), match[2]) for match in matches]


def discard_orphans(folder: str, name: str | None = None) -> None:
    """Removes unfinished files and folders in `folder` whose processes on this machine have died.

    With `name`, removes only those that would have become `name`.
    """
    for orphan in unfinished_in(folder, name):
        # An orphan of another user stays; so do all orphans if the file system has no locks.
        with contextlib.suppress(OSError):
            if orphan.is_orphan():
                discard(orphan.path)


def sweep_once(folder: str) -> None:
    """Calls `discard_orphans` for a folder, the first time that this process writes into the folder."""
    if folder not in _swept:
        _swept.add(folder)
        with contextlib.suppress(OSError):  # the folder may be writable although it cannot be listed
            discard_orphans(folder)


def discard(path: str) -> None:
    """Removes a file or a folder."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def is_unlocked(path: str) -> bool:
    """Whether no process has locked the file. A lock, unlike a process number, is visible from other containers."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _hidden(name: str) -> str:
    """The start of the names of unfinished files that become `name`; the dot hides them from patterns.

    It is cut, because file systems limit the bytes of a name.
    """
    return "." + os.fsencode(name)[:100].decode(errors="ignore")
