"""Parsed shards of videos in files of NumPy arrays, which later epochs map into memory and do not parse.

What is shuffled are the numbers of records in place of the records, so that the order of examples is that of
a run without a cache. A shard is parsed when it is first begun, whatever the epoch, and its file appears
whole or not at all. The file's name says what it was made from (the shard as it lies there, and how it is
read): for a shard that has changed, or for another reader, another file is looked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.readers.cached_shard import CachedShard
from yt8m.readers.shard_parser import ShardParser
from yt8m.types import Batch

_FORMAT = 2  # of the files; a new one makes all that are there stale
_OPEN = 64  # shards that are kept mapped
_ROWS = 1 << 32  # more than any shard has; a record's number is its shard's times this, and its place there


class ShardCache:
    """The parsed records of a list of shards.

    Args:
      folder: local; made if need be, and of use to any number of runs at once.
      reader: of videos; parses what is not there yet.
      files: the shards; records are numbered by them.

    Attributes:
      failure: why a shard could not be taken into the cache.
    """

    def __init__(self, folder: str, reader: Any, files: Sequence[str]) -> None:
        self._folder, self._reader, self._files = folder, reader, list(files)
        self._numbers = {path: number for number, path in enumerate(self._files)}
        self._parser = ShardParser(reader)
        self._open: OrderedDict[int, tuple[str, CachedShard]] = OrderedDict()
        self._sound: set[str] = set()  # files whose sums were right
        self._lock = threading.Lock()
        self._is_closed = False
        self.failure: RunError | None = None

    def numbers(self, path: tf.Tensor) -> tf.data.Dataset:
        """int64: the number of each record of a shard, in their order."""
        # Not stateful, or a position in the data could not be saved.
        ends = tf.numpy_function(self._ends, [path], tf.int64, stateful=False)
        return tf.data.Dataset.range(ends[0], ends[1])

    def batch(self, numbers: tf.Tensor) -> Batch:
        """The examples that int64 [B] numbers stand for, as the reader would give them."""
        types = [tf.string, tf.bool] + [tf.float32] * len(self._reader.feature_sizes)
        ids, labels, *features = tf.numpy_function(self._take, [numbers], types, stateful=False)
        lengths = tf.strings.length(ids) - 1  # without the byte that `CachedShard` puts behind an id
        ids = tf.ensure_shape(tf.strings.substr(ids, tf.zeros_like(lengths), lengths), [None])
        sizes = self._reader.feature_sizes
        return Batch(
            video_ids=ids,
            features=tuple(tf.ensure_shape(f, [None, size]) for f, size in zip(features, sizes, strict=True)),
            num_frames=tf.ones_like(ids, tf.int32),
            labels=tf.ensure_shape(labels, [None, self._reader.num_classes]),
        )

    def close(self) -> None:
        """Lets the parser and the mapped files go, for good."""
        with self._lock:
            self._is_closed = True
            self._parser.close()
            self._open.clear()

    def _ends(self, path: bytes) -> np.ndarray:
        number = self._numbers[path.decode()]
        return np.int64(number * _ROWS) + np.array([0, self._shard(number, is_begun=True).rows])

    def _take(self, numbers: np.ndarray) -> list[np.ndarray]:
        shards, rows = np.divmod(numbers, _ROWS)
        taken = CachedShard.empty(len(numbers), self._reader.feature_sizes, self._reader.num_classes)
        for number in np.unique(shards):
            there = np.flatnonzero(shards == number)
            self._shard(int(number)).copy(rows[there], taken, there)
        return taken

    def _shard(self, number: int, is_begun: bool = False) -> CachedShard:
        """A shard, parsed if that has to be; where it is begun, only as it lies there now."""
        with self._lock:
            if self._is_closed:  # what makes batches ahead may still be at work
                raise RunError("the cache of parsed videos is closed")
            try:
                return self._mapped(number, is_begun)
            except RunError as error:
                self.failure = self.failure or error
                raise

    def _mapped(self, number: int, is_begun: bool) -> CachedShard:
        known = self._open.get(number)
        if known is None or is_begun:
            path = self._place(self._files[number])
            if known is None or known[0] != path:
                shard = CachedShard.read(path, path in self._sound) or self._parsed(number, path)
                self._sound.add(path)
                known = path, shard
            self._open[number] = known
        self._open.move_to_end(number)
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)
        return known[1]

    def _parsed(self, number: int, place: str) -> CachedShard:
        shard = self._files[number]
        ids, labels, features = self._parser.parse(shard)
        if self._place(shard) != place:
            raise RunError(f"{shard} has changed while it was read; start again once it is whole.")
        CachedShard.write(place, ids, labels, features)
        found = CachedShard.read(place)
        if found is None:
            raise RunError(f"{place} was written and cannot be read; look at the disk of --cache.")
        return found

    def _place(self, shard: str) -> str:
        """The file of a shard as it lies there, for this reader."""
        try:
            stat = os.stat(shard)
        except OSError as error:
            raise RunError(f"cannot read {shard}: {error.strerror}") from error
        reader = self._reader
        made_from: list[Any] = [_FORMAT, os.path.realpath(shard), stat.st_size, stat.st_mtime_ns]
        made_from += [reader.feature_names, reader.feature_sizes, reader.num_classes]
        digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:24]
        return storage.join(self._folder, f"{os.path.basename(shard)[:100]}.{digest}.arrays")
