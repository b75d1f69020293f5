"""The laws of the training graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import cases
import numpy as np
import pytest
from graph.graph_toy import CLASSES, FEATURES, Linear, Session, initial_weights, rows

from yt8m.config.train_config import OptimizerConfig
from yt8m.graph.build import keep_order_of_sums
from yt8m.lazy import tf
from yt8m.types import ModelOutput

SGD = OptimizerConfig(optimizer="GradientDescentOptimizer", base_learning_rate=0.1, clip_gradient_norm=0)


def softmax_step(inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """Loss and gradient in float64, the L2 term of the toy included in the gradient."""
    logits = inputs.astype(np.float64) @ weights
    odds = np.exp(logits - logits.max(1, keepdims=True))
    probabilities = odds / odds.sum(1, keepdims=True)
    targets = np.eye(CLASSES)[labels]
    loss = -np.mean(np.sum(targets * np.log(probabilities), axis=1))
    return loss, inputs.T @ (probabilities - targets) / len(inputs) + 0.01 * weights


@pytest.mark.promise("I9")
@pytest.mark.promise("N3")
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize(
    ("count", "towers"), cases.all_of([(7, 3)], heavy=[(1, 2), (16, 2), (7, 1), (7, 2), (1, 3), (2, 3)])
)
def test_any_number_of_towers_steps_as_one(count: int, towers: int, by_hand: bool) -> None:
    inputs, labels = rows(count)
    loss, gradient = softmax_step(inputs, labels, initial_weights())
    with Session(Linear(by_hand=by_hand), (inputs, labels), towers, SGD) as run:
        step, label_loss, total = run.run([run.ops.step, run.ops.label_loss, run.ops.total_loss])
        after = run.value("weights")
    assert step == 1
    assert label_loss == pytest.approx(loss, abs=1e-6)
    assert total == pytest.approx(loss + 0.005 * np.sum(initial_weights().astype(np.float64) ** 2), abs=1e-5)
    np.testing.assert_allclose(after, initial_weights() - 0.1 * gradient, atol=1e-6)


@pytest.mark.promise("I9")
@pytest.mark.parametrize(("count", "towers"), [(7, 1), (7, 3), (1, 3)])
def test_reports_and_predictions_cover_every_row_once(count: int, towers: int) -> None:
    inputs, labels = rows(count)
    with Session(Linear(), (inputs, labels), towers, SGD) as run:
        reports, predictions, examples = run.run([run.ops.reports, run.ops.predictions, run.ops.examples])
    assert examples == count
    assert reports["labels"].tolist() == labels.tolist()
    assert reports["count"] == count
    expected = (inputs @ initial_weights()).argmax(1)
    assert predictions.argmax(1).tolist() == expected.tolist()
    assert reports["accuracy"] == pytest.approx(np.mean(expected == labels), abs=1e-6)


@pytest.mark.parametrize("towers", cases.all_of([2], heavy=[1]))
@pytest.mark.parametrize("by_hand", [False, True])
def test_train_op_alone_moves_the_averages_of_the_first_tower(towers: int, by_hand: bool) -> None:
    inputs, labels = rows(8)
    with Session(Linear(normalise=True, by_hand=by_hand), (inputs, labels), towers, SGD) as run:
        run.run(run.ops.train_op)
        moved = run.value("moving_mean")
        run.run(run.ops.train_op)
        again = run.value("moving_mean")
    first = inputs[: -(-8 // towers)].mean(0)
    np.testing.assert_allclose(moved, 0.1 * first, atol=1e-6)
    np.testing.assert_allclose(again, 0.19 * first, atol=1e-6)


@pytest.mark.parametrize("fetch", ["total_loss", "gradient_norms", "summary_op", "reports"])
@pytest.mark.parametrize("towers", cases.all_of([2], heavy=[1]))
def test_what_is_only_looked_at_changes_no_variable(towers: int, fetch: str) -> None:
    with Session(Linear(normalise=True), rows(8), towers, SGD) as run:
        run.run(getattr(run.ops, fetch))
        assert not run.value("moving_mean").any()
        np.testing.assert_array_equal(run.value("weights"), initial_weights())
        assert run.value("global_step") == 0


class Collected(Linear):
    """Its collection holds the penalty of a weight made before `build`, and one that differs by tower."""

    def outside(self) -> None:
        self.weight = tf.get_variable("outside", initializer=2.0, regularizer=tf.nn.l2_loss)

    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.reduce_mean(batch[0]) * self.weight)
        return super().build(batch, is_training)


@pytest.mark.parametrize("towers", [1, 2, 3])
def test_all_of_the_collection_is_regularised_as_one_tower_would(towers: int) -> None:
    inputs, labels = rows(7)
    modeler = Collected()
    config = dataclasses.replace(SGD, regularization_penalty=0.5)
    with Session(modeler, (inputs, labels), towers, config, before=modeler.outside) as run:
        _, found = run.run([run.ops.train_op, run.ops.regularization_loss])
        after = run.value("outside")
    own = 0.005 * np.sum(initial_weights().astype(np.float64) ** 2)
    assert found == pytest.approx(own + 2.0**2 / 2 + 2.0 * inputs.mean(), rel=1e-5)
    assert after == pytest.approx(2.0 - 0.1 * 0.5 * (2.0 + inputs.mean()), rel=1e-6)


def test_sum_adds_the_towers_gradients_as_published() -> None:
    inputs, labels = rows(8)
    config = OptimizerConfig(
        optimizer="GradientDescentOptimizer", base_learning_rate=0.1, clip_gradient_norm=0, combine_gradients="sum"
    )
    parts = [softmax_step(inputs[a:b], labels[a:b], initial_weights())[1] for a, b in [(0, 4), (4, 8)]]
    with Session(Linear(), (inputs, labels), 2, config) as run:
        run.run(run.ops.train_op)
        np.testing.assert_allclose(run.value("weights"), initial_weights() - 0.1 * sum(parts), atol=1e-6)


def test_each_gradient_is_clipped_by_its_own_norm_and_reported_before() -> None:
    inputs, labels = rows(8)
    config = OptimizerConfig(optimizer="GradientDescentOptimizer", base_learning_rate=1.0, clip_gradient_norm=0.01)
    _, gradient = softmax_step(inputs, labels, initial_weights())
    norm = np.linalg.norm(gradient)
    with Session(Linear(), (inputs, labels), 2, config) as run:
        norms, _ = run.run([run.ops.gradient_norms, run.ops.train_op])
        np.testing.assert_allclose(norms, [norm], rtol=1e-5)
        assert run.ops.gradient_variables == ("weights",)
        expected = initial_weights() - gradient * 0.01 / norm
        np.testing.assert_allclose(run.value("weights"), expected, atol=1e-6)


def test_the_rate_decays_by_examples_of_all_towers() -> None:
    config = OptimizerConfig(
        optimizer="GradientDescentOptimizer",
        base_learning_rate=0.5,
        learning_rate_decay=0.1,
        learning_rate_decay_examples=16,
    )
    with Session(Linear(), rows(8), 2, config) as run:
        rates = [run.run([run.ops.learning_rate, run.ops.step])[0] for _ in range(5)]
    np.testing.assert_allclose(rates, [0.5, 0.5, 0.05, 0.05, 0.005], rtol=1e-5)


def test_averages_follow_the_weights() -> None:
    config = OptimizerConfig(
        optimizer="GradientDescentOptimizer", base_learning_rate=0.1, clip_gradient_norm=0, moving_average_decay=0.9
    )
    inputs, labels = rows(8)
    with Session(Linear(), (inputs, labels), 1, config) as run:
        weights = average = initial_weights().astype(np.float64)
        with run.graph.as_default():
            averaged = next(v for v in tf.global_variables() if "ExponentialMovingAverage" in v.op.name)
            averaged.load(initial_weights(), run.session)
        for step in range(1, 4):
            run.run(run.ops.train_op)
            decay = min(0.9, (1 + step) / (10 + step))
            weights = weights - 0.1 * softmax_step(inputs, labels, weights)[1]
            average = decay * average + (1 - decay) * weights
        np.testing.assert_allclose(run.value("weights"), weights, atol=1e-6)
        np.testing.assert_allclose(run.value(run.ops.averages[0][1]), average, atol=1e-6)
        assert run.ops.averages == (("weights", "weights/ExponentialMovingAverage"),)


def test_noise_is_a_function_of_seed_step_and_tower_alone() -> None:
    def weights(seed: int) -> np.ndarray:
        with Session(Linear(noise=True), rows(8), 2, SGD, seed=seed) as run:
            for _ in range(3):
                run.run(run.ops.train_op)
            return run.value("weights")

    first = weights(1)
    np.testing.assert_array_equal(first, weights(1))
    assert np.abs(first - weights(2)).max() > 1e-5


def test_the_predict_path_can_be_fetched_beside_nothing_else() -> None:
    inputs, labels = rows(5)
    with Session(Linear(), (inputs, labels), 2, SGD) as run:
        predictions = run.run(run.ops.predict.predictions)
    assert predictions.shape == (5, CLASSES)
    np.testing.assert_allclose(predictions.sum(1), np.ones(5), atol=1e-6)
    assert inputs.shape == (5, FEATURES)


def _sum_of_three() -> tuple[tf.Tensor, tf.Operation]:
    """1 + 1e8 - 1e8, of which only the last term is a tensor that nothing else needs; and the initialiser."""
    held = [tf.Variable(value, use_resource=True, dtype=tf.float32) for value in (np.ones(4), np.full(4, 1e8))]
    free = -tf.random.uniform([4], 1e8, 1.000001e8) * 0 - 1e8
    return tf.add_n([*(variable.read_value() for variable in held), free]), tf.global_variables_initializer()


@pytest.mark.promise("N3")
@pytest.mark.parametrize(("in_order", "expected"), [(False, 1), (True, 0)])
def test_sums_begin_with_their_first_term_even_if_the_memory_of_another_is_free(in_order: bool, expected: int) -> None:
    with tf.Graph().as_default() as graph:
        total, initializer = _sum_of_three()
        if in_order:
            keep_order_of_sums(graph)
        with tf.Session() as session:
            session.run(initializer)
            assert session.run(total).tolist() == [expected] * 4  # in float32, 1 + 1e8 is 1e8


@pytest.mark.promise("N3")
def test_all_sums_of_a_step_are_kept_in_order() -> None:
    with Session(Linear(), rows(7), 3, SGD) as run:
        sums = [op for op in run.ops.train_op.graph.get_operations() if op.type == "AddN" and len(op.inputs) > 2]
        floats = [op for op in sums if op.inputs[0].dtype.is_floating]
        assert any("sum_grads" in op.name for op in floats)
        for op in floats:
            assert op.inputs[0].op.type == "Snapshot"
            assert op.inputs[0].consumers() == [op]
            assert op.inputs[0].device == op.device
