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

from yt8m.config.train_config import check_features
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.records.shards import LARGEST, UNFIT
from yt8m.types import Batch


class ZeroedCount:
    """Counts the values that readers set to 0; any thread may add to it."""

    def __init__(self) -> None:
        self.count, self._lock = 0, threading.Lock()

    def add(self, count: int) -> np.float32:
        """Adds `count` to the attribute `count`; returns 0, which replaces the values."""
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
          floats; empty for records with YouTube-8M's ranges.
      zeroed: counts the values that were set to 0; None if they are not counted.
    """

    zeroed: ZeroedCount | None = None

    def __init__(
        self,
        num_classes: int = 3862,
        feature_sizes: Sequence[int] = (1024, 128),
        feature_names: Sequence[str] = ("mean_rgb", "mean_audio"),
        nan_policy: str = "refuse",
        feature_ranges: Sequence[Sequence[float]] = (),
    ) -> None:
        """Checks and stores the arguments; by default they are those of YouTube-8M's videos.

        Raises:
          UsageError: the numbers of names and sizes differ, a name is repeated, a size or the class count is
            below 1, or the policy is unknown.
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
        """The labels of N serialized records, bool or float [N, C]; a subclass may skip the features."""
        reader = copy.copy(self)
        reader.zeroed = None  # they are counted when the records are parsed as a whole
        return reader.prepare_serialized_examples(serialized).labels

    @abc.abstractmethod
    def prepare_serialized_examples(self, serialized: tf.Tensor) -> Batch:
        """Parses a vector of serialized records, string [B]."""

    @abc.abstractmethod
    def video_matrix(self, batch: Batch) -> tf.Tensor:
        """The features of a batch, concatenated: float32 [B, D], or [B, T, D] for frames."""


def at_least_one(name: str, value: int) -> int:
    """Returns `value`; raises `UsageError` if it is below 1."""
    if value < 1:
        raise UsageError(f"--{name} is {value}; it must be at least 1.")
    return int(value)


def dequantize(tensor: tf.Tensor, max_quantized_value: float = 2.0, min_quantized_value: float = -2.0) -> tf.Tensor:
    """Maps bytes 0..255 to the values that they stand for: q * range/255 + range/512 + min.

    The features of YouTube-8M (Abu-El-Haija et al., arXiv:1609.08675) were clipped to -2..2 and quantized
    to 256 steps; for this range the formula is q * 4/255 + 4/512 - 2.

    Args:
      tensor: of any numeric type and shape.
      max_quantized_value: upper end of the range.
      min_quantized_value: lower end of the range.

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
    """Cuts `tensor` along `axis` to `new_size`, or pads it there with `fill_value`."""
    cut = tf.gather(tensor, tf.range(tf.minimum(tf.shape(tensor)[axis], new_size)), axis=axis)
    missing = new_size - tf.shape(cut)[axis]
    paddings = tf.scatter_nd([[axis, 1]], [missing], [tensor.shape.rank, 2])
    resized = tf.pad(cut, paddings, constant_values=tf.cast(fill_value, tensor.dtype))
    shape = tensor.shape.as_list()
    shape[axis] = new_size
    return tf.ensure_shape(resized, shape)


def join_features(batch: Batch) -> tf.Tensor:
    """Concatenates the features of a batch as floats.

    Returns:
      float32 [B, D] at video level, [B, T, D] for frames. uint8 is dequantized from YouTube-8M's range, floats are
      unchanged, and frames past num_frames are exactly 0 (a byte of 0 would be -1.99).
    """
    floats = [dequantize(feature) if feature.dtype == tf.uint8 else feature for feature in batch.features]
    return zero_padding(tf.concat(floats, axis=-1), batch.num_frames)


def zero_padding(features: tf.Tensor, num_frames: tf.Tensor) -> tf.Tensor:
    """`features` [B, T, D] with frames past `num_frames` [B] set to 0; unchanged at video level, [B, D].

    Multiplication by a mask would not do, because the padding may hold NaN.
    """
    if features.shape.rank == 2:
        return features
    valid = tf.sequence_mask(num_frames, tf.shape(features)[1])
    return tf.where_v2(valid[:, :, tf.newaxis], features, 0.0)


def parse_ids(serialized: tf.Tensor) -> tf.Tensor:
    """The ids of Examples or SequenceExamples, string [B]: `id`, or `video_id` as in the files of 2017 and AudioSet.

    Fails on a record that has neither, and on bytes that are not such a proto, such as a record cut short. Ids are
    parsed before the features, so that errors in features can name the video.
    """
    _, ids = _context_and_ids(serialized, {})
    have_ids = require(
        tf.not_equal(ids, ""),
        lambda row: message("record ", row, " of the batch has no id: neither 'id' nor 'video_id' is there"),
    )
    return after_checks(ids, [have_ids, require_complete(after_checks(serialized, [ids]))])


def parse_labels(serialized: tf.Tensor, num_classes: int) -> tf.Tensor:
    """The labels of Examples or SequenceExamples, bool [N, C]; skips the features, and fails like `dense_labels`."""
    fields = {"labels": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)}
    context, ids = _context_and_ids(serialized, fields)
    return dense_labels(context["labels"], ids, num_classes)


def _context_and_ids(serialized: tf.Tensor, fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], tf.Tensor]:
    """({name: value} of these context features of Examples or SequenceExamples, their ids [B] or empty strings)."""
    # Serialized, an Example is a SequenceExample with only a context. The parser of SequenceExamples describes what is
    # wrong; that of Examples quotes the damaged bytes, which Python then fails to decode.
    id_fields = {name: tf.io.FixedLenFeature([], tf.string, default_value="") for name in ("id", "video_id")}
    context, _, _ = tf.io.parse_sequence_example(serialized, {**fields, **id_fields}, {})
    return context, tf.where_v2(tf.equal(context["id"], ""), context["video_id"], context["id"])


def dense_labels(labels: tf.RaggedTensor, ids: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Multi-hot labels, bool [B, C], from int64 lists [B, (labels)], which may be unsorted and have repeated labels.

    A label outside of 0..C-1 fails with an error that names the label, C and the video.
    """
    are_known = require_known_labels(labels, ids, num_classes)
    indices = tf.stack([labels.value_rowids(), after_checks(labels.values, [are_known])], axis=1)
    shape = tf.stack([tf.size(ids, out_type=tf.int64), num_classes])
    sparse = tf.SparseTensor(indices, tf.ones_like(labels.values, tf.bool), shape)
    # Without validation this op accepts repeated and unsorted labels; no other op is as fast.
    dense = tf.sparse.to_dense(sparse, default_value=False, validate_indices=False)
    return tf.ensure_shape(dense, [None, num_classes])


