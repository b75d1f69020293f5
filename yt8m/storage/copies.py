"""Local copies of files in buckets, for libraries that read only local files.

The copies are in the workspace, a local folder that only this process uses, and that it removes when it ends. If the
process is killed, the next process that makes a workspace removes it.
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
from yt8m.storage.local import naming_errors

_AT_ONCE = 4  # number of files that are fetched in parallel
_LOCK = "in-use"  # the name of the lock file in a folder
_guard = threading.Lock()
# {(process number, parent folder): (workspace, descriptor of its lock)}. The process number is part of the key, because
# a forked process must not use the workspace of its parent.
_made: dict[tuple[int, str], tuple[str, int]] = {}
_held: dict[str, str] = {}  # {prefix that `hold` holds: prefix of the local files}


def workspace() -> str:
    """The path of the workspace; the first call makes it, and removes the workspaces of dead processes."""
    parent = os.path.join(base.cache_dir(), "work")
    key = (os.getpid(), parent)
    with _guard:
        if key not in _made:
            with naming_errors("make a folder in", parent):
                os.makedirs(parent, exist_ok=True)
                _sweep(parent)
                _made[key] = _new_folder(parent)
            atexit.register(_remove, key)
        return _made[key][0]


@contextlib.contextmanager
def private_folder(prefix: str) -> Iterator[str]:
    """Makes a folder with mode 0700 in the system's temporary folder, and removes it after the block.

    First removes folders with this prefix that killed processes of this user left there.

    Raises:
      RunError: the folder cannot be made.
    """
    parent = tempfile.gettempdir()
    with naming_errors("make a folder in", parent):
        _sweep(parent, prefix)
        folder, descriptor = _new_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def folder_for(purpose: str, path: str) -> str:
    """The path of a folder in the workspace for files that belong to `path`; it may not exist yet."""
    return os.path.join(workspace(), purpose, hashlib.sha256(path.encode()).hexdigest()[:24])


def rescue(files: list[str], name: str) -> str:
    """Moves files from the workspace into a new folder in the cache, which is not removed; returns its path."""
    parent = os.path.join(base.cache_dir(), "unsent")
    os.makedirs(parent, exist_ok=True)
    rescued_folder = tempfile.mkdtemp(prefix=f"{name}-", dir=parent)
    for path in files:
        os.replace(path, os.path.join(rescued_folder, os.path.basename(path)))
    return rescued_folder


def _new_folder(parent: str, prefix: str = "") -> tuple[str, int]:
    """Makes a folder with a lock file, which is locked while this process lives; returns (folder, descriptor)."""
    folder = tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=parent)
    lock = os.path.join(folder, _LOCK)
    descriptor = os.open(f"{lock}.new", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(f"{lock}.new", lock)  # renamed after it is locked, so that no process finds it unlocked
    return folder, descriptor


def _sweep(parent: str, prefix: str = "") -> None:
    """Removes the folders in `parent` whose names begin with `prefix` and whose processes have died."""
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if not name.startswith(prefix):
            continue
        with contextlib.suppress(OSError):  # the folder has no lock yet, because another process is making it
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


def copy_of(prefix: str) -> str:
    """The local prefix of the files `prefix.*`: `prefix` itself if it is local, else that of copies in the workspace.

    Files in a bucket are fetched again only if they have changed there.

    Raises:
      NotFoundError: there are no such files, or they are being deleted.
      RunError: the files cannot be fetched.
    """
    if prefix in _held:
        return _held[prefix]
    if not is_remote(prefix):
        return prefix
    folder, _, name = prefix.rpartition("/")
    versions = _versions(folder, f"{name}.")
    if not versions:
        raise NotFoundError(f"cannot read {prefix}: there are no files {name}.* in {folder}")
    return os.path.join(_newest(prefix, folder, versions), name)


@contextlib.contextmanager
def hold(prefix: str) -> Iterator[None]:
    """Keeps the files of `copy_of(prefix)` during the block, even if `prefix.*` is deleted meanwhile.

    Local files get hard links in the workspace, or are copied if the workspace is on another file system.

    Raises:
      NotFoundError: there are no such files, or they are being deleted.
      RunError: the disk is too full for them.
    """
    _held[prefix] = copy_of(prefix) if is_remote(prefix) else _hard_links(prefix)
    try:
        yield
    finally:
        local_prefix = _held.pop(prefix)
        if not is_remote(prefix):
            shutil.rmtree(os.path.dirname(local_prefix), ignore_errors=True)


def is_held(prefix: str) -> bool:
    """Whether the process is in a block of `hold(prefix)`."""
    return prefix in _held


def _hard_links(prefix: str) -> str:
    """Makes hard links to the files `prefix.*` of a checkpoint; returns the prefix of the links.

    The index is linked last. It is deleted before the other files, so if it still exists, all files were linked.
    """
    folder, name = os.path.split(prefix)
    here = folder_for("held", os.path.abspath(prefix))
    shutil.rmtree(here, ignore_errors=True)
    try:
        with naming_errors("keep a copy of", prefix):
            os.makedirs(here)
            files = [file for file in os.listdir(folder or ".") if file.startswith(f"{name}.")]
            for file in sorted({*files, f"{name}.index"}, key=lambda file: file.endswith(".index")):
                _link(os.path.join(folder, file), os.path.join(here, file))
    except RunError:
        shutil.rmtree(here, ignore_errors=True)
        raise
    return os.path.join(here, name)


def _link(path: str, new: str) -> None:
    try:
        os.link(path, new)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(path, new)


def folder_copy(folder: str) -> str:
    """A local folder with all content of `folder`: `folder` itself if it is local. Raises like `copy_of`."""
    if not is_remote(folder):
        return folder
    versions = _versions(folder, "", deep=True)
    if not versions:
        raise NotFoundError(f"cannot read {folder}: there is nothing under that name")
    return _newest(folder, folder, versions)


def _newest(copied_path: str, folder: str, versions: Mapping[str, int]) -> str:
    """The local folder with copies of these versions of files; fetches them if it is missing, and removes older ones.

    Args:
      copied_path: the prefix or folder in the bucket that is copied.
      folder: the folder of the files in the bucket.
      versions: {name in the folder: generation}.
    """
    here = _place(copied_path, versions)
    if not os.path.isdir(here):
        forget(copied_path)
        _fetch_all(folder, list(versions), here)
    return here


def file_copy(path: str) -> str:
    """The local path of a file: `path` itself if it is local, else a copy, which is fetched once per process.

    Raises:
      RunError: the file cannot be fetched.
    """
    if not is_remote(path):
        return path
    local = os.path.join(folder_for("copies", path), path.rpartition("/")[2])
    if not os.path.exists(local):
        _fetch(path, local)
    return local


def keep(prefix: str, files: Sequence[str]) -> None:
    """Moves the local `files`, which were just uploaded as `prefix.*`, to the folder from which `copy_of` reads."""
    folder, _, name = prefix.rpartition("/")
    here = _place(prefix, _versions(folder, f"{name}."))
    os.makedirs(here, exist_ok=True)
    for path in files:
        os.replace(path, os.path.join(here, os.path.basename(path)))


def forget(prefix: str) -> None:
    """Removes the local copy of a prefix or folder in a bucket, if there is one."""
    if is_remote(prefix):
        shutil.rmtree(folder_for("copies", prefix), ignore_errors=True)


def _place(prefix: str, versions: Mapping[str, int]) -> str:
    digest = hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:16]
    return os.path.join(folder_for("copies", prefix), digest)


def _fetch_all(folder: str, names: Sequence[str], here: str) -> None:
    part = f"{here}.part"
    shutil.rmtree(part, ignore_errors=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: _fetch(join(folder, name), os.path.join(part, name)), names))
    os.rename(part, here)


# The client library takes half a second to import, so the next two functions import it when they are called.


def _versions(folder: str, start: str, deep: bool = False) -> dict[str, int]:
    from yt8m.storage.gcs import versions

    return versions(folder, start, deep)


def _fetch(path: str, local: str) -> None:
    from yt8m.storage.gcs_client import fetch

    fetch(path, local)
