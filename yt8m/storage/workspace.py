"""Local folders of this process alone, which are gone once it has ended."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator

from yt8m.storage import settings
from yt8m.storage.local import named

_LOCK = "in-use"
_guard = threading.Lock()
# By process and folder: a forked process must not use its parent's.
_made: dict[tuple[int, str], tuple[str, int]] = {}


def workspace() -> str:
    """The folder for what lies in buckets; the first call makes it and removes those of dead processes."""
    parent = os.path.join(settings.cache_dir(), "work")
    key = (os.getpid(), parent)
    with _guard:
        if key not in _made:
            with named("make a folder in", parent):
                os.makedirs(parent, exist_ok=True)
                _sweep(parent)
                _made[key] = _new_folder(parent)
            atexit.register(_remove, key)
        return _made[key][0]


@contextlib.contextmanager
def private_folder(prefix: str) -> Iterator[str]:
    """A new folder in the system's temporary one, for this user alone (mode 0700); removed after the block.

    Folders with this prefix that killed processes of this user have left are removed first.

    Raises:
      RunError: none can be made there.
    """
    parent = tempfile.gettempdir()
    with named("make a folder in", parent):
        _sweep(parent, prefix)
        folder, descriptor = _new_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def folder_for(purpose: str, path: str) -> str:
    """A folder in the workspace for what belongs to `path`; it may not exist yet."""
    return os.path.join(workspace(), purpose, hashlib.sha256(path.encode()).hexdigest()[:24])


def rescue(files: list[str], name: str) -> str:
    """Moves files out of the workspace to where they stay; returns that folder."""
    kept = tempfile.mkdtemp(prefix=f"{name}-", dir=_made_folder(os.path.join(settings.cache_dir(), "unsent")))
    for path in files:
        os.replace(path, os.path.join(kept, os.path.basename(path)))
    return kept


def _made_folder(path: str) -> str:
    os.makedirs(path, exist_ok=True)
    return path


def _new_folder(parent: str, prefix: str = "") -> tuple[str, int]:
    """A new folder and the open lock that says its process lives."""
    folder = tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent)
    lock = os.path.join(folder, _LOCK)
    descriptor = os.open(f"{lock}.new", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(f"{lock}.new", lock)  # only now, so that no other process finds it unlocked
    return folder, descriptor


def _sweep(parent: str, prefix: str = "") -> None:
    """Removes the folders of processes that have died."""
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if not name.startswith(prefix):
            continue
        with contextlib.suppress(OSError):  # one without a lock is just being made
            if os.lstat(folder).st_uid != os.geteuid():
                continue
            descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _remove(key: tuple[int, str]) -> None:
    if key[0] == os.getpid() and key in _made:
        folder, descriptor = _made.pop(key)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
