"""Replicas that sum their gradients by collectives, in real processes, against one process with as many towers."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from clusters import Process, environment_for, free_addresses
from contract.model_cases import T
from deploy.collective_process import build, load_weights
from uneven_videos import Videos, quick

from yt8m import deploy
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
            command = [sys.executable, str(pathlib.Path(__file__).with_name("collective_process.py"))]
            started.append(Process(f"replica {replica}", [*command, json.dumps(told)], environment_for({})))
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


@pytest.mark.long
@pytest.mark.promise("N3")
def test_two_replicas_with_batch_norm_train_as_two_towers(trained: Callable[..., list[dict[str, np.ndarray]]]) -> None:
    """Clipped, with averages of the weights and batch norm, over uneven batches; the second has no row in the last."""
    optimizer = {**SGD, "clip_gradient_norm": 0.2, "clip_by": "global", "moving_average_decay": 0.5}
    optimizer["regularization_penalty"] = 0.1
    given = {**DBOF, "optimizer": optimizer}
    one = in_one_process(2, given)
    assert any("moving_variance" in name and np.abs(value - 1).max() > 1e-3 for name, value in one.items())
    assert any("ExponentialMovingAverage" in name for name in one)
    check_same(trained(2, **given), one, 2e-6)
