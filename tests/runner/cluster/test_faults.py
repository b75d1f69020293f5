"""Processes of a cluster that come late, are killed, come back or do not."""

from __future__ import annotations

import pathlib
import re
import signal
import time
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.long


@pytest.mark.heavy
@pytest.mark.promise("P4")
def test_a_late_worker_joins_and_a_killed_one_comes_back(cluster: Callable, stop: Callable) -> None:
    made = cluster()
    server, chief = made.start("ps"), made.start("chief")
    chief.wait_for_step(20)  # the worker comes when the chief has trained for a while
    worker = made.start("worker")
    assert worker.wait_for_step(1) > 20
    worker.kill()
    at = chief.wait_for_step(chief.steps()[-1] + 10)  # the chief goes on without it
    again = made.start("worker")
    assert again.wait_for_step(1) > at
    stop()
    assert chief.outcome()[0] == again.outcome()[0] == "finished"
    assert server.end() == 0
    assert chief.steps() == sorted(chief.steps())


@pytest.mark.heavy
@pytest.mark.promise("P4")
def test_a_killed_chief_goes_on_from_the_live_variables(
    cluster: Callable, stop: Callable, tmp_path: pathlib.Path
) -> None:
    made = cluster(checkpoints={"save_checkpoint_steps": 10_000})
    server, chief, worker = made.start("ps"), made.start("chief"), made.start("worker")
    worker.wait_for_step(1)
    killed_at = chief.wait_for_step(30)
    chief.kill()
    meanwhile = worker.wait_for_step(killed_at + 10)
    again = made.start("chief")
    found = again.wait_for(r"continuing with the variables on the servers at step (\d+) \(checkpoint: (\d+)\)")
    assert int(found[2]) == 0  # restored from it, all the steps would have been lost
    assert int(found[1]) >= meanwhile
    assert again.wait_for_step(1) > int(found[1])
    stop()
    assert again.outcome()[0] == worker.outcome()[0] == "finished"
    assert server.end() == 0
    assert worker.steps() == sorted(worker.steps())  # the step never went back
    last = max(again.steps() + worker.steps())
    assert (tmp_path / f"run/model.ckpt-{last}.index").exists()


@pytest.mark.heavy
@pytest.mark.promise("P5")
def test_a_worker_that_is_slow_to_end_keeps_its_server(cluster: Callable, stop: Callable) -> None:
    """The server's grace is 3 s here; on a busy machine a worker can need more after its last step."""
    made = cluster()
    server, chief, worker = made.start("ps"), made.start("chief"), made.start("worker", LINGER="8")
    worker.wait_for_step(1)
    stop()
    assert chief.outcome()[0] == worker.outcome()[0] == "finished"
    assert server.end() == 0


@pytest.mark.heavy
@pytest.mark.promise("P3")
def test_a_killed_server_that_comes_back_is_filled_from_the_checkpoint(cluster: Callable, stop: Callable) -> None:
    made = cluster(checkpoints={"save_checkpoint_steps": 10})
    server, chief, worker = made.start("ps"), made.start("chief"), made.start("worker")
    worker.wait_for_step(1)
    chief.wait_for_step(35)
    server.kill()
    back = made.start("ps")
    found = chief.wait_for(r"the variables start from .*model\.ckpt-(\d+)")
    killed_at = chief.steps()[-1]
    assert killed_at - 15 <= int(found[1]) <= killed_at
    assert chief.wait_for_step(1) <= killed_at + 2
    chief.wait_for_step(int(found[1]) + 20)
    worker.wait_for_step(int(found[1]) + 20)
    stop()
    assert chief.outcome()[0] == worker.outcome()[0] == "finished"
    assert back.end() == 0


@pytest.mark.heavy
@pytest.mark.promise("P3")
def test_a_chief_that_waits_for_a_worker_survives_the_loss_of_a_server(cluster: Callable) -> None:
    made = cluster(epochs=1, stall_timeout=100.0, pause=0.5)
    server, worker = made.start("ps"), made.start("worker", LAG="3")
    chief = made.start("chief")
    worker.wait_for_step(1)
    while len(chief.steps()) < 4:  # it has read its 32 rows
        chief.wait_for_step(1)
    time.sleep(1.5)
    server.kill()
    back = made.start("ps")
    chief.wait_for(r"the variables start from .*model\.ckpt-")
    assert worker.outcome()[0] == "out_of_data"
    assert chief.outcome()[0] == "out_of_data"
    assert "NO LONGER WAITING" not in chief.log()
    assert back.end() == 0


@pytest.mark.heavy
@pytest.mark.promise("P3")
def test_a_server_that_stays_away_is_named_and_the_others_end(cluster: Callable) -> None:
    made = cluster(stall_timeout=30.0)
    server, chief, worker = made.start("ps"), made.start("chief"), made.start("worker")
    worker.wait_for_step(1)
    server.kill()
    address = re.escape(made.jobs["ps"][0])
    for process in (chief, worker):
        process.wait_for(rf"no progress for .*parameter server 0 \({address}\) accepts no connection")
        assert process.end() == 1
        assert "Ending with status 1" in process.log()


@pytest.mark.heavy
@pytest.mark.promise("P4")
def test_another_runs_variables_are_not_taken(cluster: Callable, stop: Callable, tmp_path: pathlib.Path) -> None:
    made = cluster(workers=0)
    server, chief = made.start("ps"), made.start("chief")
    chief.wait_for_step(20)
    chief.kill()
    (tmp_path / "run").rename(tmp_path / "other")  # the server still holds the variables of this run
    again = made.start("chief")
    again.wait_for("the variables start from initial values")
    assert again.wait_for_step(1) == 1
    stop()
    assert again.outcome()[0] == "finished"
    assert server.end() == 0


@pytest.mark.heavy
@pytest.mark.promise("P5")
def test_a_server_that_was_restarted_ends_after_its_chief_was_told_to_stop(cluster: Callable) -> None:
    made = cluster(workers=0)
    server, chief = made.start("ps"), made.start("chief")
    chief.wait_for_step(3)
    server.kill()
    server = made.start("ps", STALL="4")
    server.wait_for("serves on")
    chief.wait_for("the variables start from")
    chief.send_signal(signal.SIGTERM)
    assert chief.end() == 143
    assert server.end() == 1
    assert "has answered for 4 s (--stall_timeout)" in server.log()


@pytest.mark.heavy
@pytest.mark.promise("P8")
def test_a_taken_port_is_refused(cluster: Callable) -> None:
    made = cluster(workers=0)
    server = made.start("ps")
    server.wait_for("serves on")
    second = made.start("ps")
    assert second.end() == 2
    assert f"ps 0 cannot listen on {made.jobs['ps'][0]}" in second.log()
    assert "in use" in second.log()