def fixed_size(feature: tf.RaggedTensor, name: str, size: int, ids: tf.Tensor) -> tf.Tensor:
    """[B, size] from lists of `size` values; other lengths fail with an error that names feature, sizes and video."""
    expected = f" values, expected {size} (0: it is missing); check --feature_names and --feature_sizes"
    right = _require_size(feature.row_lengths(), size, name, expected, ids)
    return tf.reshape(after_checks(feature.values, [right]), [-1, size])


def fixed_bytes(feature: tf.RaggedTensor, name: str, size: int, ids: tf.Tensor) -> tf.Tensor:
    """uint8 [B, size] from lists of one string of `size` bytes each; other lengths fail as in `fixed_size`."""
    strings = tf.reshape(fixed_size(feature, name, 1, ids), [-1])
    expected = f" bytes, expected {size}; check --feature_sizes"
    right = _require_size(tf.strings.length(strings), size, name, expected, ids)
    return tf.reshape(tf.io.decode_raw(after_checks(strings, [right]), tf.uint8), [-1, size])


def _require_size(lengths: tf.Tensor, size: int, name: str, expected: str, ids: tf.Tensor) -> tf.Tensor:
    """A check that each of `lengths` [B] is `size`; `expected` ends the error message, after the wrong length."""
    return require_of_video(
        tf.equal(lengths, size),
        lambda row: tf.gather(ids, row),
        lambda row: (f"feature {name} has ", tf.gather(lengths, row), expected),
    )


