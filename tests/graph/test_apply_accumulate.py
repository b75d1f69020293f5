"""Several batches to one step of the optimizer: the same step as one large batch, resumed anywhere."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest
from graph.graph_toy import Linear, Rows, initial_weights, rows

from yt8m import deploy, graph
from yt8m.config.train_config import OptimizerConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf

CONFIG = OptimizerConfig(
    base_learning_rate=0.05,
    learning_rate_schedule="cosine",
    learning_rate_warmup_examples=30,
    learning_rate_decay_examples=90,
    clip_gradient_norm=0.3,
    clip_by="global",
    moving_average_decay=0.9,
)
SUMS = ("weights/GradientSum", "examples_of_gradient_sums")


class Run:
    """A training graph over batches of `sizes` rows by turns, in a session of its own."""

    def __init__(
        self, sizes: list[int], accumulate: int, towers: int = 1, scheduled: bool = True, noise: bool = False
    ) -> None:
        schedule = {} if scheduled else {"learning_rate_schedule": "constant", "learning_rate_warmup_examples": 0}
        config = dataclasses.replace(CONFIG, accumulate_steps=accumulate, **schedule)
        deployment = deploy.DeploymentConfig(num_clones=towers, spread_on_cpu=True)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.ops = graph.build(self._inputter(sizes, towers), Linear(noise=noise), deployment, config)
            self.session = tf.Session(config=deployment.session_config())
            self.saver = tf.train.Saver()
            self.session.run(tf.global_variables_initializer())
            self._begin_with_the_same_weights()
        self.session.run(self.ops.input.initializer, {self.ops.input.files: ["rows"]})

    @classmethod
    def restored(cls, path: str) -> Run:
        """In the graph that lies beside the checkpoint."""
        self = cls.__new__(cls)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.ops = graph.restore_train(f"{path}.meta")
            restorer, self.session = graph.Restorer(), tf.Session()
            restorer.restore(self.session, path)
        self.session.run(self.ops.input.initializer, {self.ops.input.files: ["rows"]})
        return self

    @staticmethod
    def _inputter(sizes: list[int], towers: int) -> Rows:
        inputs, labels = rows(sum(sizes))
        inputter = Rows(inputs, labels, max(sizes) // towers)
        inputter.dataset = lambda *_: (  # type: ignore
            tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(max(sizes)).repeat()
        )
        return inputter

    def _begin_with_the_same_weights(self) -> None:
        for variable in tf.global_variables():
            if variable.op.name in ("weights", "weights/ExponentialMovingAverage"):
                variable.load(initial_weights(), self.session)

    def step(self, times: int = 1) -> list[Any]:
        return [self.session.run([self.ops.step, self.ops.label_loss])[0] for _ in range(times)]

    def values(self) -> dict[str, np.ndarray]:
        with self.graph.as_default():
            return {v.op.name: self.session.run(v) for v in tf.global_variables()}


@pytest.mark.parametrize("towers", [pytest.param(1, marks=pytest.mark.heavy), 2])
@pytest.mark.parametrize("sizes", [pytest.param([4, 4, 4], marks=pytest.mark.heavy), [4, 4, 2]])
def test_accumulated_batches_step_as_one_large_batch(sizes: list[int], towers: int) -> None:
    # The schedule counts full batches, so uneven ones are compared without one.
    even = len(set(sizes)) == 1
    small, large = Run(sizes, len(sizes), towers, even), Run([sum(sizes)], 1, towers, even)
    for update in range(1, 5):
        before = small.values()["weights"]
        assert small.step(len(sizes) - 1)[-1] == update * len(sizes) - 1
        np.testing.assert_array_equal(small.values()["weights"], before)
        small.step()
        large.step()
        ours, theirs = small.values(), large.values()
        assert all(not ours[name].any() for name in SUMS)
        assert set(ours) - set(SUMS) == set(theirs)
        for name in set(theirs) - {"global_step"}:
            np.testing.assert_allclose(ours[name], theirs[name], atol=2e-6, err_msg=f"{name} {update}")


@pytest.mark.heavy
def test_a_stop_within_a_group_changes_nothing(tmp_path: pathlib.Path) -> None:
    whole = Run([5], 3, noise=True)
    whole.step(10)
    halted = Run([5], 3, noise=True)
    halted.step(4)
    assert halted.values()["weights/GradientSum"].any()
    with halted.graph.as_default():
        path = halted.saver.save(halted.session, str(tmp_path / "model.ckpt"))
    resumed = Run.restored(path)
    assert resumed.step(6)[-1] == 10
    expected = whole.values()
    for name, value in resumed.values().items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_a_sparse_gradient_is_accumulated_too() -> None:
    from yt8m.graph.apply import apply_gradients

    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.get_variable("table", initializer=np.zeros((3, 2), np.float32))
        gradients = [(tf.gradients(tf.reduce_sum(tf.gather(table, [1, 1])), table)[0], table)]
        config = OptimizerConfig(accumulate_steps=2, clip_gradient_norm=0)
        step = tf.train.get_or_create_global_step()
        _, train_op = apply_gradients(
            gradients, tf.zeros([1]), tf.train.GradientDescentOptimizer(1.0), config, step, tf.constant(3)
        )
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        assert not session.run(table).any()
        session.run(train_op)
        np.testing.assert_allclose(session.run(table), [[0, 0], [-2, -2], [0, 0]])


def test_a_cluster_is_refused() -> None:
    deployment = deploy.DeploymentConfig(num_replicas=2, num_ps_tasks=1)
    config = dataclasses.replace(CONFIG, accumulate_steps=2)
    with tf.Graph().as_default(), pytest.raises(UsageError, match=r"accumulate_steps=2\b.*parameter servers"):
        graph.build(Run._inputter([4], 1), Linear(), deployment, config)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_step_is_counted_after_it_was_read_for_the_rate(accumulate: int) -> None:
    """Nothing but an edge of the graph keeps the one from coming before the other, once in a while."""
    run = Run([4], accumulate)
    counts = [
        op
        for op in run.graph.get_operations()
        if op.type == "AssignAddVariableOp" and "global_step" in op.inputs[0].op.name
    ]
    assert len(counts) == 1
    assert "step_at_start" in _names_before(counts[0])
    run.session.close()


def _names_before(op: Any) -> set[str]:
    """All ops that must have run before `op` does."""
    found: set[str] = set()
    todo = [op]
    while todo:
        now = todo.pop()
        for before in (*(tensor.op for tensor in now.inputs), *now.control_inputs):
            if before.name not in found:
                found.add(before.name)
                todo.append(before)
    return found
