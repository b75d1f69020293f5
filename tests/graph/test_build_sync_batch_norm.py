"""N towers against one, in training mode: models with batch norm, and without."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from contract.model_cases import SIZES, C, T
from contract.model_session import tiny
from trained_towers import SGD, distance, moved, trained, weights
from uneven_videos import Videos, quick

from yt8m import deploy, graph, losses
from yt8m.config.train_config import DeviceConfig
from yt8m.lazy import tf
from yt8m.numerics import across_towers
from yt8m.video.modeler import VideoModeler

# Every frame is sampled, so that no tower draws anything.
EVERY_FRAME = {"iterations": T, "sample_random_frames": False}
FAST = {"batch_norm_decay": 0.5}
DBOF = {**EVERY_FRAME, **FAST}
NORMALISED = {
    "DbofModel": DBOF,
    "NetVladModel": {**EVERY_FRAME, **FAST},
    "ResidualMlpModel": {**FAST, "drop_rate": 0.0},
    "GatedMoeModel": FAST,
}
PLAIN = {"DbofModel": {**EVERY_FRAME, "dbof_add_batch_norm": False}, "LstmModel": {}, "MoeModel": {}}
QUICK = ("MoeModel", "GatedMoeModel")
HEAVY = [pytest.mark.long, pytest.mark.heavy]


def cases(names: Mapping[str, Any]) -> list[Any]:
    """(model, towers, sizes of batches): uneven shares, and in every second step a tower without an example."""
    with_three = [pytest.param(name, 3, [8, 2], marks=() if name in QUICK else HEAVY) for name in names]
    return [*with_three, pytest.param("DbofModel", 2, [7, 1], marks=HEAVY)]


@pytest.mark.promise("N3")
@pytest.mark.parametrize(("name", "towers", "sizes"), cases(PLAIN))
def test_without_batch_norm_towers_learn_as_one(name: str, towers: int, sizes: list[int]) -> None:
    one = trained(name, PLAIN[name], 1, sizes)
    assert moved(one) > 0.05
    assert distance(trained(name, PLAIN[name], towers, sizes), one) < 2e-6


@pytest.mark.heavy
def test_a_model_without_batch_norm_has_the_same_graph_with_the_flag() -> None:
    found = []
    for flag in (False, True):
        with tf.Graph().as_default() as built:
            modeler = VideoModeler(tiny("MoeModel"), losses.get("CrossEntropyLoss")(), C)
            deployment = deploy.DeploymentConfig(num_clones=2, spread_on_cpu=True)
            graph.build(Videos([7], False, 2), modeler, deployment, SGD, DeviceConfig(sync_batch_norm=flag))
            found.append([(op.name, op.type, op.device) for op in built.get_operations()])
    assert found[0] == found[1]


@pytest.mark.promise("N3")
@pytest.mark.parametrize(("name", "towers", "sizes"), cases(NORMALISED))
def test_with_batch_norm_they_do_with_the_flag_only(name: str, towers: int, sizes: list[int]) -> None:
    one = trained(name, NORMALISED[name], 1, sizes)
    assert moved(one) > 0.05
    apart = trained(name, NORMALISED[name], towers, sizes)
    assert distance(weights(apart), weights(one)) > 0.05 * moved(one)
    assert distance(trained(name, NORMALISED[name], towers, sizes, sync_batch_norm=True), one) < 2e-6
    averages = [value for key, value in one.items() if "moving_variance" in key]
    assert averages
    assert all(np.abs(value - 1).max() > 1e-3 for value in averages)


@pytest.mark.long
@pytest.mark.heavy
def test_with_accumulation_averages_and_clipping() -> None:
    config = dataclasses.replace(
        SGD, accumulate_steps=2, moving_average_decay=0.5, clip_gradient_norm=0.2, clip_by="global"
    )
    settings = {"config": config, "steps": 6}
    one = trained("DbofModel", DBOF, 1, [8, 2, 5], **settings)
    many = trained("DbofModel", DBOF, 3, [8, 2, 5], sync_batch_norm=True, **settings)
    assert moved(one) > 0.05
    assert any("ExponentialMovingAverage" in name for name in one)
    assert distance(many, one) < 2e-6


@pytest.mark.long
@pytest.mark.heavy
def test_gradients_that_are_summed_are_those_of_all_rows_times_the_towers() -> None:
    """Two towers with as many rows each: twice the mean."""
    halved = dataclasses.replace(SGD, combine_gradients="sum", base_learning_rate=0.25)
    one = trained("DbofModel", DBOF, 1, [6])
    assert distance(trained("DbofModel", DBOF, 2, [6], config=halved, sync_batch_norm=True), one) < 2e-6


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_rounded_products(precision: str) -> None:
    """What is rounded differs in its last bit where statistics do in theirs."""
    one = trained("DbofModel", DBOF, 1, [8, 2], precision=precision)
    many, apart = (
        trained("DbofModel", DBOF, 3, [8, 2], precision=precision, sync_batch_norm=flag) for flag in (True, False)
    )
    assert distance(many, one) < 0.02 * moved(one)
    assert distance(weights(apart), weights(one)) > 0.2 * moved(one)


@pytest.mark.heavy
def test_each_tower_computes_once_on_its_own_device_and_none_is_blamed() -> None:
    inputter = Videos([6], True, 2)
    modeler = VideoModeler(tiny("DbofModel", EVERY_FRAME), losses.get("CrossEntropyLoss")(), C, feature_sizes=SIZES)
    with tf.Graph().as_default() as built:
        deployment = deploy.DeploymentConfig(num_clones=2, spread_on_cpu=True)
        ops = graph.build(inputter, modeler, deployment, SGD, DeviceConfig(sync_batch_norm=True))
        towers = [op for op in built.get_operations() if not op.name.startswith("predict")]
        found = collections.Counter((op.type, op.device) for op in towers)
        assert found["MatMul", "/device:CPU:0"] == found["MatMul", "/device:CPU:1"] > 20
        assert found["MaxPoolGrad", "/device:CPU:0"] == found["MaxPoolGrad", "/device:CPU:1"] == 1
        with tf.Session(config=quick(deployment)) as session:
            session.run(tf.global_variables_initializer())
            session.run(ops.input.initializer, {ops.input.files: ["videos"]})
            assert session.run(ops.bad_tower) == -1


@pytest.mark.heavy
def test_replicas_of_a_cluster_each_have_their_own_statistics() -> None:
    """The graph of one replica: all that is exchanged stays on its worker."""
    modeler = VideoModeler(tiny("DbofModel", EVERY_FRAME), losses.get("CrossEntropyLoss")(), C, feature_sizes=SIZES)
    with tf.Graph().as_default() as built:
        deployment = deploy.DeploymentConfig(2, num_replicas=2, replica_id=1, num_ps_tasks=1, spread_on_cpu=True)
        graph.build(Videos([6], True, 2), modeler, deployment, SGD, DeviceConfig(sync_batch_norm=True))
        stacks = [op for op in built.get_operations() if "of_all_towers" in op.name]
        assert stacks
        assert {op.device for op in stacks} == {f"/job:worker/device:CPU:{index}" for index in range(2)}


class Exchanging:
    """Towers over scalars: what each hands in is its `number` times the shared weight."""

    def __init__(self, numbers: list[float]) -> None:
        self.config = deploy.local(len(numbers), 0)[0]
        self.exchange = across_towers.Exchange(len(numbers))
        todo = iter(enumerate(numbers))

        def model_fn() -> deploy.Objective:
            index, number = next(todo)
            weight = tf.get_variable("w", initializer=2.0)
            with self.exchange.tower(index, tf.constant(1, tf.int64)):
                told = across_towers.gathered(number * weight)
            told = told * tf.ones([len(numbers)])
            return deploy.Objective(number * tf.reduce_prod(told))

        self.clones = deploy.create_clones(self.config, model_fn)


class Doubling(tf.train.GradientDescentOptimizer):
    """Scales the loss and so has a way of its own to compute gradients."""

    def compute_gradients(self, loss: tf.Tensor, *args: Any, **kwargs: Any) -> Any:
        return super().compute_gradients(2.0 * loss, *args, **kwargs)


@pytest.mark.parametrize(("optimizer", "factor"), [(tf.train.GradientDescentOptimizer, 1.0), (Doubling, 2.0)])
def test_the_gradient_runs_through_what_the_others_gave(optimizer: Any, factor: float) -> None:
    """sum_i a_i * prod_j (a_j w), of which the slope is (sum a) * (prod a) * n * w^(n - 1)."""
    with tf.Graph().as_default():
        towers = Exchanging([1.0, 2.0, 3.0])
        assert towers.exchange.connect()
        objectives = [clone.outputs for clone in towers.clones]
        loss, ((slope, _),) = deploy.optimize_clones(
            towers.clones, optimizer(1.0), weights=[1.0] * 3, objectives=objectives, jointly=True
        )
        with tf.Session(config=towers.config.session_config()) as session:
            session.run(tf.global_variables_initializer())
            assert session.run([loss, slope]) == [6 * 6 * 8, factor * 6 * 6 * 3 * 4]


def test_alone_a_tower_gathers_itself() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(across_towers.gathered(tf.constant([1.0, 2.0]))).tolist() == [[1.0, 2.0]]
        assert session.run(across_towers.has_examples()) == 1
        assert not across_towers.is_exchanging()


def test_refusals() -> None:
    with tf.Graph().as_default():
        exchange, one = across_towers.Exchange(2), tf.constant(1, tf.int64)
        with exchange.tower(0, one):
            across_towers.gathered(tf.zeros([3]))
            with pytest.raises(ValueError, match=r"inside .*tf\.cond, .*--sync_batch_norm"):
                tf.cond(one > 0, lambda: across_towers.gathered(tf.zeros([3])), lambda: tf.zeros([2, 3]))
        with exchange.tower(1, one):
            across_towers.gathered(tf.zeros([2]))
        with pytest.raises(ValueError, match=r"different shapes: \[\(3,\)\]; \[\(2,\)\]"):
            exchange.connect()
