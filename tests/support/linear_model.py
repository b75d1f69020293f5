"""A small model with closed-form gradient, built for any number of clones over given rows."""

from __future__ import annotations

import itertools

import numpy as np

from yt8m.deploy import Objective, create_clones, local, optimize_clones
from yt8m.lazy import tf

ROWS = np.random.RandomState(3)
INPUTS = ROWS.randn(16, 4).astype(np.float32)
LABELS = (ROWS.rand(16, 3) < 0.4).astype(np.float32)
WEIGHTS = ROWS.randn(4, 3).astype(np.float32)
PENALTY = 0.1


def cuts(rows, clones):
    """Divides rows among clones: (first row, row after the last) of each clone; the first clones get more rows."""
    edges = [-(-rows * i // clones) for i in range(clones + 1)]
    return list(itertools.pairwise(edges))


def objective(inputs, labels, closed_form=False):
    """The mean cross entropy and the L2 penalty of a linear model, which also has an update op that counts."""
    weights = tf.get_variable("w", initializer=WEIGHTS)
    moved = tf.get_variable("moved", [], trainable=False, initializer=tf.zeros_initializer())
    logits = tf.matmul(inputs, weights)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    size = tf.cast(tf.shape(inputs)[0], tf.float32)
    gradient = (tf.sigmoid(logits) - labels) / size
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(moved, 1.0).op)
    return Objective(
        loss=tf.reduce_sum(losses) / size,
        regularization=PENALTY * tf.nn.l2_loss(weights),
        roots=[(logits, gradient)] if closed_form else (),
    )


def optimized(rows, clones, optimizer, *, weights=None, closed_form=False, as_tensors=True, **kwargs):
    """Builds clones over the first `rows` rows; returns (config, total loss, pairs of gradient and variable).

    A clone that gets no row is built over the last row.
    """
    config, _ = local(clones, 0)
    parts = cuts(rows, clones)
    taken = iter([slice(lo, hi) if hi > lo else slice(rows - 1, rows) for lo, hi in parts])

    def model():
        mine = next(taken)
        return objective(tf.constant(INPUTS[mine]), tf.constant(LABELS[mine]), closed_form)

    made = create_clones(config, model)
    weights = weights or [(hi - lo) / rows for lo, hi in parts]
    weights = [tf.constant(weight, tf.float32) for weight in weights] if as_tensors else weights
    objectives = [clone.outputs for clone in made]
    return config, *optimize_clones(made, optimizer, weights=weights, objectives=objectives, **kwargs)


def reference(rows, weights=WEIGHTS):
    """(loss, gradient) of the model over the first `rows` rows, computed by NumPy in float64."""
    x, y, w = (a.astype(np.float64) for a in (INPUTS[:rows], LABELS[:rows], weights))
    z = x @ w
    loss = np.sum(np.logaddexp(0, z) - y * z) / rows + PENALTY * np.sum(w * w) / 2
    return loss, x.T @ (1 / (1 + np.exp(-z)) - y) / rows + PENALTY * w
