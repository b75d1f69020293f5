"""A batch cut over the towers, and the towers' values put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.graph.ops import Reduction, Report
from yt8m.lazy import tf


class Share(NamedTuple):
    """What one tower gets of a step.

    Attributes:
      batch: the tower's rows; one borrowed row where it has none.
      rows: int64 scalar, its true number of rows.
      weight: float32 scalar, rows / rows of all towers; the weights add up to 1.
    """

    batch: Any
    rows: tf.Tensor
    weight: tf.Tensor


def count_rows(batch: Any) -> tf.Tensor:
    """int64 scalar: the first dimension of the nest's first tensor."""
    first = next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)
    return tf.shape(first, out_type=tf.int64)[0]


def split_batch(batch: Any, num_towers: int) -> list[Share]:
    """Cuts a nest of tensors (examples first) as evenly as it goes.

    Parts start at ceil(rows * i / N), so the first tower has the largest part and is never empty.
    A tower without rows borrows the last one with weight 0: shapes stay valid and nothing is NaN.
    """
    rows = count_rows(batch)
    if num_towers == 1:
        return [Share(batch, rows, tf.ones([]))]
    edges = [-(-rows * i // num_towers) for i in range(num_towers)] + [rows]
    return [_cut(batch, rows, edges[i], edges[i + 1]) for i in range(num_towers)]


def _cut(batch: Any, rows: tf.Tensor, start: tf.Tensor, end: tf.Tensor) -> Share:
    real = end - start
    low = tf.minimum(start, rows - 1)
    high = low + tf.maximum(real, 1)
    part = tf.nest.map_structure(lambda t: None if t is None else t[low:high], batch)
    return Share(part, real, tf.cast(real, tf.float32) / tf.cast(rows, tf.float32))


def join_batches(batches: Sequence[Any]) -> list[Share]:
    """Shares of a step that dequeued one whole batch for each tower."""
    rows = [count_rows(batch) for batch in batches]
    total = tf.cast(tf.add_n(rows), tf.float32)
    return [Share(batch, n, tf.cast(n, tf.float32) / total) for batch, n in zip(batches, rows, strict=True)]


def reduce_reports(reports: Sequence[Mapping[str, Report]], shares: Sequence[Share]) -> dict[str, tf.Tensor]:
    """One tensor a name, reduced as each report declares."""
    return {
        name: reduce_values([tower[name].tensor for tower in reports], shares, first.reduction)
        for name, first in reports[0].items()
    }


def reduce_values(values: Sequence[tf.Tensor], shares: Sequence[Share], reduction: Reduction) -> tf.Tensor:
    """The towers' values of one thing as one value; a tower without an example adds nothing."""
    if len(values) == 1:
        return values[0]
    if reduction is Reduction.ROWS:
        return tf.concat([value[: share.rows] for value, share in zip(values, shares, strict=True)], axis=0)
    if reduction is Reduction.LIST:
        return tf.concat(
            [v[: _all_or_none(v, share)] for v, share in zip(values, shares, strict=True)], axis=0
        )
    if reduction is Reduction.MEAN:
        return tf.add_n([value * share.weight for value, share in zip(values, shares, strict=True)])
    return tf.add_n(
        [value * tf.cast(share.rows > 0, value.dtype) for value, share in zip(values, shares, strict=True)]
    )


def _all_or_none(value: tf.Tensor, share: Share) -> tf.Tensor:
    """int64 scalar: the rows of `value`; 0 where the tower has no example."""
    return count_rows(value) * tf.cast(share.rows > 0, tf.int64)
