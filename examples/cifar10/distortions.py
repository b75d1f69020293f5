"""Preprocessing of pictures: random distortions in training, a central crop otherwise."""

from __future__ import annotations

from examples.cifar10.records import SIDE
from yt8m.lazy import tf

CROP = 24
MAX_BRIGHTNESS = 63.0
CONTRAST = (0.2, 1.8)


def distorted(images: tf.Tensor, seed: int, index: tf.Tensor) -> tf.Tensor:
    """A random 24x24 crop of each picture, randomly flipped, brightness and contrast changed, standardised.

    Args:
      images: float32 [B, 32, 32, 3], 0 to 255.
      seed: the run's seed.
      index: int64 scalar, place of the batch in the stream. All draws follow from it and `seed`,
        so a resumed stream draws the same as an uninterrupted one.

    Returns:
      float32 [B, 24, 24, 3], each picture of mean 0 and variance 1.
    """
    count = tf.shape(images)[0]
    # Each seed has four keys of its own: no two draws of a run share a key.
    keys = [tf.stack([tf.constant(4 * seed + place, tf.int64), index]) for place in range(4)]
    corners = tf.random.stateless_uniform([count, 2], keys[0], 0, SIDE - CROP + 1, tf.int32)
    flips = tf.random.stateless_uniform([count, 1, 1, 1], keys[1]) < 0.5
    brighter = tf.random.stateless_uniform([count, 1, 1, 1], keys[2], -MAX_BRIGHTNESS, MAX_BRIGHTNESS)
    contrast = tf.random.stateless_uniform([count, 1, 1, 1], keys[3], *CONTRAST)
    parts = cropped(images, corners)
    turned = tf.where_v2(flips, tf.reverse(parts, [2]), parts) + brighter
    mean = tf.reduce_mean(turned, axis=[1, 2], keepdims=True)
    return tf.image.per_image_standardization((turned - mean) * contrast + mean)


def cropped(images: tf.Tensor, corners: tf.Tensor) -> tf.Tensor:
    """The 24x24 crop of each picture [B, 32, 32, 3] with its upper left pixel at `corners`, int32 [B, 2]."""
    places = corners[:, :, tf.newaxis] + tf.range(CROP)
    rows = tf.gather(images, places[:, 0], axis=1, batch_dims=1)
    return tf.gather(rows, places[:, 1], axis=2, batch_dims=1)


def central(images: tf.Tensor) -> tf.Tensor:
    """The middle 24x24 of pictures float32 [B, 32, 32, 3], standardised."""
    start = (SIDE - CROP) // 2
    middle = images[:, start : start + CROP, start : start + CROP]
    return tf.image.per_image_standardization(middle)
