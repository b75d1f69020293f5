"""Files of this machine.

Local files that grow over several starts of a program and get their name once they are whole.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Iterator, Sequence
from typing import IO, Any, BinaryIO

from yt8m.errors import RunError, UsageError
from yt8m.storage.base import Locked, NotFoundError, Stamp, parse_holder, this_holder

# This machine in the names of unfinished files: other machines may write into a shared folder too.
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_locked_in: dict[str, int] = {}  # the folder, open, of each lock that this process holds
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def named(action: str, path: str) -> Iterator[None]:
    """Turns the system's errors into ours, with the path and what was being done."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"cannot {action} {path}: there is no {error.filename or path}") from error
    except OSError as error:
        raise RunError(f"cannot {action} {path}: {error.strerror or error}") from error


class LocalStore:
    """Paths of the local file systems."""

    def glob(self, pattern: str) -> list[str]:
        return [pattern] if os.path.lexists(pattern) else glob.glob(pattern)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    @contextlib.contextmanager
    def open_read(self, path: str) -> Iterator[BinaryIO]:
        with named("read", path):
            file = open(path, "rb")  # noqa: SIM115 - closed below; errors of the caller's block are its own
        with file:
            yield file

    @contextlib.contextmanager
    def write_atomic(self, path: str, mode: str) -> Iterator[IO[Any]]:
        target = os.path.realpath(path)
        if _is_special(path):
            with named("write", path), _open(path, mode) as file:
                yield file
            return
        folder, name = os.path.split(target)
        self.makedirs(folder)
        beside = os.path.join(folder, f"{_hidden(name)}.{os.getpid()}.{_HOST}{secrets.token_hex(4)}.tmp")
        with named("write", path):
            file = _open(beside, mode.replace("w", "x"))
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield from _fill(file, path)
            with named("write", path):
                os.replace(beside, target)
                sync_folder(folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise

    def discard_unfinished(self, path: str) -> None:
        with named("clean up beside", path):
            for left, _, _ in _unfinished(path):
                os.unlink(left)

    def discard_orphans(self, path: str) -> None:
        for left, pid, host in _unfinished(path):
            with contextlib.suppress(OSError):  # of another user, or without locks: it stays
                if host == _HOST and not _lives(pid) and _is_unlocked(left):
                    os.unlink(left)

    def append(self, path: str, data: bytes) -> None:
        self.makedirs(os.path.dirname(os.path.abspath(path)))
        with named("append to", path):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                if os.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)

    def makedirs(self, path: str) -> None:
        with named("make the folder", path):
            os.makedirs(path, exist_ok=True)

    def listdir(self, path: str) -> list[str]:
        with named("list", path):
            return sorted(os.listdir(path))

    def times(self, path: str) -> dict[str, float]:
        with named("list", path), os.scandir(path) as entries:
            return {entry.name: entry.stat().st_mtime for entry in entries if entry.is_file()}

    def stamps(self, paths: Sequence[str]) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        for path in paths:
            with contextlib.suppress(NotFoundError), named("read", path):
                stat = os.stat(path)
                found[path] = Stamp(stat.st_size, stat.st_mtime_ns)
        return found

    def remove(self, path: str) -> None:
        with named("remove", path):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with named("remove", path):
            shutil.rmtree(path)

    def rename(self, source: str, target: str) -> None:
        with named("rename", source):
            os.replace(source, target)

    def size(self, path: str) -> int:
        with named("read", path):
            return os.stat(path).st_size

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        whole = os.path.abspath(path)
        self.makedirs(os.path.dirname(whole))
        with named("lock", path):
            descriptor = _take(path)
        try:
            with named("write", path):
                _locked_in[whole] = os.open(os.path.dirname(whole), os.O_RDONLY)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, this_holder(), 0)
            yield
        finally:
            # Removed while it is still held: whoever opened it meanwhile sees that the name is gone.
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(descriptor)
            if whole in _locked_in:
                os.close(_locked_in.pop(whole))


def refuse_lost(folder: str) -> None:
    """Refuses to go on in a folder in which this process holds a lock, where it was removed or moved.

    A new folder of that name is another one: nothing of the lock is in it.

    Raises:
      RunError: names the folder.
    """
    whole = os.path.abspath(folder)
    for path, descriptor in list(_locked_in.items()):
        if os.path.dirname(path) == whole and not _is_still(descriptor, whole):
            raise RunError(
                f"the folder {folder} is gone: it was removed or moved while this process worked in it, so "
                "nothing more is saved there. Put it back and start again to go on from its newest "
                "checkpoint, or name another folder."
            )


