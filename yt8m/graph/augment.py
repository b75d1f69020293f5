"""Random changes of the features in training, the same ones in a resumed run."""

from __future__ import annotations

from yt8m import random_keys
from yt8m.config_training import AugmentConfig
from yt8m.lazy import tf
from yt8m.readers import join_features
from yt8m.types import Batch


def augment(batch: Batch, config: AugmentConfig) -> Batch:
    """`batch` with its features dequantised, joined into one float32 tensor and changed at random.

    First a crop in time, then frames are left out of it, then noise is added. Frames that stay move
    together in their order, and `num_frames` counts them: at least one of every video that had any. What is
    off draws no random number. Nothing at all is touched where all is off.
    """
    if not config.is_on:
        return batch
    features, num_frames = join_features(batch), batch.num_frames
    if config.needs_frames:
        features, num_frames = _gathered(features, _kept(num_frames, tf.shape(features)[1], config))
    if config.augment_noise:
        noise = tf.random.stateless_normal(tf.shape(features), random_keys.next_seed())
        features = _masked(features + config.augment_noise * noise, num_frames)
    return batch._replace(features=(features,), num_frames=num_frames)


def _kept(num_frames: tf.Tensor, frames: tf.Tensor, config: AugmentConfig) -> tf.Tensor:
    """bool [B, T]: the frames that stay."""
    kept = tf.sequence_mask(num_frames, frames)
    if config.augment_crop < 1:
        kept = _crop(num_frames, frames, config.augment_crop)
    if config.augment_frame_dropout:
        luck = tf.random.stateless_uniform(tf.shape(kept), random_keys.next_seed())
        luck = tf.where_v2(kept, luck, -1.0)
        best = tf.reduce_max(luck, axis=1, keepdims=True)
        # The luckiest frame stays in any case: a video never loses all of its frames.
        kept &= (luck >= config.augment_frame_dropout) | tf.equal(luck, best)
    return kept


def _crop(num_frames: tf.Tensor, frames: tf.Tensor, least: float) -> tf.Tensor:
    """bool [B, T]: one stretch of each video, its length uniform between `least` of it and all of it."""
    rows = tf.shape(num_frames)
    part = tf.random.stateless_uniform(rows, random_keys.next_seed(), least, 1.0)
    there = tf.cast(num_frames, tf.float32)
    length = tf.minimum(tf.cast(tf.math.ceil(part * there), tf.int32), num_frames)
    free = tf.cast(num_frames - length + 1, tf.float32)
    start = tf.cast(tf.random.stateless_uniform(rows, random_keys.next_seed()) * free, tf.int32)
    start = tf.minimum(start, num_frames - length)[:, tf.newaxis]  # a product may round up to `free`
    place = tf.range(frames)[tf.newaxis, :]
    return (place >= start) & (place < start + length[:, tf.newaxis])


def _gathered(features: tf.Tensor, kept: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The kept frames side by side, zeros behind them, and how many they are."""
    order = tf.argsort(tf.cast(~kept, tf.int32), axis=1, stable=True)
    num_frames = tf.reduce_sum(tf.cast(kept, tf.int32), axis=1)
    return _masked(tf.gather(features, order, batch_dims=1), num_frames), num_frames


def _masked(features: tf.Tensor, num_frames: tf.Tensor) -> tf.Tensor:
    if features.shape.rank == 2:
        return features
    mask = tf.sequence_mask(num_frames, tf.shape(features)[1])
    return tf.where_v2(mask[:, :, tf.newaxis], features, 0.0)
