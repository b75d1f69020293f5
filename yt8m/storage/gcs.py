"""Objects in Google Cloud Storage buckets: gs://bucket/name."""

from __future__ import annotations

import contextlib
import fnmatch
import io
import os
import socket
import tempfile
from collections.abc import Iterator
from typing import IO, Any, BinaryIO

from google.api_core import exceptions as api
from google.cloud.storage.retry import DEFAULT_RETRY

from yt8m.storage.failures import Locked, NotFoundError, parse_holder, this_holder
from yt8m.storage.gcs_client import WILD, blob_at, client, named, parse

# Locks of this very process: a restarted container may bear the host name and pid of its predecessor.
_held: set[str] = set()


def _children(bucket: str, folder: str, start: str = "") -> Iterator[tuple[str, bool]]:
    """(name, is a folder) of what lies right under `folder` ("" or "a/b/") and begins with `start`."""
    listing = client().list_blobs(bucket, prefix=folder + start, delimiter="/")
    for blob in listing:
        if blob.name != folder:  # an empty object named like the folder, as the web console makes them
            yield blob.name.removeprefix(folder), False
    for prefix in sorted(listing.prefixes):
        yield prefix.removeprefix(folder).rstrip("/"), True


def _matches(bucket: str, folder: str, parts: list[str]) -> Iterator[str]:
    """Names under `folder` that match the pattern's remaining components."""
    part, rest = parts[0], parts[1:]
    literal = WILD.split(part)[0]
    for name, is_folder in _children(bucket, folder, literal):
        hidden = name.startswith(".") and not part.startswith(".")
        if hidden or not fnmatch.fnmatchcase(name, part):
            continue
        if not rest:
            yield folder + name
        elif is_folder:
            yield from _matches(bucket, f"{folder}{name}/", rest)


class GcsStore:
    """Paths that begin with gs://."""

    def glob(self, pattern: str) -> list[str]:
        if self.exists(pattern):
            return [pattern]
        bucket, name = parse(pattern)
        parts = name.rstrip("/").split("/")
        literal = next((i for i, part in enumerate(parts) if WILD.search(part)), len(parts) - 1)
        folder = "".join(part + "/" for part in parts[:literal])
        with named("list", pattern):
            return sorted({f"gs://{bucket}/{found}" for found in _matches(bucket, folder, parts[literal:])})

    def exists(self, path: str) -> bool:
        if parse(path).name:
            with named("look up", path):
                if blob_at(path).exists():
                    return True
        return self.is_dir(path)

    def is_dir(self, path: str) -> bool:
        return next(self._below(path), None) is not None

    def _below(self, path: str) -> Iterator[Any]:
        """All objects under a folder, at any depth."""
        bucket, name = parse(path)
        prefix = name.rstrip("/") + "/" if name.rstrip("/") else ""
        with named("list", path):
            yield from client().list_blobs(bucket, prefix=prefix)

    @contextlib.contextmanager
    def open_read(self, path: str) -> Iterator[BinaryIO]:
        blob = blob_at(path)
        with named("read", path):
            blob.reload()  # a missing object would show at the first read only
            with blob.open("rb", chunk_size=8 << 20) as file:
                yield file

    @contextlib.contextmanager
    def write_atomic(self, path: str, mode: str) -> Iterator[IO[Any]]:
        blob = blob_at(path)
        with tempfile.TemporaryFile() as file:
            yield (wrapped := io.TextIOWrapper(file, "utf-8", newline="\n") if mode == "w" else file)
            wrapped.flush()
            length = file.seek(0, os.SEEK_END)
            # Sending the same bytes again does no harm, so it may be tried again without a precondition.
            with named("write", path):
                blob.upload_from_file(file, rewind=True, size=length, retry=DEFAULT_RETRY)

    def append(self, path: str, data: bytes) -> None:
        before = b""
        if blob_at(path).exists():
            with self.open_read(path) as file:
                before = file.read()
        with self.write_atomic(path, "wb") as file:
            file.write(before + data)

    def makedirs(self, path: str) -> None:
        parse(path)

    def listdir(self, path: str) -> list[str]:
        bucket, name = parse(path)
        folder = name.rstrip("/") + "/" if name.rstrip("/") else ""
        with named("list", path):
            names = sorted({child for child, _ in _children(bucket, folder)})
        if not names and folder and not self.is_dir(path):
            raise NotFoundError(f"cannot list {path}: nothing lies under it")
        return names

    def remove(self, path: str) -> None:
        with named("remove", path):
            blob_at(path).delete(retry=DEFAULT_RETRY)

    def remove_tree(self, path: str) -> None:
        below = list(self._below(path))
        if not below:
            raise NotFoundError(f"cannot remove {path}: nothing lies under it")
        with named("remove", path):
            for blob in below:
                blob.delete(retry=DEFAULT_RETRY)

    def rename(self, source: str, target: str) -> None:
        blob = blob_at(source)
        with named("rename", source):
            if blob.exists():
                _move(blob, blob_at(target))
                return
        below = list(self._below(source))
        if not below:
            raise NotFoundError(f"cannot rename {source}: there is no such object, and nothing lies under it")
        with named("rename", source):
            for child in below:
                tail = child.name.removeprefix(blob.name.rstrip("/"))
                _move(child, blob_at(target.rstrip("/") + tail))

    def size(self, path: str) -> int:
        blob = blob_at(path)
        with named("read", path):
            blob.reload()
        return int(blob.size)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        with named("lock", path):
            generation = _take(path)
        _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)
            with contextlib.suppress(api.NotFound), named("unlock", path):
                blob_at(path).delete(if_generation_match=generation)


def _move(source: Any, target: Any) -> None:
    source.bucket.copy_blob(source, target.bucket, target.name, retry=DEFAULT_RETRY)
    source.delete(retry=DEFAULT_RETRY)


def _take(path: str) -> int:
    """Creates the lock object and gives its generation.

    Raises:
      Locked: another has it.
    """
    blob = blob_at(path)
    if blob.exists():  # also for servers that know no preconditions
        holder = parse_holder(blob.download_as_bytes())
        if not _is_dead(path, holder):
            raise Locked(path, holder)
        blob.reload()
        with contextlib.suppress(api.NotFound, api.PreconditionFailed):
            blob.delete(if_generation_match=blob.generation)
    try:
        blob.upload_from_string(this_holder(), if_generation_match=0)
    except api.PreconditionFailed as error:
        raise Locked(path, parse_holder(blob.download_as_bytes())) from error
    return int(blob.generation)


def _is_dead(path: str, holder: dict[str, Any]) -> bool:
    """Whether the holder was a process of this machine that no longer runs."""
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int):
        return False
    if pid == os.getpid():
        return path not in _held
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
