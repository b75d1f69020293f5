"""A local folder of this process for what lies in buckets; gone once the process has ended."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading

from yt8m.storage import settings
from yt8m.storage.local import named

_LOCK = "in-use"
_guard = threading.Lock()
# By process and folder: a forked process must not use its parent's.
_made: dict[tuple[int, str], tuple[str, int]] = {}


def workspace() -> str:
    """The folder; at the first call it is made, and those of processes that died are removed."""
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


def _new_folder(parent: str) -> tuple[str, int]:
    """A new folder and the open lock that says its process lives."""
    folder = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent)
    descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return folder, descriptor


def _sweep(parent: str) -> None:
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        with contextlib.suppress(OSError):  # one without a lock is just being made
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
