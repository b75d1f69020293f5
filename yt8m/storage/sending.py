"""Uploads local files and folders to a bucket; also files that still grow, such as logs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence

import google_crc32c
from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.storage import base, temporary
from yt8m.storage.base import NotFoundError
from yt8m.storage.copies import folder_for, workspace

# Files whose existence tells readers that a folder is complete. They are uploaded last, in this order, so that a reader
# that finds such a file finds the other files too.
_COMPLETION_FILES = ("variables.index", "inference_model.meta", "checkpoint", "saved_model.pb")
_BLOCK = 1 << 20  # bytes that are read at a time to compute a checksum


def send(local: str, path: str, generation: int | None = None) -> int:
    """Uploads a file as an object; an existing object is replaced.

    Args:
      path: the object, gs://bucket/name.
      generation: generation of the object that is replaced; 0 if there must be no object; None to ask the server.
    """
    from yt8m.storage import gcs_client

    replaced_generation = gcs_client.generation_of(path) if generation is None else generation
    with open(local, "rb") as file:
        return gcs_client.upload(path, file, replaced_generation)


def local_folder_for(folder: str) -> str:
    """Where files for `folder` are made: in `folder` itself if it is local, else in a folder of the workspace.

    The folder of the workspace is made. The caller uploads the files.
    """
    if not storage.is_remote(folder):
        return folder
    local_folder = folder_for("made", folder)
    storage.makedirs(local_folder)
    return local_folder


@contextlib.contextmanager
def replaced_folder(folder: str) -> Iterator[str]:
    """Yields the path of a new local folder; if the block succeeds, its files replace those of the remote `folder`.

    A bucket cannot rename a folder. So the files that tell that a model is complete (`_COMPLETION_FILES`) are removed
    first and uploaded last. A reader that finds none of them knows that the folder has old and new files.
    """
    with temporary.folder_in(workspace()) as parent:
        local_folder = os.path.join(parent, os.path.basename(folder.rstrip("/")))
        os.mkdir(local_folder)
        yield local_folder
        _send_folder(local_folder, folder.rstrip("/"))


@contextlib.contextmanager
def staged_folder(folder: str) -> Iterator[str]:
    """Yields the local folder in which files for `folder` are made: `folder` if it is local, else one in the cache.

    For a `folder` in a bucket, the caller's block must upload the files. If the block succeeds, the folder in the cache
    is removed. If it raises an error or the process is killed, that folder stays, so that a later start can continue
    with its files.
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
    """Makes a remote folder equal to a local one: uploads new and changed files, and removes all others.

    If this is called again after an interruption, it uploads only what is missing.

    Args:
      folder: the remote folder, gs://bucket/name.
    """
    sent, names = contents(folder), sorted(_names_below(local))
    for name in sorted(sent.keys() - set(names)):
        _remove(storage.join(folder, name))
    for name in names:
        if sent.get(name) != _size_and_crc32c(path := os.path.join(local, name)):
            send(path, storage.join(folder, name))


def contents(folder: str) -> dict[str, tuple[int, int]]:
    """{path relative to `folder`: (size in bytes, CRC-32C)} of all files below a remote folder, from a listing."""
    from yt8m.storage import gcs

    return gcs.contents(folder)


def _size_and_crc32c(local: str) -> tuple[int, int]:
    """(size in bytes, CRC-32C) of a local file."""
    checksum = google_crc32c.Checksum()
    with open(local, "rb") as file:
        size = sum(map(len, checksum.consume(file, _BLOCK)))
    return size, int.from_bytes(checksum.digest())


def _send_folder(local: str, folder: str) -> None:
    """Replaces the content of a remote folder by that of a local one, in the order that `replaced_folder` describes."""
    from yt8m.storage.gcs import versions

    generations = versions(folder, "", deep=True)
    names = sorted(_names_below(local), key=_upload_rank)
    for name in filter(_upload_rank, generations):
        _remove(storage.join(folder, name))
        generations[name] = 0
    for name in names:
        send(os.path.join(local, name), storage.join(folder, name), generations.get(name, 0))
    for name in sorted(generations.keys() - set(names)):
        _remove(storage.join(folder, name))


def _remove(path: str) -> None:
    """Removes an object, if it exists."""
    with contextlib.suppress(NotFoundError):
        storage.remove(path)


def _upload_rank(path: str) -> int:
    """The rank of a file in the order of uploads: its index in `_COMPLETION_FILES` plus 1, or 0 for any other file."""
    name = os.path.basename(path)
    return _COMPLETION_FILES.index(name) + 1 if name in _COMPLETION_FILES else 0


def _names_below(folder: str) -> Iterator[str]:
    """Yields the paths, relative to a local folder, of all files below it."""
    for subfolder, _, names in os.walk(folder):
        yield from (os.path.relpath(os.path.join(subfolder, name), folder) for name in names)


class GrowingFile:
    """A file to which a program appends on this machine, and which is uploaded as a whole if its path is in a bucket.

    `send`, `send_growing` and `close` upload the file.

    Args:
      path: the path of the file, local or gs://.
      go_on: for a path in a bucket, whether the local file begins with the present content of the object; if False, it
        begins empty. A local file stays as it is.
    """

    def __init__(self, path: str, go_on: bool = False) -> None:
        self.path = self.local = path
        self._sent_size, self._generation = -1, 0
        if storage.is_remote(path):
            self.local = os.path.join(folder_for("grown", path), os.path.basename(path))
            self._start(go_on)
            _growing.append(self)

    def _start(self, go_on: bool) -> None:
        """Makes the folder of the local file, and fetches the present content of the object if `go_on`."""
        from yt8m.storage import gcs_client

        shutil.rmtree(os.path.dirname(self.local), ignore_errors=True)
        storage.makedirs(os.path.dirname(self.local))
        self._generation = gcs_client.generation_of(self.path)
        if go_on and self._generation:
            gcs_client.fetch(self.path, self.local)

    def send(self) -> None:
        """Uploads the file if its path is in a bucket and it has grown since the last upload."""
        if self.local == self.path or not os.path.exists(self.local):
            return
        size = os.path.getsize(self.local)
        if size != self._sent_size:
            self._generation = send(self.local, self.path, self._generation)
            self._sent_size = size

    def close(self) -> None:
        """Uploads the file for the last time; `send_growing` leaves it out from now on. Raises like `send`."""
        try:
            self.send()
        finally:
            if self in _growing:
                _growing.remove(self)


_growing: list[GrowingFile] = []  # the files of this process whose paths are in buckets, until they are closed


def growing_part(path: str) -> str:
    """Where this process appends to the file `path`: the local file of its open `GrowingFile`, or `path` itself."""
    return next((file.local for file in _growing if file.path == path), path)


def send_growing() -> None:
    """Uploads each open `GrowingFile` of this process; logs a failed upload, which the next call tries again."""
    for file in list(_growing):
        try:
            file.send()
        except (RunError, UsageError, OSError) as error:
            logging.error(
                "cannot upload %s, which lacks its newest content until the next upload: %s", file.path, error
            )


def send_files(files: Sequence[str], folder: str) -> None:
    """Uploads local files into a remote folder, in this order; raises like `send`.

    Args:
      folder: the remote folder, gs://bucket/name.
    """
    for path in files:
        send(path, storage.join(folder, os.path.basename(path)))
