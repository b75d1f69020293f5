"""Rated segments of frame-level records: which there are, their frames, their labels.

The rules beside the plain case:

* A segment that straddles the end of its video keeps the frames that are there; one wholly past the end
  has none. num_frames says how many, the rest is 0.
* Where one (segment, class) pair is rated several times, the largest score counts: it does not depend on
  the order of the ratings and leaves scores of 0 and 1 what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from yt8m.lazy import tf
from yt8m.readers.checks import gate, require, say
from yt8m.readers.records import labels_in_range

# Lists of equal length in the context of a record, one entry a rating.
CONTEXT = {"segment_start_times": "int64", "segment_labels": "int64", "segment_scores": "float32"}

# Later starts are garbage; below it (record, start) fits one int64.
_LATEST = 1 << 31


class Segments(NamedTuple):
    """The R rated segments of N records.

    Attributes:
      rows: int64 [R], the record each belongs to.
      starts: int64 [R], its first frame (seconds).
      labels: float32 [R, C], scores in 0..1.
      label_weights: float32 [R, C], 1 where the class was rated.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    labels: tf.Tensor
    label_weights: tf.Tensor


def find(context: Mapping[str, tf.RaggedTensor], ids: tf.Tensor, num_classes: int) -> Segments:
    """The segments, one for each distinct start of a record, in the order of first appearance."""
    times, classes, scores = (context[name] for name in CONTEXT)
    checks = [_as_many(times, other, name, ids) for name, other in context.items()]
    checks += [
        _from_zero(times, ids),
        _in_unit_range(scores, ids),
        labels_in_range(classes, ids, num_classes),
    ]
    starts, record = gate(times.values, checks), times.value_rowids()
    # One number for (record, start): unique then keeps the order of first appearance.
    stride = tf.reduce_max(tf.concat([starts, [0]], axis=0)) + 1
    keys, segment = tf.unique(record * stride + starts, out_idx=tf.int64)
    pairs = tf.stack([segment, gate(classes.values, checks)], axis=1)
    none = tf.zeros(tf.stack([tf.size(keys, out_type=tf.int64), num_classes]))
    return Segments(
        rows=keys // stride,
        starts=keys % stride,
        labels=_wide(tf.tensor_scatter_nd_max(none, pairs, gate(scores.values, checks)), num_classes),
        label_weights=_wide(
            tf.tensor_scatter_nd_update(none, pairs, tf.ones_like(scores.values)), num_classes
        ),
    )


def frame_indices(found: Segments, lengths: tf.Tensor, segment_size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Where the segments' frames lie among all frames of the batch, int64 [R, size]; bool, which are there.

    Args:
      found: the segments.
      lengths: int64 [N], frames of each record.
      segment_size: frames of a segment.
    """
    seconds = found.starts[:, tf.newaxis] + tf.range(segment_size, dtype=tf.int64)
    first_frame = tf.cumsum(lengths, exclusive=True)
    at = tf.gather(first_frame, found.rows)[:, tf.newaxis] + seconds
    return at, seconds < tf.gather(lengths, found.rows)[:, tf.newaxis]


def _wide(dense: tf.Tensor, num_classes: int) -> tf.Tensor:
    return tf.ensure_shape(dense, [None, num_classes])


def _as_many(times: tf.RaggedTensor, other: tf.RaggedTensor, name: str, ids: tf.Tensor) -> tf.Tensor:
    first, second = times.row_lengths(), other.row_lengths()
    return require(
        tf.equal(first, second),
        lambda row: say(
            *("video ", ids[row], ": ", first[row], " segment_start_times and ", second[row]),
            f" {name}; they must be as many",
        ),
    )


def _from_zero(times: tf.RaggedTensor, ids: tf.Tensor) -> tf.Tensor:
    return require(
        tf.logical_and(times.values >= 0, times.values < _LATEST),
        lambda at: say(
            *("video ", tf.gather(ids, times.value_rowids()[at])),
            *(": a segment starts at ", times.values[at], "; expected a second from 0"),
        ),
    )


def _in_unit_range(scores: tf.RaggedTensor, ids: tf.Tensor) -> tf.Tensor:
    return require(
        tf.logical_and(scores.values >= 0, scores.values <= 1),
        lambda at: say(
            *("video ", tf.gather(ids, scores.value_rowids()[at])),
            *(": a segment score is ", scores.values[at], "; expected 0 to 1"),
        ),
    )
