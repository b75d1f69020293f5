"""Reads parsed records by their numbers from a `ShardCache` into the arrays of a batch."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError
from yt8m.records.shard_cache import CachedShard, DamagedCacheError, Ragged, ShardCache

_MAX_OPEN = 64  # largest number of shards that stay open
# More than the records of any shard. The number of a record is (index of its shard) * _ROWS + (its row in the shard).
_ROWS = 1 << 32


class CachedRecords:
    """The parsed records of some shards. If the cache lacks a shard, the first access parses it into the cache.

    Several threads may call the methods at the same time.

    Attributes:
      is_closed: whether `close` was called. If True, `begin_shard`, `open_shard` and `pick_records` raise `RunError`. A
        caller that begins another pass over the data sets this to False.
    """

    def __init__(self, cache: ShardCache, files: Sequence[str]) -> None:
        self.cache, self._files, self.memory = cache, list(files), ReusedMemory()
        self._numbers = {path: number for number, path in enumerate(self._files)}
        self._open: OrderedDict[int, CachedShard] = OrderedDict()
        self._paths: dict[int, str] = {}  # {index of a shard: path of the cache's file from which it is being read}
        self._lock = threading.Lock()
        self._lock_of_shard = [threading.Lock() for _ in self._files]  # with its lock, one thread alone parses a shard
        self.is_closed = False

    def begin_shard(self, path: str) -> tuple[CachedShard, NDArray[np.int64]]:
        """Opens the present version of a shard, which a pass over the data begins to read; parses it if necessary.

        Returns:
          (the shard, int64 [2]: the number of its first record, and the number of its last record plus 1).
        """
        number = self._numbers[path]
        shard = self.open_shard(number, needs_newest=True)
        return shard, np.int64(number * _ROWS) + np.array([0, len(shard)])

    def open_shard(self, number: int, needs_newest: bool = False, is_damaged: bool = False) -> CachedShard:
        """Opens a shard in the cache, or returns the open one; parses the shard if the cache lacks it.

        Args:
          needs_newest: whether a version that was written since the shard was opened replaces the open one. False in
            the middle of a pass, since the numbers of records refer to the version with which the pass began.
        """
        with self._lock_of_shard[number]:
            if self.is_closed:
                raise RunError("the cache of parsed records is closed")
            file, shard = self._files[number], self._open.get(number)
            path = "" if needs_newest else self._paths.get(number, "")
            path = path or self.cache.path_of(file)
            if shard is None or is_damaged or path != shard.path:
                shard = None if is_damaged else self.cache.open_parsed(path)
                # `shard or ...` would parse a shard without records each time: its length is 0, so it is falsy.
                shard = self.cache.parse_shard(file, path) if shard is None else shard
            self._paths[number] = path
        with self._lock:
            self._open[number] = shard
            self._open.move_to_end(number)
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
        return shard

    def pick_records(self, numbers: NDArray[np.int64]) -> PickedRecords:
        """The records with these numbers, int64 [N], in this order; raises like `begin_shard`."""
        return PickedRecords(self, *np.divmod(numbers, _ROWS))

    def close(self) -> None:
        """Closes the shards. Later calls raise `RunError`, so that a thread that still reads ahead opens none again."""
        with self._lock:
            self.is_closed = True
            self._open.clear()


class PickedRecords:
    """N records of a cache, in the order of `owners` and `rows`.

    Args:
      owners: int64 [N], the index of the shard of each record.
      rows: int64 [N], the row of each record in its shard.

    Attributes:
      ids: object [N], the id of each record as bytes.
      num_frames: int32 [N], the number of frames of each record; 1 at video level.
    """

    def __init__(self, records: CachedRecords, owners: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        self._records, self._rows = records, rows
        self._positions = {number: np.flatnonzero(owners == number) for number in np.unique(owners).tolist()}
        self.ids, self.num_frames = np.empty(len(rows), object), np.empty(len(rows), np.int32)
        self._lists: dict[int, dict[str, Ragged]] = {}
        # No shard is kept here: a batch may have records of more shards than a process can open files.
        for number, positions in self._positions.items():
            shard = records.open_shard(number)
            self.ids[positions] = shard.ids[rows[positions]]
            self.num_frames[positions] = shard.num_frames[rows[positions]]
            self._lists[number] = {
                name: values.take(rows[positions])
                for name, values in shard.lists.items()
                if len(values.splits) > len(shard)  # lists that were not read have no entry for a record
            }

    def labels(self, num_classes: int) -> NDArray[np.bool_]:
        """Whether each record has each class as a label, bool [N, num_classes]."""
        labels = np.zeros((len(self._rows), num_classes), np.bool_)
        for number, positions in self._positions.items():
            classes = self._lists[number]["labels"]
            labels[np.repeat(positions, np.diff(classes.splits)), classes.values] = True
        return labels

    def label_lists(self) -> NDArray[np.int64]:
        """The labels of each record as class numbers, int64 [N, K], padded as `Batch.label_lists` are."""
        owned = [(positions, self._lists[number]["labels"]) for number, positions in self._positions.items()]
        longest = max(1, *(int(np.diff(lists.splits).max(initial=0)) for _, lists in owned))
        padded = np.full((len(self._rows), longest), -1, np.int64)
        for positions, (values, splits) in owned:
            counts = np.diff(splits)
            padded[positions[counts > 0]] = values[splits[:-1][counts > 0], np.newaxis]
            padded[np.repeat(positions, counts), np.arange(len(values)) - np.repeat(splits[:-1], counts)] = values
        return padded

    def lists(self, name: str) -> Ragged:
        """The list `name` of each of the N records: `labels`, or one of `shards.SEGMENT_LISTS` if ratings were read."""
        pieces: list[Any] = [None] * len(self._rows)
        for number, positions in self._positions.items():
            values, splits = self._lists[number][name]
            for position, piece in zip(positions.tolist(), np.split(values, splits[1:-1]), strict=True):
                pieces[position] = piece
        return Ragged.of_counts(np.concatenate(pieces), np.array(list(map(len, pieces))))

    def features(self) -> list[NDArray[Any]]:
        """The values of each feature: float32 [N, size] at video level; uint8 or float32 [N, T, size] at frame level.

        T is the number of frames of the longest record, at least 1; shorter records are padded with 0.
        """
        if self._records.cache.data.level == "video":
            return self._vectors()
        longest = max(1, *self.num_frames.tolist())
        arrays = self._read_frames(np.arange(len(self._rows)) * longest, longest)
        return [array.reshape(len(self._rows), longest, -1) for array in arrays]

    def _vectors(self) -> list[NDArray[np.float32]]:
        """The values of each feature of video-level records, float32 [N, size]."""
        sizes = self._records.cache.frame_bytes
        arrays = [self._records.memory.array(len(self._rows) * size).reshape(-1, size) for size in sizes]
        for number, positions in self._positions.items():
            rows = self._rows[positions]
            try:
                vectors = self._records.open_shard(number).vectors(rows)
            except DamagedCacheError:
                vectors = self._records.open_shard(number, is_damaged=True).vectors(rows)
            for array, values in zip(arrays, np.split(vectors, np.cumsum(sizes)[:-1], axis=1), strict=True):
                array[positions] = values
        return [array.view(np.float32) for array in arrays]

    def frames(self) -> list[NDArray[Any]]:
        """The frames of each feature, uint8 or float32 [F, size]: those of all records, one after another, unpadded."""
        return self._read_frames(np.cumsum(self.num_frames) - self.num_frames)

    def _read_frames(self, starts: NDArray[Any], longest: int = 0) -> list[NDArray[Any]]:
        """The frames of each feature, uint8 or float32 [F, size].

        Args:
          starts: int64 [N], the row of the result at which each record's frames begin.
        """
        cache, counts = self._records.cache, self.num_frames.tolist()
        total = len(counts) * longest if longest else sum(counts)
        arrays = [self._records.memory.array(total * size) for size in cache.frame_bytes]
        outputs = list(zip(arrays, cache.frame_bytes, strict=True))
        for owner, positions in self._positions.items():
            shard = self._records.open_shard(owner)
            for position in positions.tolist():
                start, count = int(starts[position]), counts[position]
                end, row = start + count, int(self._rows[position])
                buffers = [array[start * size : end * size] for array, size in outputs]
                try:
                    shard.read_values(row, buffers)
                except DamagedCacheError:
                    shard = self._records.open_shard(owner, is_damaged=True)
                    shard.read_values(row, buffers)
                if count < longest:
                    for array, size in outputs:
                        array[end * size : (start + longest) * size] = 0
        return [
            array.view(kind).reshape(-1, feature.size)
            for array, kind, feature in zip(arrays, cache.types, cache.data.features, strict=True)
        ]


_ALIGNMENT = 64  # bytes; TensorFlow uses an array whose address is a multiple of this without a copy
_SPARE = 8  # a new block of memory is 1/8 larger than the requested array, so that somewhat larger arrays can reuse it


class ReusedMemory:
    """Allocates arrays, if possible in the memory of earlier arrays that were garbage-collected.

    Without it, the kernel would provide and clear new memory for each array of more than 32 MB. For the frames of a
    batch, that takes as long as reading them. Several threads may call the methods at the same time.

    Args:
      most_idle: the largest number of unused blocks of memory that are kept.
    """

    def __init__(self, most_idle: int = 4) -> None:
        # A deque needs no lock. `take_back` must not wait for one: Python may call it at any allocation.
        self._idle = deque[NDArray[np.uint8]](maxlen=most_idle)

    def array(self, size: int) -> NDArray[np.uint8]:
        """An uninitialized array uint8 [size] at an address that is a multiple of 64."""
        return np.asarray(_Loan(self, self._memory_for(size), size))

    def take_back(self, memory: NDArray[np.uint8]) -> None:
        """Keeps the memory of an array that was garbage-collected; beyond `most_idle` blocks, the oldest is dropped."""
        self._idle.append(memory)

    def _memory_for(self, size: int) -> NDArray[np.uint8]:
        """A block that has room for `size` bytes from an aligned address; a reused one has at most twice that room."""
        with contextlib.suppress(IndexError):  # another thread took the last block
            for _ in range(len(self._idle)):
                memory = self._idle.popleft()
                if size + _ALIGNMENT <= len(memory) <= 2 * (size + _ALIGNMENT):
                    return memory
                self._idle.append(memory)
        return np.empty(size + size // _SPARE + _ALIGNMENT, np.uint8)


class _Loan:
    """Lends a block of memory to an array, and gives it back to `ReusedMemory` when the array is garbage-collected.

    NumPy keeps this object alive as long as the array, or a view of it, exists.
    """

    def __init__(self, owner: ReusedMemory, memory: NDArray[np.uint8], size: int) -> None:
        self._owner, self._memory = owner, memory
        address = memory.ctypes.data
        self.__array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address + -address % _ALIGNMENT, False),
            "version": 3,
        }

    def __del__(self) -> None:
        self._owner.take_back(self._memory)
