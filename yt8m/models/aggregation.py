"""From the frames of a video to one vector, by soft assignment of each frame to clusters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from yt8m import precision
from yt8m.lazy import tf

if TYPE_CHECKING:
    from yt8m.models.layers import Net


def assign(
    net: Net, inputs: tf.Tensor, mask: tf.Tensor, clusters: int, *, batch_norm: bool = True
) -> tf.Tensor:
    """a_i = softmax(BN(W x_i)), [B, T, clusters]; zeros where the mask [B, T] is 0.

    Args:
      inputs: float32 [B, T, D].
      batch_norm: else biases.
    """
    features = int(inputs.shape[-1])
    spread = tf.random_normal_initializer(stddev=1 / math.sqrt(features))
    scores = precision.product(inputs, net.variable("cluster_weights", [features, clusters], spread))
    if batch_norm:
        scores = net.batch_norm(scores, "cluster_bn", mask)
    else:
        scores += net.variable("cluster_biases", [clusters], spread)
    return tf.nn.softmax(scores) * mask[:, :, tf.newaxis]


def anchors(net: Net, name: str, clusters: int, features: int, mean: float = 0.0) -> tf.Tensor:
    """A learned [clusters, features]: the centres c_k, or what stands in their place."""
    spread = tf.random_normal_initializer(mean=mean, stddev=1 / math.sqrt(features))
    return net.variable(name, [clusters, features], spread)


def gathered(shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """sum_i a_ik x_i, [B, K, D], of shares [B, T, K] and inputs [B, T, D]."""
    return precision.matmul(shares, inputs, transpose_a=True)


def masses(shares: tf.Tensor) -> tf.Tensor:
    """A_k = sum_i a_ik, [B, K, 1]."""
    return tf.reduce_sum(shares, 1)[:, :, tf.newaxis]


def side_by_side(described: tf.Tensor) -> tf.Tensor:
    """[B, K, D] -> [B, K * D], each cluster brought to length 1."""
    clusters = tf.nn.l2_normalize(described, -1)
    return tf.reshape(clusters, [-1, described.shape[1] * described.shape[2]])


def flatten(described: tf.Tensor) -> tf.Tensor:
    """[B, K, D] -> [B, K * D]: each cluster to length 1, then all of it (Arandjelovic et al. 2016)."""
    return tf.nn.l2_normalize(side_by_side(described), -1)


def residuals(net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """V_k = sum_i a_ik (x_i - c_k), [B, K, D] (Arandjelovic et al. 2016, equation 4)."""
    centres = anchors(net, "centres", shares.shape[-1], inputs.shape[-1])
    return gathered(shares, inputs) - masses(shares) * centres


def vlad(net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """The residuals V_k, normalised and flat (Arandjelovic et al. 2016, section 3.1)."""
    return flatten(residuals(net, shares, inputs))


def rvlad(shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """V_k = sum_i a_ik x_i: residual-less (Miech et al. 2017, section 3)."""
    return flatten(gathered(shares, inputs))


def vlagd(net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """V_k = sigmoid(G_k) sum_i a_ik x_i: a learned gate in place of the residual."""
    gates = tf.sigmoid(anchors(net, "gates", shares.shape[-1], inputs.shape[-1]))
    return flatten(gathered(shares, inputs) * gates)


def fisher(net: Net, shares: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """First and second order statistics, side by side (NetFV, Miech et al. 2017, equations 4 and 5)."""
    sizes = shares.shape[-1], inputs.shape[-1]
    centres = anchors(net, "centres", *sizes)
    sigma = tf.square(anchors(net, "spreads", *sizes, mean=1.0)) + 1e-6
    mass, first = masses(shares), gathered(shares, inputs)
    second = gathered(shares, tf.square(inputs))
    of_means = (first - mass * centres) / sigma
    centred = second - 2.0 * centres * first + mass * tf.square(centres)
    of_variances = centred / tf.square(sigma) - mass
    return tf.concat([flatten(of_means), flatten(of_variances)], -1)
