"""Hidden files and folders that are filled before they get their names, and the removal of those of dead processes.

What becomes `NAME` is `.NAME.PID.HOST.tmp` until it is complete. Its maker holds a lock on it (`flock`), which the
kernel releases when the maker dies.
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

# Identifies this machine in the names, because other machines may write into a shared folder.
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_swept: set[str] = set()  # the folders that this process has swept


class Unfinished(NamedTuple):
    """A file or folder that is not complete.

    Attributes:
      path: where it lies.
      pid: the process that makes it.
      host: the machine of that process, as in `_HOST`; None if it is not known.
    """

    path: str
    pid: int
    host: str | None

    def is_orphan(self) -> bool:
        """Whether its maker was a process of this machine that is dead."""
        return self.host == _HOST and not process_lives(self.pid) and is_unlocked(self.path)


def temporary_path(path: str) -> str:
    """A new hidden path beside `path`, in the form of this module."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{_hidden(name)}.{os.getpid()}.{_HOST}{secrets.token_hex(4)}.tmp")


def lock_until_closed(descriptor: int) -> None:
    """Shows other processes that this file or folder is still being filled."""
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unfinished_in(folder: str, name: str | None = None) -> list[Unfinished]:
    """The unfinished files and folders in `folder`; with `name`, only those that are to get this name."""
    start = re.escape(_hidden(name)) if name is not None else r"\..+"
    form = re.compile(rf"{start}\.(\d+)\.([0-9a-f]{{8}})?[0-9a-f]{{8}}\.tmp", re.DOTALL)
    try:
        matches = filter(None, map(form.fullmatch, os.listdir(folder)))
    except FileNotFoundError:
        return []
    return [Unfinished(os.path.join(folder, match[0]), int(match[1]), match[2]) for match in matches]


def discard_orphans(folder: str, name: str | None = None) -> None:
    """Removes the unfinished files and folders that killed processes of this machine left in `folder`.

    With `name`, removes only those that were to get this name.
    """
    for orphan in unfinished_in(folder, name):
        # It stays if another user owns it, or if the file system has no locks.
        with contextlib.suppress(OSError):
            if orphan.is_orphan():
                discard(orphan.path)


def sweep_once(folder: str) -> None:
    """Removes the orphans of a folder, the first time that this process makes something in it."""
    if folder not in _swept:
        _swept.add(folder)
        with contextlib.suppress(OSError):  # a folder that may not be listed can still be written to
            discard_orphans(folder)


def discard(path: str) -> None:
    """Removes a file or a folder."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def is_unlocked(path: str) -> bool:
    """Whether no process has locked the file. Unlike a process number, a lock is visible from other containers."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _hidden(name: str) -> str:
    """The prefix of the names of what becomes `name`. It begins with a dot, so patterns do not match them."""
    return f".{name[:100]}"
