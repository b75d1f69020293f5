"""Uploads local files and folders to a bucket, and files that still grow."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence

import google_crc32c
from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.storage import base
from yt8m.storage.base import NotFoundError
from yt8m.storage.copies import folder_for, workspace

# Names of files that mark a complete folder. They are uploaded last, so that readers find the other files.
_LAST = ("variables.index", "inference_model.meta", "checkpoint", "saved_model.pb")
_BLOCK = 1 << 20


def send(local: str, path: str, generation: int | None = None) -> int:
    """Uploads a file as the object `path`, which may exist already; returns the generation of the new object.

    Args:
      local: the path of the local file.
      path: the object, gs://bucket/name.
      generation: generation of the object to replace; None to request it from the server.

    Raises:
      RunError: the file cannot be uploaded, or another program has written the object meanwhile.
    """
    from yt8m.storage import gcs_client

    replaced = gcs_client.generation_of(path) if generation is None else generation
    with open(local, "rb") as file:
        return gcs_client.upload(path, file, replaced)


def local_folder_for(folder: str) -> str:
    """The local folder in which files for `folder` are made: `folder` itself if it is local."""
    if not storage.is_remote(folder):
        return folder
    local_folder = folder_for("made", folder)
    storage.makedirs(local_folder)
    return local_folder


@contextlib.contextmanager
def replaced_folder(folder: str) -> Iterator[str]:
    """Yields the path of a new local folder; if the block succeeds, its files replace those of the remote `folder`.

    A bucket cannot rename a folder. So a reader sees first the old files, then a folder without the file that marks a
    complete model (`saved_model.pb`), then all new files.
    """
    with tempfile.TemporaryDirectory(dir=workspace()) as beside:
        part = os.path.join(beside, os.path.basename(folder.rstrip("/")))
        os.mkdir(part)
        yield part
        _send_folder(part, folder.rstrip("/"))


@contextlib.contextmanager
def staged_folder(folder: str) -> Iterator[str]:
    """Yields the local folder in which files for `folder` are made: `folder` itself if local, else one in the cache.

    The folder in the cache is removed if the block succeeds. If the block raises or the process is killed, the folder
    stays, so that a later start can continue with its files.

    Raises:
      Locked: another process of this machine uses the folder in the cache.
    """
    if not storage.is_remote(folder):
        yield folder
        return
    staged = os.path.join(base.cache_dir(), "staged", hashlib.sha256(folder.rstrip("/").encode()).hexdigest()[:24])
    storage.makedirs(os.path.dirname(staged))
    with storage.lock(f"{staged}.lock"):
        yield staged
        shutil.rmtree(staged, ignore_errors=True)


def send_changed(local: str, folder: str) -> None:
    """Makes the remote `folder` equal to a local one: uploads new and changed files, and removes all others.

    After an interruption, only the missing files are uploaded. Raises like `send`.
    """
    sent, names = contents(folder), sorted(_names_below(local))
    for name in sorted(sent.keys() - set(names)):
        _remove(storage.join(folder, name))
    for name in names:
        if sent.get(name) != _content(path := os.path.join(local, name)):
            send(path, storage.join(folder, name))


def contents(folder: str) -> dict[str, tuple[int, int]]:
    """{name: (size in bytes, crc32c)} of the files below the remote `folder`, from a listing."""
    from yt8m.storage import gcs

    return gcs.contents(folder)


def _content(local: str) -> tuple[int, int]:
    checksum = google_crc32c.Checksum()
    with open(local, "rb") as file:
        size = sum(map(len, checksum.consume(file, _BLOCK)))
    return size, int.from_bytes(checksum.digest())


def _send_folder(local: str, folder: str) -> None:
    from yt8m.storage.gcs import versions

    before = versions(folder, "", deep=True)
    names = sorted(_names_below(local), key=_order)
    for name in filter(_order, before):
        _remove(storage.join(folder, name))
        before[name] = 0
    for name in names:
        send(os.path.join(local, name), storage.join(folder, name), before.get(name, 0))
    for name in sorted(before.keys() - set(names)):
        _remove(storage.join(folder, name))


def _remove(path: str) -> None:
    with contextlib.suppress(NotFoundError):
        storage.remove(path)


def _order(name: str) -> int:
    base = os.path.basename(name)
    return _LAST.index(base) + 1 if base in _LAST else 0


def _names_below(folder: str) -> Iterator[str]:
    for here, _, names in os.walk(folder):
        yield from (os.path.relpath(os.path.join(here, name), folder) for name in names)


class GrowingFile:
    """A file that grows on this machine and, if its path is in a bucket, is uploaded as a whole from time to time.

    Attributes:
      path: the path of the file, local or gs://.
      local: the path of the growing local file; `path` itself if that is local.

    Args:
      path: the path of the file.
      go_on: whether to keep the present content of a file in a bucket.
    """

    def __init__(self, path: str, go_on: bool = False) -> None:
        self.path = self.local = path
        self._sent, self._generation = -1, 0
        if storage.is_remote(path):
            self.local = os.path.join(folder_for("grown", path), os.path.basename(path))
            self._start(go_on)
            _growing.append(self)

    def _start(self, go_on: bool) -> None:
        from yt8m.storage import gcs_client

        shutil.rmtree(os.path.dirname(self.local), ignore_errors=True)
        storage.makedirs(os.path.dirname(self.local))
        self._generation = gcs_client.generation_of(self.path)
        if go_on and self._generation:
            gcs_client.fetch(self.path, self.local)

    def send(self) -> None:
        """Uploads the file if it is in a bucket and has grown.

        Raises:
          RunError: the file cannot be uploaded.
        """
        if self.local == self.path or not os.path.exists(self.local):
            return
        size = os.path.getsize(self.local)
        if size != self._sent:
            self._generation = send(self.local, self.path, self._generation)
            self._sent = size

    def close(self) -> None:
        """Uploads the file for the last time; raises like `send`."""
        try:
            self.send()
        finally:
            if self in _growing:
                _growing.remove(self)


_growing: list[GrowingFile] = []


def send_growing() -> None:
    """Uploads all growing files of this process. A failure is logged; the next call tries again."""
    for file in list(_growing):
        try:
            file.send()
        except (RunError, UsageError, OSError) as error:
            logging.error("%s is not up to date in the bucket: %s", file.path, error)


def send_files(files: Sequence[str], folder: str) -> None:
    """Uploads local files into the remote `folder`, one after another; raises like `send`."""
    for path in files:
        send(path, storage.join(folder, os.path.basename(path)))
