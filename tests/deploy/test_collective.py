"""Replicas that sum their gradients by collectives, in real processes, against one process with as many towers."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pytest
from clusters import Process, free_addresses
from contract.model_cases import T
from deploy.collective_process import build, load_weights
from uneven_videos import Videos, quick

from yt8m import deploy
from yt8m.deploy.collective import Round
from yt8m.lazy import tf

SGD = {"optimizer": "GradientDescentOptimizer", "base_learning_rate": 0.5, "clip_gradient_norm": 0.0}
# The last batch has one row, so the second replica has none in that step.
SIZES_OF_BATCHES = [8, 7, 1]
DBOF = {
    "model": "DbofModel",
    "settings": {"iterations": T, "sample_random_frames": False, "batch_norm_decay": 0.5},
    "sizes": SIZES_OF_BATCHES,
    "is_frames": True,
}


@pytest.fixture
def trained(tmp_path: pathlib.Path) -> Callable[..., list[dict[str, np.ndarray]]]:
    """`trained(replicas, **given)`: the variables of each replica after its training."""

    def train(replicas: int, **given: Any) -> list[dict[str, np.ndarray]]:
        addresses = free_addresses(replicas)
        started = []
        for replica in range(replicas):
            told = {"replica": replica, "addresses": addresses, "out": str(tmp_path / f"{replica}.npz"), **given}
            program = str(pathlib.Path(__file__).with_name("collective_process.py"))
            started.append(Process(f"replica {replica}", [program, json.dumps(told)], {}))
        try:
            for process in started:
                assert process.end() == 0, process.log()
        finally:
            for process in started:
                process.close()
        return [dict(np.load(tmp_path / f"{replica}.npz")) for replica in range(replicas)]

    return train


def in_one_process(towers: int, given: dict[str, Any]) -> dict[str, np.ndarray]:
    """The same training by one process with towers, from the same weights."""
    with tf.Graph().as_default():
        deployment = deploy.DeploymentConfig(towers, spread_on_cpu=True)
        inputter = Videos(given["sizes"], given["is_frames"], towers, 1)
        ops = build(given, deployment, None, inputter)
        with tf.Session(config=quick(deployment)) as session:
            session.run(tf.global_variables_initializer())
            session.run(ops.input.initializer, {ops.input.files: inputter.files()})
            load_weights(session)
            for _ in given["sizes"]:
                session.run(ops.train_op)
            return {variable.op.name: session.run(variable) for variable in tf.global_variables()}


def check_same(found: list[dict[str, np.ndarray]], one: dict[str, np.ndarray], tolerance: float) -> None:
    """The replicas are bit-equal, and equal `one` to the tolerance."""
    digests = found[0].pop("digests")
    assert (digests == digests[0]).all()
    examples = found[0].pop("examples")
    assert examples.sum(axis=1).tolist() == [*SIZES_OF_BATCHES, 0]
    for replica in found[1:]:
        assert all((replica[name] == value).all() for name, value in found[0].items())
    assert sorted(found[0]) == sorted(one)
    assert max(float(np.abs(found[0][name] - one[name]).max()) for name in one) < tolerance


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.promise("N3")
@pytest.mark.parametrize("accumulated", [1, 2])
def test_two_replicas_with_batch_norm_train_as_two_towers(
    trained: Callable[..., list[dict[str, np.ndarray]]], accumulated: int
) -> None:
    """Clipped, with averages of the weights and batch norm, over uneven batches; the second has no row in the last."""
    optimizer = {**SGD, "clip_gradient_norm": 0.2, "clip_by": "global", "moving_average_decay": 0.5}
    optimizer["accumulate_steps"] = accumulated
    optimizer["regularization_penalty"] = 0.1
    given = {**DBOF, "optimizer": optimizer}
    one = in_one_process(2, given)
    assert any("moving_variance" in name and np.abs(value - 1).max() > 1e-3 for name, value in one.items())
    assert any("ExponentialMovingAverage" in name for name in one)
    check_same(trained(2, **given), one, 2e-6)


def on_two_devices(build: Callable[[deploy.AllReduce, int], Any], wire: str = "float32", runs: int = 1) -> list[Any]:
    """What two replicas get that are two devices of one session; `build` makes the fetches of each."""
    with tf.Graph().as_default():
        fetches = []
        for replica in range(2):
            with tf.device(f"/cpu:{replica}"), tf.variable_scope(f"replica{replica}"):
                fetches.append(build(deploy.AllReduce(replica, 2, wire), replica))
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(runs):
                found = session.run(fetches, options=Round.STEP.options())
    return found


GRADIENTS = np.array([[1.0, -2.0, 3.0, 0.0], [0.25, 0.5, np.pi, -1.0]], np.float32)


@pytest.mark.parametrize(
    ("rows", "combine", "expected"),
    [
        ((3, 1), "mean", (3 * GRADIENTS[0] + GRADIENTS[1]) / 4),
        ((3, 1), "sum", GRADIENTS[0] + GRADIENTS[1]),
        ((3, 0), "mean", GRADIENTS[0]),
        ((0, 2), "sum", GRADIENTS[1]),
        ((0, 0), "mean", np.zeros(4)),
    ],
)
@pytest.mark.parametrize(("wire", "tolerance"), cases.all_of([("float32", 1e-7)], heavy=[("bfloat16", 2**-7)]))
def test_gradients_count_by_their_examples(
    rows: tuple[int, int], combine: str, expected: np.ndarray, wire: str, tolerance: float
) -> None:
    """Those of a replica without examples are NaN, and count nothing; a sparse one becomes dense."""

    def build(team: deploy.AllReduce, replica: int) -> Any:
        team.announce(tf.constant(rows[replica], tf.int64))
        mine = GRADIENTS[replica] if rows[replica] else np.full(4, np.nan, np.float32)
        matrix, vector = tf.get_variable("m", [3, 2]), tf.get_variable("v", [4])
        sparse = tf.IndexedSlices(tf.reshape(mine, [2, 2]), tf.constant([0, 2]), tf.constant([3, 2]))
        pairs = team.sum_gradients([(sparse, matrix), (tf.constant(mine), vector)], combine)
        return [gradient for gradient, _ in pairs], team.examples, team.announced

    found = on_two_devices(build, wire)
    for (sparse, dense), examples, announced in found:
        np.testing.assert_allclose(dense, expected, atol=tolerance, rtol=tolerance)
        np.testing.assert_array_equal(sparse, np.array([dense[:2], [0, 0], dense[2:]]))
        np.testing.assert_array_equal(dense, found[0][0][1])
        assert examples == sum(rows)
        assert announced[:, 0].tolist() == list(rows)


ODD = [
    np.array([np.nan, -0.0, 1e-42, np.inf], np.float32),
    np.array([[2**53 + 1], [-1]], np.int64),
    np.array([True, False, True]),
    np.array(np.float64(np.pi)),
    np.array([1.5, -0.0], np.float16),
    np.array([200, 3], np.uint8),
]


def variables(values: list[np.ndarray]) -> list[Any]:
    return [tf.get_variable(f"v{i}", initializer=value) for i, value in enumerate(values)]


def bits(values: list[np.ndarray]) -> list[bytes]:
    return [np.asarray(value).tobytes() for value in values]


@pytest.mark.parametrize(("rows", "expected"), [((3, 1), 0), ((0, 2), 1), ((0, 0), None)])
def test_the_values_of_the_first_replica_with_examples_count(rows: tuple[int, int], expected: int | None) -> None:
    """Its update op has run; in a step without any example the values are those from before."""
    given = [np.array([1.0, 2.0], np.float32), np.array(5, np.int64)]

    def build(team: deploy.AllReduce, replica: int) -> Any:
        team.announce(tf.constant(rows[replica], tf.int64))
        made = variables(given)
        updates = [one.assign_add(tf.fill(one.shape, tf.cast(10 + replica, one.dtype))).op for one in made]
        with tf.control_dependencies([team.keep_common(made, updates)]):
            return [one.read_value() for one in made]

    added = 0 if expected is None else 10 + expected
    for found in on_two_devices(build):
        assert bits(found) == bits([(value + added).astype(value.dtype) for value in given])


def test_a_broadcast_gives_every_bit_and_a_checksum_sees_every_difference() -> None:
    other = [value.copy() for value in ODD]
    other[0][1] = 0.0  # from -0.0: one bit
    other[1] = other[1][::-1].copy()  # only the order

    def build(team: deploy.AllReduce, replica: int) -> Any:
        made = variables(other if replica else ODD)
        before = team.digests(made)
        with tf.control_dependencies([before]), tf.control_dependencies([team.broadcast(made)]):
            return before, [one.read_value() for one in made]

    for before, found in on_two_devices(build):
        assert bits(found) == bits(ODD)
        assert (before[0] != before[1]).tolist() == [True, True, False, False, False, False]


def all_before(op: tf.Operation) -> set[tf.Operation]:
    """All ops that run before `op`, by data or by control."""
    found: set[tf.Operation] = set()
    todo = [op]
    while todo:
        last = todo.pop()
        new = {*(tensor.op for tensor in last.inputs), *last.control_inputs} - found
        found |= new
        todo += new
    return found


def test_the_first_bucket_waits_for_no_other_gradient_and_each_bucket_for_the_one_before() -> None:
    """So the gradients of the last layers travel while those of the first are computed."""
    with tf.Graph().as_default() as made:
        team = deploy.AllReduce(0, 2)
        weights = [tf.get_variable(f"w{layer}", [1100, 1100]) for layer in range(3)]
        hidden = tf.ones([2, 1100])
        for one in weights:
            hidden = tf.tanh(hidden @ one)
        gradients = tf.gradients(tf.reduce_sum(hidden), weights)
        team.announce(tf.constant(2, tf.int64))
        team.sum_gradients(list(zip(gradients, weights, strict=True)))
        collectives = [op for op in made.get_operations() if op.type == "CollectiveReduceV2"]
        assert len(collectives) == 4
        needs = [{gradient.op for gradient in gradients} & all_before(op) for op in collectives]
        assert [len(ops) for ops in needs] == [0, 1, 2, 3]
        assert needs[1] == {gradients[2].op}
        for before, after in itertools.pairwise(collectives):
            assert before in all_before(after)
