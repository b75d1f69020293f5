"""Files of this machine: reading, atomic writing and locks.

An atomic write puts the content into a hidden file beside the target (see `unfinished`), syncs that file to the disk,
and renames it to the target. Folders are replaced in the same way.

Locks are described in `file_locks`. The holder removes the file before it releases the lock.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, BinaryIO

from absl import logging

from yt8m.errors import RunError, UsageError
from yt8m.storage import file_locks, pipes, unfinished
from yt8m.storage.base import DISK_FULL, NO_ROOM, NotFoundError, Stamp, this_holder

# Error numbers: the disk or the user's quota is full; and those together with a too large file.
_locked_folders: dict[str, int] = {}  # {path of a lock that this process holds: open descriptor of its folder}


@contextlib.contextmanager
def naming_errors(action: str, path: str) -> Iterator[None]:
    """Turns errors of the operating system in the block into `RunError`s: `cannot ACTION PATH: REASON`.

    Args:
      action: a verb, such as `read`.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"cannot {action} {path}: there is no {error.filename or path}") from error
    except OSError as error:
        raise RunError(f"cannot {action} {path}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    """The text of an error of the operating system, with a remedy if the disk is full or the file too large."""
    remedy = ""
    if error.errno in DISK_FULL:
        remedy = ". Make room there, and start again"
    elif error.errno == errno.EFBIG:
        remedy = ". Files of this size are beyond the limit of the process (ulimit -f) or of the file system"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        remedy = ". Raise the limit of open files (ulimit -n)"
    return f"{error.strerror or error}{remedy}"


class LocalStore:
    """Local files and folders; the functions of the same names in `yt8m.storage` describe the methods."""

    def glob(self, pattern: str) -> list[str]:
        return [pattern] if os.path.lexists(pattern) else glob.glob(pattern)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    @contextlib.contextmanager
    def open_read(self, path: str) -> Iterator[BinaryIO]:
        with naming_errors("read", path):
            file = open(pipes.regular_file(path), "rb")  # noqa: SIM115 - closed below; errors of the caller's block are its own
        with file:
            yield file

    def read_start(self, path: str, count: int) -> bytes:
        with self.open_read(path) as file, naming_errors("read", path):
            return file.read(count)

    @contextlib.contextmanager
    def write_atomic(self, path: str, mode: str) -> Iterator[IO[Any]]:
        if is_special(path):
            with naming_errors("write", path), _open(path, mode) as file:
                yield file
            return
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        self.makedirs(folder)
        unfinished.sweep_once(folder)
        temporary = unfinished.temporary_path(target)
        with naming_errors("write", path):
            file = _open(temporary, mode.replace("w", "x"))
        unfinished.lock_until_closed(file.fileno())
        try:
            yield from _yield_and_sync(file, path)
            with naming_errors("write", path):
                os.replace(temporary, target)
                sync_folder(folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    @contextlib.contextmanager
    def replaced_folder(self, path: str) -> Iterator[str]:
        """Yields a new hidden folder, which replaces the folder `path` if the block ends without an error."""
        target = os.path.abspath(path)
        former, temporary = unfinished.former_path(target), unfinished.temporary_path(target)
        self.makedirs(os.path.dirname(target))
        unfinished.sweep_once(os.path.dirname(target))
        with naming_errors("write", path):
            unfinished.put_back_or_discard(former, target)
            os.mkdir(temporary)
        try:
            with unfinished.locked_folder(temporary):
                yield temporary
                with naming_errors("write", path):
                    sync_tree(temporary)
                    _replace_folder(target, temporary, former)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    def discard_unfinished(self, path: str) -> None:
        with naming_errors("clean up beside", path):
            for orphan in unfinished.unfinished_in(*os.path.split(os.path.realpath(path))):
                unfinished.remove_all(orphan.path)

    def discard_orphans(self, path: str) -> None:
        unfinished.discard_orphans(*os.path.split(os.path.realpath(path)))

    def append(self, path: str, data: bytes) -> None:
        self.makedirs(os.path.dirname(os.path.abspath(path)))
        with naming_errors("append to", path), open(path, "ab", buffering=0) as file:
            if file.write(data) < len(data):  # the system wrote only the bytes for which the disk had room
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write_at(self, path: str, offset: int, data: Iterable[Any]) -> None:
        self.makedirs(os.path.dirname(os.path.abspath(path)))
        with (
            naming_errors("write", path),
            open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb", buffering=0) as file,
        ):
            file.seek(offset)
            for piece in data:
                unwritten = memoryview(piece).cast("B")
                while len(unwritten):  # one call writes at most 2 GiB
                    unwritten = unwritten[file.write(unwritten) :]

    def makedirs(self, path: str) -> None:
        with naming_errors("make the folder", path):
            make_folders(path)

    def sync(self, paths: Iterable[str]) -> None:
        folders = set()
        for path in paths:
            folders.add(os.path.dirname(os.path.abspath(path)))
            with naming_errors("sync", path):
                sync_tree(path)
        for folder in folders:
            sync_folder(folder)

    def listdir(self, path: str) -> list[str]:
        with naming_errors("list", path):
            return sorted(os.listdir(path))

    def times(self, path: str) -> dict[str, float]:
        with naming_errors("list", path), os.scandir(path) as entries:
            return {entry.name: entry.stat().st_mtime for entry in entries if entry.is_file()}

    def tree(self, path: str, has_hidden: bool) -> dict[str, list[str]]:
        self.listdir(path)  # raises an error if the folder itself cannot be listed; `os.walk` would ignore it
        files: dict[str, list[str]] = {}
        listed: set[str] = set()
        for folder, folders, names in os.walk(path, onerror=_log_unlisted, followlinks=True):
            real_path = os.path.realpath(folder)
            shown = sorted(name for name in folders if has_hidden or not name.startswith("."))
            folders[:] = [] if real_path in listed else shown
            if real_path not in listed:
                listed.add(real_path)
                files[folder] = sorted(names)
        return dict(sorted(files.items()))

    def stamps(self, paths: Sequence[str]) -> dict[str, Stamp]:
        stamps_by_path: dict[str, Stamp] = {}
        for path in paths:
            with contextlib.suppress(RunError), naming_errors("read", path):  # of a missing file, or a circular link
                status = os.stat(path)
                of_inode = f"{status.st_ino}-{status.st_ctime_ns}"
                stamps_by_path[path] = Stamp(status.st_size, status.st_mtime_ns, of_inode)
        return stamps_by_path

    def remove(self, path: str) -> None:
        with naming_errors("remove", path):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        with naming_errors("remove", path):
            shutil.rmtree(path)

    def rename(self, source: str, target: str) -> None:
        with naming_errors("rename", source):
            sync_tree(source)
            os.replace(source, target)
            for folder in {os.path.dirname(os.path.abspath(path)) for path in (target, source)}:
                sync_folder(folder)

    def size(self, path: str) -> int:
        with naming_errors("read", path):
            return os.stat(path).st_size

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        absolute_path = os.path.abspath(path)
        folder = os.path.dirname(absolute_path)
        self.makedirs(folder)
        with naming_errors("lock", path):
            descriptor = file_locks.acquire(path)
        try:
            with naming_errors("write", path):
                _locked_folders[absolute_path] = os.open(folder, os.O_RDONLY)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, this_holder(), 0)
            yield
        finally:
            # The file is removed while this process holds the lock. Another process that has opened the file, and gets
            # the lock afterwards, sees that the path no longer names the file, and makes a new one.
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(descriptor)
            if absolute_path in _locked_folders:
                os.close(_locked_folders.pop(absolute_path))

    def is_locked(self, path: str) -> bool:
        try:
            with naming_errors("read", path):
                try:
                    return not unfinished.is_unlocked(path)
                except OSError as error:
                    if not file_locks.has_no_locks(error):
                        raise
                    return file_locks.is_locked_without_locks(path)
        except NotFoundError:
            return False

    def refuse_lost_lock(self, folder: str) -> None:
        # Only the descriptor tells the locked folder from a new folder of the same name.
        absolute_path = os.path.abspath(folder)
        for path, descriptor in list(_locked_folders.items()):
            if os.path.dirname(path) == absolute_path and not file_locks.is_same_file(descriptor, absolute_path):
                raise RunError(
                    f"the folder {folder} is gone: it was removed or moved while this process used it, so nothing more "
                    "is saved there. Put it back and start again to resume from its newest checkpoint, or name "
                    "another folder."
                )


def _log_unlisted(error: OSError) -> None:
    logging.warning("%s is left out, because it cannot be listed: %s", error.filename, error.strerror)


def _open(path: str, mode: str) -> IO[Any]:
    """Opens a file for bytes, or for text as `storage.write_atomic` writes it."""
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", errors="backslashreplace", newline="\n")


def is_special(path: str) -> bool:
    """Whether `path` is a pipe, terminal or device, which `write_atomic` must not replace by a file."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path)
    except OSError:
        return False


def _yield_and_sync(file: IO[Any], path: str) -> Iterator[IO[Any]]:
    """Yields an open file to the caller's block, then syncs it to the disk and closes it."""
    try:
        yield file
        with naming_errors("write", path):
            file.flush()
            os.fsync(file.fileno())
            file.close()
    except OSError as error:
        if error.errno in NO_ROOM:
            raise RunError(f"cannot write {path}: {_reason(error)}") from error
        raise
    finally:
        with contextlib.suppress(OSError):  # `close` flushes the file again, which fails like the flush above
            file.close()


def _replace_folder(target: str, new: str, former: str) -> None:
    """Renames the folder `new` to `target`."""
    if not os.path.isdir(target):
        os.rename(new, target)
        sync_folder(os.path.dirname(target))
        return
    with unfinished.locked_folder(target):
        try:
            os.rename(target, former)
            os.rename(new, target)
        except BaseException:
            if not os.path.lexists(target):
                os.rename(former, target)
            raise
        sync_folder(os.path.dirname(target))
        with contextlib.suppress(OSError):
            unfinished.remove_all(former)


def free_bytes(folder: str) -> int:
    """The number of bytes that are free on the file system of `folder`, which may not exist yet."""
    existing = _existing_folder(folder)
    with naming_errors("determine the free space of", existing):
        return shutil.disk_usage(existing).free


def is_writable(folder: str) -> bool:
    """Whether this process may make files in `folder`, which may not exist yet."""
    return os.access(_existing_folder(folder), os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def _existing_folder(folder: str) -> str:
    """`folder`, or the nearest folder above it that exists; raises `UsageError` if that is a file."""
    path = os.path.abspath(folder)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise UsageError(f"{folder} cannot be a folder, because {path} is a file. Name another folder.")
    return path


# Some network file systems cannot sync a file that is open only for reading; fsync then fails with one of these.
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}
_SYNC_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # O_NONBLOCK: do not wait for a pipe's writer


def sync_tree(path: str) -> None:
    """Syncs a file, or a folder with all its content, to the disk.

    The name of the file or folder is not synced, because it is an entry of the folder above: see `sync_folder`. The
    function also serves for files that TensorFlow wrote: TensorFlow does not sync them.
    """
    if not os.path.isdir(path):
        _sync_file(path)
    for folder, _, names in os.walk(path):
        for name in names:
            _sync_file(os.path.join(folder, name))
        sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Syncs the names in a folder to the disk, so that renames and new files in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(OSError):  # some network file systems cannot sync a folder
        os.fsync(descriptor)
    os.close(descriptor)


def make_folders(path: str) -> None:
    """Makes a folder and missing folders above it; the names of new folders survive a power cut."""
    changed_folders, parent = [], os.path.abspath(path)
    while not os.path.isdir(parent) and parent != os.path.dirname(parent):
        parent = os.path.dirname(parent)
        changed_folders.append(parent)
    os.makedirs(path, exist_ok=True)
    for folder in reversed(changed_folders):
        sync_folder(folder)


def _sync_file(path: str) -> None:
    """Syncs a file to the disk; does nothing for a link, or if the file system cannot do it."""
    if os.path.islink(path):
        return
    descriptor = os.open(path, _SYNC_FLAGS)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)
