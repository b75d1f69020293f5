"""Objects in Google Cloud Storage buckets (gs://bucket/name): reading, listing, writing, and locks.

A lock is an object whose content names the process that holds the lock, the holder. The holder makes the object, and
renews it every `BEAT_SECONDS` by a new time in its metadata. The lock is free if the holder has not renewed it for
`LEASE_SECONDS`, or was a process of this machine that has ended.
"""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import io
import itertools
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Any, BinaryIO, cast

from absl import logging
from google.api_core import exceptions as api

from yt8m.errors import RunError, UsageError
from yt8m.storage import gcs_client, temporary
from yt8m.storage.base import WILD, Locked, NotFoundError, Stamp, parse_holder, process_lives, this_holder
from yt8m.storage.gcs_client import blob_at, client, parse, with_retries

BEAT_SECONDS, LEASE_SECONDS = 30.0, 300.0  # seconds; for both see the module's docstring
_BEAT = "beat"  # key in the metadata of a lock object, for the time at which its holder last renewed it

# The paths of the locks that this process holds, and of those that other processes took from it. The host name and the
# process number in a lock object do not show that this process holds the lock: a restarted container may have the same
# ones as the container before.
_held: set[str] = set()
_lost: set[str] = set()


class GcsStore:
    """Objects whose paths begin with gs://; the functions of the same names in `yt8m.storage` describe the methods.

    A folder `a` exists if the name of an object begins with `a/`.
    """

    def glob(self, pattern: str) -> list[str]:
        if self.exists(pattern):
            return [pattern]
        bucket, name = parse(pattern)
        components = name.rstrip("/").split("/")
        first_wild = next((i for i, part in enumerate(components) if WILD.search(part)), len(components) - 1)
        folder = "".join(part + "/" for part in components[:first_wild])
        return sorted({f"gs://{bucket}/{match}" for match in _matches(pattern, folder, components[first_wild:])})

    def exists(self, path: str) -> bool:
        if parse(path).name and with_retries("look up", path, lambda: blob_at(path).exists(retry=None)):
            return True
        return self.is_dir(path)

    def is_dir(self, path: str) -> bool:
        return bool(_blobs_below(path, limit=1))

    @contextlib.contextmanager
    def open_read(self, path: str) -> Iterator[BinaryIO]:
        with temporary.opened_file() as file:
            with temporary.naming_tmpdir_if_full():
                gcs_client.download(path, file)
            file.seek(0)
            yield cast("BinaryIO", file)

    def read_start(self, path: str, count: int) -> bytes:
        def fetch() -> bytes:
            return bytes(blob_at(path).download_as_bytes(end=count - 1, raw_download=True, checksum=None, retry=None))

        return with_retries("read", path, fetch)

    @contextlib.contextmanager
    def write_atomic(self, path: str, mode: str) -> Iterator[IO[Any]]:
        generation = gcs_client.generation_of(path)  # raises for a missing bucket before the caller's block runs
        with temporary.opened_file() as file:
            with temporary.naming_tmpdir_if_full():
                yield (wrapped := io.TextIOWrapper(file, "utf-8", "backslashreplace", "\n") if mode == "w" else file)
                wrapped.flush()
            gcs_client.upload(path, file, generation)

    def discard_unfinished(self, path: str) -> None:
        """Does nothing, because unfinished uploads are not visible."""

    discard_orphans = discard_unfinished

    def append(self, path: str, data: bytes) -> None:
        before = b""
        with contextlib.suppress(NotFoundError), self.open_read(path) as file:
            before = file.read()
        with self.write_atomic(path, "wb") as target:
            target.write(before + data)

    def makedirs(self, path: str) -> None:
        parse(path)

    def listdir(self, path: str) -> list[str]:
        names = sorted({name for name, _ in _children(path, _folder(path))})
        if not names and _folder(path) and not self.is_dir(path):
            raise NotFoundError(f"cannot list {path}: there is nothing under that name")
        return names

    def times(self, path: str) -> dict[str, float]:
        return {name: blob.updated.timestamp() for name, blob in _children(path, _folder(path)) if blob}

    def tree(self, path: str, has_hidden: bool) -> dict[str, list[str]]:
        files: dict[str, list[str]] = {}
        for name in sorted(versions(path, "", deep=True)):
            inner, _, file = name.rpartition("/")
            if file and (has_hidden or not any(part.startswith(".") for part in inner.split("/"))):
                files.setdefault(f"{path.rstrip('/')}/{inner}".rstrip("/"), []).append(file)
        if not files:
            raise NotFoundError(f"cannot list {path}: there is no such folder")
        return files

    def stamps(self, paths: Sequence[str]) -> dict[str, Stamp]:
        stamps_by_path: dict[str, Stamp] = {}
        names_in: dict[str, list[str]] = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            names_in.setdefault(folder, []).append(name)
        for folder, names in names_in.items():
            start = os.path.commonprefix(names)  # noqa: RUF071 - a listing is limited by the first letters of names
            for name, blob in _children(folder, _folder(folder), start):
                if blob:
                    stamps_by_path[f"{folder}/{name}"] = Stamp(int(blob.size), int(blob.generation))
        return {path: stamps_by_path[path] for path in paths if path in stamps_by_path}

    def remove(self, path: str) -> None:
        _remove("remove", path, blob_at(path))

    def remove_tree(self, path: str) -> None:
        blobs = _blobs_below(path)
        if not blobs:
            raise NotFoundError(f"cannot remove {path}: there is nothing under that name")
        for blob in reversed(blobs):  # names with a dot sort first; so a hidden file that describes others goes last
            _remove("remove", f"gs://{blob.bucket.name}/{blob.name}", blob)

    def rename(self, source: str, target: str) -> None:
        blob = blob_at(source)
        if with_retries("rename", source, lambda: blob.exists(retry=None)):
            _move(source, blob, blob_at(target))
            return
        children = _blobs_below(source)
        if not children:
            raise NotFoundError(
                f"cannot rename {source}: there is no such object, and there is nothing under that name"
            )
        for child in children:
            tail = child.name.removeprefix(blob.name.rstrip("/"))
            _move(source, child, blob_at(target.rstrip("/") + tail))

    def size(self, path: str) -> int:
        return gcs_client.version_of(path)[1]

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        content = this_holder()
        generation = with_retries("lock", path, lambda: _acquire_lock(path, content))
        _held.add(path)
        is_released = threading.Event()
        thread = threading.Thread(target=_renew_lock, args=(path, generation, is_released), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_released.set()
            thread.join()
            _held.discard(path)
            _lost.discard(path)
            _release_lock(path, generation)

    def is_locked(self, path: str) -> bool:
        def has_live_holder() -> bool:
            content, generation = _read_lock(blob := blob_at(path))
            return generation > 0 and not _is_abandoned(path, parse_holder(content), blob)

        return with_retries("read", path, has_live_holder)

    def refuse_lost_lock(self, folder: str) -> None:
        for path in list(_lost):  # a copy, because another thread may add a path during the iteration
            if path.startswith(folder.rstrip("/") + "/"):
                raise RunError(
                    f"the lock {path} was taken over by another process, or removed. Another process can take it over "
                    f"if this process has not renewed it for {LEASE_SECONDS:g} s. This process writes nothing more "
                    f"into {folder}. Stop the other process, or let it finish; then start again."
                )


def versions(folder: str, start: str, deep: bool = False) -> dict[str, int]:
    """The generations of the objects in a folder, from a listing.

    Args:
      folder: the folder, gs://bucket/name.

    Returns:
      {path of the object relative to the folder: generation}.
    """
    if deep:
        return {name: int(blob.generation) for name, blob in _files_below(folder)}
    return {name: int(blob.generation) for name, blob in _children(folder, _folder(folder), start) if blob}


def contents(folder: str) -> dict[str, tuple[int, int]]:
    """{path relative to `folder`: (size in bytes, CRC-32C)} of all objects below a folder, from a listing."""
    return {name: (int(blob.size), gcs_client.crc32c_of(blob)) for name, blob in _files_below(folder)}


def _files_below(folder: str) -> Iterator[tuple[str, Any]]:
    """Yields (path relative to `folder`, blob) of all objects below a folder, at any depth.

    Google's web console makes an empty object, whose name ends in a slash, for each folder; these are left out.
    """
    prefix = _folder(folder)
    for blob in _blobs_below(folder):
        if not blob.name.endswith("/"):
            yield blob.name.removeprefix(prefix), blob


def _folder(path: str) -> str:
    """The text with which the names of the objects in a folder begin: "a/b/", or "" for a whole bucket."""
    name = parse(path).name.rstrip("/")
    return f"{name}/" if name else ""


def _children(path: str, folder: str, start: str = "") -> list[tuple[str, Any]]:
    """Lists the objects and folders directly in a folder.

    Returns:
      (name in the folder, blob) of each entry; the blob of a folder is None.
    """

    def list_once() -> list[tuple[str, Any]]:
        listing = client().list_blobs(parse(path).bucket, prefix=folder + start, delimiter="/", retry=None)
        # Google's web console makes an empty object with the name of the folder itself, which is left out here.
        entries = [(blob.name.removeprefix(folder), blob) for blob in listing if blob.name != folder]
        return entries + [(prefix.removeprefix(folder).rstrip("/"), None) for prefix in sorted(listing.prefixes)]

    return with_retries("list", path, list_once)


def _blobs_below(path: str, limit: int | None = None) -> list[Any]:
    """The blobs of the objects below a folder, at any depth, sorted by name; at most `limit` of them."""
    bucket, prefix = parse(path).bucket, _folder(path)
    blobs = with_retries(
        "list", path, lambda: list(client().list_blobs(bucket, prefix=prefix, max_results=limit, retry=None))
    )
    return sorted(blobs, key=lambda blob: blob.name)


def _matches(path: str, folder: str, components: list[str]) -> Iterator[str]:
    """Yields the names in the bucket of the objects and folders below a folder that match a pattern."""
    part, deeper = components[0], components[1:]
    for name, blob in _children(path, folder, WILD.split(part)[0]):
        is_hidden = name.startswith(".") and not part.startswith(".")
        if is_hidden or not fnmatch.fnmatchcase(name, part):
            continue
        if not deeper:
            yield folder + name
        elif blob is None:
            yield from _matches(path, f"{folder}{name}/", deeper)


def _remove(action: str, path: str, blob: Any) -> None:
    """Removes one object.

    In a retry, a missing object is no error: the first request may have removed the object although the server's answer
    was lost.
    """
    attempts = itertools.count()

    def delete() -> None:
        is_first = next(attempts) == 0
        try:
            blob.delete(retry=None)
        except api.NotFound:
            if is_first:
                raise

    with_retries(action, path, delete)


def _move(path: str, source: Any, target: Any) -> None:
    """Copies an object, then removes the original."""
    with_retries("rename", path, lambda: source.bucket.copy_blob(source, target.bucket, target.name, retry=None))
    _remove("rename", path, source)


def _acquire_lock(path: str, content: bytes) -> int:
    """Makes the lock object, unless another process holds the lock; removes an abandoned one first.

    It may be called again with the same content if the answer of the server was lost.
    """
    blob = blob_at(path)
    former_content, generation = _read_lock(blob)  # read first, because some servers ignore the precondition below
    if former_content == content:  # an earlier attempt made this object, but its answer was lost
        return generation
    if generation:
        holder = parse_holder(former_content)
        if not _is_abandoned(path, holder, blob):
            raise Locked(path, holder)
        with contextlib.suppress(api.NotFound):
            _delete_lock(path, generation)
    try:
        blob.upload_from_string(content, if_generation_match=0, retry=None)
    except api.PreconditionFailed:  # this process, in an attempt whose answer was lost, or another one made the object
        return _acquire_lock(path, content)
    return int(blob.generation)


def _read_lock(blob: Any) -> tuple[bytes, int]:
    """(content, generation) of a lock object, with its metadata in `blob`; (b"", 0) if there is no such object.

    The holder may remove the object at any time, also between the two requests.
    """
    try:
        blob.reload(retry=None)
        generation = int(blob.generation)  # taken here, because a download sets it to None if the answer lacks it
        return bytes(blob.download_as_bytes(retry=None)), generation
    except api.NotFound:
        return b"", 0


def _renew_lock(path: str, generation: int, is_released: threading.Event) -> None:
    """Renews a lock every `BEAT_SECONDS`, until this process releases it or another process takes it."""
    while not is_released.wait(BEAT_SECONDS):
        blob = blob_at(path)
        blob.metadata = {_BEAT: _now().isoformat()}
        try:
            blob.patch(if_generation_match=generation, retry=None)
        except (api.NotFound, api.PreconditionFailed):
            _lost.add(path)
            logging.error("this process has lost the lock %s: another process took it over or removed it", path)
            return
        except Exception as error:  # a missed renewal does no harm if the next one succeeds
            logging.warning("the lock %s could not be renewed; trying again in %g s: %s", path, BEAT_SECONDS, error)


def _release_lock(path: str, generation: int) -> None:
    """Removes the lock object of this process; logs an error if that fails."""
    try:
        with contextlib.suppress(NotFoundError):
            with_retries("unlock", path, lambda: _delete_lock(path, generation))
    except (RunError, UsageError) as error:
        logging.error("%s. Other processes can take the lock after %g s.", error, LEASE_SECONDS)


def _delete_lock(path: str, generation: int) -> None:
    """Removes the lock object with this generation; does nothing if another process has replaced the object."""
    with contextlib.suppress(api.PreconditionFailed):
        blob_at(path).delete(if_generation_match=generation, retry=None)


def _is_abandoned(path: str, holder: dict[str, Any], blob: Any) -> bool:
    """Whether the holder of a lock is a process of this machine that has ended, or has not renewed the lock in time."""
    pid = holder.get("pid")
    if pid == os.getpid() and holder.get("host") == socket.gethostname():
        return path not in _held
    if _seconds_since_renewal(blob) > LEASE_SECONDS:
        return True  # also if this machine has a process `pid`: after a restart, another program may have that number
    return holder.get("host") == socket.gethostname() and isinstance(pid, int) and not process_lives(pid)


def _seconds_since_renewal(blob: Any) -> float:
    """Seconds since the holder last renewed the lock; 0 if the time in the metadata of the lock object is not valid.

    The time was taken by the clock of the holder's machine. So the result is wrong by the difference between that clock
    and the clock of this machine.
    """
    renewed = (blob.metadata or {}).get(_BEAT)
    try:
        last = datetime.datetime.fromisoformat(renewed) if renewed else blob.updated
        return (_now() - last).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
