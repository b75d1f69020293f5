"""The network and its losses against NumPy, and the laws of several towers."""

from __future__ import annotations

import numpy as np
import pytest
from cifar_small import SameBatch, random_rows

from examples.cifar10.config import TrainConfig
from examples.cifar10.modeler import Accuracy, CifarModeler, tower_loss
from examples.cifar10.network import network
from examples.cifar10.records import Images
from yt8m import deploy, graph
from yt8m.lazy import tf

SHAPES = {
    "conv1/weights": (5, 5, 3, 64),
    "conv1/biases": (64,),
    "conv2/weights": (5, 5, 64, 64),
    "conv2/biases": (64,),
    "local3/weights": (2304, 384),
    "local3/biases": (384,),
    "local4/weights": (384, 192),
    "local4/biases": (192,),
    "softmax_linear/weights": (192, 10),
    "softmax_linear/biases": (10,),
}


def softmax_loss(logits, labels):
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return -np.mean(np.log((odds / odds.sum(1, keepdims=True))[np.arange(len(labels)), labels]))


def correlate(inputs, kernel):
    """A 5x5 convolution with a border of zeros, float64."""
    padded = np.pad(inputs, [(0, 0), (2, 2), (2, 2), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(1, 2))
    return np.einsum("bhwcij,ijcf->bhwf", windows, kernel, optimize=True)


def pool(inputs):
    """The greatest of 3x3 every 2 pixels; an even side takes its border from the right alone."""
    padded = np.pad(inputs, [(0, 0), (0, 1), (0, 1), (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return windows[:, ::2, ::2].max(axis=(-2, -1))


def normalise(inputs):
    """Each value over (1 + alpha * the squares of the 9 channels around it) ^ 0.75."""
    squares = np.pad(inputs**2, [(0, 0), (0, 0), (0, 0), (4, 4)])
    around = np.lib.stride_tricks.sliding_window_view(squares, 9, axis=-1).sum(-1)
    return inputs / (1 + 0.001 / 9 * around) ** 0.75


def forward(images, w):
    relu = lambda values: np.maximum(values, 0)  # noqa: E731 - a name for one expression
    first = normalise(pool(relu(correlate(images, w["conv1/weights"]) + w["conv1/biases"])))
    second = pool(normalise(relu(correlate(first, w["conv2/weights"]) + w["conv2/biases"])))
    third = relu(second.reshape(len(images), -1) @ w["local3/weights"] + w["local3/biases"])
    fourth = relu(third @ w["local4/weights"] + w["local4/biases"])
    return fourth @ w["softmax_linear/weights"] + w["softmax_linear/biases"]


def test_logits_and_losses_are_those_of_the_definition():
    images, labels = random_rows(3)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        outputs = network(tf.constant(images, tf.float32))
        loss = tower_loss(outputs, tf.constant(labels, tf.int32))
        single = tf.get_collection(tf.GraphKeys.LOSSES)
        session.run(tf.global_variables_initializer())
        variables = {v.op.name: v for v in tf.trainable_variables()}
        found, terms, w = session.run([loss, single, variables])
        logits = session.run(outputs.logits)
    assert {name: value.shape for name, value in w.items()} == SHAPES
    w = {name: value.astype(np.float64) for name, value in w.items()}
    np.testing.assert_allclose(logits, forward(images, w), atol=1e-5)
    decays = [0.004 * 0.5 * np.sum(w[name] ** 2) for name in ("local3/weights", "local4/weights")]
    assert [term.op.name for term in single] == ["cross_entropy", "local3/weight_decay", "local4/weight_decay"]
    np.testing.assert_allclose(terms, [softmax_loss(logits, labels), *decays], rtol=1e-5)
    assert found.decay == pytest.approx(sum(decays), rel=1e-5)
    assert found.total == pytest.approx(sum(terms), rel=1e-6)


class Trained:
    """The weights after a step over `towers`, from fixed first weights."""

    def __init__(self, towers, split, rows=8):
        images, labels = random_rows(rows)
        inputter = SameBatch(images, labels, rows // towers)
        deployment = deploy.DeploymentConfig(num_clones=towers, spread_on_cpu=True)
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            optimizer = TrainConfig(moving_average_decay=0.5).optimizer()
            ops = graph.build(inputter, CifarModeler(), deployment, optimizer, split=split)
            names = {v.op.name: v for v in tf.global_variables()}
            with tf.Session(config=deployment.session_config()) as session:
                session.run(tf.global_variables_initializer())
                self.before = session.run(names)
                session.run(ops.input.initializer, {ops.input.files: ["memory"]})
                fetches = [ops.label_loss, ops.regularization_loss, ops.summary_op, ops.train_op]
                self.loss, self.decay, self.summary, _ = session.run(fetches)
                self.after = session.run(names)


@pytest.fixture(scope="module")
def alone():
    return Trained(1, split=True)


@pytest.mark.heavy
@pytest.mark.parametrize(("towers", "split"), [(2, True), (2, False), (4, True), (4, False)])
def test_any_number_of_towers_takes_the_same_step_on_the_same_rows(alone, towers, split):
    found = Trained(towers, split)
    assert found.loss == pytest.approx(alone.loss, rel=1e-5)
    for name, expected in alone.after.items():
        np.testing.assert_array_equal(found.before[name], alone.before[name])
        np.testing.assert_allclose(found.after[name], expected, rtol=1e-4, atol=1e-6, err_msg=name)
    moved = np.abs(alone.after["local3/weights"] - alone.before["local3/weights"]).max()
    assert moved > 1e-4


def test_averages_move_along(alone):
    # After the first step min(0.5, 2 / 11) of the old value stays.
    name = "conv1/weights"
    expected = 2 / 11 * alone.before[name] + 9 / 11 * alone.after[name]
    np.testing.assert_allclose(alone.after[f"{name}/ExponentialMovingAverage"], expected, rtol=1e-4, atol=1e-7)


@pytest.mark.heavy
@pytest.mark.parametrize("towers", [2, 1])
def test_every_loss_and_histogram_has_its_plain_name(towers):
    found = Trained(towers, split=False)
    values = {value.tag: value for value in tf.Summary.FromString(found.summary).value}
    losses = ["cross_entropy", "local3/weight_decay", "local4/weight_decay"]
    scalars = {*losses, "label_loss", "reg_loss", "total_loss", "learning_rate"}
    assert set(values) == scalars | set(SHAPES) | {f"{name}/gradient" for name in SHAPES}
    single = [values[name].simple_value for name in losses]
    assert single[0] == pytest.approx(found.loss, rel=1e-5)
    assert sum(single[1:]) == pytest.approx(found.decay, rel=1e-5)
    assert values["total_loss"].simple_value == pytest.approx(found.loss + found.decay, rel=1e-5)


def test_accuracy_counts_over_batches_of_any_size():
    accuracy = Accuracy()
    assert accuracy.accumulate({"correct": np.array([True, False, True, True])}, None) == {"accuracy": 0.75}
    assert accuracy.accumulate({"correct": np.array([False])}, None) == {"accuracy": 0.0}
    assert accuracy.get() == {"accuracy": 0.6}
    accuracy.clear()
    assert accuracy.get() == {"accuracy": 0.0}


@pytest.mark.heavy
def test_the_predict_path_takes_pictures_that_are_fed():
    images, labels = random_rows(4)
    with tf.Graph().as_default(), tf.Session() as session:
        batch = Images(tf.constant(images, tf.float32), tf.constant(labels, tf.int32))
        output = CifarModeler().build(batch, is_training=False)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            ops = CifarModeler().predict(batch)
        session.run(tf.global_variables_initializer())
        built, predicted = session.run([output.predictions, ops.predictions])
        fed = session.run(ops.predictions, {ops.input_batch: images[::-1]})
    np.testing.assert_allclose(predicted, built, rtol=1e-6)
    np.testing.assert_allclose(fed, built[::-1], rtol=1e-5)
    np.testing.assert_allclose(built.sum(1), 1, rtol=1e-6)
