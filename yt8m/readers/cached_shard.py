"""One parsed shard of videos in one file: NumPy arrays one behind the other, mapped into memory."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from yt8m import storage

# NumPy drops zero bytes at the end of a string; with this behind it, an id keeps its own.
_END_OF_ID = b"."

_HEAD = 64  # bytes before the arrays


@dataclass(frozen=True)
class CachedShard:
    """The N records of a shard, in their order.

    Attributes:
      ids: bytes [N], each with one byte more at its end.
      classes: int64, the labels of all records in a row.
      splits: int64 [N + 1], where in `classes` those of each record begin and end.
      features: float32 [N, size] each.
    """

    ids: np.ndarray
    classes: np.ndarray
    splits: np.ndarray
    features: tuple[np.ndarray, ...]

    @property
    def rows(self) -> int:
        """N."""
        return len(self.ids)

    @staticmethod
    def write(
        path: str, ids: Sequence[bytes], labels: Sequence[np.ndarray], features: Sequence[np.ndarray]
    ) -> None:
        """Writes what `read` gives: the file is there whole, or not at all."""
        splits = np.cumsum([0, *map(len, labels)], dtype=np.int64)
        classes = np.concatenate([np.zeros(0, np.int64), *labels])
        marked = np.array([name + _END_OF_ID for name in ids], np.bytes_)
        content = io.BytesIO()
        for array in (splits, classes, *features, marked):  # ids last: behind them nothing would be aligned
            np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
        with storage.write_atomic(path) as file:
            file.write(_head(content.getbuffer()))
            file.write(content.getbuffer())

    @classmethod
    def read(cls, path: str, checked: bool = False) -> CachedShard | None:
        """The arrays, mapped; None where the file is not there or is damaged.

        Args:
          path: of the file.
          checked: whether its check sum is known to be right.
        """
        if not storage.exists(path) or not storage.size(path):
            return None
        data = np.memmap(path, np.uint8, "r")
        if not checked and data[:_HEAD].tobytes() != _head(data[_HEAD:]):
            return None
        splits, classes, *features, ids = _arrays(path, data)
        return cls(ids, classes, splits, tuple(features))

    @staticmethod
    def empty(count: int, sizes: Sequence[int], num_classes: int) -> list[np.ndarray]:
        """Room for `count` examples: ids, labels and features."""
        features = [np.empty([count, size], np.float32) for size in sizes]
        return [np.empty(count, object), np.zeros([count, num_classes], bool), *features]

    def copy(self, rows: np.ndarray, into: Sequence[np.ndarray], places: np.ndarray) -> None:
        """Copies some records to `places` of what `empty` has made."""
        ids, labels, *features = into
        ids[places] = self.ids[rows]
        starts = self.splits[rows]
        counts = self.splits[rows + 1] - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        labels[np.repeat(places, counts), self.classes[np.repeat(starts, counts) + within]] = True
        for target, source in zip(features, self.features, strict=True):
            target[places] = source[rows]


def _head(content: Any) -> bytes:
    """What stands before the arrays: their check sum, and zeros, so that they are aligned."""
    return zlib.crc32(content).to_bytes(_HEAD, "little")


def _arrays(path: str, data: np.ndarray) -> list[np.ndarray]:
    """Views of the arrays in the file at `path`, whose bytes are `data`."""
    arrays = []
    with storage.open_read(path) as file:
        file.seek(_HEAD)
        while file.tell() < len(data):
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            start = file.tell()
            end = start + math.prod(shape) * dtype.itemsize
            arrays.append(data[start:end].view(dtype).reshape(shape))
            file.seek(end)
    return arrays
