"""The input transforms that a model declares by name."""

from __future__ import annotations

import functools
import pathlib

import numpy as np

from yt8m.errors import UsageError, suggestion
from yt8m.lazy import tf
from yt8m.readers import join_features
from yt8m.types import Batch

_EIGENVALUES = pathlib.Path(__file__).parent.parent / "data" / "pca_eigenvals.npy"
_VISUAL = 1024  # the width of the rgb features, whose PCA was whitened

# Dequantised, a byte q is (q + _BYTE_OFFSET) * _BYTE_STEP.
_BYTE_STEP = 4.0 / 255.0
_BYTE_OFFSET = (4.0 / 512.0 - 2.0) / _BYTE_STEP
_LEAST_NORM = 1e-6  # as in tf.nn.l2_normalize
LEAST_BYTES_NORM = _LEAST_NORM / _BYTE_STEP  # of `shifted` bytes


def transform(name: str, raw: tf.Tensor, feature_sizes: tuple[int, ...]) -> tf.Tensor:
    """`raw` [..., D] as the model wants it.

    l2_normalize: unit length over the last axis. raw: as it is. reverse_whitening: rgb as
    (x - 4/512) (sqrt(e_j) + 1e-4), e the PCA's eigenvalues (NeXtVLAD, Lin et al. 2018, its code), other
    features as they are.

    Raises:
      UsageError: no such transform, or there are no 1024-wide features to reverse.
    """
    if name not in _TRANSFORMS:
        raise UsageError(
            f"unknown input transform {name!r}{suggestion(name, _TRANSFORMS)}. "
            f"Known: {', '.join(_TRANSFORMS)}."
        )
    return _TRANSFORMS[name](raw, feature_sizes)


def transformed(name: str, batch: Batch, feature_sizes: tuple[int, ...]) -> tf.Tensor:
    """The joined features of `batch` as the model wants them: `transform` of `join_features`, to rounding."""
    if name == "l2_normalize" and batch.features[0].shape.rank == 3:
        return _unit_frames(batch)
    return transform(name, join_features(batch), feature_sizes)


def shifted(codes: tf.Tensor) -> tf.Tensor:
    """float32, what bytes stand for but for the width of a step, on which no unit vector depends."""
    return tf.cast(codes, tf.float32) + _BYTE_OFFSET


def _unit_frames(batch: Batch) -> tf.Tensor:
    """float32 [B, T, D]: each frame divided by its length, 0 past num_frames.

    A batch of frames is 170 MB of floats, and each pass over them costs as much as a small product. A unit
    vector does not depend on its scale, so bytes are shifted but not scaled; the mask goes into the factor.
    """
    if all(feature.dtype == tf.uint8 for feature in batch.features):
        frames, least = shifted(tf.concat(batch.features, -1)), LEAST_BYTES_NORM
    else:
        frames, least = join_features(batch), _LEAST_NORM
    norms = tf.raw_ops.EuclideanNorm(input=frames, axis=[-1], keep_dims=True)
    valid = tf.sequence_mask(batch.num_frames, tf.shape(frames)[1], tf.float32)
    return frames * (valid[:, :, tf.newaxis] / tf.maximum(norms, least))


def _l2_normalize(raw: tf.Tensor, _: tuple[int, ...]) -> tf.Tensor:
    return tf.nn.l2_normalize(raw, -1)


def _raw(raw: tf.Tensor, _: tuple[int, ...]) -> tf.Tensor:
    return raw


def _reverse_whitening(raw: tf.Tensor, feature_sizes: tuple[int, ...]) -> tf.Tensor:
    sizes = feature_sizes or (int(raw.shape[-1]),)
    if _VISUAL not in sizes:
        raise UsageError(
            f"reverse_whitening needs the {_VISUAL} rgb features of YouTube-8M; the feature sizes are {sizes}"
        )
    at = sum(sizes[: sizes.index(_VISUAL)])
    scale, shift = np.ones(sum(sizes), np.float32), np.zeros(sum(sizes), np.float32)
    scale[at : at + _VISUAL] = np.sqrt(_eigenvalues()) + 1e-4
    shift[at : at + _VISUAL] = 4.0 / 512  # half a quantisation step, which dequantising adds
    # Padding must stay exactly 0, so the shift is taken only where a frame holds something.
    there = tf.cast(tf.reduce_any(tf.not_equal(raw, 0), axis=-1, keepdims=True), raw.dtype)
    return (raw - shift * there) * scale


@functools.cache
def _eigenvalues() -> np.ndarray:
    return np.load(_EIGENVALUES)[:_VISUAL].reshape(-1).astype(np.float32)


_TRANSFORMS = {"l2_normalize": _l2_normalize, "raw": _raw, "reverse_whitening": _reverse_whitening}
