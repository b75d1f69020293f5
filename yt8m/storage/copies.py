"""Copies on this machine of what lies in buckets, for libraries that read local files alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from yt8m.errors import RunError
from yt8m.storage import is_remote, join
from yt8m.storage.failures import NotFoundError
from yt8m.storage.local import named
from yt8m.storage.workspace import folder_for

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
    from yt8m.storage.gcs_transfer import fetch

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
    from yt8m.storage.gcs_transfer import fetch

    part = f"{here}.part"
    shutil.rmtree(part, ignore_errors=True)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: fetch(join(folder, name), os.path.join(part, name)), names))
    os.rename(part, here)
