"""Finds the files with the weights of extractors: at the user's path, or in the cache, to which they are fetched once.

The cache is XDG_CACHE_HOME/yt8m/weights (by default ~/.cache/yt8m/weights). At the first use, the sha256 of a file is
written beside it. A file that changes afterwards is refused.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.datasets.download.transfer import Client
from yt8m.errors import RunError, UsageError
from yt8m.extractors import Extractor, PublishedFile
from yt8m.storage import base

_RETRIES, _BACKOFF_SECONDS, _STALL_SECONDS = 2, 1.0, 30.0  # the arguments of `Client`


class Weights(NamedTuple):
    """The files with the weights of an extractor.

    Attributes:
      paths: {field of the extractor that names a file: local path of the file or folder}.
      sha256: {field: `sha256_of` the file or folder}, as in manifests and runs.
      settings: {setting of the extractor: value} that the weights determine, such as the commit of a repository.
    """

    paths: dict[str, str]
    sha256: dict[str, str]
    settings: dict[str, Any]


def find(extractor: Extractor, name: str) -> Weights:
    """Finds the weights of an extractor. Fetches a file if the user gave no path and the cache does not have it."""
    paths, sums, settings = {}, {}, dict[str, Any]()
    for field, source in extractor.weight_files().items():
        path = str(getattr(extractor, field))
        if not path and source is None:
            raise UsageError(f"extractor {name}: give the path of its file by --{field}=PATH.")
        if path:
            try:
                paths[field], fixed = extractor.locate_weights(path)
            except (UsageError, RunError) as error:
                raise type(error)(_of_extractor(name, field, path, str(error))) from error
            settings |= fixed
            sums[field] = _sha256_of_files(extractor.files_of(paths[field]), name)
        elif source is not None:
            paths[field], sums[field] = _find_in_cache(source, f"extractor {name}", field)
    return Weights(paths, sums, settings)


def _of_extractor(name: str, field: str, path: str, problem: str) -> str:
    """A message about the weights of an extractor, which names it and its path once."""
    if problem.startswith(f"extractor {name}"):
        return problem
    return (
        f"extractor {name}: {problem}"
        if name.endswith(f":{path}")
        else f"extractor {name}, --{field}={path}: {problem}"
    )


def sha256_of(*paths: str) -> str:
    """The sha256 of a file. For several files or a folder, the sha256 of a list of their names and sha256 sums."""
    if len(paths) == 1 and not storage.is_dir(paths[0]):
        return _digest(paths[0], "sha256")
    if len(paths) == 1:
        paths = tuple(storage.join(paths[0], name) for name in storage.names_in(paths[0]))
    lines = [f"{os.path.basename(path)}\0{sha256_of(path)}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sha256_of_files(files: Sequence[str], name: str) -> str:
    """`sha256_of` for the files of the extractor with this name; raises `UsageError` if one is missing."""
    for missing in (other for other in files if not storage.exists(other)):
        raise UsageError(
            f"extractor {name}: {files[0]} stores weights in {missing}, which does not exist; put that file there."
        )
    return sha256_of(*files)


def _digest(path: str, kind: str) -> str:
    with storage.open_read(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()  # type: ignore[arg-type]


def _find_in_cache(source: PublishedFile, extractor: str, field: str) -> tuple[str, str]:
    """Finds a published file in the cache; fetches it if it is not there."""
    path = os.path.join(base.cache_dir(), "weights", source.file)
    pin_path = f"{path}.sha256"
    if not storage.exists(path):
        _fetch(source, path, extractor, field)
    digest = sha256_of(path)
    if not storage.exists(pin_path):
        _check_published(source, path)
        storage.write(pin_path, f"{digest}\n")
        print(f"{path}: the sha256 is {digest}; from now on a file with another sha256 is refused", file=sys.stderr)
    expected = storage.read_text(pin_path).strip()
    if digest != expected:
        raise RunError(
            f"{path} has the sha256 {digest}; expected {expected}, as at its first use. Remove the file to fetch it "
            f"again; if you replaced the file on purpose, remove {pin_path} instead."
        )
    return path, digest


def _check_published(source: PublishedFile, path: str) -> None:
    """Raises `RunError` if the file at `path` has another md5 or sha256 than the published one."""
    for kind, published in (("md5", source.md5), ("sha256", source.sha256)):
        if published and (digest := _digest(path, kind)) != published:
            raise RunError(
                f"{path} has the {kind} {digest}; expected the published {published}. Remove the file to fetch it "
                f"again from {source.address}."
            )


def _fetch(source: PublishedFile, path: str, extractor: str, field: str) -> None:
    """Downloads a published file to `path`; raises `RunError` with a remedy if that fails."""
    print(f"fetching {source.address}", file=sys.stderr)
    client = Client(_RETRIES, _BACKOFF_SECONDS, _STALL_SECONDS)
    try:
        storage.makedirs(os.path.dirname(path))
        with storage.lock(f"{path}.lock"):
            if not storage.exists(path):  # another process may have fetched it while this one waited for the lock
                client.retry(source.address, lambda: _download(client, source.address, path))
    except RunError as error:
        raise RunError(
            f"{extractor} needs {source.file}, which could not be fetched: {error}. Fetch it from {source.address} on "
            f"another machine, and put it at {path}, or give its path by --{field}=PATH."
        ) from error


def _download(client: Client, address: str, path: str) -> None:
    with storage.write_atomic(path) as file:
        for _, block in client.blocks(address, 0):
            file.write(block)
