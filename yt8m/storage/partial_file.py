"""A local file that grows over several starts of a program, such as a download."""

from __future__ import annotations

import contextlib
import hashlib
import os

from yt8m.storage.local import make_folders, naming_errors, sync_folder


def _new_md5() -> hashlib._Hash:
    return hashlib.md5(usedforsecurity=False)


class PartialFile:
    """A file that grows over several starts of a program, until it is complete or discarded.

    Args:
      path: the path of the growing file, which is made if missing; bytes that an earlier start wrote are kept.

    Attributes:
      size: number of bytes written so far, by all starts.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with naming_errors("write", path):
            make_folders(os.path.dirname(path) or ".")
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by `close`
            self._file.seek(0)
            self._digest = hashlib.file_digest(self._file, _new_md5)
            self.size = os.fstat(self._file.fileno()).st_size

    def append(self, data: bytes) -> None:
        """Writes `data` at the end of the file."""
        unwritten = memoryview(data)
        with naming_errors("write", self.path):
            while unwritten:
                written = self._file.write(unwritten) or 0
                self._digest.update(unwritten[:written])
                self.size += written
                unwritten = unwritten[written:]

    def md5(self) -> str:
        """The md5 of all bytes written so far, in hexadecimal."""
        return self._digest.hexdigest()

    def clear(self) -> None:
        """Begins the file anew: what earlier starts wrote is removed."""
        with naming_errors("write", self.path):
            self._file.truncate(0)
            self._digest, self.size = _new_md5(), 0

    def complete(self, target: str) -> None:
        """Renames the file to `target`, which is replaced; the rename survives a power cut."""
        with naming_errors("write", target):
            os.fsync(self._file.fileno())
            os.replace(self.path, target)
            sync_folder(os.path.dirname(target) or ".")

    def discard(self) -> None:
        """Removes the file; does nothing if that fails."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def close(self) -> None:
        """Closes the file, which stays on the disk."""
        self._file.close()
