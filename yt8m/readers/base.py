"""The base class of readers, and their shared functions: dequantization, parsing of ids and labels, and checks.

A reader turns serialized records into a `Batch`. If a record is damaged, an op of the graph fails with a message of one
sentence that names the video.
"""

from __future__ import annotations

import abc
import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2

from yt8m.config.data_config import check_features
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.records.shards import LARGEST, UNFIT
from yt8m.types import Batch


class ZeroedCount:
    """Counts the values that readers set to 0; several threads may call `add` at the same time.

    Attributes:
      count: the number of these values.
    """

    def __init__(self) -> None:
        self.count, self._lock = 0, threading.Lock()

    def add(self, count: int) -> np.float32:
        """Adds `count` to the attribute `count`, and returns 0, which the caller puts in place of the values."""
        with self._lock:
            self.count += int(count)
        return np.float32(0)


class Reader(abc.ABC):
    """Parses records whose features have known names, sizes and types.

    Attributes:
      num_classes: number of classes, C.
      feature_sizes: number of values of each feature, per video or per frame, in the order of the names.
      feature_names: names of the features in the records.
      nan_policy: what happens to values that are NaN, infinite or too large: `refuse` fails, `zero` sets them to 0.
      feature_ranges: for each feature the smallest and largest value that its bytes stand for, or () if it is stored as
          floats; if the whole tuple is empty, each feature is stored as `data_format.usual_range` says.
      zeroed: counts the values that were set to 0; None if they are not counted.
      lists_labels: whether its batches have `label_lists` in place of `labels`; only readers of this package can.
    """

    zeroed: ZeroedCount | None = None
    lists_labels: bool = False

    def __init__(
        self,
        num_classes: int = 3862,
        feature_sizes: Sequence[int] = (1024, 128),
        feature_names: Sequence[str] = ("mean_rgb", "mean_audio"),
        nan_policy: str = "refuse",
        feature_ranges: Sequence[Sequence[float]] = (),
    ) -> None:
        """Checks and stores the arguments, which become the attributes of the same names.

        The default values are those of YouTube-8M's video-level records.
        """
        if nan_policy not in ("refuse", "zero"):
            raise UsageError(f"--nan_policy={nan_policy}: expected refuse or zero.")
        self.nan_policy = nan_policy
        self.num_classes = at_least_one("num_classes", num_classes)
        self.feature_names, self.feature_sizes = tuple(feature_names), tuple(map(int, feature_sizes))
        self.feature_ranges = tuple(map(tuple, feature_ranges))
        check_features(self.feature_names, self.feature_sizes, self.feature_ranges)

    def range_of(self, name: str) -> tuple[float, ...]:
        """The entry of `feature_ranges` for a feature; empty if it has none."""
        return self.feature_ranges[self.feature_names.index(name)] if self.feature_ranges else ()

    def parse_labels(self, serialized: tf.Tensor) -> tf.Tensor:
        """Parses only the labels of serialized records, bool or float [N, C].

        This implementation parses whole records; a subclass may do better and skip the features.

        Args:
          serialized: string [N], the records.
        """
        reader = copy.copy(self)
        reader.zeroed = None  # values set to 0 are counted when whole records are parsed, and must not count twice
        return reader.prepare_serialized_examples(serialized).labels

    @abc.abstractmethod
    def prepare_serialized_examples(self, serialized: tf.Tensor) -> Batch:
        """Parses serialized records, string [B], into a batch."""

    @abc.abstractmethod
    def video_matrix(self, batch: Batch) -> tf.Tensor:
        """The features of a batch, concatenated to D values: float32 [B, D], or [B, T, D] for frames."""


def at_least_one(name: str, value: int) -> int:
    """Returns the `value` of the flag --`name`; raises `UsageError` if it is below 1."""
    if value < 1:
        raise UsageError(f"--{name} is {value}; it must be at least 1.")
    return int(value)


