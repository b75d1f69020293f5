"""Parses frame-level records: the frames of a batch as one flat list without padding, and its rated segments.

Frames are decoded from bytes only when they are padded to videos or picked for segments, so that frames that are not
used are never decoded. Two rules for special cases:

* A segment that extends past the end of its video has only the frames before the end, and a segment that starts after
  the end has none. num_frames counts these frames; the rest of the segment is padded with 0.
* If one (segment, class) pair is rated several times, the largest score counts: the maximum does not depend
  on the order of the ratings, and keeps binary scores binary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from yt8m.lazy import tf
from yt8m.readers import base
from yt8m.readers.base import Reader
from yt8m.records.data_format import PUBLISHED
from yt8m.records.shards import LATEST_START, RATING_LISTS


class Frames(NamedTuple):
    """All frames of one feature of N records, one record after another.

    Attributes:
      values: float32 [F, size], or string [F]: the bytes of each frame, not decoded yet.
      row_splits: int64 [N + 1]; record i has the frames `values[row_splits[i] : row_splits[i + 1]]`.
      size: number of values of a frame.
      bounds: the range to which bytes are dequantized when they are decoded; empty if they stay bytes, which
        `join_features` dequantizes to YouTube-8M's range.
    """

    values: tf.Tensor
    row_splits: tf.Tensor
    size: int
    bounds: tuple[float, ...] = ()

    def padded(self, lengths: tf.Tensor, longest: tf.Tensor) -> tf.Tensor:
        """The first `longest` frames of each record, uint8 or float32 [N, longest, size]; missing frames are 0.

        Args:
          lengths: int64 [N], the number of frames of each record, which must be computed first, so that it is checked.
          longest: int64 scalar.
        """
        values = self._decode(base.after_checks(self.values, [lengths]))
        ragged = tf.RaggedTensor.from_row_splits(values, self.row_splits, validate=False)
        return tf.ensure_shape(ragged.to_tensor(shape=tf.stack([-1, longest, self.size])), [None, None, self.size])

    def gathered(self, at: tf.Tensor, valid: tf.Tensor, count: int) -> tf.Tensor:
        """The frames at some indices, uint8 or float32 [R, count, size]; decodes only these.

        Args:
          at: int64 [R, count], indices into `values`.
          valid: bool [R, count], whether there is such a frame; in each row, all True come first. Other frames are 0.
          count: number of frames of a row.
        """
        values = self._decode(_picked(self.values, tf.boolean_mask(at, valid)))
        shape = tf.stack([tf.shape(valid, out_type=tf.int64)[0], count, self.size])
        lengths = tf.math.count_nonzero(valid, axis=1)
        rows = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
        return tf.ensure_shape(rows.to_tensor(shape=shape), [None, count, self.size])

    def means(self, lengths: tf.Tensor, longest: int) -> tf.Tensor:
        """The mean of the first `longest` frames of each record, dequantized, float32 [N, size]; 0 without a frame.

        `lengths` is as in `padded`.
        """
        values = self._decode(base.after_checks(self.values, [lengths]))
        values = base.dequantize(values) if values.dtype == tf.uint8 else values
        counted = tf.RaggedTensor.from_row_splits(values, self.row_splits, validate=False)[:, :longest]
        numbers = tf.cast(counted.row_lengths(), tf.float32)[:, tf.newaxis]
        means = tf.math.divide_no_nan(tf.reduce_sum(counted, axis=1), numbers)
        return tf.ensure_shape(means, [None, self.size])

    def _decode(self, values: tf.Tensor) -> tf.Tensor:
        if values.dtype == tf.string:
            values = tf.io.decode_raw(values, tf.uint8)
        if self.bounds:
            values = base.dequantize(values, max(self.bounds), min(self.bounds))
        return tf.reshape(values, [-1, self.size])


def flat_frames(reader: Reader, ragged: tf.RaggedTensor, name: str, size: int, ids: tf.Tensor) -> Frames:
    """The checked frames of a parsed feature list, `ragged` [N, (frames), (values)].

    A frame that does not have `size` values fails with an error that names the feature, the sizes, the frame and the
    video. Floats that are NaN, infinite or too large are treated as in `only_finite`.
    """
    steps, id_of = ragged.values, base.id_of_value(ragged, ids)

    def checked(values: tf.Tensor, counts: tf.Tensor, expected: int, unit: str) -> tf.Tensor:
        def describe(at: tf.Tensor) -> tuple[str | tf.Tensor, ...]:
            frame = at - tf.gather(ragged.row_splits, base.row_of_value(ragged, at))
            return (
                *(f"feature {name}, frame ", frame, ", has ", tf.gather(counts, at)),
                f" {unit}, expected {expected}; check --feature_names and --feature_sizes",
            )

        return base.after_checks(values, [base.require_of_video(tf.equal(counts, expected), id_of, describe)])

    if steps.dtype == tf.float32:
        values = tf.reshape(checked(steps.values, steps.row_lengths(), size, "values"), [-1, size])
        return Frames(base.only_finite(reader, values, name, id_of), ragged.row_splits, size)
    values = checked(steps.values, steps.row_lengths(), 1, "strings of bytes")
    values = checked(values, tf.strings.length(values), size, "bytes")
    bounds = reader.range_of(name)
    return Frames(values, ragged.row_splits, size, () if bounds == PUBLISHED else bounds)


def equal_lengths(features: Sequence[Frames], names: Sequence[str], ids: tf.Tensor, serialized: tf.Tensor) -> tf.Tensor:
    """The number of frames of each record, int64 [N], which must be the same for every feature.

    Unequal numbers fail with an error that names both features, both numbers and the video. A record that lacks a
    feature list fails too; empty lists pass, as a video without frames.
    """
    counts = [part.row_splits[1:] - part.row_splits[:-1] for part in features]
    checks = [
        _require_equal_counts(
            *(counts[0], f" frames of {names[0]} and ", other, f" of {name}"),
            *("; these numbers must be equal (0: the feature is missing or empty)", ids),
        )
        for other, name in zip(counts, names, strict=True)
    ]
    # Ragged parsing does not distinguish an absent list from an empty one; the strict parser does.
    empty = tf.equal(counts[0], 0)
    checks.append(
        tf.cond(
            tf.reduce_any(empty),
            lambda: _all_present(features, names, tf.boolean_mask(serialized, empty), tf.boolean_mask(ids, empty)),
            lambda: tf.constant(True),
        )
    )
    return base.after_checks(counts[0], checks)


def _require_equal_counts(
    first: tf.Tensor, of_first: str, other: tf.Tensor, of_other: str, remedy: str, ids: tf.Tensor
) -> tf.Tensor:
    """A check that counts [N] are equal; its message joins count, `of_first`, count, `of_other` and `remedy`."""
    return base.require_of_video(
        tf.equal(first, other),
        lambda row: tf.gather(ids, row),
        lambda row: (tf.gather(first, row), of_first, tf.gather(other, row), of_other, remedy),
    )


def _all_present(features: Sequence[Frames], names: Sequence[str], serialized: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """A check that no record lacks a feature list."""
    strict = {
        name: tf.io.FixedLenSequenceFeature([part.size], tf.float32)
        if part.values.dtype == tf.float32
        else tf.io.FixedLenSequenceFeature([], tf.string)
        for name, part in zip(names, features, strict=True)
    }
    _, _, lengths = tf.io.parse_sequence_example(serialized, {}, strict, example_names=base.valid_utf8(ids))
    # The parser itself fails; the use of its result keeps it in the graph.
    counts = tf.concat(list(lengths.values()), axis=0)
    return base.require(counts >= 0, lambda row: base.message("a feature list has ", tf.gather(counts, row), " frames"))


def _picked(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """values[indices]; copies nothing if the indices are those of all values, in order."""
    every = tf.range(tf.shape(values, out_type=tf.int64)[0])
    is_all = tf.cond(
        tf.equal(tf.size(indices), tf.size(every)),
        lambda: tf.reduce_all(tf.equal(indices, every)),
        lambda: tf.constant(False),
    )
    return tf.cond(is_all, lambda: values, lambda: tf.gather(values, indices))


class Segments(NamedTuple):
    """The R rated segments of N records.

    Attributes:
      rows: int64 [R], the index of the record of each segment.
      starts: int64 [R], the start of each segment in seconds, which is the index of its first frame.
      labels: float32 [R, C], the rated scores, in 0..1; 0 for classes that were not rated.
      label_weights: float32 [R, C], 1 if the class was rated, else 0.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    labels: tf.Tensor
    label_weights: tf.Tensor