def _unfinished(path: str) -> list[tuple[str, int, str | None]]:
    """(path, process, host) of each file that is to be renamed to `path`."""
    folder, name = os.path.split(os.path.realpath(path))
    form = re.compile(re.escape(_hidden(name)) + r"\.(\d+)\.([0-9a-f]{8})?[0-9a-f]{8}\.tmp")
    try:
        found = filter(None, map(form.fullmatch, os.listdir(folder)))
    except FileNotFoundError:
        return []
    return [(os.path.join(folder, each[0]), int(each[1]), each[2]) for each in found]


def _lives(pid: int) -> bool:
    """Whether there is such a process; it may be another that has got the number of a dead one."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _is_unlocked(path: str) -> bool:
    """Whether no writer holds the file: a container may not see the processes of another."""
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _hidden(name: str) -> str:
    """How the names of files begin that are to be renamed to `name`.

    The dot keeps an orphan of a killed process out of every pattern.
    """
    return f".{name[:100]}"


def _open(path: str, mode: str) -> IO[Any]:
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", newline="\n")


def _is_special(path: str) -> bool:
    """A pipe, terminal or device: nothing to rename onto."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path)
    except OSError:
        return False


def _fill(file: IO[Any], path: str) -> Iterator[IO[Any]]:
    """Hands `file` to the caller's block, then brings it to the disk and closes it."""
    try:
        yield file
        with named("write", path):
            file.flush()
            os.fsync(file.fileno())
            file.close()
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise RunError(f"cannot write {path}: {error.strerror}") from error
        raise
    finally:
        with contextlib.suppress(OSError):  # closing flushes again what just failed to be flushed
            file.close()


def sync_folder(folder: str) -> None:
    """Makes the rename itself last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems cannot sync a folder
        pass
    finally:
        os.close(descriptor)


def _take(path: str) -> int:
    """An open descriptor that holds the kernel's lock on the file now called `path`.

    Raises:
      Locked: another has it.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = parse_holder(os.pread(descriptor, 4096, 0))
            os.close(descriptor)
            raise Locked(path, holder) from None
        except OSError:
            os.close(descriptor)
            raise
        if _is_still(descriptor, path):
            return descriptor
        os.close(descriptor)  # its last holder removed it between our two calls: try the new one


def _is_still(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


class PartialFile:
    """A file that bytes are added to; it stays until it is complete or discarded.

    Args:
      path: where it grows; what an earlier start left there is kept.

    Raises:
      RunError: from every method, where the file system refuses (full disk, no permission).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with named("write", path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by `close`
            self.size = os.fstat(self._file.fileno()).st_size

    def append(self, data: bytes) -> None:
        """Adds all of `data`."""
        left = memoryview(data)
        with named("write", self.path):
            while left:
                written = self._file.write(left) or 0
                self.size += written
                left = left[written:]

    def blocks(self, size: int = 1 << 20) -> Iterator[bytes]:
        """What is there already, from the start."""
        with named("read", self.path):
            self._file.seek(0)
            while block := self._file.read(size):
                yield block

    def clear(self) -> None:
        """Starts again with nothing."""
        with named("write", self.path):
            self._file.truncate(0)
            self.size = 0

    def complete(self, target: str) -> None:
        """Gives the whole file its name, over what has it, so that it lasts through a power cut."""
        with named("write", target):
            os.fsync(self._file.fileno())
            os.replace(self.path, target)
            sync_folder(os.path.dirname(target) or ".")

    def discard(self) -> None:
        """Removes it."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def close(self) -> None:
        """Lets go of it."""
        self._file.close()


def free_bytes(folder: str) -> int:
    """Bytes that can still be written into `folder`, which may not exist yet.

    Raises:
      UsageError: it is a file, or lies below one.
      RunError: the file system does not say.
    """
    place = os.path.abspath(folder)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise UsageError(f"{folder} cannot be a folder: {place} is a file. Name another.")
    try:
        return shutil.disk_usage(place).free
    except OSError as error:
        raise RunError(f"cannot look at the free space of {place}: {error.strerror}") from error
