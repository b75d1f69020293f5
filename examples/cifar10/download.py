"""Fetches CIFAR-10 from its author's site."""

from __future__ import annotations

import hashlib
import http.client
import urllib.request
from typing import IO

from absl import logging

from yt8m import storage
from yt8m.errors import RunError
from yt8m.runs.archive import safe_extract

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
FOLDER = "cifar-10-batches-bin"  # the folder in the archive and in the data folder
FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")

_CHUNK = 1 << 20
_SECONDS = 60.0
_MAX_BYTES, _MAX_MEMBERS = 1 << 30, 100


def download(data_dir: str, url: str = URL, md5: str = MD5) -> None:
    """Fetches, checks and unpacks the archive into `data_dir`, unless its files are there already.

    An archive that was fetched before (or put there by hand) is used again. If only some files are missing,
    the existing ones stay as they are.

    Raises:
      RunError: the download fails, or the MD5 sum is wrong; nothing of the download stays.
      UsageError: the archive is unsafe to unpack.
    """
    target = storage.join(data_dir, FOLDER)
    if all(storage.exists(storage.join(target, name)) for name in FILES):
        return
    archive = storage.join(data_dir, url.rpartition("/")[2])
    if storage.exists(archive):
        with storage.open_read(archive) as file:
            _copy(file, None, archive, md5)
    else:
        _fetch(url, archive, md5)
    _unpack(archive, data_dir)


def _fetch(url: str, path: str, md5: str) -> None:
    logging.info("fetching %s", url)
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer, storage.write_atomic(path) as file:
            _copy(answer, file, url, md5)
    except (OSError, http.client.HTTPException) as error:
        raise RunError(
            f"cannot fetch {url}: {error}. Try again, or put the archive at {path}; --generated needs no network."
        ) from error


def _copy(source: IO[bytes], target: IO[bytes] | None, name: str, md5: str) -> None:
    """Reads all of `source`, writes it to `target` if given, and refuses content whose MD5 sum is not `md5`."""
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        if target is not None:
            target.write(chunk)
    if digest.hexdigest() != md5:
        raise RunError(
            f"{name} is not the file it should be: its md5 is {digest.hexdigest()}, expected {md5}. "
            "It was cut on the way or has changed; remove what is there and fetch it again."
        )


def _unpack(archive: str, data_dir: str) -> None:
    """Unpacks into a temporary folder and renames it, so that the files appear all at once."""
    unpacked = storage.join(data_dir, "unpacked")
    if storage.exists(unpacked):
        storage.remove_tree(unpacked)
    safe_extract(archive, unpacked, _MAX_BYTES, _MAX_MEMBERS)
    inner = storage.join(unpacked, FOLDER)
    if not storage.exists(inner):
        raise RunError(f"{archive} holds no folder {FOLDER}; remove it and fetch it again")
    _put(inner, storage.join(data_dir, FOLDER))
    storage.remove_tree(unpacked)


def _put(unpacked: str, target: str) -> None:
    """Renames the folder to its place; if the place is taken, moves only the files that it lacks."""
    if not storage.exists(target):
        storage.rename(unpacked, target)
        return
    for name in storage.listdir(unpacked):
        if not storage.exists(storage.join(target, name)):
            storage.rename(storage.join(unpacked, name), storage.join(target, name))
