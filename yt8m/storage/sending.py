"""What is made on this machine and belongs into a bucket: files that grow, folders, checkpoints."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence

from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.storage.base import NotFoundError
from yt8m.storage.copies import folder_for, workspace
from yt8m.storage.local import refuse_lost

# What a reader looks for first is sent last: where it is, the rest is there too.
_LAST = ("variables.index", "inference_model.meta", "checkpoint", "saved_model.pb")


def send(local: str, path: str, generation: int | None = None) -> int:
    """Sends a file to be the object `path`, over what is there now; returns its generation.

    Args:
      local: the file.
      path: in a bucket.
      generation: of what it replaces, where that is known; None to look.

    Raises:
      RunError: it cannot be sent, or another has written it meanwhile.
    """
    from yt8m.storage import gcs_client

    replaced = gcs_client.generation_of(path) if generation is None else generation
    with open(local, "rb") as file:
        return gcs_client.upload(path, file, replaced)


def workplace(folder: str) -> str:
    """Where files for `folder` are made: itself where it is local, else a folder of this machine."""
    if not storage.is_remote(folder):
        return folder
    place = folder_for("made", folder)
    storage.makedirs(place)
    return place


@contextlib.contextmanager
def replaced_folder(folder: str) -> Iterator[str]:
    """A new, not yet existing local path; on success what is in it takes the place of the remote `folder`.

    A bucket has no renaming: a reader sees the old files, then a folder without that by which a model is
    known (`saved_model.pb`), then the new ones whole.
    """
    with tempfile.TemporaryDirectory(dir=workspace()) as beside:
        part = os.path.join(beside, os.path.basename(folder.rstrip("/")))
        yield part
        _send_folder(part, folder.rstrip("/"))


def _send_folder(local: str, folder: str) -> None:
    from yt8m.storage.gcs import versions

    before = versions(folder, "", deep=True)
    names = sorted(_names_below(local), key=_order)
    for name in filter(_order, before):
        _remove(storage.join(folder, name))
        before[name] = 0
    for name in names:
        send(os.path.join(local, name), storage.join(folder, name), before.get(name, 0))
    for name in sorted(before.keys() - set(names)):
        _remove(storage.join(folder, name))


def _remove(path: str) -> None:
    with contextlib.suppress(NotFoundError):
        storage.remove(path)


def _order(name: str) -> int:
    base = os.path.basename(name)
    return _LAST.index(base) + 1 if base in _LAST else 0


def _names_below(folder: str) -> Iterator[str]:
    for here, _, names in os.walk(folder):
        yield from (os.path.relpath(os.path.join(here, name), folder) for name in names)


class GrowingFile:
    """A file that is added to on this machine and sent, whole, from time to time.

    Attributes:
      path: where it belongs.
      local: where it is added to; `path` itself where that is local.

    Args:
      path: as above.
      go_on: whether what is there already stays in it.
    """

    def __init__(self, path: str, go_on: bool = False) -> None:
        self.path = self.local = path
        self._sent, self._generation = -1, 0
        if storage.is_remote(path):
            self.local = os.path.join(folder_for("grown", path), os.path.basename(path))
            self._start(go_on)
            _growing.append(self)

    def _start(self, go_on: bool) -> None:
        from yt8m.storage import gcs_client

        shutil.rmtree(os.path.dirname(self.local), ignore_errors=True)
        storage.makedirs(os.path.dirname(self.local))
        self._generation = gcs_client.generation_of(self.path)
        if go_on and self._generation:
            gcs_client.fetch(self.path, self.local)

    def send(self) -> None:
        """Sends what was added, if anything was.

        Raises:
          RunError: it cannot be sent.
        """
        if self.local == self.path or not os.path.exists(self.local):
            return
        size = os.path.getsize(self.local)
        if size != self._sent:
            self._generation = send(self.local, self.path, self._generation)
            self._sent = size

    def close(self) -> None:
        """Sends it and lets go of it; raises as `send`."""
        try:
            self.send()
        finally:
            if self in _growing:
                _growing.remove(self)


_growing: list[GrowingFile] = []


def send_growing() -> None:
    """Sends what has grown in all files of this process; what cannot be sent is logged, and sent later."""
    for file in list(_growing):
        try:
            file.send()
        except (RunError, UsageError, OSError) as error:
            logging.error("%s is not up to date: %s", file.path, error)


def refuse_lost_lock(folder: str) -> None:
    """Refuses to go on in a folder of which this process has lost a lock, or the folder with its lock.

    Raises:
      RunError: names the lock or the folder.
    """
    if not storage.is_remote(folder):
        refuse_lost(folder)
        return
    from yt8m.storage import gcs

    gcs.refuse_lost(folder)


def send_files(files: Sequence[str], folder: str) -> None:
    """Sends local files into a folder, one after the other; raises as `send`."""
    for path in files:
        send(path, storage.join(folder, os.path.basename(path)))
