"""A replica that is refused, fails or dies: who ends, with which status, and what the others say."""

from __future__ import annotations

import pathlib
import re
import time
from collections.abc import Callable, Sequence

import pytest
from clusters import Cluster, Process

from yt8m.runner.cluster.failures import describe_missing

pytestmark = pytest.mark.long
ENDS_WITHIN = 240.0  # seconds, on a busy machine; far below --stall_timeout


def assert_over(processes: Sequence[Process], reason: str, since: float) -> None:
    """All end with status 1, long before they would for want of progress, and say why."""
    for process in processes:
        assert process.end() == 1, process.log()
        assert re.search(reason, process.log()), process.log()
    assert time.monotonic() - since < ENDS_WITHIN


def saved_steps(folder: pathlib.Path) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in folder.glob("model.ckpt-*.index"))


@pytest.mark.heavy
@pytest.mark.promise("P8")
def test_a_worker_that_is_refused_ends_the_whole_job(cluster: Callable[..., Cluster], tmp_path: pathlib.Path) -> None:
    made, differing = (
        cluster(signature={"model": model}, stall_timeout=900.0) for model in ("LogisticModel", "MoeModel")
    )
    differing.jobs = made.jobs
    server, chief = made.start("ps"), made.start("chief")
    chief.wait_for_step(1)
    worker, since = differing.start("worker"), time.monotonic()
    assert worker.end() == 2
    message = f"worker 0 ({made.jobs['worker'][0]}) and the chief differ in the model, or in flags"
    assert message in worker.log()
    assert_over([chief, server], re.escape(message), since)
    assert saved_steps(tmp_path / "run")[-1] >= chief.steps()[-1]  # no step is lost


@pytest.mark.heavy
@pytest.mark.promise("P8")
def test_a_worker_that_fails_ends_all_replicas_of_common_steps(
    cluster: Callable[..., Cluster], tmp_path: pathlib.Path
) -> None:
    """The others wait for it in the middle of a step."""
    made = cluster(sync_replicas=True, stall_timeout=900.0)
    server, chief, worker = made.start("ps"), made.start("chief"), made.start("worker", FAIL_AT="8")
    chief.wait_for_step(8)
    since = time.monotonic()
    assert worker.end() == 1
    assert "the disk is broken" in worker.log()
    reason = rf"worker 0 \({made.jobs['worker'][0]}\) failed: the disk is broken\. This ends the whole job"
    assert_over([chief, server], reason, since)
    assert saved_steps(tmp_path / "run")[-1] >= 8


@pytest.mark.heavy
@pytest.mark.promise("P8")
def test_so_does_one_that_cannot_begin_and_one_that_died(cluster: Callable[..., Cluster]) -> None:
    """In each case another worker waits too."""
    made, since = cluster(workers=2, sync_replicas=True, stall_timeout=900.0), time.monotonic()
    worker, server = made.start("worker", 1, NO_MODEL="1"), made.start("ps")
    others = [made.start("chief"), made.start("worker", 0)]
    assert worker.end() == 1
    assert_over([*others, server], r"worker 1 \(.*\) failed: .*not callable", since + 60)  # three processes start

    made = cluster(workers=2, sync_replicas=True, stall_timeout=900.0)
    server = made.start("ps")
    chief, other, worker = (made.start(*role, DEAD="8") for role in (("chief",), ("worker", 0), ("worker", 1)))
    chief.wait_for_step(5)
    worker.kill()
    assert_over([chief, other, server], r"lost worker 1 \(.*\)", time.monotonic())


@pytest.mark.heavy
@pytest.mark.promise("P8")
def test_independent_replicas_go_on_and_the_chief_repeats_who_is_missing(
    cluster: Callable[..., Cluster], stop: Callable[[], None]
) -> None:
    made = cluster(workers=2, stall_timeout=30.0)
    server, chief = made.start("ps"), made.start("chief", REMIND="2")
    failed, killed = made.start("worker", 0, FAIL_AT="1"), made.start("worker", 1)
    assert failed.end() == 1
    killed.wait_for_step(1)
    for _ in range(2):
        chief.wait_for(r"WARNING MISSING: worker 0 \(.*\) failed \(the disk is broken\)\. Training goes on")
    killed.kill()
    chief.wait_for(r"WARNING MISSING: worker 0 \(.*\) failed \(.*\); worker 1 \(.*\) accepts no connection")
    again = made.start("worker", 0)
    again.wait_for_step(1)
    chief.wait_for(r"WARNING MISSING: worker 1")
    stop()
    assert chief.outcome()[0] == again.outcome()[0] == "finished"
    assert server.end() == 0


@pytest.mark.heavy
@pytest.mark.promise("P8")
def test_a_chief_that_cannot_begin_ends_those_that_wait_for_it(cluster: Callable[..., Cluster]) -> None:
    made = cluster(stall_timeout=900.0)
    server, worker = made.start("ps"), made.start("worker")
    server.wait_for("serves on")
    chief = made.start("chief", NO_MODEL="1")
    assert chief.end() == 1
    since = time.monotonic()
    assert_over([worker, server], r"chief \(.*\) failed: .*not callable", since)


@pytest.mark.promise("P8")
def test_all_reduce_ends_if_a_replica_fails_before_it_starts(cluster: Callable[..., Cluster]) -> None:
    """The others wait for it for `stall_timeout`, unless it tells them."""
    made, since = cluster(servers=0, exchange="all-reduce", stall_timeout=600.0), time.monotonic()
    failing, chief = made.start("worker", NO_MODEL="1"), made.start("chief")
    assert_over([failing, chief], r"worker 0 \(.*\) failed: .*not callable|.*not callable", since)
    assert re.search(r"worker 0 \(.*\) failed: .*not callable.*This ends the whole job", chief.log()), chief.log()


def test_nothing_is_said_of_workers_that_are_all_there() -> None:
    assert describe_missing({}, []) == ""
    assert describe_missing({"worker 0": "x."}, ["worker 0"]).startswith("MISSING: worker 0 failed (x). Training goes")
