"""Training by all-reduce in real processes: what it learns, how it resumes, and how it ends if a process is lost."""

from __future__ import annotations

import json
import pathlib
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from clusters import Cluster, Process
from runner.cluster.test_sync import SGD, mean_gradient_steps, rows_of

from yt8m.lazy import tf

pytestmark = pytest.mark.long

PLAIN: dict[str, Any] = {"exchange": "all-reduce", "optimizer": SGD}


def said_last(process: Process) -> list[Any]:
    """Status, step and message of a process that has ended."""
    return json.loads(next(line for line in reversed(process.lines) if line.startswith("[")))


def weights_in(run: pathlib.Path, step: int) -> np.ndarray:
    return tf.train.load_variable(f"{run}/model.ckpt-{step}", "weights")


@pytest.mark.promise("N3")
def test_all_examples_count_once_though_one_replica_has_fewer(
    cluster: Callable[..., Cluster], tmp_path: pathlib.Path
) -> None:
    """36 rows of the chief against 44 of the worker, compared after every step with a calculation by hand."""
    made = cluster(1, 0, uneven=4, epochs=1, check_replicas_steps=1, **PLAIN)
    processes = made.start_all()
    outcomes = [processes[role][0].outcome() for role in ("chief", "worker")]
    run = tmp_path / "run"
    shards = [rows_of(tmp_path / f"{i}.tfrecord") for i in range(2)]
    expected, steps = mean_gradient_steps(weights_in(run, 0).astype(np.float64), shards, 0.5)
    assert outcomes == [["out_of_data", steps, "all data were read"]] * 2
    np.testing.assert_allclose(weights_in(run, steps), expected, atol=1e-5)
    assert json.loads((run / "cluster.json").read_text())["ended"] == steps


@pytest.mark.promise("P1")
def test_told_all_at_once_they_save_one_checkpoint(cluster: Callable[..., Cluster], tmp_path: pathlib.Path) -> None:
    made = cluster(1, 0, checkpoints={"save_checkpoint_steps": 10_000}, **PLAIN)
    processes = [made.start("chief"), made.start("worker")]
    processes[1].wait_for_step(3)
    for process in processes:
        process.send_signal(signal.SIGTERM)
    assert [process.end() for process in processes] == [143, 143], [process.log() for process in processes]
    (status, step, _), other = (said_last(process) for process in processes)
    assert (status, step) == ("stopped", other[1])
    saved = sorted(path.name for path in (tmp_path / "run").glob("model.ckpt-*.index"))
    assert saved == sorted(["model.ckpt-0.index", f"model.ckpt-{step}.index"])