def find_segments(context: Mapping[str, tf.RaggedTensor], ids: tf.Tensor, num_classes: int) -> Segments:
    """The rated segments of N records, one for each distinct start of a record, in the order of first appearance.

    Args:
      context: the ragged lists [N, (ratings)] of `RATING_LISTS`.
      ids: string [N].
      num_classes: C.
    """
    times, classes, scores = (context[name] for name in RATING_LISTS)
    checks = [
        _require_equal_counts(
            *(times.row_lengths(), " segment_start_times and ", other.row_lengths(), f" {name}"),
            *("; these numbers must be equal", ids),
        )
        for name, other in context.items()
    ]
    checks += [
        base.require_of_video(
            tf.logical_and(times.values >= 0, times.values <= LATEST_START),
            base.id_of_value(times, ids),
            lambda at: ("a segment starts at ", tf.gather(times.values, at), "; expected 0 or more seconds"),
        ),
        base.require_of_video(
            tf.logical_and(scores.values >= 0, scores.values <= 1),
            base.id_of_value(scores, ids),
            lambda at: ("a segment score is ", tf.gather(scores.values, at), "; expected 0 to 1"),
        ),
        base.require_known_labels(classes, ids, num_classes),
    ]
    starts, record = base.after_checks(times.values, checks), times.value_rowids()
    # tf.unique keeps the order of first appearance; for it, (record, start) is encoded as one number.
    stride = tf.reduce_max(tf.concat([starts, [0]], axis=0)) + 1
    keys, segment = tf.unique(record * stride + starts, out_idx=tf.int64)
    pairs = tf.stack([segment, base.after_checks(classes.values, checks)], axis=1)
    none = tf.zeros(tf.stack([tf.size(keys, out_type=tf.int64), num_classes]))
    return Segments(
        rows=keys // stride,
        starts=keys % stride,
        labels=_wide(tf.tensor_scatter_nd_max(none, pairs, base.after_checks(scores.values, checks)), num_classes),
        label_weights=_wide(tf.tensor_scatter_nd_update(none, pairs, tf.ones_like(scores.values)), num_classes),
    )


def frame_indices(
    rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, lengths: tf.Tensor, count: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """The frames of segments, for `Frames.gathered`.

    Args:
      rows: int64 [R], the index of the record of each segment.
      starts, ends: int64 [R], the first frame of each segment, and the frame after its last.
      lengths: int64 [N], the number of frames of each record.
      count: number of frames per segment.

    Returns:
      (indices of `count` frames per segment among all frames of the batch, int64; whether the frame exists, bool), both
      [R, count].
    """
    seconds = starts[:, tf.newaxis] + tf.range(count, dtype=tf.int64)
    first_frame = tf.cumsum(lengths, exclusive=True)
    return tf.gather(first_frame, rows)[:, tf.newaxis] + seconds, seconds < ends[:, tf.newaxis]


def _wide(dense: tf.Tensor, num_classes: int) -> tf.Tensor:
    return tf.ensure_shape(dense, [None, num_classes])
