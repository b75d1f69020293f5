"""Predictions for some of the classes, without computing the rest where the model's end allows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yt8m.lazy import tf

# Pairs an example up to which they are computed one by one; each takes two copies of an input.
_FEW_PAIRS = 8


def narrowed(predictions: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Columns `classes` of `predictions`.

    Where these are sigmoid(x W + b), the columns of W and b are picked in place of those of the product:
    with 1000 of 3862 classes, a quarter of the work of a logistic layer. The whole product is then fetched
    by nobody and never runs. The first step of a session picks the columns, and the later ones use those:
    this is for weights that no longer change.

    Args:
      predictions: float32 [B, C].
      classes: int [S].

    Returns:
      float32 [B, S].
    """
    layer = _logistic_layer(predictions)
    if layer is None:
        return tf.gather(predictions, classes, axis=1)
    inputs, weights, biases = layer
    # Single columns of a wide matrix are scattered over all of it: picking them costs as much as the product.
    shape = [weights.shape[0], classes.shape[0]]
    picked = _held("picked_weights", shape, lambda: tf.gather(weights, classes, axis=1))
    return tf.sigmoid(tf.matmul(inputs, picked) + tf.gather(biases, classes))


def paired(predictions: tf.Tensor, pairs: tf.Tensor) -> tf.Tensor:
    """predictions[b, c] of `pairs` (b, c).

    Where these are sigmoid(x W + b) and the pairs are few, each is a product of two vectors, and that of the
    matrices never runs. As in `narrowed`, this is for weights that no longer change.

    Args:
      predictions: float32 [B, C].
      pairs: int64 [P, 2].

    Returns:
      float32 [P].
    """
    layer = _logistic_layer(predictions)
    if layer is None:
        return tf.gather_nd(predictions, pairs)
    inputs, weights, biases = layer
    rows, classes = tf.unstack(pairs, axis=1)
    # A class's weights side by side, where W has them scattered.
    by_class = _held("turned_weights", weights.shape[::-1], lambda: tf.transpose(weights))
    products = tf.cond(
        tf.size(rows) <= _FEW_PAIRS * tf.shape(inputs)[0],
        lambda: tf.reduce_sum(tf.gather(inputs, rows) * tf.gather(by_class, classes), axis=1),
        lambda: tf.gather_nd(tf.matmul(inputs, weights), pairs),
    )
    return tf.sigmoid(products + tf.gather(biases, classes))


def _held(name: str, shape: Any, make: Callable[[], tf.Tensor]) -> tf.Tensor:
    """What `make` gives in the first step of a session, in a local variable from then on."""
    held = _local(tf.zeros(shape), name)
    is_held = _local(tf.constant(False), f"is_{name}_held")

    def first() -> tf.Tensor:
        made = make()
        with tf.control_dependencies([held.assign(made).op, is_held.assign(True).op]):
            return tf.identity(made)

    return tf.cond(is_held.read_value(), held.read_value, first)


def _local(value: tf.Tensor, name: str) -> tf.Variable:
    keys = [tf.GraphKeys.LOCAL_VARIABLES]
    return tf.Variable(value, trainable=False, collections=keys, name=name, use_resource=True)


def _logistic_layer(predictions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor] | None:
    """(x, W, b) where `predictions` is sigmoid(x W + b); None where it is not."""
    last = _producer(predictions)
    added = _producer(last.inputs[0]) if last.type == "Sigmoid" else None
    if added is None or added.type not in ("BiasAdd", "AddV2", "Add") or added.inputs[1].shape.rank != 1:
        return None
    product = _producer(added.inputs[0])
    if product.type != "MatMul" or product.get_attr("transpose_b"):
        return None
    # Products of few rows take x turned, twice; see yt8m.precision.
    x = tf.transpose(product.inputs[0]) if product.get_attr("transpose_a") else product.inputs[0]
    return x, product.inputs[1], added.inputs[1]


def _producer(tensor: tf.Tensor) -> tf.Operation:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor.op
