"""Which files a partition has: the plan, the shard rule, and the names under which files are saved.

One file: fetched beside its place, gone on with where it broke off, renamed once its md5 holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import string
from collections.abc import Callable, Iterable
from typing import NamedTuple

from yt8m import storage
from yt8m.commands.download.client import BrokenError, Client, WrongRangeError
from yt8m.errors import RunError
from yt8m.storage import json_text
from yt8m.storage.local import PartialFile

_DIGITS = string.ascii_lowercase + string.ascii_uppercase + string.digits
_NAME = re.compile(r"([A-Za-z0-9_-]+)([A-Za-z0-9]{2})(\.tfrecord)")
_MD5 = re.compile(r"[0-9a-f]{32}")


class Planned(NamedTuple):
    """A file of the plan: its published name and the md5 of its content in hexadecimal."""

    name: str
    md5: str


def parse_plan(content: bytes, source: str) -> list[Planned]:
    """The files of a plan, in the order of their names.

    Args:
      content: JSON `{"files": {name: md5, ...}}`.
      source: named in errors.

    Raises:
      RunError: it is something else, such as the error page of a proxy; or a name leads elsewhere.
    """
    try:
        files = json_text.parse(content)["files"]
        planned = sorted(Planned(name, str(md5).lower()) for name, md5 in files.items())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        start = content[:60].decode("utf-8", "backslashreplace")
        raise RunError(
            f'{source} is no download plan; expected JSON {{"files": {{name: md5}}}}, found {start!r}.'
        ) from error
    for one in planned:
        if not _NAME.fullmatch(one.name) or not _MD5.fullmatch(one.md5):
            raise RunError(
                f"{source}: the entry {one.name!r}: {one.md5!r} is not NAME.tfrecord and an md5 of 32 digits."
            )
    if not planned:
        raise RunError(f"{source} lists no files; check --partition.")
    return planned


def in_shard(files: Iterable[Planned], shard: tuple[int, ...]) -> list[Planned]:
    """Those of shard X of Y, `shard` = (X, Y); all of them where it is empty.

    The rule is the published one: the md5 of the *name*, as a number, is X - 1 modulo Y.
    """
    if not shard:
        return list(files)
    index, count = shard
    return [one for one in files if _number(one.name) % count == index - 1]


def _number(name: str) -> int:
    return int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), 16)


def saved_name(name: str) -> str:
    """The name a file gets here: trainaa.tfrecord is train0000.tfrecord.

    The last two characters count in base 62, digits a-z A-Z 0-9.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no published name")
    stem, count, end = found.groups()
    return f"{stem}{_DIGITS.index(count[0]) * 62 + _DIGITS.index(count[1]):04d}{end}"


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
