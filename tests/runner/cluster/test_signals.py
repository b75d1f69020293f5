"""SIGTERM in every role of a cluster."""

from __future__ import annotations

import json
import pathlib
import signal
from collections.abc import Callable
from typing import Any

import pytest
from clusters import Process

pytestmark = [pytest.mark.long, pytest.mark.heavy]


def told_to_stop(process: Process) -> list[Any]:
    """What it prints last, after SIGTERM."""
    process.send_signal(signal.SIGTERM)
    assert process.end() == 143, process.log()
    return said_last(process)


def said_last(process: Process) -> list[Any]:
    """Status, step and message of a process that has ended."""
    return json.loads(next(line for line in reversed(process.lines) if line.startswith("[")))


@pytest.mark.promise("P1")
def test_each_role_ends_in_order(cluster: Callable, tmp_path: pathlib.Path) -> None:
    """The worker first, and the chief trains on; then the chief, which saves its step; then the server."""
    made = cluster(checkpoints={"save_checkpoint_steps": 10_000})
    server, chief, worker = made.start("ps"), made.start("chief"), made.start("worker")
    worker.wait_for_step(1)
    assert told_to_stop(worker)[0] == "stopped"
    chief.wait_for_step(chief.wait_for_step(1) + 10)
    status, step, _ = told_to_stop(chief)
    assert status == "stopped"
    assert step >= chief.steps()[-1]
    assert (tmp_path / f"run/model.ckpt-{step}.index").exists()
    server.send_signal(signal.SIGTERM)
    assert server.end() == 143


@pytest.mark.promise("P1")
def test_told_all_at_once_the_chief_saves_its_step(cluster: Callable, tmp_path: pathlib.Path) -> None:
    """As where a platform takes a whole job away; the servers hear of it some steps before the others."""
    made = cluster(servers=2, checkpoints={"save_checkpoint_steps": 10_000})
    servers = [made.start("ps", index, GRACE="60") for index in range(2)]
    chief, worker = made.start("chief"), made.start("worker")
    worker.wait_for_step(1)
    for server in servers:
        server.send_signal(signal.SIGTERM)
        server.wait_for("stopping after this step")
    chief.wait_for_step(chief.wait_for_step(1) + 200)
    for process in (worker, chief):
        process.send_signal(signal.SIGTERM)
    assert [process.end() for process in (worker, chief, *servers)] == [143] * 4
    status, step, _ = said_last(chief)
    assert status == "stopped"
    assert step >= chief.steps()[-1]
    assert (tmp_path / f"run/model.ckpt-{step}.index").exists()


@pytest.mark.promise("P2")
def test_who_waits_for_a_dead_server_ends_within_the_grace(cluster: Callable) -> None:
    made = cluster(stop_grace_seconds=1.0)
    server, chief, worker = made.start("ps"), made.start("chief"), made.start("worker")
    worker.wait_for_step(1)
    chief.wait_for_step(1)
    server.kill()
    for process in (worker, chief):
        process.send_signal(signal.SIGTERM)
        assert process.end() == 143, process.log()


@pytest.mark.promise("P2")
def test_a_worker_that_waits_for_its_chief_ends_when_told(cluster: Callable) -> None:
    made = cluster()
    made.start("ps")
    worker = made.start("worker")
    worker.wait_for("waiting for the chief")
    assert told_to_stop(worker)[0] == "stopped"
