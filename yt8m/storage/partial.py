"""Local files that grow over several starts of a program and get their name once they are whole."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from yt8m.errors import RunError, UsageError
from yt8m.storage.local import named, sync_folder


class PartialFile:
    """A file that bytes are added to; it stays until it is complete or discarded.

    Args:
      path: where it grows; what an earlier start left there is kept.

    Raises:
      RunError: from every method, where the file system refuses (full disk, no permission).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with named("write", path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by `close`
            self.size = os.fstat(self._file.fileno()).st_size

    def append(self, data: bytes) -> None:
        """Adds all of `data`."""
        left = memoryview(data)
        with named("write", self.path):
            while left:
                written = self._file.write(left) or 0
                self.size += written
                left = left[written:]

    def blocks(self, size: int = 1 << 20) -> Iterator[bytes]:
        """What is there already, from the start."""
        with named("read", self.path):
            self._file.seek(0)
            while block := self._file.read(size):
                yield block

    def clear(self) -> None:
        """Starts again with nothing."""
        with named("write", self.path):
            self._file.truncate(0)
            self.size = 0

    def complete(self, target: str) -> None:
        """Gives the whole file its name, over what has it, so that it lasts through a power cut."""
        with named("write", target):
            os.fsync(self._file.fileno())
            os.replace(self.path, target)
            sync_folder(os.path.dirname(target) or ".")

    def discard(self) -> None:
        """Removes it."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def close(self) -> None:
        """Lets go of it."""
        self._file.close()


def free_bytes(folder: str) -> int:
    """Bytes that can still be written into `folder`, which may not exist yet.

    Raises:
      UsageError: it is a file, or lies below one.
      RunError: the file system does not say.
    """
    place = os.path.abspath(folder)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise UsageError(f"{folder} cannot be a folder: {place} is a file. Name another.")
    try:
        return shutil.disk_usage(place).free
    except OSError as error:
        raise RunError(f"cannot look at the free space of {place}: {error.strerror}") from error
