"""Fetches one file under a hidden name, resumes it if interrupted, and renames it once its md5 is right."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from typing import NamedTuple

from yt8m import storage
from yt8m.commands.download.client import Client, WrongRangeError
from yt8m.errors import RunError
from yt8m.storage.local import PartialFile


class Job(NamedTuple):
    """One file to fetch.

    Attributes:
      url: address of the file.
      target: path of the file on this machine.
      md5: md5 of the whole content, in hexadecimal.
    """

    url: str
    target: str
    md5: str

    @property
    def partial(self) -> str:
        """The path of the unfinished file. Its leading dot keeps it out of the patterns of data files."""
        folder, name = os.path.split(self.target)
        return os.path.join(folder, f".{name}.{self.md5[:8]}.part")


def is_there(job: Job, overwrite: bool) -> bool:
    """Whether the file exists with the right content; reads all of it.

    Raises:
      RunError: a file with other content has this name, and `overwrite` is false.
    """
    if not storage.exists(job.target):
        return False
    with storage.open_read(job.target) as file:
        found = hashlib.file_digest(file, _new_digest).hexdigest()  # type: ignore[arg-type]
    if found != job.md5 and not overwrite:
        raise RunError(
            f"{job.target} exists with the md5 {found}; expected {job.md5}. Move it away, or add --overwrite to "
            "replace it."
        )
    return found == job.md5


def _new_digest() -> hashlib._Hash:
    return hashlib.md5(usedforsecurity=False)


def fetch(client: Client, job: Job, advance: Callable[[int], None]) -> None:
    """Fetches the file; continues after the bytes that an earlier, interrupted download saved.

    Args:
      client: sends the requests.
      job: the file.
      advance: called with the number of bytes received; negative if bytes are discarded.

    Raises:
      RunError: the server does not send the file, or twice sends content with another md5.
      storage.Locked: another process is fetching the file.
      StoppedError: the download was stopped; the bytes received are kept for the next start.
    """
    with storage.lock(f"{job.partial}.lock"), contextlib.closing(PartialFile(job.partial)) as file:
        transfer = _Transfer(client, job, file, advance)
        for _ in range(2):
            client.persist(job.url, transfer.go_on, lambda: file.size)
            if transfer.is_complete():
                file.complete(job.target)
                return
            found = transfer.md5()
            transfer.clear()
        file.discard()
        raise RunError(f"{job.url}: its content has the md5 {found}; expected {job.md5}")


class _Transfer:
    """The unfinished file and the md5 of its content so far."""

    def __init__(self, client: Client, job: Job, file: PartialFile, advance: Callable[[int], None]) -> None:
        self._client, self._job, self._file, self._advance = client, job, file, advance
        self._digest = _new_digest()
        for block in file.blocks():
            self._digest.update(block)
        advance(file.size)

    def md5(self) -> str:
        return self._digest.hexdigest()

    def is_complete(self) -> bool:
        return self.md5() == self._job.md5

    def go_on(self) -> None:
        """Fetches the missing bytes over one connection.

        Does nothing if the md5 is right already: a server may announce more bytes than the file has.
        """
        if self.is_complete():
            return
        try:
            for place, block in self._client.blocks(self._job.url, self._file.size):
                if place != self._file.size:  # the server sends the whole file again
                    self.clear()
                self._file.append(block)
                self._digest.update(block)
                self._advance(len(block))
        except WrongRangeError:
            self.clear()
            raise

    def clear(self) -> None:
        """Discards all bytes received, to start from byte 0."""
        self._advance(-self._file.size)
        self._file.clear()
        self._digest = _new_digest()
