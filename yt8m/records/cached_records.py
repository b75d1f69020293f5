"""The parsed records of a list of shards, read by record numbers from a `ShardCache` into the arrays of a batch."""

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

_OPEN = 64  # number of shards that stay open
_ROWS = 1 << 32  # more records than any shard has; record number = index of the shard * _ROWS + row in the shard


class CachedRecords:
    """The parsed records of some shards; a shard that the cache lacks is parsed. Any thread may read.

    Args:
      cache: the cache.
      files: the shards; the number of a record encodes the index of its shard in this list.

    Attributes:
      cache: as given.
      memory: provides the arrays of batches.
      is_closed: whether `close` was called; then nothing can be read. The next pass over the data sets it to False.
    """

    def __init__(self, cache: ShardCache, files: Sequence[str]) -> None:
        self.cache, self._files, self.memory = cache, list(files), ReusedMemory()
        self._numbers = {path: number for number, path in enumerate(self._files)}
        self._open: OrderedDict[int, CachedShard] = OrderedDict()
        self._paths: dict[int, str] = {}  # {index of a shard: the cache's file of the version that is being read}
        self._lock = threading.Lock()
        self._lock_of_shard = [threading.Lock() for _ in self._files]  # held while the shard is parsed
        self.is_closed = False

    def begun(self, path: str) -> tuple[CachedShard, NDArray[np.int64]]:
        """Opens the present version of a shard, which a pass over the data begins to read.

        Returns:
          (the shard, int64 [2]: the number of its first record and that after its last one).

        Raises:
          DamagedError: a record is damaged, and the cache does not skip damaged records.
          RunError: the shard cannot be read, or its file in the cache cannot be written.
        """
        number = self._numbers[path]
        shard = self.shard(number, is_begun=True)
        return shard, np.int64(number * _ROWS) + np.array([0, len(shard)])

    def shard(self, number: int, is_begun: bool = False, is_damaged: bool = False) -> CachedShard:
        """A shard by its index; raises like `begun`.

        Args:
          number: the index.
          is_begun: whether a pass begins to read the shard, so that its newest version is needed.
          is_damaged: whether the shard's file in the cache is known to be damaged and must be made again.
        """
        with self._lock_of_shard[number]:
            if self.is_closed:
                raise RunError("the cache of parsed records is closed")
            file, shard = self._files[number], self._open.get(number)
            path = "" if is_begun else self._paths.get(number, "")  # record numbers refer to this version
            path = path or self.cache.path_of(file)
            if shard is None or is_damaged or path != shard.path:
                shard = None if is_damaged else self.cache.opened(path)
                shard = self.cache.made(file, path) if shard is None else shard  # a shard without records is falsy
            self._paths[number] = path
        with self._lock:
            self._open[number] = shard
            self._open.move_to_end(number)
            if len(self._open) > _OPEN:
                self._open.popitem(last=False)
        return shard

    def picked(self, numbers: NDArray[np.int64]) -> PickedRecords:
        """The records with these numbers; raises like `begun`."""
        return PickedRecords(self, *np.divmod(numbers, _ROWS))

    def close(self) -> None:
        """Drops the open shards, and opens no others: threads that read ahead would open them after the pass."""
        with self._lock:
            self.is_closed = True
            self._open.clear()


