"""The rule that draws inputs and weights of golden/published/, with NumPy's RandomState, which never changes."""

import zlib

import numpy as np


def _draw(name, seed, shape):
    return np.random.RandomState((zlib.crc32(name.encode()) ^ (seed * 2654435761)) & 0xFFFFFFFF).normal(size=shape)


def weight(name, shape, seed):
    """float32 of `shape` for the variable `name` (as TensorFlow 1 names it, with `:0`)."""
    n = _draw(name, seed, shape)
    if "moving_variance" in name:
        v = (0.5 + np.abs(n)) * (0.05 if "cluster_bn" in name else 1.0)
    elif "gamma" in name:
        v = 1 + 0.3 * n
    elif "moving_mean" in name or "beta" in name:
        v = 0.1 * n
    elif "bias" in name:
        v = 0.3 * n
    elif "covar_weights" in name:
        v = 1 + 0.1 * np.abs(n)
    else:
        v = n / np.sqrt(max(1, int(np.prod(shape[:-1])) if len(shape) != 3 else shape[1]))
    return v.astype(np.float32)


def inputs(seed, level, rows, frames, size, num_frames):
    """(x, x with zeros past num_frames): float32 [rows, frames, size] or [rows, size], each vector of length 1."""
    shape = (rows, frames, size) if level == "frame" else (rows, size)
    x = _draw("inputs", seed, shape).astype(np.float32)
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    return (x, x) if num_frames is None else (x, x * (np.arange(frames) < num_frames[:, None])[:, :, None])


def projections(name, gradient, seed):
    """float64 [4]: sum, sum of squares, and two products of a large gradient with vectors drawn by the rule."""
    flat = np.asarray(gradient, np.float64).ravel()
    return np.array(
        [
            flat.sum(),
            (flat**2).sum(),
            flat @ _draw(name + "/1", seed, flat.shape),
            flat @ _draw(name + "/2", seed, flat.shape),
        ]
    )
