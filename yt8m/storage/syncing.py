"""Syncs local files and folders to the disk, so that they survive a power cut."""

from __future__ import annotations

import contextlib
import errno
import os

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
