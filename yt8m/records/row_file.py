"""Reads rows of equal size from a local file by system calls.

A memory map would be a little faster. But a process that touches a page of a map which the file no longer has, because
another process shortened it, or which the disk cannot read, ends by the signal SIGBUS; a system call reports an error.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError

_PIECE = 1 << 30  # a system call reads less than 2 GiB


class ShortFileError(RunError):
    """A file ends before a row that it had."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} became shorter while it was read; start again once it is complete.")


class RowFile:
    """The rows of a local file; several threads may read.

    Args:
      file: the open file, which this object keeps open.
      path: its path, for messages.
      row_bytes: number of bytes of each row.
      offset: number of bytes before the first row.
    """

    def __init__(self, file: BinaryIO, path: str, row_bytes: int, offset: int = 0) -> None:
        self._file, self._path, self._row_bytes, self._offset = file, path, row_bytes, offset

    def read_range(self, start: int, count: int) -> NDArray[np.uint8]:
        """Reads consecutive rows, uint8 [count, row_bytes]."""
        rows = np.empty((count, self._row_bytes), np.uint8)
        content, place = rows.reshape(-1).data, self._offset + start * self._row_bytes
        while len(content):
            if not (size := self._read([content[:_PIECE]], place)):
                raise ShortFileError(self._path)
            content, place = content[size:], place + size
        return rows

    def read_rows(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Reads the rows with these numbers, int64 [K], in their order: uint8 [K, row_bytes]."""
        size, rows = self._row_bytes, np.empty((len(numbers), self._row_bytes), np.uint8)
        content, read = rows.reshape(-1).data, self._read
        starts = (numbers * size + self._offset).tolist()
        counts = [
            read([content[end - size : end]], start)
            for end, start in zip(range(size, len(content) + 1, size), starts, strict=True)
        ]
        if counts.count(size) < len(numbers):
            raise ShortFileError(self._path)
        return rows

    def _read(self, buffers: list[memoryview], start: int) -> int:
        try:
            return int(os.preadv(self._file.fileno(), buffers, start))
        except OSError as error:
            raise RunError(f"cannot read {self._path}: {error.strerror}") from error


class ArrayFile:
    """The array of a local .npy file, of which slices of the first axis are read. Raises like `numpy.load`.

    Attributes:
      shape, dtype: those of the array.
    """

    def __init__(self, path: str) -> None:
        mapped: object = np.load(path, mmap_mode="r", allow_pickle=False)  # reads the header only
        if not isinstance(mapped, np.memmap) or not mapped.dtype.itemsize:
            raise ValueError("no .npy file of values")
        self.shape, self.dtype = mapped.shape, mapped.dtype
        self._is_transposed = mapped.ndim > 1 and not mapped.flags.c_contiguous
        self._width = int(np.prod(self.shape[1:], dtype=np.int64))  # number of values of a row
        row_bytes = self.dtype.itemsize * (1 if self._is_transposed else self._width)
        self._stack = ExitStack()  # closes the file when this object is garbage-collected
        self._file = RowFile(self._stack.enter_context(storage.open_read(path)), path, row_bytes, mapped.offset)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> NDArray[np.generic]:
        start, stop, _ = rows.indices(len(self))
        count = max(0, stop - start)
        if not count * self._width:
            return np.empty((count, *self.shape[1:]), self.dtype)
        if self._is_transposed:
            columns = [self._file.read_range(column * len(self) + start, count) for column in range(self._width)]
            values = np.stack([column.reshape(-1) for column in columns]).view(self.dtype)
            return values.reshape(*reversed(self.shape[1:]), count).T
        return self._file.read_range(start, count).reshape(-1).view(self.dtype).reshape(count, *self.shape[1:])
