"""Locks files of this machine, also where the file system has no locks.

A lock is a kernel lock (`flock`) on a file whose content names the holder. The kernel releases the lock when the holder
dies. Some file systems have no such locks: Lustre that was mounted without the option `flock`, some FUSE and NFS. There
the file itself is the lock, which only one process can make (`O_EXCL`). If its holder was killed, the file stays. A
process of the same machine sees that, and takes the lock over; on another machine, the user must remove the file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import socket
import time
from typing import Any

from absl import logging

from yt8m.storage.base import Locked, parse_holder, process_lives

# The errors of `flock` on a file system without locks.
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
_WRITING_SECONDS = 10.0  # a lock file without a holder is as old as this only if its maker was killed
_warned: set[str] = set()  # the folders without locks of which the log has warned


def acquire(path: str) -> int:
    """Makes and locks the file `path`; returns its open descriptor, which holds the lock until it is closed."""
    attempts = itertools.count()
    while True:
        descriptor, is_new = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if next(attempts) == 0:  # perhaps another process calls `is_locked`, which locks the file for an instant
                os.close(descriptor)
                time.sleep(0.05)
                continue
            raise _locked(path, descriptor) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise
            _warn(path)
            if is_new:
                return descriptor
            if not _is_dead(descriptor):
                raise _locked(path, descriptor, f" If that process is gone, remove {path}.") from None
            _remove_dead(path, descriptor)
            continue
        if is_same_file(descriptor, path):
            return descriptor
        os.close(descriptor)  # the former holder removed this file between `open` and `flock`, so a new file is locked


def is_locked_without_locks(path: str) -> bool:
    """Whether the file `path`, on a file system without locks, is the lock of a process that may be running."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not _is_dead(descriptor)
    finally:
        os.close(descriptor)


def has_no_locks(error: OSError) -> bool:
    """Whether `flock` failed with this error because the file system has no locks."""
    return error.errno in _NO_LOCKS


def is_same_file(descriptor: int, path: str) -> bool:
    """Whether `path` still names the file or folder that is open as `descriptor`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _open(path: str) -> tuple[int, bool]:
    """Opens the file `path`; returns its descriptor, and whether this call made the file."""
    while True:
        with contextlib.suppress(FileExistsError):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), True
        with contextlib.suppress(FileNotFoundError):  # the holder has just removed it
            return os.open(path, os.O_RDWR), False


def _locked(path: str, descriptor: int, remedy: str = "") -> Locked:
    """The error that names the holder; closes the descriptor."""
    holder = _holder_in(descriptor)
    os.close(descriptor)
    return Locked(path, holder, remedy)


def _holder_in(descriptor: int) -> dict[str, Any]:
    return parse_holder(os.pread(descriptor, 4096, 0))


def _is_dead(descriptor: int) -> bool:
    """Whether the holder that a lock file names was a process of this machine that has died."""
    holder = _holder_in(descriptor)
    if not holder:
        return time.time() - os.fstat(descriptor).st_mtime > _WRITING_SECONDS
    pid = holder.get("pid")
    return holder.get("host") == socket.gethostname() and isinstance(pid, int) and not process_lives(pid)


def _remove_dead(path: str, descriptor: int) -> None:
    """Removes the lock file of a dead process, unless another process has just replaced it; closes the descriptor."""
    removed = f"{path}.{os.getpid()}.dead"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, removed)
            os.unlink(removed) if is_same_file(descriptor, removed) else os.rename(removed, path)
    finally:
        os.close(descriptor)


def _warn(path: str) -> None:
    """Warns once of a folder whose file system has no locks."""
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in _warned:
        _warned.add(folder)
        logging.warning(
            "the file system of %s has no locks (flock): the file %s alone keeps other processes away, so do not "
            "start two programs that write there from two machines at the same moment",
            *(folder, os.path.basename(path)),
        )
