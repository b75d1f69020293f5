"""Local copies of files in buckets, for libraries that read only local files.

The copies are in the workspace, a local folder that only this process uses. The process removes it when it ends. If the
process is killed, the next process that makes a workspace removes the folder.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from yt8m.errors import RunError
from yt8m.storage import base, is_remote, join, pipes, temporary
from yt8m.storage.base import NotFoundError
from yt8m.storage.local import naming_errors

_PARALLEL_FETCHES = 4  # number of files that are fetched at the same time
_LOCK = "in-use"  # the name of the lock file in a folder
_NOT_LITERAL = re.compile(r"[\[\\]")  # characters that stand for others in TensorFlow's patterns, not for themselves
_guard = threading.Lock()  # guards `_workspaces`
# {(process number, parent folder): (workspace, descriptor of its lock)}. The process number is part of the key, because
# a forked process must not use the workspace of its parent.
_workspaces: dict[tuple[int, str], tuple[str, int]] = {}
_process_folders: dict[tuple[int, str], str] = {}  # {(process number, prefix): folder}
_held: dict[str, str] = {}  # {prefix of the files that a block of `hold` keeps: prefix of their local copies or links}


def workspace() -> str:
    """The path of the workspace. The first call makes the folder, and removes the workspaces of dead processes."""
    parent = os.path.join(base.cache_dir(), "work")
    key = (os.getpid(), parent)
    with _guard:
        if key not in _workspaces:
            with naming_errors("make a folder in", parent):
                os.makedirs(parent, exist_ok=True)
                _remove_abandoned(parent)
                _workspaces[key] = _make_locked_folder(parent)
            atexit.register(_remove_workspace, key)
        return _workspaces[key][0]


IN_MEMORY = "yt8m-tables-"  # the prefix of the private folders for what a call from Python has in memory
_IN_MEMORY_FOLDER = re.compile(rf"[^\"'\s,]*/{IN_MEMORY}[^/]*/")


def lasting_name(text: str) -> str:
    """A path, or a text with paths, without the folders for what was in memory, whose names change with each call."""
    return _IN_MEMORY_FOLDER.sub("", text)


@contextlib.contextmanager
def private_folder(prefix: str) -> Iterator[str]:
    """Yields the path of a new folder with mode 0700 in the system's temporary folder, and removes it after the block.

    Before that, it removes folders with this prefix that killed processes of this user left there.
    """
    parent = temporary.folder_path()
    with temporary.naming_tmpdir():
        _remove_abandoned(parent, prefix)
        folder, descriptor = _make_locked_folder(parent, prefix)
    pid = os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == pid:  # not where a forked process forgets what its parent made
            shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def process_folder(prefix: str) -> str:
    """The path of a `private_folder` that stays while this process lives; each process has one for each prefix."""
    from multiprocessing import util  # imports sockets, which few commands need

    key = (os.getpid(), prefix)
    with _guard:
        if key not in _process_folders:
            stack = contextlib.ExitStack()
            _process_folders[key] = stack.enter_context(private_folder(prefix))
            # Called when Python ends, and unlike `atexit` in the children of `multiprocessing` too.
            util.Finalize(None, stack.close, exitpriority=0)
        return _process_folders[key]


def folder_for(purpose: str, path: str) -> str:
    """The path of a folder in the workspace for files that belong to `path`; the folder may not exist yet."""
    return os.path.join(workspace(), purpose, hashlib.sha256(path.encode()).hexdigest()[:24])


def rescue(files: list[str], name: str) -> str:
    """Moves files out of the workspace, so that they outlive this process."""
    parent = os.path.join(base.cache_dir(), "unsent")
    os.makedirs(parent, exist_ok=True)
    rescued_folder = temporary.new_folder(f"{name}-", parent)
    for path in files:
        os.replace(path, os.path.join(rescued_folder, os.path.basename(path)))
    return rescued_folder


def _make_locked_folder(parent: str, prefix: str = "") -> tuple[str, int]:
    """Makes a folder with a lock file that stays locked while this process lives."""
    folder = temporary.new_folder(f"{prefix}{os.getpid()}-", parent)
    lock = os.path.join(folder, _LOCK)
    descriptor = os.open(f"{lock}.new", os.O_RDWR | os.O_CREAT, 0o600)
    with contextlib.suppress(OSError):  # without locks, the folder of a killed process stays
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(f"{lock}.new", lock)  # the file is renamed after it is locked, so that no process finds it unlocked
    return folder, descriptor


def _remove_abandoned(parent: str, prefix: str = "") -> None:
    """Removes the folders in `parent` whose names begin with `prefix` and whose processes have died."""
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if not name.startswith(prefix):
            continue
        # An OSError means that a process holds the lock, or that the folder is being made and has no lock file yet.
        with contextlib.suppress(OSError):
            if os.lstat(folder).st_uid != os.geteuid():
                continue
            descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _remove_workspace(key: tuple[int, str]) -> None:
    """Removes the workspace with this key of `_workspaces`, unless a parent process of this one made it."""
    if key[0] == os.getpid() and key in _workspaces:
        folder, descriptor = _workspaces.pop(key)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def copy_of(prefix: str) -> str:
    """The local prefix of the files `prefix.*`; files in a bucket are copied into the workspace.

    Files in a bucket are fetched again only if they have changed there.

    Args:
      prefix: the path of the files up to the dot after their common name, local or gs://. For example, the files of the
        checkpoint `run/model.ckpt-5` are `run/model.ckpt-5.index` and others.
    """
    if prefix in _held:
        return _held[prefix]
    if not is_remote(prefix):
        local_folder, name = os.path.split(prefix)
        return os.path.join(_readable_folder(local_folder), name)
    folder, _, name = prefix.rpartition("/")
    versions = _versions(folder, f"{name}.")
    if not versions:
        raise NotFoundError(f"cannot read {prefix}: there are no files {name}.* in {folder}")
    return os.path.join(_fetch_versions(prefix, folder, versions), name)


@contextlib.contextmanager
def hold(prefix: str) -> Iterator[None]:
    """Keeps the files `prefix.*` readable during the block, even if they are deleted.

    In the block, `copy_of(prefix)` returns the prefix of the copies or links.

    Files in a bucket are copied into the workspace. Local files get hard links there, or are copied if the workspace is
    on another file system. If no workspace can be made, as in a read-only container, they are read where they are.
    """
    has_links = not is_remote(prefix) and _has_workspace()
    _held[prefix] = _hard_links(prefix) if has_links else copy_of(prefix)
    try:
        yield
    finally:
        local_prefix = _held.pop(prefix)
        if has_links:
            shutil.rmtree(os.path.dirname(local_prefix), ignore_errors=True)


def _has_workspace() -> bool:
    try:
        workspace()
    except RunError:
        return False
    return True


def is_held(prefix: str) -> bool:
    """Whether this process is inside a block of `hold(prefix)`."""
    return prefix in _held


def _hard_links(prefix: str) -> str:
    """Makes hard links in the workspace to the files `prefix.*` of a checkpoint; returns the prefix of the links.

    The index, `prefix.index`, is linked last. Whoever deletes a checkpoint deletes the index first. So if the index
    still exists at the end, no other file had been deleted when it was linked.
    """
    folder, name = os.path.split(prefix)
    link_folder = folder_for("held", os.path.abspath(prefix))
    shutil.rmtree(link_folder, ignore_errors=True)
    try:
        with naming_errors("keep a copy of", prefix):
            os.makedirs(link_folder)
            files = [file for file in os.listdir(folder or ".") if file.startswith(f"{name}.")]
            for file in sorted({*files, f"{name}.index"}, key=lambda file: file.endswith(".index")):
                link_or_copy(os.path.join(folder, file), os.path.join(link_folder, file))
    except RunError:
        shutil.rmtree(link_folder, ignore_errors=True)
        raise
    return os.path.join(link_folder, name)


def link_or_copy(path: str, link: str) -> None:
    """Makes a hard link to a file, or a copy if the two paths are on different file systems or cannot be linked."""
    try:
        os.link(path, link)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, link)


def folder_copy(folder: str) -> str:
    """A local folder with all content of `folder`: `folder` itself or a link to it, or a copy of one in a bucket.

    The copy is fetched again only if a file of the folder in the bucket has changed.
    """
    if not is_remote(folder):
        return _readable_folder(folder)
    versions = _versions(folder, "", deep=True)
    if not versions:
        raise NotFoundError(f"cannot read {folder}: there is nothing under that name")
    for name in versions:
        if name.startswith("/") or ".." in name.split("/"):  # its copy would be written outside of the workspace
            raise RunError(f"{folder} has an object whose name leads out of the folder: {name!r}. Nothing was copied.")
    return _fetch_versions(folder, folder, versions)


def _readable_folder(folder: str) -> str:
    """A path of a local folder in which TensorFlow finds checkpoints: `folder` itself, or a link in the workspace.

    TensorFlow takes the path of a checkpoint for a pattern, and `run[1]` or `a\\b` as a pattern does not match itself.
    """
    if not _NOT_LITERAL.search(folder):
        return folder
    target = os.path.abspath(folder)
    link = folder_for("links", target)
    with naming_errors("make a link to", folder):
        os.makedirs(os.path.dirname(link), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(target, link)
    return link


def _fetch_versions(copied_path: str, folder: str, versions: Mapping[str, int]) -> str:
    """The local folder with copies of some files of a bucket, in the given versions.

    If there is no such folder yet, the files are fetched, and copies of other versions are removed.
    """
    local_folder = _copy_folder(copied_path, versions)
    if not os.path.isdir(local_folder):
        forget(copied_path)
        _fetch_all(folder, list(versions), local_folder)
    return local_folder


def file_copy(path: str) -> str:
    """The local path of a file: `path` itself if it is a local file, else that of a copy.

    A copy is fetched once per process, even if the file changes in the bucket. See `pipes` for local pipes.
    """
    if not is_remote(path):
        with naming_errors("read", path):
            return pipes.regular_file(path)
    local = os.path.join(folder_for("copies", path), path.rpartition("/")[2])
    if not os.path.exists(local):
        _fetch(path, local)
    return local


def keep(prefix: str, files: Sequence[str]) -> None:
    """Makes local files the copies that `copy_of(prefix)` returns, so that it does not fetch what was just uploaded."""
    folder, _, name = prefix.rpartition("/")
    copy_folder = _copy_folder(prefix, _versions(folder, f"{name}."))
    os.makedirs(copy_folder, exist_ok=True)
    for path in files:
        os.replace(path, os.path.join(copy_folder, os.path.basename(path)))


def forget(prefix: str) -> None:
    """Removes the local copies of a prefix or folder in a bucket, if there are any; the bucket stays as it is."""
    if is_remote(prefix):
        shutil.rmtree(folder_for("copies", prefix), ignore_errors=True)


def _copy_folder(prefix: str, versions: Mapping[str, int]) -> str:
    """The path of the local folder for copies of these versions {name: generation} of a prefix or folder."""
    digest = hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest()[:16]
    return os.path.join(folder_for("copies", prefix), digest)


def _fetch_all(folder: str, names: Sequence[str], local_folder: str) -> None:
    """Fetches files of a folder in a bucket; the local folder exists only when all of them are complete."""
    partial_folder = f"{local_folder}.part"
    shutil.rmtree(partial_folder, ignore_errors=True)
    with ThreadPoolExecutor(_PARALLEL_FETCHES) as pool:
        list(pool.map(lambda name: _fetch(join(folder, name), os.path.join(partial_folder, name)), names))
    os.rename(partial_folder, local_folder)


# The client library takes half a second to import, so the next two functions import it when they are called.


def _versions(folder: str, start: str, deep: bool = False) -> dict[str, int]:
    from yt8m.storage.gcs import versions

    return versions(folder, start, deep)


def _fetch(path: str, local: str) -> None:
    from yt8m.storage.gcs_client import fetch

    fetch(path, local)
