"""The input transforms that a model declares by name."""

from __future__ import annotations

import functools
import pathlib

import numpy as np

from yt8m.errors import UsageError, suggestion
from yt8m.lazy import tf

_EIGENVALUES = pathlib.Path(__file__).parent.parent / "data" / "pca_eigenvals.npy"
_VISUAL = 1024  # the width of the rgb features, whose PCA was whitened


def transform(name: str, raw: tf.Tensor, feature_sizes: tuple[int, ...]) -> tf.Tensor:
    """`raw` [..., D] as the model wants it.

    l2_normalize: unit length over the last axis. raw: as it is. reverse_whitening: rgb multiplied by
    the square roots of the PCA's eigenvalues (NeXtVLAD, Lin et al. 2018), other features as they are.

    Raises:
      UsageError: no such transform, or there are no 1024-wide features to reverse.
    """
    if name not in _TRANSFORMS:
        raise UsageError(
            f"unknown input transform {name!r}{suggestion(name, _TRANSFORMS)}. "
            f"Known: {', '.join(_TRANSFORMS)}."
        )
    return _TRANSFORMS[name](raw, feature_sizes)


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
