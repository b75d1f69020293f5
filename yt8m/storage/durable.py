"""What survives a power cut: a file's content once it is synced (`fsync`), and its name once its folder is synced.

TensorFlow writes files without syncing them. A file can be synced later, and by another process than wrote it.
"""

from __future__ import annotations

import contextlib
import errno
import os

# A file system that cannot sync a file that is open for reading (some network file systems) raises one of these.
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # never waits for the writer of a pipe


def sync_tree(path: str) -> None:
    """Writes a file, or a folder with everything in it, to the disk; not its name in the folder above.

    Raises:
      OSError: there is no such file, or the disk has failed.
    """
    if not os.path.isdir(path):
        _sync_file(path)
    for folder, _, names in os.walk(path):
        for name in names:
            _sync_file(os.path.join(folder, name))
        sync_folder(folder)


def sync_folder(folder: str) -> None:
    """Writes the names in a folder to the disk, so that a rename in it survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(OSError):  # some network file systems cannot sync a folder
        os.fsync(descriptor)
    os.close(descriptor)


def make_folders(path: str) -> None:
    """Makes a folder, and folders above it, unless they exist; the names of new ones survive a power cut."""
    above, place = [], os.path.abspath(path)
    while not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
        above.append(place)
    os.makedirs(path, exist_ok=True)
    for folder in reversed(above):
        sync_folder(folder)


def _sync_file(path: str) -> None:
    if os.path.islink(path):
        return
    descriptor = os.open(path, _PLAIN)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)
