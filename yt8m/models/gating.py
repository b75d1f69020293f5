"""Gates that let a vector weigh its own features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from yt8m import precision
from yt8m.lazy import tf

if TYPE_CHECKING:
    from yt8m.models.layers import Net


def context(
    net: Net,
    inputs: tf.Tensor,
    scope: str = "gating",
    *,
    valid: tf.Tensor | None = None,
    remove_diagonal: bool = False,
) -> tf.Tensor:
    """x * sigmoid(BN(W x)), [B, F] (context gating, Miech et al. 2017, equation 1).

    Args:
      valid: [B], rows that count for the batch statistics; None: all.
      remove_diagonal: no feature has a say in its own gate.
    """
    features = int(inputs.shape[-1])
    with tf.variable_scope(scope):
        spread = tf.random_normal_initializer(stddev=1 / math.sqrt(features))
        weights = net.variable("weights", [features, features], spread)
        if remove_diagonal:
            weights = weights * (1.0 - tf.eye(features))
        return inputs * tf.sigmoid(net.batch_norm(precision.product(inputs, weights), "bn", valid))


def squeeze_excite(
    net: Net, inputs: tf.Tensor, reduction: int, scope: str = "se_gating", *, valid: tf.Tensor | None = None
) -> tf.Tensor:
    """x * sigmoid(W2 relu(BN(W1 x))), [B, F], W1 to F / reduction units (Hu et al. 2018, section 3)."""
    features = int(inputs.shape[-1])
    with tf.variable_scope(scope):
        squeezed = net.dense(inputs, max(features // reduction, 1), "squeeze", bias=False)
        squeezed = tf.nn.relu(net.batch_norm(squeezed, "bn", valid))
        return inputs * tf.sigmoid(net.dense(squeezed, features, "excite"))
