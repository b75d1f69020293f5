"""Locks in a bucket: an object that its holder creates and keeps fresh.

Objects in Google Cloud Storage buckets: gs://bucket/name.
"""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import io
import os
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, BinaryIO, cast

from absl import logging
from google.api_core import exceptions as api

from yt8m.errors import RunError, UsageError
from yt8m.storage import gcs_client
from yt8m.storage.base import Locked, NotFoundError, Stamp, parse_holder, this_holder
from yt8m.storage.gcs_client import WILD, ask, blob_at, client, parse

BEAT_SECONDS, LEASE_SECONDS = 30.0, 300.0
_BEAT = "beat"  # the metadata in which a holder says when it was last alive

# Locks of this very process: a restarted container may bear the host name and pid of its predecessor.
_held: set[str] = set()
_lost: set[str] = set()


@contextlib.contextmanager
def lock(path: str) -> Iterator[None]:
    """Holds the lock object `path` during the block; see `yt8m.storage.lock`."""
    generation = _take(path)
    _held.add(path)
    over = threading.Event()
    thread = threading.Thread(target=_keep, args=(path, generation, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        _held.discard(path)
        _lost.discard(path)
        _let_go(path, generation)


def refuse_lost(folder: str) -> None:
    """Refuses to go on in a folder whose lock was this process' and was taken over.

    Raises:
      RunError: names the lock.
    """
    for path in _lost:
        if path.startswith(folder.rstrip("/") + "/"):
            raise RunError(
                f"{path} was taken over by another process, since this one was out of touch for more than "
                f"{LEASE_SECONDS:g} s. Nothing more is written there."
            )


def _keep(path: str, generation: int, over: threading.Event) -> None:
    while not over.wait(BEAT_SECONDS):
        blob = blob_at(path)
        blob.metadata = {_BEAT: _now().isoformat()}
        try:
            blob.patch(if_generation_match=generation, retry=None)
        except (api.NotFound, api.PreconditionFailed):
            _lost.add(path)
            logging.error("the lock %s is no longer this process'", path)
            return
        except Exception as error:  # a beat that is missed does no harm: the next one may come through
            logging.warning("the lock %s could not be kept fresh just now: %s", path, error)


def _let_go(path: str, generation: int) -> None:
    try:
        with contextlib.suppress(NotFoundError):
            ask("unlock", path, lambda: _delete(path, generation))
    except (RunError, UsageError) as error:
        logging.error("%s. It counts as free after %g s.", error, LEASE_SECONDS)


def _take(path: str) -> int:
    """Creates the lock object and gives its generation.

    Raises:
      Locked: another has it.
    """
    content = this_holder()
    return ask("lock", path, lambda: _try_to_take(path, content))


def _try_to_take(path: str, content: bytes) -> int:
    blob = blob_at(path)
    if blob.exists(retry=None):  # also for servers that know no preconditions
        blob.reload(retry=None)
        generation, found = int(blob.generation), blob.download_as_bytes(retry=None)
        if found == content:  # made by an earlier attempt whose answer was lost
            return generation
        holder = parse_holder(found)
        if not _is_dead(path, holder, blob):
            raise Locked(path, holder)
        with contextlib.suppress(api.NotFound):
            _delete(path, generation)
    try:
        blob.upload_from_string(content, if_generation_match=0, retry=None)
    except api.PreconditionFailed as error:
        found = blob.download_as_bytes(retry=None)
        if found != content:
            raise Locked(path, parse_holder(found)) from error
        blob.reload(retry=None)
    return int(blob.generation)


def _delete(path: str, generation: int) -> None:
    """Removes the lock where it is still that one."""
    with contextlib.suppress(api.PreconditionFailed):
        blob_at(path).delete(if_generation_match=generation, retry=None)


def _is_dead(path: str, holder: dict[str, Any], blob: Any) -> bool:
    """Whether the holder was a process of this machine that no longer runs, or has long been silent."""
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int):
        return _silent_for(blob) > LEASE_SECONDS
    if pid == os.getpid():
        return path not in _held
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _silent_for(blob: Any) -> float:
    """Seconds since the holder was last alive, by the two machines' clocks."""
    said = (blob.metadata or {}).get(_BEAT)
    try:
        last = datetime.datetime.fromisoformat(said) if said else blob.updated
        return (_now() - last).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


_IN_MEMORY = 32 << 20  # what is longer waits on the disk


def _folder(path: str) -> str:
    """The prefix of what lies in a folder: "" or "a/b/"."""
    name = parse(path).name.rstrip("/")
    return f"{name}/" if name else ""


def _children(path: str, folder: str, start: str = "") -> list[tuple[str, bool, Any]]:
    """(name, is a folder, object) of what lies right under `folder` and begins with `start`."""

    def listed() -> list[tuple[str, bool, Any]]:
        listing = client().list_blobs(parse(path).bucket, prefix=folder + start, delimiter="/", retry=None)
        # An empty object named like the folder is what the web console makes.
        found = [(blob.name.removeprefix(folder), False, blob) for blob in listing if blob.name != folder]
        folders = sorted(listing.prefixes)
        return found + [(prefix.removeprefix(folder).rstrip("/"), True, None) for prefix in folders]

    return ask("list", path, listed)


def _below(path: str, most: int | None = None) -> list[Any]:
    """All objects under a folder, at any depth."""
    bucket, prefix = parse(path).bucket, _folder(path)
    return ask("list", path, lambda: list(client().list_blobs(bucket, prefix=prefix, max_results=most, retry=None)))


def versions(folder: str, start: str, deep: bool = False) -> dict[str, int]:
    """The generation of each object in `folder` whose name begins with `start`, or of all below it."""
    prefix = _folder(folder)
    if deep:
        return {blob.name.removeprefix(prefix): int(blob.generation) for blob in _below(folder)}
    return {name: int(blob.generation) for name, _, blob in _children(folder, prefix, start) if blob}


def _matches(path: str, folder: str, parts: list[str]) -> Iterator[str]:
    """Names under `folder` that match the pattern's remaining components."""
    part, rest = parts[0], parts[1:]
    literal = WILD.split(part)[0]
    for name, is_folder, _ in _children(path, folder, literal):
        hidden = name.startswith(".") and not part.startswith(".")
        if hidden or not fnmatch.fnmatchcase(name, part):
            continue
        if not rest:
            yield folder + name
        elif is_folder:
            yield from _matches(path, f"{folder}{name}/", rest)


class GcsStore:
    """Paths that begin with gs://."""

    def glob(self, pattern: str) -> list[str]:
        if self.exists(pattern):
            return [pattern]
        bucket, name = parse(pattern)
        parts = name.rstrip("/").split("/")
        literal = next((i for i, part in enumerate(parts) if WILD.search(part)), len(parts) - 1)
        folder = "".join(part + "/" for part in parts[:literal])
        return sorted({f"gs://{bucket}/{found}" for found in _matches(pattern, folder, parts[literal:])})

    def exists(self, path: str) -> bool:
        if parse(path).name and ask("look up", path, lambda: blob_at(path).exists(retry=None)):
            return True
        return self.is_dir(path)

    def is_dir(self, path: str) -> bool:
        return bool(_below(path, most=1))

    @contextlib.contextmanager
    def open_read(self, path: str) -> Iterator[BinaryIO]:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            gcs_client.download(path, cast("IO[bytes]", file))
            file.seek(0)
            yield cast(BinaryIO, file)

    @contextlib.contextmanager
    def write_atomic(self, path: str, mode: str) -> Iterator[IO[Any]]:
        generation = gcs_client.generation_of(path)  # a missing bucket is said before the work is done
        with tempfile.TemporaryFile() as file:
            yield (wrapped := io.TextIOWrapper(file, "utf-8", newline="\n") if mode == "w" else file)
            wrapped.flush()
            gcs_client.upload(path, file, generation)

    def discard_unfinished(self, path: str) -> None:
        """An object is there when it is whole, and only then."""

    def discard_orphans(self, path: str) -> None:
        """As above."""

    def append(self, path: str, data: bytes) -> None:
        before = b""
        with contextlib.suppress(NotFoundError), self.open_read(path) as file:
            before = file.read()
        with self.write_atomic(path, "wb") as target:
            target.write(before + data)

    def makedirs(self, path: str) -> None:
        parse(path)

    def listdir(self, path: str) -> list[str]:
        names = sorted({name for name, _, _ in _children(path, _folder(path))})
        if not names and _folder(path) and not self.is_dir(path):
            raise NotFoundError(f"cannot list {path}: nothing lies under it")
        return names

    def times(self, path: str) -> dict[str, float]:
        files = ((name, blob) for name, is_folder, blob in _children(path, _folder(path)) if not is_folder)
        return {name: blob.updated.timestamp() for name, blob in files}

    def stamps(self, paths: Sequence[str]) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        for folder in {path.rpartition("/")[0] for path in paths}:
            names = [path.removeprefix(f"{folder}/") for path in paths if path.rpartition("/")[0] == folder]
            start = os.path.commonprefix(names)  # noqa: RUF071 - letters are what a listing begins with
            for name, _, blob in _children(folder, _folder(folder), start):
                if blob is not None:
                    found[f"{folder}/{name}"] = Stamp(int(blob.size), int(blob.generation))
        return {path: found[path] for path in paths if path in found}

    def remove(self, path: str) -> None:
        ask("remove", path, _Deletion(blob_at(path)))

    def remove_tree(self, path: str) -> None:
        below = _below(path)
        if not below:
            raise NotFoundError(f"cannot remove {path}: nothing lies under it")
        for blob in below:
            ask("remove", f"gs://{blob.bucket.name}/{blob.name}", _Deletion(blob))

    def rename(self, source: str, target: str) -> None:
        blob = blob_at(source)
        if ask("rename", source, lambda: blob.exists(retry=None)):
            _move(source, blob, blob_at(target))
            return
        below = _below(source)
        if not below:
            raise NotFoundError(f"cannot rename {source}: there is no such object, and nothing lies under it")
        for child in below:
            tail = child.name.removeprefix(blob.name.rstrip("/"))
            _move(source, child, blob_at(target.rstrip("/") + tail))

    def size(self, path: str) -> int:
        blob = blob_at(path)
        ask("read", path, lambda: blob.reload(retry=None))
        return int(blob.size)

    def lock(self, path: str) -> AbstractContextManager[None]:
        return lock(path)


class _Deletion:
    """Removes one object; the second attempt minds no more that it is gone."""

    def __init__(self, blob: Any) -> None:
        self._blob, self._tried = blob, False

    def __call__(self) -> None:
        is_first, self._tried = not self._tried, True
        try:
            self._blob.delete(retry=None)
        except api.NotFound:
            if is_first:
                raise


def _move(path: str, source: Any, target: Any) -> None:
    ask("rename", path, lambda: source.bucket.copy_blob(source, target.bucket, target.name, retry=None))
    ask("rename", path, _Deletion(source))
