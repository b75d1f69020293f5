"""Replicas that take each step together."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import pytest
from clusters import Cluster
from tiny_workload import CLASSES, FEATURES, TinyInputter, TinyModeler

from yt8m import runner
from yt8m.config.train_config import OptimizerConfig
from yt8m.lazy import tf

pytestmark = pytest.mark.long


def rows_of(path: pathlib.Path) -> np.ndarray:
    records = list(tf.python_io.tf_record_iterator(str(path)))
    return np.stack([np.frombuffer(record, np.float32) for record in records])


def mean_gradient_steps(weights: np.ndarray, shards: list[np.ndarray], rate: float) -> tuple[np.ndarray, int]:
    """Softmax regression by hand: each step on the rows that all replicas read in it."""
    steps = max(-(-len(shard) // 8) for shard in shards)
    for step in range(steps):
        rows = np.concatenate([shard[8 * step : 8 * step + 8] for shard in shards])
        inputs, labels = rows[:, :FEATURES], rows[:, FEATURES].astype(int)
        scores = np.exp(inputs @ weights)
        error = scores / scores.sum(axis=1, keepdims=True) - np.eye(CLASSES)[labels]
        weights = weights - rate * inputs.T @ error / len(rows)
    return weights, steps


SGD = {"optimizer": "GradientDescentOptimizer", "base_learning_rate": 0.5, "clip_gradient_norm": 0.0}


@pytest.mark.heavy
@pytest.mark.promise("N3")
@pytest.mark.parametrize("workers", [0, 1])
def test_replicas_on_parameter_servers_step_as_one_tower(
    cluster: Callable[..., Cluster], tmp_path: pathlib.Path, workers: int
) -> None:
    """One alone, or two with half of each batch, for as long as both have whole batches."""
    steps, replicas = 4, 1 + workers
    made = cluster(workers, servers=2, max_steps=steps, sync_replicas=workers > 0, optimizer=SGD)
    processes = made.start_all()
    for process in (*processes["chief"], *processes["worker"]):
        assert process.outcome()[:2] == ["finished", steps]
    batches = [rows_of(tmp_path / f"{i}.tfrecord")[: 8 * steps].reshape(steps, 8, -1) for i in range(replicas)]
    with tf.io.TFRecordWriter(str(tmp_path / "all")) as writer:
        for row in np.concatenate(batches, axis=1).reshape(8 * steps * replicas, -1):
            writer.write(row.tobytes())
    config = runner.RunnerConfig(
        model_dir=str(tmp_path / "one"),
        init_checkpoint=str(tmp_path / "run/model.ckpt-0"),
        max_steps=steps,
        optimizer=OptimizerConfig(**SGD),
    )
    inputter = TinyInputter(str(tmp_path / "all"), 8 * replicas, shuffle=0)
    assert runner.build(config, inputter, TinyModeler(), ()).run().global_step == steps
    first, one, many = (
        tf.train.load_variable(str(tmp_path / path), "weights")
        for path in ("run/model.ckpt-0", f"one/model.ckpt-{steps}", f"run/model.ckpt-{steps}")
    )
    assert np.abs(one - first).max() > 0.01
    np.testing.assert_allclose(many, one, atol=1e-6)


@pytest.mark.heavy
@pytest.mark.promise("P4")
def test_a_replica_that_is_through_does_not_hold_up_the_others(
    cluster: Callable[..., Cluster], tmp_path: pathlib.Path
) -> None:
    """36 rows of the chief against 44 of the worker: both read theirs once, in steps of the mean gradient."""
    made = cluster(uneven=4, epochs=1, sync_replicas=True, stall_timeout=120, optimizer=SGD)
    processes = made.start_all()
    outcomes = [processes[role][0].outcome() for role in ("chief", "worker")]
    assert processes["ps"][0].end() == 0
    run = str(tmp_path / "run")
    first = tf.train.load_checkpoint(f"{run}/model.ckpt-0").get_tensor("weights")
    shards = [rows_of(tmp_path / f"{i}.tfrecord") for i in range(2)]
    expected, steps = mean_gradient_steps(first.astype(np.float64), shards, 0.5)
    assert outcomes == [["out_of_data", steps, "all data were read"]] * 2
    np.testing.assert_allclose(tf.train.load_variable(run, "weights"), expected, atol=1e-5)


@pytest.mark.heavy
@pytest.mark.promise("P4")
def test_a_worker_that_is_killed_ends_the_others_in_time(cluster: Callable[..., Cluster]) -> None:
    made = cluster(sync_replicas=True, stall_timeout=30.0)
    made.start("ps")
    chief, worker = made.start("chief"), made.start("worker")
    chief.wait_for_step(5)
    worker.kill()
    chief.wait_for(r"no progress for .*worker 0 \(.*\) accepts no connection")
    assert chief.end() == 1


@pytest.mark.promise("P4")
def test_a_worker_that_comes_back_in_time_takes_part_again(
    cluster: Callable[..., Cluster], stop: Callable[[], None]
) -> None:
    made = cluster(sync_replicas=True)
    server, chief, worker = made.start("ps"), made.start("chief"), made.start("worker")
    chief.wait_for_step(5)
    worker.kill()
    again = made.start("worker")
    chief.wait_for_step(again.wait_for_step(1) + 10)
    again.kill()
    server.kill()