def dequantize(tensor: tf.Tensor, max_quantized_value: float = 2.0, min_quantized_value: float = -2.0) -> tf.Tensor:
    """Maps bytes 0..255 to floats: q * range/255 + range/512 + min, with range = max - min.

    The features of YouTube-8M (Abu-El-Haija et al., arXiv:1609.08675) were clipped to -2..2 and quantized
    to 256 steps; for this range the formula is q * 4/255 + 4/512 - 2.

    Args:
      tensor: the bytes q, of any numeric type and shape.
      max_quantized_value: upper end of the range, max.
      min_quantized_value: lower end of the range, min.

    Returns:
      float32 of the same shape.

    Raises:
      ValueError: the upper end is not above the lower one.
    """
    if max_quantized_value <= min_quantized_value:
        raise ValueError(f"the range of dequantized values, {min_quantized_value}..{max_quantized_value}, is empty")
    quantized_range = max_quantized_value - min_quantized_value
    return tf.cast(tensor, tf.float32) * (quantized_range / 255.0) + (quantized_range / 512.0 + min_quantized_value)


def resize_axis(tensor: tf.Tensor, axis: int, new_size: int, fill_value: float = 0) -> tf.Tensor:
    """Brings the dimension `axis` of a tensor to a size: cuts its end off, or appends `fill_value`.

    Args:
      tensor: of any type and of a known rank.
      axis: the index of the dimension.
      new_size: the size of this dimension in the result.
      fill_value: the appended value; it is converted to the tensor's type.
    """
    cut = tf.gather(tensor, tf.range(tf.minimum(tf.shape(tensor)[axis], new_size)), axis=axis)
    missing = new_size - tf.shape(cut)[axis]
    paddings = tf.scatter_nd([[axis, 1]], [missing], [tensor.shape.rank, 2])
    resized = tf.pad(cut, paddings, constant_values=tf.cast(fill_value, tensor.dtype))
    shape = tensor.shape.as_list()
    shape[axis] = new_size
    return tf.ensure_shape(resized, shape)


def join_features(batch: Batch) -> tf.Tensor:
    """Concatenates the features of a batch as floats.

    Features of type uint8 are dequantized to YouTube-8M's range. Frames past `num_frames` become exactly 0;
    dequantizing their padding, bytes of 0, would give -1.99.

    Returns:
      float32 [B, D] at video level, [B, T, D] for frames.
    """
    floats = [dequantize(feature) if feature.dtype == tf.uint8 else feature for feature in batch.features]
    return zero_padding(tf.concat(floats, axis=-1), batch.num_frames)


def join_film_means(batch: Batch) -> tf.Tensor | None:
    """The means of the videos that segments are part of, dequantised, float32 [B, D]; None if the batch has none."""
    return None if batch.film_means is None else tf.concat(batch.film_means, -1)


def zero_padding(features: tf.Tensor, num_frames: tf.Tensor) -> tf.Tensor:
    """Sets the frames after the end of each video to 0.

    Args:
      features: float32 [B, T, D] for frames; [B, D] at video level, which is returned unchanged.
      num_frames: int32 [B], the number of frames of each video.
    """
    if features.shape.rank == 2:
        return features
    exists = tf.sequence_mask(num_frames, tf.shape(features)[1])
    # Multiplication by the mask would not do: the padding may be NaN, and NaN times 0 is NaN.
    return tf.where_v2(exists[:, :, tf.newaxis], features, 0.0)


def parse_ids(serialized: tf.Tensor) -> tf.Tensor:
    """Parses the ids of Examples or SequenceExamples: `id`, or `video_id` as in the files of 2017 and AudioSet.

    Readers parse the ids before the features, so that messages about features can name the video.

    Args:
      serialized: string [B], the records.

    Returns:
      string [B]. Its computation fails on a record that has neither entry, and on bytes that are not such a proto, for
      example a record that was cut short.
    """
    _, ids = _context_and_ids(serialized, {})
    have_ids = require(
        tf.not_equal(ids, ""),
        lambda row: message("record ", row, " of the batch has no id: neither 'id' nor 'video_id' is there"),
    )
    return after_checks(ids, [have_ids, require_complete(after_checks(serialized, [ids]))])


