"""One file: fetched beside its place, gone on with where it broke off, renamed once its md5 holds."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from typing import NamedTuple

from yt8m import storage
from yt8m.errors import RunError
from yt8m.storage.partial import PartialFile
from yt8m.tools.download.client import BrokenError, Client, WrongRangeError


class Job(NamedTuple):
    """One file to fetch.

    Attributes:
      url: where it is.
      target: where it goes.
      md5: of its whole content, in hexadecimal.
    """

    url: str
    target: str
    md5: str

    @property
    def partial(self) -> str:
        """Where it grows: with a dot in front, so that no pattern of data files takes it."""
        folder, name = os.path.split(self.target)
        return os.path.join(folder, f".{name}.{self.md5[:8]}.part")


def is_there(job: Job, overwrite: bool) -> bool:
    """Whether the file is there with the right content; reads all of it.

    Raises:
      RunError: another file has its name, and may not be overwritten.
    """
    if not storage.exists(job.target):
        return False
    digest = hashlib.md5(usedforsecurity=False)
    with storage.open_read(job.target) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() == job.md5:
        return True
    if not overwrite:
        raise RunError(
            f"{job.target} is there with the md5 {digest.hexdigest()}; expected {job.md5}. Move it away, or "
            "add --overwrite to replace it."
        )
    return False


def fetch(client: Client, job: Job, advance: Callable[[int], None]) -> None:
    """Brings the file; what an earlier start left of it is used.

    Args:
      advance: gets the number of bytes that came, negative where some turned out useless.

    Raises:
      RunError: the server does not give it, or what it gives has another md5 twice.
      storage.Locked: another process fetches it.
      StoppedError: told to stop; the part that came stays.
    """
    with storage.lock(f"{job.partial}.lock"), contextlib.closing(_Transfer(client, job, advance)) as transfer:
        transfer.bring()


class _Transfer:
    """The growing file and the digest of what it holds."""

    def __init__(self, client: Client, job: Job, advance: Callable[[int], None]) -> None:
        self._client, self._job, self._advance = client, job, advance
        self._file = PartialFile(job.partial)
        self._digest = hashlib.md5(usedforsecurity=False)
        for block in self._file.blocks():
            self._digest.update(block)
        advance(self._file.size)

    def bring(self) -> None:
        """Fetches, compares, renames; a second time from nothing where the md5 is wrong."""
        for is_last in (False, True):
            self._client.persist(self._job.url, self._go_on, lambda: self._file.size)
            if self._is_right():
                self._file.complete(self._job.target)
                return
            found = self._digest.hexdigest()
            self._clear()
            if is_last:
                self._file.discard()
                raise RunError(f"{self._job.url}: what came has the md5 {found}; expected {self._job.md5}")

    def _is_right(self) -> bool:
        return self._digest.hexdigest() == self._job.md5

    def _go_on(self) -> None:
        """One connection, unless all is there: a server may promise more than it has."""
        if self._is_right():
            return
        try:
            for place, block in self._client.blocks(self._job.url, self._file.size):
                if place != self._file.size:  # given from the start again
                    self._clear()
                self._file.append(block)
                self._digest.update(block)
                self._advance(len(block))
        except WrongRangeError as error:
            self._clear()
            raise BrokenError("the server does not go on in the middle of the file") from error

    def _clear(self) -> None:
        self._advance(-self._file.size)
        self._file.clear()
        self._digest = hashlib.md5(usedforsecurity=False)

    def close(self) -> None:
        self._file.close()
