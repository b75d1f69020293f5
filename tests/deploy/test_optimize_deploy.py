"""deploy: whole training graphs of one machine, with and without an optimizer, several in one graph."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from yt8m.deploy import DeployedModel, DeploymentConfig, deploy, local
from yt8m.lazy import tf

ROWS = np.random.RandomState(0).randn(16, 4).astype(np.float32)
LABELS = (ROWS.sum(1, keepdims=True) > 0).astype(np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as opened:
        yield opened


def penalty(weights):
    return 0.01 * tf.nn.l2_loss(weights)


def classifier(inputs, labels, trained=True, regularizer=penalty):
    """Logistic regression over inputs that a moving average centres (so there are update ops)."""
    mean = tf.get_variable("moving_mean", [4], trainable=False, initializer=tf.zeros_initializer())
    weights = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer(), regularizer=regularizer)
    update = tf.assign_sub(mean, 0.1 * (mean - tf.reduce_mean(inputs, 0)))
    if trained:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update.op)
    logits = tf.matmul(inputs, weights)
    tf.losses.sigmoid_cross_entropy(labels, logits)
    tf.summary.scalar("mean_logit", tf.reduce_mean(logits))
    return logits


def opened(config):
    session = tf.Session(config=config.session_config())
    session.run(tf.global_variables_initializer())
    return session


@pytest.mark.parametrize("clones", [1, 2])
def test_training(clones):
    config, _ = local(clones, 0)
    model = deploy(config, classifier, [ROWS, LABELS], optimizer=tf.train.AdamOptimizer(0.1))
    assert isinstance(model, DeployedModel)
    assert len(model.clones) == clones
    names = [tensor.op.name for tensor in (model.train_op, model.total_loss, model.summary_op)]
    assert names == ["train_op", "total_loss", "summary_op/summary_op"]
    with opened(config) as session:
        first = session.run(model.total_loss)
        losses = [session.run(model.train_op) for _ in range(20)]
        assert first == losses[0] == pytest.approx(np.log(2), rel=1e-6)
        assert losses[-1] < 0.5 * first
        assert session.run(tf.train.get_global_step()) == 20


def test_train_op_alone_moves_the_averages_of_the_first_clone_once():
    config, _ = local(2, 0)
    model = deploy(config, classifier, [ROWS, LABELS], optimizer=tf.train.GradientDescentOptimizer(0.1))
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
    with opened(config) as session:
        session.run(model.train_op.op)
        mean = next(variable for variable in tf.global_variables() if variable.op.name == "moving_mean")
        np.testing.assert_allclose(session.run(mean), 0.1 * ROWS.mean(0), rtol=1e-5)


def test_clones_do_not_change_the_training():
    found = []
    for clones in (1, 2, 3):
        with tf.Graph().as_default():
            config, _ = local(clones, 0)
            model = deploy(config, classifier, [ROWS, LABELS], optimizer=tf.train.AdamOptimizer(0.1))
            with opened(config) as session:
                found.append([session.run(model.train_op) for _ in range(5)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6)


@pytest.mark.parametrize("clones", [1, 2])
def test_without_an_optimizer(clones):
    config, _ = local(clones, 0)
    model = deploy(config, classifier, (), {"inputs": ROWS, "labels": LABELS, "trained": False})
    assert model.train_op is None
    assert tf.train.get_global_step() is None
    with opened(config) as session:
        loss, summary = session.run([model.total_loss, model.summary_op])
    assert loss == pytest.approx(np.log(2), rel=1e-6)
    of_clones = {
        1: ["mean_logit", "Losses/clone_loss", "Losses/regularization_loss"],
        2: [
            "clone_0/mean_logit",
            "clone_0/Losses/clone_0//clone_loss",
            "clone_1/Losses/clone_1//clone_loss",
            "clone_0/Losses/regularization_loss",
        ],
    }
    assert tags(summary) == [*of_clones[clones], "total_loss_1"]


def tags(summary):
    return [value.tag for value in tf.Summary.FromString(summary).value]


def test_gradient_summaries_on_request():
    config, _ = local(2, 0)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    model = deploy(config, classifier, [ROWS, LABELS], optimizer=optimizer, summarize_gradients=True)
    with opened(config) as session:
        summary = session.run(model.summary_op)
    assert tags(summary)[-3:] == ["w_gradient", "w_gradient_norm", "total_loss_1"]
    found = {value.tag: value.histo for value in tf.Summary.FromString(summary).value}
    expected = ROWS.T @ (0.5 - LABELS) / 16
    assert found["w_gradient"].max == pytest.approx(expected.max(), rel=1e-5)
    assert found["w_gradient_norm"].num == 1
    assert found["w_gradient_norm"].sum == pytest.approx(np.linalg.norm(expected), rel=1e-5)


def test_a_model_without_a_loss_or_a_summary():
    model = deploy(DeploymentConfig(2), lambda: 1, optimizer=tf.train.GradientDescentOptimizer(0.1))
    assert model[:3] == (None, None, None)
    assert [clone.outputs for clone in model.clones] == [1, 1]


@pytest.mark.parametrize("clones", [1, 2])
def test_training_and_evaluation_in_one_graph(clones):
    config, _ = local(clones, 0)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    trained = deploy(config, classifier, [ROWS, LABELS], optimizer=optimizer)
    with tf.variable_scope("", reuse=True):
        evaluated = deploy(config, classifier, [ROWS, LABELS], {"trained": False})
    with opened(config) as session:
        for _ in range(3):
            session.run(trained.train_op)
        first, second = session.run([trained.total_loss, evaluated.total_loss])
        assert first == pytest.approx(second, rel=1e-6)  # regularisation included
        assert tags(session.run(evaluated.summary_op))[-1] == "total_loss_3"


@pytest.mark.parametrize("clones", [1, 2])
def test_two_trainings_in_one_graph_leave_each_other_alone(clones):
    config, _ = local(clones, 0)
    model = functools.partial(classifier, ROWS, LABELS, regularizer=None)
    with tf.variable_scope("a"):
        first = deploy(config, model, optimizer=tf.train.GradientDescentOptimizer(0.1))
    with tf.variable_scope("b"):
        second = deploy(config, model, optimizer=tf.train.GradientDescentOptimizer(0.1))
    with opened(config) as session:
        weights = {variable.op.name: variable for variable in tf.trainable_variables()}
        before = session.run(second.total_loss)
        alone = [session.run(first.train_op) for _ in range(3)]
        assert session.run(second.total_loss) == before
        assert not session.run(weights["b/w"]).any()
        assert session.run(tf.train.get_global_step()) == 3
        np.testing.assert_allclose([session.run(second.train_op) for _ in range(3)], alone, rtol=1e-6)


def test_devices_within_a_parameter_server_graph():
    config = DeploymentConfig(2, num_replicas=2, replica_id=1, num_ps_tasks=2)
    model = deploy(config, classifier, [ROWS, LABELS], optimizer=tf.train.AdamOptimizer(0.1))
    placed = {variable.op.name: variable.op.device for variable in tf.global_variables()}
    server = [f"/job:ps/task:{i}/device:CPU:0" for i in range(2)]
    assert placed["moving_mean"] == placed["global_step"] == server[0]
    assert placed["w"] == placed["w/Adam"] == placed["w/Adam_1"] == server[1]
    assert [clone.outputs.device for clone in model.clones] == ["/job:worker/device:GPU:0", "/job:worker/device:GPU:1"]
    assert model.total_loss.device == "/job:worker/device:CPU:0"