def only_finite(reader: Reader, values: tf.Tensor, name: str, id_of: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Checks `values` for NaN, infinity and values beyond `LARGEST`, whose L2 norm could overflow.

    Such values cause an error that names the feature and the video, or are set to 0, as the reader's `nan_policy` says.

    Args:
      reader: the reader, which counts the values that are set to 0.
      values: float32 [R, size].
      name: name of the feature.
      id_of: maps indices of rows to the ids of their videos.

    Returns:
      float32 [R, size].
    """

    def check_each() -> tf.Tensor:
        good = tf.abs(values) <= LARGEST
        # The good values are counted, because TensorFlow would rewrite not(<=) as `>`, which is False for NaN.
        bad = tf.shape(values, out_type=tf.int64)[1] - tf.math.count_nonzero(good, axis=1)
        if reader.nan_policy == "zero":
            zero = tf.zeros([])
            if reader.zeroed is not None:
                # A Python function counts them, because a batch has no field for the count. It is declared stateless,
                # because the position of an input with stateful functions cannot be saved.
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

    # If the sum of squares is this small, every value is in range, and nothing else need be computed.
    half_sum = tf.nn.l2_loss(values)
    return tf.cond(half_sum < LARGEST**2 / 4, lambda: values, check_each)


def require(good: tf.Tensor, describe: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """A check that all entries of `good` are True; fails with InvalidArgumentError.

    The message is built for every batch, even if it is not needed: its few ops on at most one entry cost less than a
    `tf.cond` around them, whose functions take most of the time in which a graph is built and a session starts.

    Args:
      good: bool [N].
      describe: maps the index of the first bad entry, int64 [1], or int64 [0] if there is none, to its error message,
        string of the same shape.

    Returns:
      bool scalar for `after_checks`.
    """
    first = tf.where_v2(tf.logical_not(good))[:1, 0]
    passed = tf.equal(tf.size(first), 0)
    text = tf.raw_ops.ReduceJoin(inputs=describe(first), reduction_indices=0)
    with tf.control_dependencies([tf.raw_ops.Assert(condition=passed, data=[text])]):
        return tf.identity(passed)


def require_of_video(
    good: tf.Tensor, id_of: Callable[[tf.Tensor], tf.Tensor], describe: Callable[[tf.Tensor], Sequence[str | tf.Tensor]]
) -> tf.Tensor:
    """Like `require`, with an error message that begins with the id of the video.

    Args:
      good: bool [N].
      id_of: maps the index of the first bad entry, as in `require`, to the id of its video.
      describe: maps the same index to the parts of the `message` after the id.
    """
    return require(good, lambda at: message("video ", id_of(at), ": ", *describe(at)))


def id_of_value(ragged: tf.RaggedTensor, ids: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function that maps indices [K] of values in `ragged` [B, (values)] to the ids of their records."""
    return lambda at: tf.gather(ids, row_of_value(ragged, at))


def row_of_value(ragged: tf.RaggedTensor, at: tf.Tensor) -> tf.Tensor:
    """The row of each value at indices [K], int64 [K]; for a few values this is faster than `value_rowids`."""
    ends = tf.raw_ops.UpperBound(sorted_inputs=ragged.row_splits[tf.newaxis], values=at[tf.newaxis], out_type=tf.int64)
    return ends[0] - 1


def require_known_labels(labels: tf.RaggedTensor, ids: tf.Tensor, num_classes: int) -> tf.Tensor:
    """A check that every label is in 0..num_classes-1."""
    return require_of_video(
        tf.logical_and(labels.values >= 0, labels.values < num_classes),
        id_of_value(labels, ids),
        lambda at: (
            *("label ", tf.gather(labels.values, at)),
            f" is outside of 0..{num_classes - 1} (num_classes={num_classes}); check --num_classes",
        ),
    )


def require_complete(serialized: tf.Tensor) -> tf.Tensor:
    """A check that the outermost fields of each record [B] end at the end of the record; fails with DataLossError.

    Without it, a record that was cut between two features would silently lose the rest: if a message is longer than the
    rest of the record, TensorFlow's parser ends the message there.
    """

    def walk() -> tf.Tensor:
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
    """`value`, computed only after all `checks` have passed."""
    with tf.control_dependencies(checks):
        return tf.identity(value)


def message(*words: str | tf.Tensor) -> tf.Tensor:
    """Joins words and tensors [K] (strings, integers, floats) into string [K]; a scalar if all tensors are scalars."""
    return tf.strings.join([part if isinstance(part, str) else _as_text(part) for part in words])


def _as_text(value: tf.Tensor) -> tf.Tensor:
    if value.dtype == tf.string:
        return valid_utf8(value)
    return tf.as_string(value, shortest=value.dtype.is_floating)


def valid_utf8(text: tf.Tensor) -> tf.Tensor:
    """`text` with invalid UTF-8 replaced, because Python cannot decode an error message with such bytes."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
