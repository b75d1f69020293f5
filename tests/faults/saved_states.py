"""The state of a folder and of a bucket, read while the processes that change them stand still, and restored later."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import pathlib
import shutil
import signal
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from gcp_storage_emulator.server import create_server

_POLL = 0.002
_PATIENCE = 30.0  # seconds until a process that was told to stop stands still


class Entry(NamedTuple):
    """A file, link or folder.

    Attributes:
      mode: its permissions.
      changed_ns: the time of its last change, in nanoseconds.
      content: content of a file, target of a link, None for a folder.
    """

    mode: int
    changed_ns: int
    content: bytes | str | None


class State(NamedTuple):
    """What a killed command leaves.

    Attributes:
      entries: {path in the folder: what is there}; a folder comes before what is in it.
      stored: what the storage emulator holds, None without a bucket; see `Bucket.read`.
    """

    entries: dict[str, Entry]
    stored: Stored | None

    def digest(self) -> bytes:
        """Equal for states whose names, contents and permissions are equal; times and generations are left out.

        So are the contents of event files: they grow from call to call, and no command reads them.
        """
        found = hashlib.blake2b()
        for name, entry in self.entries.items():
            found.update(repr((name, entry.mode, _unless_events(name, entry.content))).encode())
        if self.stored is not None:
            for name, (content, metadata) in sorted(self.stored.objects().items()):
                found.update(repr((name, _unless_events(name, content), metadata)).encode())
        return found.digest()


def _unless_events(name: str, content: bytes | str | None) -> bytes | str | None:
    return "" if "events.out.tfevents." in name else content


def read_folder(folder: pathlib.Path) -> dict[str, Entry]:
    """Everything below a folder."""
    entries = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        entries[str(path.relative_to(folder))] = Entry(status.st_mode & 0o7777, status.st_mtime_ns, content)
    return entries


def write_folder(folder: pathlib.Path, entries: dict[str, Entry]) -> None:
    """Makes a folder hold these entries alone."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, (_, _, content) in entries.items():
        path = folder / name
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
    for name, (mode, changed_ns, content) in reversed(entries.items()):  # a folder after what is in it
        if not isinstance(content, str):
            (folder / name).chmod(mode)
            os.utime(folder / name, ns=(changed_ns, changed_ns))


class Stored(NamedTuple):
    """What the storage emulator holds: its tables, and the contents and folders of its store."""

    tables: dict[str, Any]
    contents: dict[str, bytes]
    folders: set[str]

    def objects(self) -> dict[str, tuple[bytes, Any]]:
        """{bucket/name: content and metadata} of all objects."""
        return {
            f"{bucket}/{name}": (self.contents[f"{bucket}/{name}"], resource.get("metadata"))
            for bucket, resources in self.tables["objects"].items()
            for name, resource in resources.items()
        }


class Bucket:
    """A storage emulator in a thread of this process, which can be set back to an earlier state.

    Use it in a `with` block. `address` is for STORAGE_EMULATOR_HOST. The bucket of this name is to be made first.
    """

    name, url = "bucket", "gs://bucket"

    _TABLES = ("buckets", "objects", "resumable", "bucket_iam_policies", "soft_deleted")

    def __enter__(self) -> Bucket:
        self._server = create_server("127.0.0.1", 0, in_memory=True)
        self._server.start()
        self._storage = self._server._storage
        self.address = f"http://127.0.0.1:{self._server._api._httpd.server_address[1]}"
        return self

    def __exit__(self, *unused: object) -> None:
        self._server.stop()

    def read(self) -> Stored:
        """What is stored, as soon as no request is changing it."""
        before = self._read()
        while (stored := self._read()) is None or stored != before:
            before = stored
        return stored

    def _read(self) -> Stored | None:
        time.sleep(_POLL)
        tables = {name: getattr(self._storage, name) for name in self._TABLES}
        try:
            return Stored(copy.deepcopy(tables), dict(self._storage._store._files), set(self._storage._store._dirs))
        except RuntimeError:  # a dictionary changed while it was copied
            return None

    def restore(self, stored: Stored) -> None:
        """Makes the emulator hold this alone."""
        for name, table in copy.deepcopy(stored.tables).items():
            setattr(self._storage, name, table)
        self._storage._store._files, self._storage._store._dirs = dict(stored.contents), set(stored.folders)


@contextlib.contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Stops a process, its threads and all its descendants during the block."""
    running, stopped = [pid], list[int]()
    try:
        while running:
            stopped.append(running.pop())
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped[-1], signal.SIGSTOP)
            _wait_until_stopped(stopped[-1])
            running += _children(stopped[-1])
        yield
    finally:
        for process in reversed(stopped):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def _wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while any(state not in "TtZX" for state in _thread_states(pid)):
        assert time.monotonic() < deadline, f"process {pid} did not stop"
        time.sleep(_POLL)


def _thread_states(pid: int) -> list[str]:
    states = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            states.append(path.read_text().rpartition(")")[2].split()[0])
    return states


def _children(pid: int) -> list[int]:
    children = list[int]()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            if path.read_text().rpartition(")")[2].split()[1] == str(pid):
                children.append(int(path.parent.name))
    return children
