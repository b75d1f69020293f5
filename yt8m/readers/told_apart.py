"""Whole videos for a model that sees the windows beside a cell, which tells cells by their number of frames alone."""

from __future__ import annotations

from typing import Any

from yt8m.lazy import tf
from yt8m.types import Batch


def from_cells(batch: Batch, reader: Any) -> Batch:
    """The batch of whole videos, in which those with as many frames as a cell and its context have each frame twice.

    Then no video is taken for a cell. The batch is unchanged for a reader without `segment_context`.
    """
    if not getattr(reader, "segment_context", 0):
        return batch
    is_as_long = tf.equal(batch.num_frames, reader.segment_frames)
    total = tf.shape(batch.features[0])[1]
    numbers = tf.range(tf.maximum(total, 2 * reader.segment_frames))
    places = tf.minimum(tf.where_v2(is_as_long[:, tf.newaxis], numbers // 2, numbers), total - 1)
    num_frames = tf.where_v2(is_as_long, 2, 1) * batch.num_frames
    is_real = tf.sequence_mask(num_frames, tf.size(numbers))[:, :, tf.newaxis]

    def repeated() -> tuple[tf.Tensor, ...]:
        values = (tf.gather(feature, places, batch_dims=1) for feature in batch.features)
        return tuple(tf.where_v2(is_real, value, tf.zeros([], value.dtype)) for value in values)

    features = tf.cond(tf.reduce_any(is_as_long), repeated, lambda: tuple(map(tf.identity, batch.features)))
    shaped = (
        tf.ensure_shape(value, [None, None, old.shape[-1]]) for value, old in zip(features, batch.features, strict=True)
    )
    return batch._replace(features=tuple(shaped), num_frames=num_frames)