class PickedRecords:
    """N records of a cache, in a given order.

    Args:
      records: all records of the cache.
      owners: int64 [N], the index of the shard of each record.
      rows: int64 [N], the row of each record in its shard.

    Attributes:
      ids: object [N], the ids as bytes.
      num_frames: int32 [N].
    """

    def __init__(self, records: CachedRecords, owners: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        self._records, self._owners, self._rows = records, owners, rows
        self._shards = {number: records.shard(number) for number in np.unique(owners).tolist()}
        self._positions = {number: np.flatnonzero(owners == number) for number in self._shards}
        self.ids, self.num_frames = np.empty(len(rows), object), np.empty(len(rows), np.int32)
        for number, shard in self._shards.items():
            positions = self._positions[number]
            self.ids[positions] = shard.ids[rows[positions]]
            self.num_frames[positions] = shard.num_frames[rows[positions]]

    def labels(self, num_classes: int) -> NDArray[np.bool_]:
        """The labels of each record, bool [N, num_classes]."""
        labels = np.zeros((len(self._rows), num_classes), np.bool_)
        for number, shard in self._shards.items():
            classes = shard.lists["labels"].take(self._rows[self._positions[number]])
            labels[np.repeat(self._positions[number], np.diff(classes.splits)), classes.values] = True
        return labels

    def lists(self, name: str) -> Ragged:
        """The list `name` of each record: `labels`, or one of `RATING_LISTS`."""
        pieces: list[Any] = [None] * len(self._rows)
        for number, shard in self._shards.items():
            positions = self._positions[number]
            values, splits = shard.lists[name].take(self._rows[positions])
            for position, piece in zip(positions.tolist(), np.split(values, splits[1:-1]), strict=True):
                pieces[position] = piece
        return Ragged.of_counts(np.concatenate(pieces), np.array(list(map(len, pieces))))

    def features(self) -> list[NDArray[Any]]:
        """The values of each feature: [N, size] at video level; else [N, T, size], padded with 0, with T at least 1."""
        if self._records.cache.data.level == "video":
            return self._vectors()
        longest = max(1, *self.num_frames.tolist())
        arrays = self._values(np.arange(len(self._rows)) * longest, longest)
        return [array.reshape(len(self._rows), longest, -1) for array in arrays]

    def _vectors(self) -> list[NDArray[np.float32]]:
        sizes = self._records.cache.frame_bytes
        arrays = [self._records.memory.array(len(self._rows) * size).reshape(-1, size) for size in sizes]
        for number, positions in self._positions.items():
            rows = self._rows[positions]
            try:
                vectors = self._shards[number].vectors(rows)
            except DamagedCacheError:
                vectors = self._records.shard(number, is_damaged=True).vectors(rows)
            for array, values in zip(arrays, np.split(vectors, np.cumsum(sizes)[:-1], axis=1), strict=True):
                array[positions] = values
        return [array.view(np.float32) for array in arrays]

    def frames(self) -> list[NDArray[Any]]:
        """The frames of each feature, [F, size]: those of the first record, then those of the next, without padding."""
        return self._values(np.cumsum(self.num_frames) - self.num_frames)

    def _values(self, starts: NDArray[Any], longest: int = 0) -> list[NDArray[Any]]:
        """The frames of each feature, [F, size].

        Args:
          starts: [N], the index in the result of each record's first frame.
          longest: number of frames to which each record is padded with 0; 0 for no padding.
        """
        cache, counts = self._records.cache, self.num_frames.tolist()
        total = len(counts) * longest if longest else sum(counts)
        arrays = [self._records.memory.array(total * size) for size in cache.frame_bytes]
        outputs = list(zip(arrays, cache.frame_bytes, strict=True))
        for owner, row, start, count in zip(
            *(self._owners.tolist(), self._rows.tolist(), starts.tolist(), counts), strict=True
        ):
            end = start + count
            buffers = [array[start * size : end * size] for array, size in outputs]
            try:
                self._shards[owner].read_values(row, buffers)
            except DamagedCacheError:
                self._shards[owner] = self._records.shard(owner, is_damaged=True)
                self._shards[owner].read_values(row, buffers)
            if count < longest:
                for array, size in outputs:
                    array[end * size : (start + longest) * size] = 0
        return [
            array.view(kind).reshape(-1, feature.size)
            for array, kind, feature in zip(arrays, cache.types, cache.data.features, strict=True)
        ]


_ALIGNED = 64  # bytes; TensorFlow takes an array that begins at a multiple of this as it is, and copies any other
_GROWTH = 8  # memory is 1/8 larger than the array that needs it, so that it also serves somewhat larger arrays


class ReusedMemory:
    """Allocates arrays, if possible in the memory of earlier ones that were garbage-collected. Any thread may call it.

    The kernel provides the memory of an array of more than 32 MB anew each time, and clears it first. For frames that
    takes as long as reading them.

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
        """A block for `size` bytes and their alignment, of at most twice that number of bytes if it is reused."""
        with contextlib.suppress(IndexError):  # another thread took the last block
            for _ in range(len(self._idle)):
                memory = self._idle.popleft()
                if size + _ALIGNED <= len(memory) <= 2 * (size + _ALIGNED):
                    return memory
                self._idle.append(memory)
        return np.empty(size + size // _GROWTH + _ALIGNED, np.uint8)


class _Loan:
    """The memory of an array in use. NumPy keeps this object as long as the array, or a view of it, exists."""

    def __init__(self, owner: ReusedMemory, memory: NDArray[np.uint8], size: int) -> None:
        self._owner, self._memory = owner, memory
        address = memory.ctypes.data
        self.__array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address + -address % _ALIGNED, False),
            "version": 3,
        }

    def __del__(self) -> None:
        self._owner.take_back(self._memory)
