"""Training by all-reduce in real processes: what it learns, how it resumes, and how it ends if a process is lost."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from clusters import Cluster, Process
from runner.cluster.test_sync import SGD, mean_gradient_steps, rows_of

from yt8m.deploy.cluster import ClusterConfig
from yt8m.lazy import tf

pytestmark = pytest.mark.long

PLAIN: dict[str, Any] = {"exchange": "all-reduce", "optimizer": SGD}


def said_last(process: Process) -> list[Any]:
    """Status, step and message of a process that has ended."""
    return json.loads(next(line for line in reversed(process.lines) if line.startswith("[")))


def weights_in(run: pathlib.Path, step: int) -> np.ndarray:
    return tf.train.load_variable(f"{run}/model.ckpt-{step}", "weights")


def test_what_all_announce_is_read_right_after_the_step_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the parts of a position would be saved with the number of the step before."""
    from yt8m.runner.cluster.cluster_runner import AllReduceRunner
    from yt8m.runner.cluster.common_steps import AgreeHook
    from yt8m.runner.hooks import StepHook

    runner, counts = object.__new__(AllReduceRunner), object.__new__(StepHook)
    runner._watch = None  # type: ignore[assignment]
    monkeypatch.setattr(runner, "_create_hooks", lambda *_: ["before", "input", counts, "after"])
    members = ClusterConfig(("localhost:1", "localhost:2"))
    context = types.SimpleNamespace(config=types.SimpleNamespace(members=members))
    hooks = runner._create_all_hooks(types.SimpleNamespace(context=context, position=None), ())
    assert hooks[:3] == ["before", "input", counts]
    assert isinstance(hooks[3], AgreeHook)
    assert hooks[4] == "after"


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
@pytest.mark.parametrize("told", [(0, 1), pytest.param((1,), marks=pytest.mark.heavy)], ids=["all", "the worker alone"])
def test_told_to_stop_all_save_one_checkpoint(
    cluster: Callable[..., Cluster], tmp_path: pathlib.Path, told: tuple[int, ...]
) -> None:
    given = {"checkpoints": {"save_checkpoint_steps": 10_000}, **PLAIN}
    # Each machine has a local copy of its own of a teacher's predictions, which is no difference.
    made, other_machine = (cluster(1, 0, signature={"distill_from": path}, **given) for path in ("/a", "/b"))
    other_machine.jobs = made.jobs
    processes = [made.start("chief"), other_machine.start("worker")]
    processes[1].wait_for_step(3)
    for replica in told:
        processes[replica].send_signal(signal.SIGTERM)
    assert [process.end() for process in processes] == [143, 143], [process.log() for process in processes]
    (status, step, _), other = (said_last(process) for process in processes)
    assert (status, step) == ("stopped", other[1])
    saved = sorted(path.name for path in (tmp_path / "run").glob("model.ckpt-*.index"))
    assert saved == sorted(["model.ckpt-0.index", f"model.ckpt-{step}.index"])


EXACT: dict[str, Any] = {**PLAIN, "exact_resume": True, "checkpoints": {"save_checkpoint_steps": 5}, "max_steps": 40}


@pytest.mark.heavy
@pytest.mark.promise("P4")
@pytest.mark.promise("C1")
@pytest.mark.parametrize("victim", ["chief", "worker"])
def test_if_one_is_killed_the_others_end_and_restarted_all_go_on_as_if_nothing_had_happened(
    cluster: Callable[..., Cluster], tmp_path: pathlib.Path, victim: str
) -> None:
    made = cluster(2, 0, **EXACT)
    processes = [made.start("chief"), made.start("worker", 0), made.start("worker", 1)]
    processes[1].wait_for_step(12)
    killed = processes.pop(0 if victim == "chief" else 1)
    killed.kill()
    for process in processes:
        assert process.end() == 1
        lost = next(line for line in process.lines if " lost " in line)
        assert f"{'chief' if victim == 'chief' else 'worker 0'} (" in lost
    run = tmp_path / "run"
    saved = max(int(path.stem.partition("-")[2]) for path in run.glob("model.ckpt-*.index"))
    assert saved >= 10
    for process in (made.start("worker", 1), made.start("worker", 0), made.start("chief")):
        assert process.outcome() == ["finished", 40, "finished"]
        assert process.steps()[0] == saved + 1
    whole = cluster(2, 0, **{**EXACT, "model_dir": str(tmp_path / "whole")})  # the seed gives the same first weights
    for process in [process for role in whole.start_all().values() for process in role]:
        assert process.end() == 0
    assert (weights_in(run, 40) == weights_in(tmp_path / "whole", 40)).all()
    assert sorted(path.name for path in run.glob("input-40*.json")) == [
        "input-40.json",
        "input-40.replica1.json",
        "input-40.replica2.json",
    ]


