"""Serialised records to batches of examples."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from yt8m.lazy import tf
from yt8m.types import Batch

# Frame records parsed at once where their segments are the examples.
_RECORDS_PER_PARSE = 64


def parsed(
    records: tf.data.Dataset, parse: Callable[..., Any], batch_size: int, calls: int, has_segments: bool
) -> tf.data.Dataset:
    """What `parse` makes of the records, `batch_size` examples at a time.

    Args:
      records: serialised ones, or tuples of them and what comes with them.
      parse: from vectors of these to a batch, or to a tuple that begins with one.
      batch_size: examples in a batch; the last one is what remains.
      calls: batches parsed side by side.
      has_segments: whether a record has any number of examples.
    """
    if not has_segments:
        return records.batch(batch_size).map(parse, calls, deterministic=True)
    batches = records.batch(_RECORDS_PER_PARSE).map(parse, calls, deterministic=True)
    return batches.filter(_has_rows).rebatch(batch_size)


def with_numbers(
    parse: Callable[[tf.Tensor], Batch], has_segments: bool
) -> Callable[..., tuple[Batch, tf.Tensor]]:
    """`parse` of records with their shards' numbers.

    Each example gets the number of its record; where a record has any number of examples, the largest number
    that was parsed with it.
    """

    def parse_both(serialized: tf.Tensor, numbers: tf.Tensor) -> tuple[Batch, tf.Tensor]:
        batch = parse(serialized)
        if not has_segments:
            return batch, numbers
        return batch, tf.fill([tf.size(batch.video_ids)], tf.reduce_max(numbers))

    return parse_both


class ReadCounts:
    """How many records of each file were read in one pass; any thread may add to it."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()

    def of(self, number: int) -> int:
        """Records of the file with this number."""
        return self._counts[number]

    def counting(self, parse: Callable[[tf.Tensor], Batch]) -> Callable[..., Batch]:
        """`parse` of records with their files' numbers, which are counted on the way."""

        def count_and_parse(serialized: tf.Tensor, numbers: tf.Tensor) -> Batch:
            counted = tf.numpy_function(self._add, [numbers], tf.int64)
            with tf.control_dependencies([counted]):
                return parse(tf.identity(serialized))

        return count_and_parse

    def _add(self, numbers: np.ndarray) -> np.int64:
        found, counts = np.unique(numbers, return_counts=True)
        with self._lock:
            self._counts.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        return np.int64(len(numbers))


def _has_rows(*parts: Any) -> tf.Tensor:
    return tf.size(tf.nest.flatten(parts)[0]) > 0
