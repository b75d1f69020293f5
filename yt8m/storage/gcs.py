"""Objects in Google Cloud Storage buckets: gs://bucket/name."""

from __future__ import annotations

import contextlib
import fnmatch
import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, BinaryIO, cast

from google.api_core import exceptions as api

from yt8m.storage import gcs_lock, gcs_transfer
from yt8m.storage.failures import NotFoundError
from yt8m.storage.gcs_client import WILD, ask, blob_at, client, parse
from yt8m.storage.store import Stamp

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
    return ask(
        "list", path, lambda: list(client().list_blobs(bucket, prefix=prefix, max_results=most, retry=None))
    )


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
            gcs_transfer.download(path, cast("IO[bytes]", file))
            file.seek(0)
            yield cast(BinaryIO, file)

    @contextlib.contextmanager
    def write_atomic(self, path: str, mode: str) -> Iterator[IO[Any]]:
        generation = gcs_transfer.generation_of(path)  # a missing bucket is said before the work is done
        with tempfile.TemporaryFile() as file:
            yield (wrapped := io.TextIOWrapper(file, "utf-8", newline="\n") if mode == "w" else file)
            wrapped.flush()
            gcs_transfer.upload(path, file, generation)

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
        return gcs_lock.lock(path)


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