def unchecked_ids(serialized: tf.Tensor) -> tf.Tensor:
    """The ids of records that are parsed once more later, string [B]; empty for a record without one."""
    return _context_and_ids(serialized, {})[1]


def parse_labels(serialized: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Parses only the labels of Examples or SequenceExamples, and skips the features.

    Args:
      serialized: string [N], the records.

    Returns:
      bool [N, C]. Its computation fails on a label outside of 0..C-1.
    """
    fields = {"labels": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)}
    context, ids = _context_and_ids(serialized, fields)
    return dense_labels(context["labels"], ids, num_classes)


def _context_and_ids(serialized: tf.Tensor, fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], tf.Tensor]:
    """Parses some context features of Examples or SequenceExamples, and their ids.

    Args:
      serialized: string [B], the records.

    Returns:
      ({name: the parsed feature}, string [B]: the ids, empty for a record without one).
    """
    # Serialized, an Example is a SequenceExample with only a context. The parser of SequenceExamples is used for both,
    # because its messages describe the damage; that of Examples quotes the damaged bytes, which Python cannot decode.
    id_fields = {name: tf.io.FixedLenFeature([], tf.string, default_value="") for name in ("id", "video_id")}
    context, _, _ = tf.io.parse_sequence_example(serialized, {**fields, **id_fields}, {})
    return context, tf.where_v2(tf.equal(context["id"], ""), context["video_id"], context["id"])


def dense_labels(labels: tf.RaggedTensor, ids: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Converts lists of labels to multi-hot labels.

    Args:
      labels: int64 [B, (labels)], the list of each record, which may be unsorted and have repeated labels.
      ids: string [B], the ids of the records.

    Returns:
      bool [B, C]. Its computation fails on a label outside of 0..C-1; the message names the label, C and the video.
    """
    are_known = require_known_labels(labels, ids, num_classes)
    indices = tf.stack([labels.value_rowids(), after_checks(labels.values, [are_known])], axis=1)
    shape = tf.stack([tf.size(ids, out_type=tf.int64), num_classes])
    sparse = tf.SparseTensor(indices, tf.ones_like(labels.values, tf.bool), shape)
    # This op is the fastest one, and accepts repeated and unsorted labels if it does not validate the indices.
    dense = tf.sparse.to_dense(sparse, default_value=False, validate_indices=False)
    return tf.ensure_shape(dense, [None, num_classes])


def fixed_size(feature: tf.RaggedTensor, name: str, size: int, ids: tf.Tensor) -> tf.Tensor:
    """Converts the lists of a feature, which must have `size` values each, to a tensor.

    Args:
      feature: [B, (values)], the list of each record.
      ids: string [B], the ids of the records.

    Returns:
      [B, size]. Its computation fails on a list of another length; the message names the feature, both lengths and the
      video.
    """
    expected = f" values, expected {size} (0: it is missing); check --feature_names and --feature_sizes"
    has_right_size = _require_size(feature.row_lengths(), size, name, expected, ids)
    return tf.reshape(after_checks(feature.values, [has_right_size]), [-1, size])


def fixed_bytes(feature: tf.RaggedTensor, name: str, size: int, ids: tf.Tensor) -> tf.Tensor:
    """Converts the lists of a feature, which must have one string of `size` bytes each, to uint8 [B, size].

    Other lengths fail as in `fixed_size`; the arguments are those of that function.
    """
    strings = tf.reshape(fixed_size(feature, name, 1, ids), [-1])
    expected = f" bytes, expected {size}; check --feature_sizes"
    has_right_size = _require_size(tf.strings.length(strings), size, name, expected, ids)
    return tf.reshape(tf.io.decode_raw(after_checks(strings, [has_right_size]), tf.uint8), [-1, size])


def _require_size(lengths: tf.Tensor, size: int, name: str, expected: str, ids: tf.Tensor) -> tf.Tensor:
    """A check, for `after_checks`, that each of the lengths is `size`.

    The message is `video ID: feature NAME has LENGTH`, then the text `expected`.

    Args:
      lengths: integers [B], the length of the feature in each record.
      ids: string [B], the ids of the records.
    """
    return require_of_video(
        tf.equal(lengths, size),
        lambda row: tf.gather(ids, row),
        lambda row: (f"feature {name} has ", tf.gather(lengths, row), expected),
    )


def only_finite(reader: Reader, values: tf.Tensor, name: str, id_of: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Refuses or replaces values that are NaN, infinite or beyond `LARGEST`: their L2 norm could overflow.

    Args:
      reader: the reader. Its `nan_policy` says whether such values fail or are set to 0, and its `zeroed` counts those
        that are set to 0.
      values: float32 [R, size], rows of values of one feature.
      id_of: maps indices of rows, int64 [K], to the ids of their videos, string [K].

    Returns:
      float32 [R, size]: the values, with 0 in place of replaced ones. With the policy `refuse`, its computation fails
      on such a value; the message names the feature and the video.
    """

    def check_each() -> tf.Tensor:
        """Returns the values with 0 for each NaN, infinite or too large one; `refuse` of nan_policy fails instead."""
        good = tf.abs(values) <= LARGEST
        # The good values are counted, because TensorFlow would rewrite not(<=) as `>`, which is False for NaN.
        bad = tf.shape(values, out_type=tf.int64)[1] - tf.math.count_nonzero(good, axis=1)
        if reader.nan_policy == "zero":
            zero = tf.zeros([])
            if reader.zeroed is not None:
                # A Python function counts these values, because a batch has no field for the count. The function is
                # declared stateless, because TensorFlow cannot save the position of an input with stateful functions.
                zero = tf.numpy_function(reader.zeroed.add, [tf.reduce_sum(bad)], tf.float32, stateful=False)
            return tf.where_v2(good, values, tf.reshape(zero, []))
        none = require_of_video(
            tf.equal(bad, 0),
            id_of,
            lambda row: (
                *(f"feature {name} has ", tf.gather(bad, row), f" values that are {UNFIT}"),
                ", expected none: the L2 norm must fit a float32; fix the file, or set them to 0 by --nan_policy=zero",
            ),
        )
        return after_checks(values, [none])

    # If the sum of squares is small enough, every value is in range, and the test of each value is skipped.
    half_sum = tf.nn.l2_loss(values)
    return tf.cond(half_sum < LARGEST**2 / 4, lambda: values, check_each)


def require(good: tf.Tensor, describe: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """A check, for `after_checks`, that all entries of `good` are True; if not, its computation fails.

    The error is InvalidArgumentError. Its message is computed for every batch, even if it is not needed: the few ops on
    at most one entry cost less than a `tf.cond` around them, whose functions would take most of the time in which a
    graph is built and a session starts.

    Args:
      good: bool [N].
      describe: maps the index of the first bad entry, int64 [1], or int64 [0] if there is none, to its error message,
        string of the same shape.
    """
    first = tf.where_v2(tf.logical_not(good))[:1, 0]
    passed = tf.equal(tf.size(first), 0)
    text = tf.raw_ops.ReduceJoin(inputs=describe(first), reduction_indices=0)
    with tf.control_dependencies([tf.raw_ops.Assert(condition=passed, data=[text])]):
        return tf.identity(passed)


def require_of_video(
    good: tf.Tensor, id_of: Callable[[tf.Tensor], tf.Tensor], describe: Callable[[tf.Tensor], Sequence[str | tf.Tensor]]
) -> tf.Tensor:
    """Like `require`, with an error message that begins with the id of the video: `video ID: ...`.

    Args:
      good: bool [N].
    """
    return require(good, lambda at: message("video ", id_of(at), ": ", *describe(at)))


def id_of_value(ragged: tf.RaggedTensor, ids: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function that maps indices, int64 [K], into the flat values of `ragged` to the ids of their records.

    Args:
      ragged: [B, (values)].
      ids: string [B], the ids of the records.
    """
    return lambda indices: tf.gather(ids, row_of_value(ragged, indices))


def row_of_value(ragged: tf.RaggedTensor, indices: tf.Tensor) -> tf.Tensor:
    """The rows of `ragged` that have the flat values at `indices`, both int64 [K].

    For a few values, this is faster than `value_rowids`.
    """
    splits = ragged.row_splits[tf.newaxis]
    ends = tf.raw_ops.UpperBound(sorted_inputs=splits, values=indices[tf.newaxis], out_type=tf.int64)
    return ends[0] - 1


def require_known_labels(labels: tf.RaggedTensor, ids: tf.Tensor, num_classes: int) -> tf.Tensor:
    """A check, for `after_checks`, that every label is in 0..num_classes-1.

    Args:
      labels: int64 [B, (labels)], the list of each record.
      ids: string [B], the ids of the records, for the message.
    """
    return require_of_video(
        tf.logical_and(labels.values >= 0, labels.values < num_classes),
        id_of_value(labels, ids),
        lambda at: (
            *("label ", tf.gather(labels.values, at)),
            f" is outside of 0..{num_classes - 1} (num_classes={num_classes}); check --num_classes",
        ),
    )


def require_complete(serialized: tf.Tensor) -> tf.Tensor:
    """A check, for `after_checks`, that no record of `serialized`, string [B], was cut short; fails with DataLossError.

    It compares the end of each record with the end of its outermost fields. Without it, a record that was cut between
    two features would silently lose the features after the cut: if a message is longer than the rest of the record,
    TensorFlow's parser ends the message there.
    """

    def walk() -> tf.Tensor:
        """True, bool scalar; its computation fails with DataLossError if a record was cut short."""
        # The op reads all fields but extracts only one that no record has, so that nothing is copied.
        decoded = tf.raw_ops.DecodeProtoV2(
            bytes=serialized,
            message_type="yt8m.Outermost",
            field_names=["unused"],
            output_types=[tf.string],
            descriptor_source=_outermost_message(),
        )
        return tf.reduce_all(decoded.sizes >= 0)  # True; the use of `sizes` keeps the op, which fails, in the graph

    # The op fails on an empty batch, which is valid here.
    is_complete = tf.cond(tf.size(serialized) > 0, walk, lambda: tf.constant(True))
    return require(tf.reshape(is_complete, [1]), lambda at: message("record ", at, " of the batch is damaged"))


def _outermost_message() -> bytes:
    """The descriptor of a message with one field that no record has, in the form that DecodeProto expects."""
    files = descriptor_pb2.FileDescriptorSet()
    outermost = files.file.add(name="yt8m/outermost.proto", package="yt8m").message_type.add(name="Outermost")
    field = descriptor_pb2.FieldDescriptorProto
    largest = (1 << 29) - 1
    outermost.field.add(name="unused", number=largest, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    return b"bytes://" + files.SerializeToString(deterministic=True)


def after_checks(value: tf.Tensor, checks: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns `value`, whose computation waits for all `checks`, and fails if one of them fails."""
    with tf.control_dependencies(checks):
        return tf.identity(value)


def message(*words: str | tf.Tensor) -> tf.Tensor:
    """Joins texts and tensors [K] (strings, integers, floats) into string [K]; a scalar if all tensors are scalars."""
    return tf.strings.join([part if isinstance(part, str) else _as_text(part) for part in words])


def _as_text(value: tf.Tensor) -> tf.Tensor:
    if value.dtype == tf.string:
        return valid_utf8(value)
    return tf.as_string(value, shortest=value.dtype.is_floating)


def valid_utf8(text: tf.Tensor) -> tf.Tensor:
    """Replaces invalid UTF-8 in a string tensor, because Python cannot decode an error message that has such bytes."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
