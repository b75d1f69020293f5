"""Local folders of this process alone, which are gone once it has ended.

Copies on this machine of what lies in buckets, for libraries that read local files alone.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from yt8m.errors import RunError
from yt8m.storage import base, is_remote, join
from yt8m.storage.base import NotFoundError
from yt8m.storage.local import named

_LOCK = "in-use"
_guard = threading.Lock()
# By process and folder: a forked process must not use its parent's.
_made: dict[tuple[int, str], tuple[str, int]] = {}


def workspace() -> str:
    """The folder for what lies in buckets; the first call makes it and removes those of dead processes."""
    parent = os.path.join(base.cache_dir(), "work")
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
    kept = tempfile.mkdtemp(prefix=f"{name}-", dir=_made_folder(os.path.join(base.cache_dir(), "unsent")))
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


_AT_ONCE = 4
_held: dict[str, str] = {}


def copy_of(prefix: str) -> str:
    """A prefix under which the files `prefix.*` lie on this machine: itself where it is a local path.

    What is in a bucket is fetched anew only where it has changed there.

    Raises:
      NotFoundError: there are no such files, or they are deleted just now.
      RunError: they cannot be fetched.
    """
    if prefix in _held:
        return _held[prefix]
    if not is_remote(prefix):
        return prefix
    folder, _, name = prefix.rpartition("/")
    there = _versions(folder, f"{name}.")
    if not there:
        raise NotFoundError(f"cannot read {prefix}: there are no files {name}.* in {folder}")
    return os.path.join(_newest(prefix, folder, there), name)


@contextlib.contextmanager
def hold(prefix: str) -> Iterator[None]:
    """Within it `copy_of(prefix)` is whole whatever becomes of `prefix.*`: its files get a second name here.

    Where they lie on another file system they are copied.

    Raises:
      NotFoundError: there are no such files, or they are deleted just now.
      RunError: there is no room for them.
    """
    if is_remote(prefix):
        _held[prefix] = copy_of(prefix)
    else:
        _held[prefix] = _second_names(prefix)
    try:
        yield
    finally:
        here = _held.pop(prefix)
        if not is_remote(prefix):
            shutil.rmtree(os.path.dirname(here), ignore_errors=True)


def is_held(prefix: str) -> bool:
    """Whether this is within `hold(prefix)`."""
    return prefix in _held


def _second_names(prefix: str) -> str:
    """The prefix of the second names; the index, which is deleted first, gets its own last."""
    folder, name = os.path.split(prefix)
    here = folder_for("held", os.path.abspath(prefix))
    shutil.rmtree(here, ignore_errors=True)
    try:
        with named("keep a copy of", prefix):
            os.makedirs(here)
            files = [one for one in os.listdir(folder or ".") if one.startswith(f"{name}.")]
            for one in sorted({*files, f"{name}.index"}, key=lambda one: one.endswith(".index")):
                _link(os.path.join(folder, one), os.path.join(here, one))
    except RunError:
        shutil.rmtree(here, ignore_errors=True)
        raise
    return os.path.join(here, name)


def _link(path: str, new: str) -> None:
    try:
        os.link(path, new)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one that knows no second names
        shutil.copyfile(path, new)


def folder_copy(folder: str) -> str:
    """A folder of this machine with all that lies in `folder`, at any depth; raises as `copy_of`."""
    if not is_remote(folder):
        return folder
    there = _versions(folder, "", deep=True)
    if not there:
        raise NotFoundError(f"cannot read {folder}: nothing lies under it")
    return _newest(folder, folder, there)


def _newest(what: str, folder: str, there: Mapping[str, int]) -> str:
    """Where the copy of these versions is; older copies give way to it."""
    here = _place(what, there)
    if not os.path.isdir(here):
        forget(what)
        _fetch_all(folder, list(there), here)
    return here


def file_copy(path: str) -> str:
    """The same file on this machine: `path` itself where that is local; else fetched, once a process.

    Raises:
      RunError: it cannot be fetched.
    """
    if not is_remote(path):
        return path
    from yt8m.storage.gcs_client import fetch

    local = os.path.join(folder_for("copies", path), path.rpartition("/")[2])
    if not os.path.exists(local):
        fetch(path, local)
    return local


def keep(prefix: str, files: Sequence[str]) -> None:
    """Moves the local `files`, which were just sent to be `prefix.*`, to where `copy_of` looks."""
    folder, _, name = prefix.rpartition("/")
    here = _place(prefix, _versions(folder, f"{name}."))
    os.makedirs(here, exist_ok=True)
    for path in files:
        os.replace(path, os.path.join(here, os.path.basename(path)))


def forget(prefix: str) -> None:
    """Removes the copy of a prefix or folder, if there is one."""
    if is_remote(prefix):
        shutil.rmtree(folder_for("copies", prefix), ignore_errors=True)


def _versions(folder: str, start: str, deep: bool = False) -> dict[str, int]:
    # Here, since the client library takes half a second to import.
    from yt8m.storage.gcs import versions

    return versions(folder, start, deep)


def _place(prefix: str, versions: Mapping[str, int]) -> str:
    digest = hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:16]
    return os.path.join(folder_for("copies", prefix), digest)


def _fetch_all(folder: str, names: Sequence[str], here: str) -> None:
    from yt8m.storage.gcs_client import fetch

    part = f"{here}.part"
    shutil.rmtree(part, ignore_errors=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: fetch(join(folder, name), os.path.join(part, name)), names))
    os.rename(part, here)
