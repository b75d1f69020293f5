"""Serialised records to batches of examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def with_numbers(parse: Callable[[tf.Tensor], Batch]) -> Callable[..., tuple[Batch, tf.Tensor]]:
    """`parse` of records with their shards' numbers; each example gets the largest one parsed with it."""

    def parse_both(serialized: tf.Tensor, numbers: tf.Tensor) -> tuple[Batch, tf.Tensor]:
        batch = parse(serialized)
        return batch, tf.fill([tf.size(batch.video_ids)], tf.reduce_max(numbers))

    return parse_both


def _has_rows(*parts: Any) -> tf.Tensor:
    return tf.size(tf.nest.flatten(parts)[0]) > 0
