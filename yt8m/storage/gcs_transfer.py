"""Bytes to and from buckets: whole, checked by crc32c, and only over what was there when the work began."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from typing import IO, Any

import google_crc32c
from google.api_core import exceptions as api

from yt8m.errors import RunError
from yt8m.storage.gcs_client import DamagedTransferError, ask, blob_at, named, refuse_missing_bucket
from yt8m.storage.local import LocalStore

_BLOCK = 1 << 20


class _Summed:
    """A file that sums what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._sum = file, google_crc32c.Checksum()

    def write(self, data: bytes) -> int:
        self._sum.update(data)
        return self._file.write(data)

    def crc32c(self) -> str:
        """As the server writes it."""
        return base64.b64encode(self._sum.digest()).decode()


def download(path: str, file: IO[bytes]) -> Any:
    """Fetches an object into `file`, from its start; returns its handle, with what is known of it.

    Raises:
      RunError: it is not there, or cannot be fetched in the time allowed.
    """
    return ask("read", path, lambda: _download(path, file))


def _download(path: str, file: IO[bytes]) -> Any:
    blob, target = blob_at(path), _Summed(file)
    blob.reload(retry=None)
    file.seek(0)
    file.truncate()
    is_plain = not blob.content_encoding  # else the server's sum is that of the packed bytes
    try:
        blob.download_to_file(
            target,
            if_generation_match=blob.generation,
            raw_download=is_plain,
            checksum=None if is_plain else "auto",
            retry=None,
        )
    except api.PreconditionFailed as error:
        raise DamagedTransferError("it was replaced while it was read") from error
    if is_plain and blob.crc32c and target.crc32c() != blob.crc32c:
        raise DamagedTransferError(f"its crc32c is {target.crc32c()}, the server's {blob.crc32c}")
    return blob


def fetch(path: str, local: str) -> None:
    """Copies an object to a local file, which appears whole, with the object's time; raises as `download`."""
    with LocalStore().write_atomic(local, "wb") as file:
        blob = download(path, file)
        file.flush()
        if blob.updated is not None:
            os.utime(file.fileno(), (blob.updated.timestamp(),) * 2)


def generation_of(path: str) -> int:
    """Which version of an object is there; 0 for none.

    Raises:
      UsageError: there is no such bucket.
    """

    def look() -> int:
        blob = blob_at(path)
        try:
            blob.reload(retry=None)
        except api.NotFound:
            refuse_missing_bucket(path)
            return 0
        return int(blob.generation)

    return ask("look up", path, look)


def version_of(path: str) -> tuple[int, int]:
    """The generation and the bytes of an object; raises as `download`."""
    blob = blob_at(path)
    ask("read", path, lambda: blob.reload(retry=None))
    return int(blob.generation), int(blob.size)


def upload(path: str, file: IO[bytes], generation: int) -> int:
    """Sends a whole file; the object appears at once or not at all. Returns its new generation.

    Args:
      path: the object.
      file: seekable.
      generation: of what it replaces; 0 where nothing is there. With it a request may be repeated safely, and
        two writers never undo each other's work unseen.

    Raises:
      RunError: another has written it meanwhile, or it cannot be sent in the time allowed.
    """
    sender = _Upload(path, file, generation)
    with named("write", path):
        return ask("write", path, sender)


class _Upload:
    """One upload, which may be called again until it is through."""

    def __init__(self, path: str, file: IO[bytes], generation: int) -> None:
        self._path, self._file, self._generation = path, file, generation
        self._crc32c, self._size = _sum_of(file)

    def __call__(self) -> int:
        blob = blob_at(self._path)
        try:
            blob.upload_from_file(
                self._file,
                rewind=True,
                size=self._size,
                if_generation_match=self._generation,
                checksum="crc32c",
                retry=None,
            )
        except api.PreconditionFailed as error:
            blob.reload(retry=None)
            # An earlier attempt may have come through although its answer was lost.
            if (blob.crc32c, blob.size) != (self._crc32c, self._size):
                raise RunError(
                    f"cannot write {self._path}: another program has written it meanwhile. See that only one "
                    "works on it, then start again."
                ) from error
        if blob.crc32c and blob.crc32c != self._crc32c:
            self._generation = int(blob.generation)
            raise DamagedTransferError(f"its crc32c is {self._crc32c}, the server has {blob.crc32c}")
        return int(blob.generation)


def _sum_of(file: IO[bytes]) -> tuple[str, int]:
    """crc32c as the server writes it, and bytes."""
    total, size = google_crc32c.Checksum(), 0
    for block in _blocks(file):
        total.update(block)
        size += len(block)
    return base64.b64encode(total.digest()).decode(), size


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(_BLOCK):
        yield block
