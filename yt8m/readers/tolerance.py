"""Reading on past bad records: the rest of their shards is left out, and each is counted and named.

TensorFlow's own way (`ignore_errors`) says neither what it drops nor where. Here the shards are read in
Python, and each block of records is parsed by a check before it goes to the queue, so that the first bad
record ends its shard, whatever is wrong with it. Only runs that ask for it pay for the second parse.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.readers.record_check import END, RecordCheck, sound_block
from yt8m.record_reader import DamagedError


class TooManyBadError(RunError):
    """More bad records than were allowed; names the last of them."""


class Tolerance:
    """Reads shards up to their first bad record.

    Args:
      check: tells which records are bad.
      limit: bad records that are borne.

    Attributes:
      skipped: the shards that are not read to their end, by path, and why.
      failure: what was raised when there were too many.
      find: gives the local copy of a shard; by default the shard itself.
    """

    def __init__(self, check: RecordCheck, limit: int) -> None:
        self._check, self._limit, self._lock = check, limit, threading.Lock()
        self.skipped: dict[str, DamagedError] = {}
        self.failure: TooManyBadError | None = None
        self.find: Callable[[str], str] = str

    def records(self, files: tf.Tensor) -> tf.data.Dataset:
        """The sound records of `files` (a path, or a vector of them), one file after the other."""
        return tf.data.Dataset.from_tensor_slices(tf.reshape(files, [-1])).flat_map(self._records_of)

    def _records_of(self, path: tf.Tensor) -> tf.data.Dataset:
        def next_block(state: Any, _: Any) -> Any:
            types = [tf.string, tf.int64, tf.int64]
            records, offset, number = tf.numpy_function(self._block, [path, *state], types, stateful=False)
            records.set_shape([None])
            offset.set_shape([])
            number.set_shape([])
            return (offset, number), records

        # The state is all that there is to it, so that a saved position in the data is one here too.
        zero = tf.zeros([], tf.int64)
        blocks = tf.data.Dataset.range(1 << 62).scan((zero, zero), next_block)
        return blocks.take_while(lambda records: tf.size(records) > 0).unbatch()

    def _block(self, path: bytes, offset: int, number: int) -> tuple[Any, Any, Any]:
        """Sound records from `offset` on, where the next block begins, and the number of its first record."""
        records: list[bytes] = []
        if offset != END:
            records, offset, damage = sound_block(
                self._check, self.find(path.decode()), int(offset), int(number)
            )
            if damage is not None:  # of a local copy, maybe
                self._note(DamagedError(path.decode(), damage.record, damage.what))
        return np.array(records, object), np.int64(offset), np.int64(number + len(records))

    def _note(self, damage: DamagedError) -> None:
        """Counts a bad record once, however often its shard is read.

        This is a thread of the runtime, so that somebody else has to log it.
        """
        with self._lock:
            if damage.path in self.skipped:
                return
            self.skipped[damage.path] = damage
            count = len(self.skipped)
            if count > self._limit:
                self.failure = TooManyBadError(
                    f"{damage} It is bad record {count}; --max_bad_records={self._limit} bears no more."
                )
                raise self.failure