@pytest.mark.heavy
@pytest.mark.promise("P3")
def test_a_process_that_is_frozen_is_named_and_the_other_ends(cluster: Callable[..., Cluster]) -> None:
    made = cluster(1, 0, **{**PLAIN, "stall_timeout": 10.0})
    chief, worker = made.start("chief"), made.start("worker")
    chief.wait_for_step(3)
    worker.send_signal(signal.SIGSTOP)
    chief.wait_for(r"no progress for .*worker 0 \(.*\) accepts connections but does not answer")
    assert chief.end() == 1


@pytest.mark.heavy
@pytest.mark.promise("P3")
def test_a_slow_process_is_named(cluster: Callable[..., Cluster], stop: Callable[[], None]) -> None:
    made = cluster(2, 0, **PLAIN)
    chief, slow, other = made.start("chief"), made.start("worker", 0, LAG="0.5"), made.start("worker", 1)
    chief.wait_for(r"worker 0 \(.*\) is slow: in the last \d+ steps, the others waited")
    stop()
    assert [process.outcome()[:1] for process in (chief, slow, other)] == [["finished"]] * 3


@pytest.mark.heavy
@pytest.mark.promise("N3")
def test_variables_that_differ_end_the_run_and_are_named(
    cluster: Callable[..., Cluster], tmp_path: pathlib.Path
) -> None:
    made = cluster(1, 0, check_replicas_steps=4, checkpoints={"save_checkpoint_steps": 8}, **PLAIN)
    processes = [made.start("chief"), made.start("worker", TAMPER="6")]
    for process in processes:
        assert process.end() == 1
        assert "step 8: the variable weights" in process.log()
    assert [path.name for path in (tmp_path / "run").glob("model.ckpt-*.index")] == ["model.ckpt-0.index"]


@pytest.mark.heavy
@pytest.mark.promise("P8")
@pytest.mark.parametrize("other", [{"max_steps": 20}, {"signature": {"label_loss": "HingeLoss"}}])
def test_processes_with_other_settings_are_refused(cluster: Callable[..., Cluster], other: dict[str, Any]) -> None:
    given = {"max_steps": 30, "signature": {"label_loss": "CrossEntropyLoss"}, **PLAIN}
    made, differing = cluster(1, 0, **given), cluster(1, 0, **{**given, **other})
    differing.jobs = made.jobs
    for process in (made.start("chief"), differing.start("worker")):
        assert process.end() == 2
        assert "worker 0" in process.log()
        assert "with the same flags" in process.log()


@pytest.mark.heavy
@pytest.mark.promise("P2")
def test_whoever_waits_for_the_others_ends_when_told(cluster: Callable[..., Cluster]) -> None:
    made = cluster(1, 0, **PLAIN)
    chief = made.start("chief")
    chief.wait_for(r"waiting for worker 0 \(")
    chief.send_signal(signal.SIGTERM)
    assert chief.end() == 143


@pytest.mark.heavy
@pytest.mark.promise("P2")
def test_a_process_that_never_starts_is_named(cluster: Callable[..., Cluster]) -> None:
    """However long the chief itself took to start."""
    chief = cluster(1, 0, stall_timeout=1.0, **PLAIN).start("chief")
    assert chief.end() == 1
    assert re.search(r"worker 0 \(.*\) did not start within 1 s \(--stall_timeout\)", chief.log())
