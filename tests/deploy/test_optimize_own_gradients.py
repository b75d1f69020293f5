"""Optimizers with their own way to compute gradients, and a training graph that comes back from a file."""

from __future__ import annotations

import numpy as np
import pytest
from linear_model import objective, optimized, reference

from yt8m.deploy import create_clones, local, optimize_clones
from yt8m.lazy import tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as opened:
        yield opened


class Doubling(tf.train.GradientDescentOptimizer):
    """Scales the loss and so has a way of its own to compute gradients."""

    def compute_gradients(self, loss, *args, **kwargs):
        return super().compute_gradients(2.0 * loss, *args, **kwargs)


@pytest.mark.parametrize("closed_form", [False, True])
def test_an_optimizer_that_scales_the_loss_is_given_the_loss(closed_form):
    config, _, pairs = optimized(7, 3, Doubling(1.0), closed_form=closed_form)
    with tf.Session(config=config.session_config()) as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(pairs[0][0]), 2 * reference(7)[1], atol=2e-6)


def test_synchronised_replicas_keep_the_closed_form():
    config, _ = local(1, 0)
    (clone,) = create_clones(config, lambda: objective(tf.ones([2, 4]), tf.ones([2, 3]), closed_form=True))
    marked = [(tensor, 10.0 * gradient) for tensor, gradient in clone.outputs.roots]
    given = [clone.outputs._replace(roots=marked, regularization=None)]
    plain = tf.train.GradientDescentOptimizer(1.0)
    found = []
    for optimizer in (plain, tf.train.SyncReplicasOptimizer(plain, replicas_to_aggregate=1)):
        _, ((gradient, _),) = optimize_clones([clone], optimizer, objectives=given)
        found.append(gradient)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(*session.run(found))


@pytest.mark.parametrize("closed_form", [False, True])
def test_a_stored_graph_takes_the_same_steps(tmp_path, closed_form):
    optimizer = tf.train.AdamOptimizer(0.1)
    config, loss, pairs = optimized(7, 3, optimizer, closed_form=closed_form)
    step = optimizer.apply_gradients(pairs)
    names = step.name, loss.name, tf.global_variables_initializer().name

    def steps(*fetches):
        with tf.Session(config=config.session_config()) as session:
            session.run(names[2])
            return [session.run(fetches)[1] for _ in range(5)]

    expected = steps(*names[:2])
    tf.train.export_meta_graph(str(tmp_path / "graph.meta"))
    with tf.Graph().as_default():
        tf.train.import_meta_graph(str(tmp_path / "graph.meta"), clear_devices=True)
        assert steps(*names[:2]) == expected
    assert expected[0] == pytest.approx(reference(7)[0], rel=1e-6)
    assert expected[-1] < expected[0]
