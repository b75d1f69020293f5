"""What crosses to a tower and back in one tensor, and that nothing is lost or changed on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from contract.model_cases import SIZES, C, quick
from contract.model_session import tiny
from graph.graph_toy import CLASSES, FEATURES, Linear, Rows, rows
from trained_towers import SGD, moved, trained
from uneven_videos import Videos

from benchmarks.copies import DevicesOfTowers
from yt8m import deploy, graph, losses, models
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.graph.joined_copies import SMALL_TENSOR
from yt8m.lazy import tf
from yt8m.numerics.control_flow import cond_in_place, of_version_1
from yt8m.video.modeler import VideoModeler

SLOW = dataclasses.replace(SGD, base_learning_rate=0.02)
SPREAD = deploy.DeploymentConfig(num_clones=2, spread_on_cpu=True)


def joined(deployment: deploy.DeploymentConfig, name: str = "GatedMoeModel", **settings: Any) -> dict[str, list[int]]:
    """{scope of a joined tensor: the sizes of its parts}, in a training step of the model."""
    model = tiny(name, settings)
    with tf.Graph().as_default() as built:
        modeler = VideoModeler(model, losses.get("CrossEntropyLoss")(), C, feature_sizes=SIZES)
        videos = Videos([7], model.level == "frame", deployment.num_clones)
        graph.build(videos, modeler, deployment, OptimizerConfig(), DeviceConfig())
        return sizes_of_joined(built)


def sizes_of_joined(built: tf.Graph) -> dict[str, list[int]]:
    joins = [op for op in built.get_operations() if op.type == "ConcatV2" and "/joined_" in op.name]
    return {op.name.removesuffix("/concat"): [tensor.shape.num_elements() for tensor in op.inputs[:-1]] for op in joins}


def check_equal_to_the_bit(of_towers: Mapping[str, np.ndarray], spread: Mapping[str, np.ndarray]) -> None:
    assert sorted(of_towers) == sorted(spread)
    for variable, values in spread.items():
        np.testing.assert_array_equal(of_towers[variable], values, err_msg=variable)


@pytest.mark.parametrize("name", quick(["GatedMoeModel"], models.built_in_names()))
def test_a_run_learns_the_same_to_the_bit(name: str) -> None:
    """On the second of two devices of a CPU nothing is joined."""
    needs_rgb = models.get(name).input_transform == "reverse_whitening"
    settings = {"input_transform": "raw"} if needs_rgb else {}
    of_towers, spread = (
        trained(name, settings, 2, [7, 4], config=SLOW, deployment=each) for each in (DevicesOfTowers(2), SPREAD)
    )
    assert moved(spread) > 1e-3
    check_equal_to_the_bit(of_towers, spread)


@pytest.mark.heavy
@pytest.mark.parametrize("is_exchanging", [False, True])
def test_so_it_does_with_accumulated_gradients_averages_and_exchanged_statistics(is_exchanging: bool) -> None:
    config = dataclasses.replace(SGD, accumulate_steps=2, moving_average_decay=0.5, clip_gradient_norm=0.2)
    of_towers, spread = (
        trained("NetVladModel", {}, 2, [8, 1], config=config, steps=6, deployment=each, sync_batch_norm=is_exchanging)
        for each in (DevicesOfTowers(2), SPREAD)
    )
    assert moved(spread) > 1e-3
    check_equal_to_the_bit(of_towers, spread)


def test_each_small_weight_its_gradient_and_the_statistics_are_joined_once() -> None:
    with tf.Graph().as_default():
        modeler = VideoModeler(tiny("GatedMoeModel"), None, C, feature_sizes=SIZES)
        modeler.predict_placeholders(False)
        weights = [variable.shape.num_elements() for variable in tf.trainable_variables()]
        means = [v.shape.num_elements() for v in tf.global_variables() if "moving_mean" in v.op.name]
    assert len(weights) > 2
    assert means
    found = joined(DevicesOfTowers(2))
    assert sorted(found) == [f"clone_{tower}/joined_{way}" for tower in (0, 1) for way in ("from_tower", "to_tower")]
    for tower in (0, 1):
        assert sorted(found[f"clone_{tower}/joined_to_tower"]) == sorted(weights)
    # A batch normalisation sends mean, variance and rate together.
    assert sorted(found["clone_0/joined_from_tower"]) == sorted([*weights, *(2 * size + 1 for size in means)])
    assert sorted(found["clone_1/joined_from_tower"]) == sorted(weights)


def test_a_large_weight_crosses_alone() -> None:
    most = SMALL_TENSOR // 4
    found = joined(DevicesOfTowers(2), "ResidualMlpModel", mlp_hidden_size=most - 1)
    assert {max(sizes) for sizes in found.values()} == {most - 1}


@pytest.mark.parametrize(
    "deployment",
    [
        SPREAD,
        deploy.DeploymentConfig(num_clones=2, clone_on_cpu=True),
        DevicesOfTowers(1, variables_on_clone=True),
        DevicesOfTowers(2, num_ps_tasks=1),
    ],
    ids=["spread on CPUs", "on one CPU", "variables on the tower", "parameter server"],
)
def test_nothing_is_joined(deployment: deploy.DeploymentConfig) -> None:
    assert joined(deployment) == {}


class Normalised(Linear):
    """A linear model with a bias, whose statistics are `statistics` of the mean over the batch."""

    def __init__(self, statistics: Callable[[tf.Tensor, tf.Variable], tuple[tf.Tensor, list[Any]]]) -> None:
        super().__init__(normalise=True)
        self.statistics = statistics

    def _normalised(self, inputs: tf.Tensor, is_training: bool) -> tuple[tf.Tensor, list[Any]]:  # type: ignore[override]
        moving = tf.get_variable("moving_mean", [FEATURES], trainable=False, initializer=tf.zeros_initializer())
        mean, updates = self.statistics(tf.reduce_mean(inputs, 0), moving)
        return inputs - mean + tf.get_variable("bias", [FEATURES]), updates if is_training else []


def by_way_of_the_host(mean: tf.Tensor, moving: tf.Variable) -> tuple[tf.Tensor, list[Any]]:
    """All gradients are computed from what the host makes of the mean."""
    with tf.device("/device:CPU:0"):
        doubled = 2.0 * mean
        return doubled, [moving.assign(doubled)]


def in_every_second_step(mean: tf.Tensor, moving: tf.Variable) -> tuple[tf.Tensor, list[Any]]:
    """In the other steps the tensor that the branch takes of the tower is never made."""
    with tf.device("/device:CPU:0"):
        is_even = tf.equal(tf.train.get_or_create_global_step().read_value() % 2, 0)
        update = cond_in_place(is_even, lambda: tf.group(moving.assign_sub(0.1 * (moving - mean))), tf.no_op)
    return mean, [update]


def in_a_loop(mean: tf.Tensor, moving: tf.Variable) -> tuple[tf.Tensor, list[Any]]:
    """An op on the tower is part of a loop on the host."""
    tower = mean.device

    def add(turn: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.device(tower):
            tenth = mean * 0.1
        return turn + 1, total + tenth

    with of_version_1(), tf.device("/device:CPU:0"):
        _, total = tf.while_loop(lambda turn, _: turn < 2, add, [0, moving.read_value()])
        return mean, [moving.assign(total)]


def seen_by_a_summary(mean: tf.Tensor, moving: tf.Variable) -> tuple[tf.Tensor, list[Any]]:
    """A step does not need the variable of the summary, which has no value."""
    with tf.variable_scope("seen", reuse=tf.AUTO_REUSE):
        seen = tf.get_variable("total", [], trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    tf.summary.scalar("twice", 2.0 * seen)
    with tf.device("/device:CPU:0"):
        return mean, [moving.assign(mean)]


STATISTICS = {  # and how many tensors the first tower sends together, beside two gradients
    by_way_of_the_host: 0,
    in_every_second_step: 0,
    in_a_loop: 0,
    seen_by_a_summary: 1,
}


@pytest.mark.parametrize("statistics", STATISTICS, ids=lambda function: function.__name__)
def test_what_may_not_come_or_is_needed_earlier_crosses_alone(statistics: Any) -> None:
    of_towers, sizes = three_steps(statistics, DevicesOfTowers(2))
    spread, nothing = three_steps(statistics, SPREAD)
    assert nothing is None
    assert sorted(sizes) == sorted([FEATURES, FEATURES * CLASSES, *[FEATURES] * STATISTICS[statistics]])
    check_equal_to_the_bit(of_towers, spread)


def three_steps(statistics: Any, deployment: deploy.DeploymentConfig) -> tuple[dict[str, np.ndarray], Any]:
    """All variables after three steps; and the sizes of what the first tower sends to the host together."""
    with tf.Graph().as_default() as built:
        tf.set_random_seed(1)
        inputter = Rows(*rows(24), batch_size=4)
        ops = graph.build(inputter, Normalised(statistics), deployment, OptimizerConfig())
        with tf.Session(config=deployment.session_config()) as session:
            session.run(tf.global_variables_initializer())
            session.run(ops.input.initializer, {ops.input.files: inputter.files()})
            for _ in range(3):
                session.run([ops.train_op, ops.label_loss])
            values = session.run({variable.op.name: variable for variable in tf.global_variables()})
        return values, sizes_of_joined(built).get("clone_0/joined_from_tower")
