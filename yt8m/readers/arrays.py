"""Pure functions on feature arrays: quantised bytes to floats, sizes made equal, features joined."""

from __future__ import annotations

from yt8m.lazy import tf
from yt8m.types import Batch


def dequantize(
    tensor: tf.Tensor, max_quantized_value: float = 2.0, min_quantized_value: float = -2.0
) -> tf.Tensor:
    """Bytes 0..255 as the middles of 256 steps between two values: q * range/255 + range/512 + min.

    The features of YouTube-8M (Abu-El-Haija et al., arXiv:1609.08675) were clipped to -2..2 and cut into
    256 steps; with these values it is q * 4/255 + 4/512 - 2.

    Args:
      tensor: any number type, any shape.
      max_quantized_value: upper end of the range.
      min_quantized_value: lower end of the range.

    Returns:
      float32 of the same shape.

    Raises:
      ValueError: the upper end is not above the lower one.
    """
    if max_quantized_value <= min_quantized_value:
        raise ValueError(f"the range {min_quantized_value}..{max_quantized_value} to dequantise to is empty")
    quantized_range = max_quantized_value - min_quantized_value
    return tf.cast(tensor, tf.float32) * (quantized_range / 255.0) + (
        quantized_range / 512.0 + min_quantized_value
    )


def resize_axis(tensor: tf.Tensor, axis: int, new_size: int, fill_value: float = 0) -> tf.Tensor:
    """Cuts `tensor` along `axis` to `new_size`, or fills it up there with `fill_value`."""
    kept = tf.gather(tensor, tf.range(tf.minimum(tf.shape(tensor)[axis], new_size)), axis=axis)
    missing = new_size - tf.shape(kept)[axis]
    paddings = tf.scatter_nd([[axis, 1]], [missing], [tensor.shape.rank, 2])
    resized = tf.pad(kept, paddings, constant_values=tf.cast(fill_value, tensor.dtype))
    shape = tensor.shape.as_list()
    shape[axis] = new_size
    return tf.ensure_shape(resized, shape)


def join_features(batch: Batch) -> tf.Tensor:
    """The features of a batch side by side, as floats.

    Returns:
      float32 [B, D] at video level; [B, T, D] for frames: uint8 is dequantised, floats are taken as they
      are, and what lies past num_frames is exactly 0 (the byte 0 would be -1.99).
    """
    floats = [dequantize(one) if one.dtype == tf.uint8 else one for one in batch.features]
    joined = tf.concat(floats, axis=-1)
    if joined.shape.rank == 2:
        return joined
    valid = tf.sequence_mask(batch.num_frames, tf.shape(joined)[1])
    return tf.where_v2(valid[:, :, tf.newaxis], joined, 0.0)
