"""The frames of a batch as the steps of a recurrent layer: with those that pad the shorter videos, or without.

A layer has its values as rows, [N, F]: one row for each frame, those of the first time first. Both classes here have
the same attributes, and give the same results but for the last bits. `PackedFrames` has no rows for padding, so that a
batch takes as long as its real frames; how many rows a step has then changes from step to step. `PaddedFrames` has the
same rows at each time, as GPUs and the exports need them. `needs_rows_of_final` says whether `final` reads rows of the
states that it joins, so that the loop must write them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from yt8m.lazy import tf
from yt8m.numerics import expected_rows
from yt8m.numerics.compiled import is_on_gpu

States = tuple[Any, ...]  # state tensors [B, cells]; the last one is the output of the layer


class PaddedFrames:
    """All frames, those of the padding too, which leave the states unchanged."""

    needs_rows_of_final = False

    def __init__(self, mask: tf.Tensor) -> None:
        """Takes the mask [T, B], 1 at real frames, which come first."""
        self.times, self.videos = tf.unstack(tf.shape(mask))
        self._is_real = self.by_time(self.rows(mask[:, :, tf.newaxis]))

    def rows(self, values: tf.Tensor) -> tf.Tensor:
        """The rows [N, F] of values [T, B, F]."""
        return tf.reshape(values, [-1, values.shape[-1]])

    def in_time(self, rows: tf.Tensor) -> tf.Tensor:
        """Maps rows [N, F] to [T, B, F]; what stands at padding has no meaning."""
        return tf.reshape(rows, [self.times, self.videos, rows.shape[-1]])

    def by_time(self, rows: tf.Tensor) -> tf.TensorArray:
        """The rows of each time, for the steps of a loop to read."""
        return tf.TensorArray(tf.float32, self.times).unstack(self.in_time(rows))

    def to_write(self, _size: int) -> tf.TensorArray:
        """An array for the rows [., size] that the steps of a loop write."""
        return tf.TensorArray(tf.float32, self.times)

    def written(self, array: tf.TensorArray, size: int) -> tf.Tensor:
        """The rows [N, size] that a loop wrote."""
        return tf.reshape(array.stack(), [-1, size])

    def before(self, _time: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """What a step reads of a state [B, F]."""
        return state

    def gates(self, values: tf.Tensor, count: int) -> list[tf.Tensor]:
        """Splits what a step computed for all gates, [B, count * F], into one tensor [B, F] for each."""
        gates: list[tf.Tensor] = tf.split(values, count, 1)
        return gates

    def after(self, time: tf.Tensor, states: States, new: States) -> States:
        """The states [B, F] after a step, from those before it and what the step made of them."""
        is_real = self._is_real.read(time)
        return tuple(is_real * of_new + (1.0 - is_real) * old for of_new, old in zip(new, states, strict=True))

    def final(self, state: tf.Tensor, _rows: tf.Tensor | None) -> tf.Tensor:
        """The states [B, F] after the last real frames, which are those after the loop."""
        return state


class PackedFrames:
    """The real frames alone. In the loop the longest video comes first, so the first rows of a state have frames."""

    needs_rows_of_final = True

    def __init__(self, mask: tf.Tensor, *, is_training: bool) -> None:
        """Takes the mask [T, B], 1 at real frames, which come first; and whether gradients are computed."""
        self._is_training = is_training
        self._lengths = tf.cast(tf.reduce_sum(mask, 0), tf.int32)
        order = tf.argsort(self._lengths, direction="DESCENDING", stable=True)
        is_real = tf.gather(mask, order, axis=1) > 0.0
        numbers = tf.where(is_real)
        self._places = tf.stack([numbers[:, 0], tf.gather(tf.cast(order, tf.int64), numbers[:, 1])], 1)
        self._order, self._shape = order, tf.shape(mask)
        # One step at least, since TensorFlow does not join the rows of no step.
        self._counts = tf.reduce_sum(tf.cast(is_real, tf.int32), 1)[: tf.maximum(tf.reduce_max(self._lengths), 1)]
        self.times, self.videos = tf.size(self._counts), self._shape[1]

    def rows(self, values: tf.Tensor) -> tf.Tensor:
        """The rows [N, F] of values [T, B, F]."""
        return tf.gather_nd(values, self._places)

    def in_time(self, rows: tf.Tensor) -> tf.Tensor:
        """Maps rows [N, F] to [T, B, F]; zeros at padding."""
        size = int(rows.shape[-1])
        values = tf.scatter_nd(self._places, rows, tf.cast(tf.concat([self._shape, [size]], 0), tf.int64))
        return tf.ensure_shape(values, [None, None, size])

    def by_time(self, rows: tf.Tensor) -> tf.TensorArray | _Slices:
        """The rows of each time, for the steps of a loop to read.

        A slice copies nothing, but its gradient is as large as all rows, so in training the rows are split beforehand.
        """
        if self._is_training:
            return self.to_write(int(rows.shape[-1])).split(rows, self._counts)
        return _Slices(rows, tf.cumsum(self._counts, exclusive=True), self._counts)

    def to_write(self, size: int) -> tf.TensorArray:
        """An array for the rows [., size] that the steps of a loop write."""
        return tf.TensorArray(tf.float32, self.times, infer_shape=False, element_shape=tf.TensorShape([None, size]))

    def written(self, array: tf.TensorArray, size: int) -> tf.Tensor:
        """The rows [N, size] that a loop wrote."""
        return tf.ensure_shape(array.concat(), [None, size])

    def before(self, time: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """What a step reads of a state: the rows of the videos which have a frame at this time."""
        return state[: self._counts[time]]

    def gates(self, values: tf.Tensor, count: int) -> list[tf.Tensor]:
        """Splits what a step computed for all gates, [., count * F], into one tensor for each.

        On a CPU slices copy faster than a split, but their gradient pads each of them.
        """
        size = int(values.shape[-1]) // count
        gates: list[tf.Tensor] = (
            tf.split(values, count, 1)
            if self._is_training
            else [tf.slice(values, [0, start], [-1, size]) for start in range(0, count * size, size)]
        )
        return gates

    def after(self, _time: tf.Tensor, _states: States, new: States) -> States:
        """The states after a step, of the videos that had a frame."""
        return new

    def final(self, _state: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """The states [B, F] after the last real frames, from the rows [N, F] of all steps; zeros if there are none."""
        videos = tf.where(self._lengths > 0)[:, 0]
        starts = tf.cumsum(self._counts, exclusive=True)
        places = tf.gather(tf.math.invert_permutation(self._order), videos)
        last = tf.gather(starts, tf.gather(self._lengths, videos) - 1) + places
        shape = tf.stack([tf.cast(self.videos, tf.int64), int(rows.shape[-1])])
        return tf.scatter_nd(videos[:, tf.newaxis], tf.gather(rows, last), shape)


class _Slices(NamedTuple):
    """Rows that are read step by step.

    Attributes:
      rows: [N, F].
      starts: [T], the first row of each step.
      counts: [T], the number of rows of each step.
    """

    rows: tf.Tensor
    starts: tf.Tensor
    counts: tf.Tensor

    def read(self, time: tf.Tensor) -> tf.Tensor:
        """The rows of a step."""
        start = self.starts[time]
        return self.rows[start : start + self.counts[time]]


Frames = PaddedFrames | PackedFrames


def choose_frames(mask: tf.Tensor, *, is_training: bool) -> Frames:
    """The frames of a batch with the mask [T, B]: without padding in `train`, `eval` and `inference` on a CPU.

    A GPU would wait in each step for the number of its rows. In a graph that may be exported every step has the same
    number of rows.
    """
    may_be_exported = not is_training and not expected_rows.current()
    if may_be_exported or is_on_gpu(tf.identity(mask)):
        return PaddedFrames(mask)
    return PackedFrames(mask, is_training=is_training)
