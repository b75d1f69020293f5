"""Parses frame-level records: the frames of a batch as one flat list without padding, and its rated segments.

Frames are decoded from bytes only when they are padded to videos or picked for segments, so that frames that are not
used are never decoded. There are three rules for special cases of rated segments:

* A segment that extends past the end of its video has only the frames before the end, and a segment that starts after
  the end has none. num_frames counts these frames; the rest of the segment is padded with 0.
* In an annotated range, every segment is an example, and every class is rated: one without a rating is absent.
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
from yt8m.records.shards import ANNOTATED_LISTS, LATEST_START, RATING_LISTS


class Frames(NamedTuple):
    """All frames of one feature of N records, one record after another.

    Attributes:
      values: float32 [F, size], or string [F]: the bytes of each frame, not decoded yet.
      row_splits: int64 [N + 1]; record i has the frames `values[row_splits[i] : row_splits[i + 1]]`.
      bounds: the smallest and largest value of the range to which bytes are dequantized when they are decoded; empty if
        decoded bytes stay uint8, which `base.join_features` later dequantizes to YouTube-8M's range.
    """

    values: tf.Tensor
    row_splits: tf.Tensor
    size: int
    bounds: tuple[float, ...] = ()

    def padded(self, lengths: tf.Tensor, longest: tf.Tensor) -> tf.Tensor:
        """The first `longest` frames of each record, uint8 or float32 [N, longest, size]; missing frames are 0.

        Args:
          lengths: int64 [N], the number of frames of each record, as `equal_lengths` returns it. The result is computed
            only after it, so that its checks have passed.
          longest: int64 scalar, the number of frames of each record in the result.
        """
        values = self._decode(base.after_checks(self.values, [lengths]))
        ragged = tf.RaggedTensor.from_row_splits(values, self.row_splits, validate=False)
        return tf.ensure_shape(ragged.to_tensor(shape=tf.stack([-1, longest, self.size])), [None, None, self.size])

    def gathered(self, indices: tf.Tensor, exists: tf.Tensor, count: int) -> tf.Tensor:
        """The frames at some indices, uint8 or float32 [R, count, size]; decodes only these.

        Args:
          indices: int64 [R, count], indices into `values`.
          exists: bool [R, count], whether there is a frame at the index; in each row, all True come first. Where it is
            False, the result is 0.
        """
        values = self._decode(_gather_values(self.values, tf.boolean_mask(indices, exists)))
        shape = tf.stack([tf.shape(exists, out_type=tf.int64)[0], count, self.size])
        lengths = tf.math.count_nonzero(exists, axis=1)
        rows = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
        return tf.ensure_shape(rows.to_tensor(shape=shape), [None, count, self.size])

    def means(self, lengths: tf.Tensor, longest: int) -> tf.Tensor:
        """The dequantized mean of the first frames of each record: float32 [N, size]; 0 without frames."""
        values = self._decode(base.after_checks(self.values, [lengths]))
        values = base.dequantize(values) if values.dtype == tf.uint8 else values
        counted = tf.RaggedTensor.from_row_splits(values, self.row_splits, validate=False)[:, :longest]
        numbers = tf.cast(counted.row_lengths(), tf.float32)[:, tf.newaxis]
        means = tf.math.divide_no_nan(tf.reduce_sum(counted, axis=1), numbers)
        return tf.ensure_shape(means, [None, self.size])

    def _decode(self, values: tf.Tensor) -> tf.Tensor:
        """Decodes K frames, taken from the attribute `values`, to uint8 or float32 [K, size]."""
        if values.dtype == tf.string:
            values = tf.io.decode_raw(values, tf.uint8)
        if self.bounds:
            values = base.dequantize(values, max(self.bounds), min(self.bounds))
        return tf.reshape(values, [-1, self.size])


def flat_frames(reader: Reader, ragged: tf.RaggedTensor, name: str, size: int, ids: tf.Tensor) -> Frames:
    """Checks the frames of one feature of N records.

    Args:
      ragged: the parsed feature list: float32 [N, (frames), (values)], or string of the same shape.
      ids: string [N], the ids of the records.

    Returns:
      The frames. Their computation fails on a frame of another size; the message names the feature, the sizes, the
      frame and the video.
    """
    steps, id_of = ragged.values, base.id_of_value(ragged, ids)

    def check_counts(values: tf.Tensor, counts: tf.Tensor, expected: int, unit: str) -> tf.Tensor:
        """Returns `values`, whose computation fails if a frame has another count than the expected one.

        Args:
          counts: integers [F], the count of each frame.
        """

        def describe(indices: tf.Tensor) -> tuple[str | tf.Tensor, ...]:
            frame = indices - tf.gather(ragged.row_splits, base.row_of_value(ragged, indices))
            return (
                *(f"feature {name}, frame ", frame, ", has ", tf.gather(counts, indices)),
                f" {unit}, expected {expected}; check --feature_names and --feature_sizes",
            )

        return base.after_checks(values, [base.require_of_video(tf.equal(counts, expected), id_of, describe)])

    if steps.dtype == tf.float32:
        values = tf.reshape(check_counts(steps.values, steps.row_lengths(), size, "values"), [-1, size])
        return Frames(base.only_finite(reader, values, name, id_of), ragged.row_splits, size)
    values = check_counts(steps.values, steps.row_lengths(), 1, "strings of bytes")
    values = check_counts(values, tf.strings.length(values), size, "bytes")
    bounds = reader.range_of(name)
    return Frames(values, ragged.row_splits, size, () if bounds == PUBLISHED else bounds)


def equal_lengths(features: Sequence[Frames], names: Sequence[str], ids: tf.Tensor, serialized: tf.Tensor) -> tf.Tensor:
    """The number of frames of each record, which must be the same for every feature.

    Args:
      ids: string [N], the ids of the records.
      serialized: string [N], the records.

    Returns:
      int64 [N]. Its computation fails if the numbers of a record differ (the message names both features, both numbers
      and the video), or if a record lacks a feature list. Lists that are all empty are a video without frames.
    """
    counts = [part.row_splits[1:] - part.row_splits[:-1] for part in features]
    checks = [
        _require_equal_counts(
            *(counts[0], f" frames of {names[0]} and ", other, f" of {name}"),
            *("; these numbers must be equal (0: the feature is missing or empty)", ids),
        )
        for other, name in zip(counts, names, strict=True)
    ]
    # Ragged parsing does not tell a missing list from an empty one; the parser in `_require_lists` does.
    is_empty = tf.equal(counts[0], 0)
    checks.append(
        tf.cond(
            tf.reduce_any(is_empty),
            lambda: _require_lists(
                features, names, tf.boolean_mask(serialized, is_empty), tf.boolean_mask(ids, is_empty)
            ),
            lambda: tf.constant(True),
        )
    )
    return base.after_checks(counts[0], checks)


def _require_equal_counts(
    first: tf.Tensor, of_first: str, other: tf.Tensor, of_other: str, remedy: str, ids: tf.Tensor
) -> tf.Tensor:
    """A check, for `after_checks`, that two counts of each record are equal.

    The message is `video ID: COUNT`, the text `of_first`, the other count, and the texts `of_other` and `remedy`.

    Args:
      first, other: int64 [N], the counts.
      ids: string [N], the ids of the records.
    """
    return base.require_of_video(
        tf.equal(first, other),
        lambda row: tf.gather(ids, row),
        lambda row: (tf.gather(first, row), of_first, tf.gather(other, row), of_other, remedy),
    )


def _require_lists(
    features: Sequence[Frames], names: Sequence[str], serialized: tf.Tensor, ids: tf.Tensor
) -> tf.Tensor:
    """A check, for `after_checks`, that no record lacks a feature list, even an empty one.

    Args:
      serialized: string [K], the records to check, whose feature lists are empty or missing.
      ids: string [K], their ids.
    """
    strict = {
        name: tf.io.FixedLenSequenceFeature([part.size], tf.float32)
        if part.values.dtype == tf.float32
        else tf.io.FixedLenSequenceFeature([], tf.string)
        for name, part in zip(names, features, strict=True)
    }
    _, _, lengths = tf.io.parse_sequence_example(serialized, {}, strict, example_names=base.valid_utf8(ids))
    # The parser fails if a list is missing. The check of its result never fails; it keeps the parser in the graph.
    counts = tf.concat(list(lengths.values()), axis=0)
    return base.require(counts >= 0, lambda row: base.message("a feature list has ", tf.gather(counts, row), " frames"))


def _gather_values(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """`tf.gather(values, indices)`, without a copy if `indices` are 0, 1, 2, ... up to the last index of `values`."""
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
      label_weights: float32 [R, C], 1 if the class was rated, or if the segment is in an annotated range; else 0.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    labels: tf.Tensor
    label_weights: tf.Tensor


class SegmentGrid(NamedTuple):
    """Where the segments of annotated ranges begin.

    Attributes:
      size: number of frames of a segment.
      lengths: int64 [N], the number of frames of each record; a range ends there at the latest.
    """

    size: int
    lengths: tf.Tensor


def find_segments(
    context: Mapping[str, tf.RaggedTensor], ids: tf.Tensor, num_classes: int, grid: SegmentGrid | None = None
) -> Segments:
    """Finds the rated segments of N records: one for each distinct start in a record.

    First come those of annotated ranges, then the others in the order of first appearance.

    Args:
      context: {name: the lists [N, (ratings)]} of `RATING_LISTS`, and with a grid also those of `ANNOTATED_LISTS`.
      ids: string [N], the ids of the records.

    Returns:
      The segments. Their computation fails if the lists of a record differ in length, or have a start outside of
      0..`LATEST_START`, a score outside of 0..1 or a class outside of 0..C-1; the message names the video.
    """
    times, classes, scores = (context[name] for name in RATING_LISTS)
    checks = [
        _require_equal_counts(
            *(times.row_lengths(), " segment_start_times and ", other.row_lengths(), f" {name}"),
            *("; these numbers must be equal", ids),
        )
        for name, other in context.items()
        if name in RATING_LISTS
    ]
    checks += [
        base.require_of_video(
            tf.logical_and(times.values >= 0, times.values <= LATEST_START),
            base.id_of_value(times, ids),
            lambda indices: (
                "a segment starts at ",
                tf.gather(times.values, indices),
                f"; expected 0 to {LATEST_START} seconds",
            ),
        ),
        base.require_of_video(
            tf.logical_and(scores.values >= 0, scores.values <= 1),
            base.id_of_value(scores, ids),
            lambda indices: ("a segment score is ", tf.gather(scores.values, indices), "; expected 0 to 1"),
        ),
        base.require_known_labels(classes, ids, num_classes),
    ]
    starts, record = base.after_checks(times.values, checks), times.value_rowids()
    of_range, range_starts = _segments_of_ranges(context, ids, grid) if grid else (record[:0], starts[:0])
    # tf.unique keeps the order of first appearance. It takes single numbers, so (record, start) is encoded as one.
    stride = tf.reduce_max(tf.concat([starts, range_starts, [0]], axis=0)) + 1
    all_keys = tf.concat([of_range * stride + range_starts, record * stride + starts], axis=0)
    keys, segment = tf.unique(all_keys, out_idx=tf.int64)
    num_annotated = tf.reduce_max(tf.concat([segment[: tf.size(of_range)], [-1]], axis=0)) + 1
    pairs = tf.stack([segment[tf.size(of_range) :], base.after_checks(classes.values, checks)], axis=1)
    num_segments = tf.size(keys, out_type=tf.int64)
    zeros = tf.zeros(tf.stack([num_segments, num_classes]))
    is_annotated = tf.cast(tf.range(num_segments) < num_annotated, tf.float32)[:, tf.newaxis]
    return Segments(
        rows=keys // stride,
        starts=keys % stride,
        labels=tf.ensure_shape(
            tf.tensor_scatter_nd_max(zeros, pairs, base.after_checks(scores.values, checks)), [None, num_classes]
        ),
        label_weights=tf.ensure_shape(
            tf.tensor_scatter_nd_update(zeros + is_annotated, pairs, tf.ones_like(scores.values)), [None, num_classes]
        ),
    )


def _segments_of_ranges(
    context: Mapping[str, tf.RaggedTensor], ids: tf.Tensor, grid: SegmentGrid
) -> tuple[tf.Tensor, tf.Tensor]:
    """int64 [K] each: the record and the start of every segment in the annotated ranges of N records.

    Their computation fails if the lists of a record differ in length, or have a range that is none.
    """
    starts, ends = (context[name] for name in ANNOTATED_LISTS)
    counts = [
        *(starts.row_lengths(), " annotated_start_times and ", ends.row_lengths(), " annotated_end_times"),
        *("; these numbers must be equal", ids),
    ]
    after = base.after_checks(ends.values, [_require_equal_counts(*counts)])
    is_range = tf.logical_and(starts.values >= 0, tf.logical_and(starts.values < after, after <= LATEST_START))
    check = base.require_of_video(
        is_range,
        base.id_of_value(starts, ids),
        lambda row: ("an annotated range is ", tf.gather(starts.values, row), " to ", tf.gather(after, row)),
    )
    first = base.after_checks(starts.values, [check])
    record = starts.value_rowids()
    last = tf.maximum(tf.minimum(base.after_checks(after, [check]), tf.gather(grid.lengths, record)), first)
    segments = tf.ragged.range(first, last, grid.size, row_splits_dtype=tf.int64)
    return tf.gather(record, segments.value_rowids()), segments.values


def frame_indices(
    rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, lengths: tf.Tensor, count: int, context: int = 0
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the frames of segments in the flat list of a batch's frames; the result is for `Frames.gathered`.

    Args:
      rows: int64 [R], the index of the record of each segment.
      starts, ends: int64 [R], the first frame of each segment, and the frame after its last.
      lengths: int64 [N], the number of frames of each record.
      context: number of frames before each segment to begin with. If there are any, the first and the last frame of a
        video stand in the places of those that would be outside of it, so that a segment has the same place in all.

    Returns:
      (int64 [R, count]: the index of each frame among all frames of the batch; bool [R, count]: whether it exists).
    """
    seconds = starts[:, tf.newaxis] - context + tf.range(count, dtype=tf.int64)
    exists = seconds < ends[:, tf.newaxis]
    if context:
        last = tf.maximum(ends - 1, 0)[:, tf.newaxis]
        seconds = tf.clip_by_value(seconds, 0, last)
        exists = tf.broadcast_to((starts < ends)[:, tf.newaxis], tf.shape(seconds))
    first_frame = tf.cumsum(lengths, exclusive=True)
    return tf.gather(first_frame, rows)[:, tf.newaxis] + seconds, exists
