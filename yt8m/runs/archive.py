"""Model archives (.tgz): packed so that the same files give the same bytes, and unpacked safely."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.storage.local import LocalStore

# An archive with more than these bytes of all unpacked files together, or more files and folders, is refused.
MAX_BYTES = 8 << 30
MAX_MEMBERS = 10_000
# Limit of the bytes between the contents of two files: headers (long names, attributes) and padding. `tarfile` keeps
# them in memory.
_BETWEEN = 1 << 20
_CHUNK = 1 << 20  # bytes that are read at once
_UNPACK_IT = "unpack it yourself if you trust it, and name the folder"
_MOST_LINKS = 40  # a path through more symbolic links is refused; Linux follows no more either


class _LimitedStream:
    """A stream of an unzipped archive, from which at most as many bytes can be read as `allow` permits.

    `tarfile` keeps the headers between two files in memory. The limit keeps an archive with huge headers from filling
    the memory.
    """

    def __init__(self, file: gzip.GzipFile, source: str) -> None:
        self._file, self._source, self._left = file, source, 0

    def allow(self, count: int) -> None:
        """Permits reading `count` bytes from now on, in place of what an earlier call permitted."""
        self._left = count

    def read(self, count: int) -> bytes:
        """Reads at most `count` bytes; raises `UsageError` if more bytes were read than `allow` permits."""
        data = self._file.read(count)
        self._left -= len(data)
        if self._left < 0:
            raise UsageError(
                f"{self._source} is refused: more than {_BETWEEN} bytes between two of its files; {_UNPACK_IT}"
            )
        return data


def safe_extract(tgz_path: str, folder: str, max_bytes: int = MAX_BYTES, max_members: int = MAX_MEMBERS) -> list[str]:
    """Unpacks an archive, which need not be trusted, into a new local folder, either completely or not at all.

    Only plain files and folders whose paths lie in `folder` are accepted. Owners, modes and times are not restored.

    Args:
      tgz_path: path of the archive, local or gs://.
      folder: path of the new folder; it must be empty if it exists.
    """
    _refuse_used_folder(folder)
    names: list[str] = []
    with _name_damage(tgz_path), storage.open_read(tgz_path) as raw:
        for _ in _checked_members(raw, tgz_path, max_bytes, max_members):
            pass  # this loop checks every member before the second loop writes any
        raw.seek(0)
        with LocalStore().replaced_folder(os.path.realpath(folder)) as part:
            for archive, member, name in _checked_members(raw, tgz_path, max_bytes, max_members):
                _unpack_member(archive, member, os.path.join(part, name))
                names += [name] if member.isreg() else []
    return names


def _refuse_used_folder(folder: str) -> None:
    """Raises `UsageError` unless `folder` is local, new or empty, and not reached through a link of another user."""
    if storage.is_remote(folder):
        raise UsageError(f"cannot unpack into {folder}: name a local folder")
    if storage.exists(folder) and (not storage.is_dir(folder) or storage.listdir(folder)):
        raise UsageError(
            f"cannot unpack into {folder}: it exists and is not an empty folder; name a new or an empty folder"
        )
    for link in _links_on(folder):
        owner = os.lstat(link).st_uid
        if owner not in (os.geteuid(), 0):  # links of root are accepted, because root could do anything anyway
            raise UsageError(
                f"cannot unpack into {folder}: {link} is a symbolic link of another user (id {owner}), who "
                "can redirect it at any time; name a folder that is reached without it"
            )


def _links_on(path: str) -> Iterator[str]:
    """Yields the symbolic links that the system follows on the way to `path`, including links that point to links."""
    resolved, components, count = "/", os.path.join(os.getcwd(), path).split("/"), 0
    while components:
        component = components.pop(0)
        next_path = (
            os.path.dirname(resolved) if component == ".." else os.path.normpath(os.path.join(resolved, component))
        )
        if not os.path.islink(next_path):
            resolved = next_path
            continue
        yield next_path
        count += 1
        if count > _MOST_LINKS:
            raise UsageError(
                f"cannot unpack into {path}: the path leads through more than {_MOST_LINKS} symbolic links, perhaps in "
                "a circle; name another folder"
            )
        target = os.readlink(next_path)
        resolved, components = "/" if target.startswith("/") else resolved, target.split("/") + components


@contextlib.contextmanager
def _name_damage(source: str) -> Iterator[None]:
    """Turns errors of `tarfile` and `gzip` in the block into errors of this package that name the archive `source`."""
    try:
        yield
    except RecursionError as error:
        raise UsageError(f"{source} is refused: it has too many nested headers; {_UNPACK_IT}") from error
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        raise RunError(f"{source} is not a complete .tgz archive: {error}; copy it again, or make it again") from error


def _checked_members(
    raw: BinaryIO, source: str, max_bytes: int, max_members: int
) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo, str]]:
    """Checks each member of an archive, then yields it as (archive, member, normalised name)."""
    names: set[str] = set()
    bytes_left = max_bytes
    with gzip.GzipFile(fileobj=raw, mode="rb") as unzipped:
        stream = _LimitedStream(unzipped, source)
        stream.allow(_BETWEEN)
        with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
            while (member := archive.next()) is not None:
                name = _checked_name(member, source)
                bytes_left -= member.size
                if bytes_left < 0 or len(names) == max_members:
                    raise UsageError(
                        f"{source} is refused: it holds more than {max_bytes} bytes or {max_members} entries; "
                        f"{_UNPACK_IT}"
                    )
                if name in names:
                    raise UsageError(f"{source} is refused: it holds {name!r} twice; {_UNPACK_IT}")
                names.add(name)
                stream.allow(member.size + _BETWEEN)
                yield archive, member, name
        while stream.read(_CHUNK):  # the checksum at the end of the file is checked only if all bytes are read
            pass


def _checked_name(member: tarfile.TarInfo, source: str) -> str:
    """Returns the normalised name of a member; raises `UsageError` unless it is a plain file or a folder.

    This is stricter than `tarfile.data_filter`, which makes absolute names relative, clears set-user-id bits, and
    accepts links and sparse files.
    """
    name, fault = os.path.normpath(member.name), ""
    if member.name.startswith("/") or "\0" in member.name:
        fault = "has an absolute name"
    elif not (member.isreg() or member.isdir()) or member.issparse():
        fault = "is a link, a device or a sparse file"
    elif member.isreg() and member.mode & 0o7000:
        fault = "has a set-user-id, set-group-id or sticky bit"
    elif name.split("/")[0] == "..":
        fault = "lies outside of the archive"
    if fault:
        raise UsageError(f"{source} is refused: {member.name!r} {fault}; {_UNPACK_IT}")
    return name


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    if member.isdir():
        storage.makedirs(path)
        return
    content = archive.extractfile(member)
    assert content is not None  # it is None only for a member that is not a plain file
    with storage.write_atomic(path) as file:
        shutil.copyfileobj(content, file, _CHUNK)


def make_tgz(folder: str, path: str) -> None:
    """Packs the files of a local folder; the same files give the same bytes.

    Args:
      path: path of the archive, local or gs://; the file appears complete or not at all. If the path lies in `folder`,
        an older archive of that name is not packed.
    """
    if not storage.is_dir(folder):
        raise UsageError(f"cannot pack {folder}: there is no such folder; name the folder of a model")
    names = [name for name in _names_below(folder) if not _is_same_file(os.path.join(folder, name), path)]
    with (
        storage.write_atomic(path) as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in names:
            _add_file(archive, os.path.join(folder, name), name)


def _names_below(folder: str, prefix: str = "") -> Iterator[str]:
    for name in storage.listdir(os.path.join(folder, prefix)):
        relative = os.path.join(prefix, name)
        full = os.path.join(folder, relative)
        if os.path.islink(full) or not (os.path.isfile(full) or os.path.isdir(full)):
            raise UsageError(f"cannot pack {full}: it is neither a plain file nor a folder; remove it")
        if os.path.isdir(full):
            yield from _names_below(folder, relative)
        else:
            yield relative


def _is_same_file(path: str, other: str) -> bool:
    return not storage.is_remote(other) and os.path.realpath(path) == os.path.realpath(other)


def _add_file(archive: tarfile.TarFile, path: str, name: str) -> None:
    """Adds a file to an archive, with a fixed owner, mode and time instead of its own."""
    member = tarfile.TarInfo(name)
    member.size = storage.size(path)
    with storage.open_read(path) as content:
        archive.addfile(member, content)
