"""The parsed records of a list of shards, read by their numbers from a `ShardCache` into arrays of a batch."""

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
_ROWS = 1 << 32  # more than any shard has; record number = shard number * _ROWS + row


class CachedRecords:
    """The parsed records of some shards; a shard that the cache lacks is parsed. Any thread may read.

    Args:
      cache: the cache.
      files: the shards; the number of a record contains the index of its shard.

    Attributes:
      cache: as given.
      memory: of the arrays of batches.
      is_closed: whether `close` was called; then nothing can be read. A new pass sets it to False.
    """

    def __init__(self, cache: ShardCache, files: Sequence[str]) -> None:
        self.cache, self._files, self.memory = cache, list(files), ReusedMemory()
        self._numbers = {path: number for number, path in enumerate(self._files)}
        self._open: OrderedDict[int, CachedShard] = OrderedDict()
        self._places: dict[int, str] = {}  # {index of a shard: file of the version that is being read}
        self._lock = threading.Lock()
        self._lock_of = [threading.Lock() for _ in self._files]  # held while the shard is parsed
        self.is_closed = False

    def begun(self, path: str) -> tuple[CachedShard, NDArray[np.int64]]:
        """The present version of a shard that a pass begins to read, and the two ends of its records' numbers.

        Raises:
          DamagedError: a record is bad, and none is skipped.
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
          is_damaged: whether the file in the cache is known to be damaged.
        """
        with self._lock_of[number]:
            if self.is_closed:
                raise RunError("the cache of parsed records is closed")
            path, shard = self._files[number], self._open.get(number)
            place = "" if is_begun else self._places.get(number, "")  # numbers of records are those of this version
            place = place or self.cache.place(path)
            if shard is None or is_damaged or place != shard.path:
                shard = None if is_damaged else self.cache.opened(place)
                shard = self.cache.made(path, place) if shard is None else shard  # one without records is falsy
            self._places[number] = place
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
        """Forgets the open shards, and refuses to open others, as threads that read ahead would do after a pass."""
        with self._lock:
            self.is_closed = True
            self._open.clear()


class PickedRecords:
    """N records of a cache, in a given order.

    Args:
      records: the records of the cache.
      owners: int64 [N], the index of the shard of each record.
      rows: int64 [N], the number of each record in its shard.

    Attributes:
      ids: object [N], the ids as bytes.
      num_frames: int32 [N].
    """

    def __init__(self, records: CachedRecords, owners: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        self._records, self._owners, self._rows = records, owners, rows
        self._shards = {number: records.shard(number) for number in np.unique(owners).tolist()}
        self._places = {number: np.flatnonzero(owners == number) for number in self._shards}
        self.ids, self.num_frames = np.empty(len(rows), object), np.empty(len(rows), np.int32)
        for number, shard in self._shards.items():
            places = self._places[number]
            self.ids[places], self.num_frames[places] = shard.ids[rows[places]], shard.num_frames[rows[places]]

    def labels(self, num_classes: int) -> NDArray[np.bool_]:
        """bool [N, num_classes]."""
        labels = np.zeros((len(self._rows), num_classes), np.bool_)
        for number, shard in self._shards.items():
            classes = shard.lists["labels"].take(self._rows[self._places[number]])
            labels[np.repeat(self._places[number], np.diff(classes.splits)), classes.values] = True
        return labels

    def lists(self, name: str) -> Ragged:
        """A list of each record: its `labels`, or one of `RATING_LISTS`."""
        pieces: list[Any] = [None] * len(self._rows)
        for number, shard in self._shards.items():
            places = self._places[number]
            values, splits = shard.lists[name].take(self._rows[places])
            for place, piece in zip(places.tolist(), np.split(values, splits[1:-1]), strict=True):
                pieces[place] = piece
        return Ragged.of_counts(np.concatenate(pieces), np.array(list(map(len, pieces))))

    def features(self) -> list[NDArray[Any]]:
        """Each feature: [N, size] of videos; [N, T, size] of frames, 0 after the end of a video, T at least 1."""
        if self._records.cache.data.level == "video":
            return self._vectors()
        longest = max(1, *self.num_frames.tolist())
        arrays = self._values(np.arange(len(self._rows)) * longest, longest)
        return [array.reshape(len(self._rows), longest, -1) for array in arrays]

    def _vectors(self) -> list[NDArray[np.float32]]:
        sizes = self._records.cache.frame_bytes
        arrays = [self._records.memory.array(len(self._rows) * size).reshape(-1, size) for size in sizes]
        for number, places in self._places.items():
            rows = self._rows[places]
            try:
                vectors = self._shards[number].vectors(rows)
            except DamagedCacheError:
                vectors = self._records.shard(number, is_damaged=True).vectors(rows)
            for array, values in zip(arrays, np.split(vectors, np.cumsum(sizes)[:-1], axis=1), strict=True):
                array[places] = values
        return [array.view(np.float32) for array in arrays]

    def frames(self) -> list[NDArray[Any]]:
        """The frames of each feature, [F, size]: those of the first record, then those of the next."""
        return self._values(np.cumsum(self.num_frames) - self.num_frames)

    def _values(self, starts: NDArray[Any], longest: int = 0) -> list[NDArray[Any]]:
        """The frames of each feature, [F, size].

        Args:
          starts: [N], the first frame of each record in the result.
          longest: number of frames to which each record is padded by 0; 0 for no padding.
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
_GROWTH = 8  # an array gets this share more than it needs, so that its memory also serves somewhat larger ones


class ReusedMemory:
    """Gives arrays, some of them in the memory of earlier ones that are gone. Any thread may call it.

    Arrays of more than 32 MB come from the kernel each time, which first clears their pages. For frames that takes as
    long as reading them.

    Args:
      most_idle: the largest number of pieces of memory that are kept while nobody uses them.
    """

    def __init__(self, most_idle: int = 4) -> None:
        # Its operations need no lock. `take_back` must not wait for one: Python may call it at any allocation.
        self._idle = deque[NDArray[np.uint8]](maxlen=most_idle)

    def array(self, size: int) -> NDArray[np.uint8]:
        """uint8 [size] with any content, which begins at a multiple of 64 bytes."""
        return np.asarray(_Loan(self, self._memory_for(size), size))

    def take_back(self, memory: NDArray[np.uint8]) -> None:
        """Keeps the memory of an array that is gone; if there is too much, other memory is dropped."""
        self._idle.append(memory)

    def _memory_for(self, size: int) -> NDArray[np.uint8]:
        """Memory of at least so many bytes and of at most twice as many."""
        with contextlib.suppress(IndexError):  # another thread was faster
            for _ in range(len(self._idle)):
                memory = self._idle.popleft()
                if size + _ALIGNED <= len(memory) <= 2 * (size + _ALIGNED):
                    return memory
                self._idle.append(memory)
        return np.empty(size + size // _GROWTH + _ALIGNED, np.uint8)


class _Loan:
    """Memory in use. NumPy keeps this object as long as the array, or a view of it, exists."""

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
