"""The other processes of a training: which are named."""

from __future__ import annotations

import contextlib
import re
import socket

import numpy as np
import pytest
from clusters import free_addresses

from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError
from yt8m.runner.cluster.peers import Stragglers, describe_suspects, find_lost, responds, wait_for_all

NAMES = ["chief (a:1)", "worker 0 (b:1)", "worker 1 (c:1)"]


@pytest.mark.promise("P3")
@pytest.mark.promise("P4")
def test_a_socket_that_accepts_and_says_nothing_does_not_respond() -> None:
    """As a process that is frozen: the system accepts connections for it."""
    with contextlib.closing(socket.create_server(("localhost", 0))) as listener:
        address = f"localhost:{listener.getsockname()[1]}"
        assert not responds(address, 0.2)
        cluster = ClusterConfig((*free_addresses(1), address))
        frozen = describe_suspects(cluster.others)
        assert re.fullmatch(rf"worker 0 \({address}\) .*frozen", frozen)
    assert not responds(address, 0.2)
    assert describe_suspects(cluster.others) == f"worker 0 ({address}) accepts no connection"
    assert "slow or blocked" in describe_suspects({})
    assert find_lost(cluster.others) == [f"worker 0 ({address})"]


def test_nobody_answers_at_a_host_without_a_valid_name() -> None:
    """The thread that watches the others must survive every address."""
    cluster = ClusterConfig((*free_addresses(1), "host..x:2222"))
    assert describe_suspects(cluster.others) == "worker 0 (host..x:2222) accepts no connection"


def test_a_process_that_does_not_start_is_named() -> None:
    own, other = free_addresses(2)
    others = ClusterConfig((own, other)).others
    with pytest.raises(RunError, match=rf"worker 0 \({other}\) .* 0\.1 s \(--stall_timeout"):
        wait_for_all(others, lambda: False, 0.1)
    assert not wait_for_all(others, lambda: True, 60.0)


def told(waits: list[float], steps: int, seconds: float) -> list[str]:
    """What is said in `steps` steps of `seconds` each."""
    found = Stragglers(NAMES, 0.0)
    return [text for step in range(steps) if (text := found.add(np.array(waits), (step + 1) * seconds))]


@pytest.mark.promise("P3")
def test_a_straggler_is_named_once_a_window() -> None:
    assert (
        told([0.5, 0.1, 0.6], 50, 1.0)
        == ["worker 0 (b:1) is slow: in the last 20 steps, the others waited for it 0.4 s of 1 s per step"] * 2
    )


@pytest.mark.parametrize("waits", [[0.5, 0.5, 0.5], [0.2, 0.4, 0.42], [0.1, 0.1, 0.9]])
def test_nobody_is_named_if_the_others_wait_little_or_do_not_wait_for_one_alone(waits: list[float]) -> None:
    assert told(waits, 50, 1.0) == []


def test_few_steps_prove_nothing() -> None:
    assert told([5.0, 0.1, 5.0], 4, 10.0) == []
