"""Attention over the frames of a video; padding gets none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from yt8m import precision
from yt8m.lazy import tf

if TYPE_CHECKING:
    from yt8m.models.layers import Net

# Added to the scores of padding: its share is exactly 0 in float32.
_NEVER = -1e9


def over_time(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax of scores [B, T, A] over the real frames of mask [B, T]; zeros for a video without any."""
    real = mask[:, :, tf.newaxis]
    return tf.nn.softmax(scores + (1.0 - real) * _NEVER, 1) * real


def weigh(net: Net, inputs: tf.Tensor, mask: tf.Tensor, units: int, scope: str = "attention") -> tf.Tensor:
    """v_k = sum_i a_ki x_i with a_k = softmax_i(w_k x_i), [B, units, D] of inputs [B, T, D].

    A bias would add the same to the score of every frame, and so change nothing.
    """
    shares = over_time(net.dense(inputs, units, scope, bias=False), mask)
    return precision.matmul(shares, inputs, transpose_a=True)


def ask(net: Net, inputs: tf.Tensor, mask: tf.Tensor, queries: int, size: int) -> tf.Tensor:
    """z_q = sum_i softmax_i(q K x_i / sqrt(size)) V x_i for learned q, [B, queries, size]."""
    asked = net.variable("queries", [size, queries], tf.random_normal_initializer())
    keys = net.dense(inputs, size, "keys", bias=False)
    shares = over_time(precision.product(keys, asked) / math.sqrt(size), mask)
    return precision.matmul(shares, net.dense(inputs, size, "values", bias=False), transpose_a=True)


def multi_head(net: Net, inputs: tf.Tensor, mask: tf.Tensor, heads: int) -> tf.Tensor:
    """Self-attention among the frames [B, T, D], D / heads features a head (Vaswani et al. 2017, 3.2.2)."""
    size = int(inputs.shape[-1])
    query, key, value = (
        _cut(net.dense(inputs, size, name, bias=False), heads) for name in ("query", "key", "value")
    )
    scores = precision.matmul(query, key, transpose_b=True) / math.sqrt(size // heads)
    shares = tf.nn.softmax(scores + (1.0 - mask[:, tf.newaxis, tf.newaxis, :]) * _NEVER)
    mixed = tf.transpose(precision.matmul(shares, value), [0, 2, 1, 3])
    return net.dense(tf.reshape(mixed, tf.shape(inputs)), size, "output")


def _cut(values: tf.Tensor, heads: int) -> tf.Tensor:
    """[B, T, D] -> [B, heads, T, D / heads]."""
    batch, time = tf.shape(values)[0], tf.shape(values)[1]
    return tf.transpose(tf.reshape(values, [batch, time, heads, values.shape[-1] // heads]), [0, 2, 1, 3])


def positions(time: tf.Tensor, size: int) -> tf.Tensor:
    """float32 [T, size]: sines and cosines of the frame's number (Vaswani et al. 2017, section 3.5)."""
    rates = np.power(10_000.0, -2.0 * np.arange((size + 1) // 2) / size).astype(np.float32)
    angles = tf.cast(tf.range(time), tf.float32)[:, tf.newaxis] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], 1)[:, :size]
