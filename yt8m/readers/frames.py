"""The frames of a batch of records, flat until they are padded or picked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from yt8m.lazy import tf
from yt8m.readers.checks import gate, readable, require, say
from yt8m.readers.finite import ZeroedCount, only_finite


def holds_floats(name: str) -> bool:
    """Whether the file holds floats under this name (MediaPipe's `RGB/feature/floats`), not bytes."""
    return name.endswith("/floats")


def list_features(names: Sequence[str]) -> dict[str, Any]:
    """How the feature lists are parsed: ragged, so that one huge record does not widen all others."""
    return {
        name: tf.io.RaggedFeature(tf.float32 if holds_floats(name) else tf.string, row_splits_dtype=tf.int64)
        for name in names
    }


@dataclass(frozen=True)
class Frames:
    """All frames of one feature, of all records in a row.

    Attributes:
      values: string [F] (raw bytes, decoded once it is known which are needed) or float32 [F, size].
      row_splits: int64 [N + 1], where each record's frames begin and end.
      size: values of a frame.
    """

    values: tf.Tensor
    row_splits: tf.Tensor
    size: int

    def padded(self, lengths: tf.Tensor, longest: tf.Tensor) -> tf.Tensor:
        """uint8 or float32 [N, longest, size]; later frames are left out, missing ones are 0.

        Args:
          lengths: int64 [N], a check on which the values must wait.
          longest: int64 scalar.
        """
        values = self._decode(gate(self.values, [lengths]))
        ragged = tf.RaggedTensor.from_row_splits(values, self.row_splits, validate=False)
        return tf.ensure_shape(
            ragged.to_tensor(shape=tf.stack([-1, longest, self.size])), [None, None, self.size]
        )

    def gathered(self, at: tf.Tensor, valid: tf.Tensor, count: int) -> tf.Tensor:
        """uint8 or float32 [R, count, size] of single frames; only those are decoded.

        Args:
          at: int64 [R, count], indices into `values`.
          valid: bool [R, count], the first ones of each row; the rest is 0.
          count: frames of a row.
        """
        values = self._decode(_picked(self.values, tf.boolean_mask(at, valid)))
        shape = tf.stack([tf.shape(valid, out_type=tf.int64)[0], count, self.size])
        lengths = tf.math.count_nonzero(valid, axis=1)
        rows = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
        return tf.ensure_shape(rows.to_tensor(shape=shape), [None, count, self.size])

    def _decode(self, values: tf.Tensor) -> tf.Tensor:
        if values.dtype == tf.string:
            values = tf.io.decode_raw(values, tf.uint8)
        return tf.reshape(values, [-1, self.size])


def flat_frames(
    ragged: tf.RaggedTensor,
    name: str,
    size: int,
    ids: tf.Tensor,
    nan_policy: str = "refuse",
    zeroed: ZeroedCount | None = None,
) -> Frames:
    """From a feature list [N, (frames), (values)] to its frames; each must hold `size` values.

    A frame of another size fails and names the feature, the sizes, the frame and the video; floats that
    are NaN, infinite or too large are treated as `only_finite` says.
    """
    steps = ragged.values

    def checked(values: tf.Tensor, counts: tf.Tensor, expected: int, what: str) -> tf.Tensor:
        def describe(at: tf.Tensor) -> tf.Tensor:
            row = ragged.value_rowids()[at]
            frame = at - ragged.row_splits[row]
            return say(
                *("video ", ids[row], f": feature {name}, frame ", frame, ", has ", counts[at]),
                f" {what}, expected {expected}; check --feature_names and --feature_sizes",
            )

        return gate(values, [require(tf.equal(counts, expected), describe)])

    if holds_floats(name):
        values = checked(steps.values, steps.row_lengths(), size, "values")
        flat, rows = tf.reshape(values, [-1, size]), ragged.value_rowids()
        flat = only_finite(flat, name, lambda frame: ids[rows[frame]], nan_policy, zeroed)
        return Frames(flat, ragged.row_splits, size)
    values = checked(steps.values, steps.row_lengths(), 1, "strings of bytes")
    values = checked(values, tf.strings.length(values), size, "bytes")
    return Frames(values, ragged.row_splits, size)


def equal_lengths(
    parts: Sequence[Frames], names: Sequence[str], ids: tf.Tensor, serialized: tf.Tensor
) -> tf.Tensor:
    """int64 [N], the number of frames of each record, the same for every feature.

    Unequal numbers fail, naming both features, both numbers and the video; so does a record that has none
    of the features (an empty list is a video without frames and passes).
    """
    counts = [part.row_splits[1:] - part.row_splits[:-1] for part in parts]
    checks = [_same(counts[0], other, names[0], name, ids) for other, name in zip(counts, names, strict=True)]
    # An absent list and an empty one look the same when parsed ragged; the strict parser tells them apart.
    empty = tf.equal(counts[0], 0)
    checks.append(
        tf.cond(
            tf.reduce_any(empty),
            lambda: _all_present(
                parts, names, tf.boolean_mask(serialized, empty), tf.boolean_mask(ids, empty)
            ),
            lambda: tf.constant(True),
        )
    )
    return gate(counts[0], checks)


def _same(first: tf.Tensor, other: tf.Tensor, first_name: str, name: str, ids: tf.Tensor) -> tf.Tensor:
    return require(
        tf.equal(first, other),
        lambda row: say(
            *(
                "video ",
                ids[row],
                ": ",
                first[row],
                f" frames of {first_name} and ",
                other[row],
                f" of {name}",
            ),
            "; they must be as many (0: the feature is missing or empty)",
        ),
    )


def _all_present(
    parts: Sequence[Frames], names: Sequence[str], serialized: tf.Tensor, ids: tf.Tensor
) -> tf.Tensor:
    strict = {
        name: tf.io.FixedLenSequenceFeature([part.size], tf.float32)
        if holds_floats(name)
        else tf.io.FixedLenSequenceFeature([], tf.string)
        for name, part in zip(names, parts, strict=True)
    }
    _, _, lengths = tf.io.parse_sequence_example(serialized, {}, strict, example_names=readable(ids))
    # The parser itself complains; a result that nothing looks at would be optimised away with it.
    seen = tf.concat(list(lengths.values()), axis=0)
    return require(seen >= 0, lambda row: say("a feature list has ", seen[row], " frames"))


def _picked(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """values[indices], without copying a frame where that is all of them in their order."""
    every = tf.range(tf.shape(values, out_type=tf.int64)[0])
    is_all = tf.cond(
        tf.equal(tf.size(indices), tf.size(every)),
        lambda: tf.reduce_all(tf.equal(indices, every)),
        lambda: tf.constant(False),
    )
    return tf.cond(is_all, lambda: values, lambda: tf.gather(values, indices))
