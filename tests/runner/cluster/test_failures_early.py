"""A replica without parameter servers that fails before it starts: who hears of it, and who does not wait."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from clusters import free_addresses

from yt8m.deploy.cluster import WORKER, ClusterConfig
from yt8m.errors import RunError
from yt8m.runner.cluster import failures
from yt8m.runner.cluster.peers import wait_for_all


def members(count: int) -> list[ClusterConfig]:
    """The same cluster as each of its replicas sees it."""
    addresses = tuple(free_addresses(count))
    return [ClusterConfig(addresses), *(ClusterConfig(addresses, (), WORKER, i) for i in range(count - 1))]


def wait(cluster: ClusterConfig) -> bool:
    def greet(name: str, address: str) -> None:
        failures.refuse_failed(cluster, name, address)

    return wait_for_all(cluster.others, lambda: False, 60.0, greet)


@pytest.mark.promise("P8")
def test_all_that_wait_hear_of_it_and_then_it_ends() -> None:
    chief, first, failed = members(3)
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(wait, one) for one in (chief, first)]
        telling = threads.submit(failures.announce, failed, "the disk is broken")
        for one in waiting:
            with pytest.raises(failures.JobOverError, match=r"worker 1 \(.*\) failed: .*broken\."):
                one.result()
        assert telling.result() is None


def test_replicas_that_all_fail_do_not_wait_for_each_other() -> None:
    every = members(3)
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(failures.announce, every, ["a", "b", "c"])) == [None] * 3


def test_those_that_start_later_are_not_awaited_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "ANNOUNCE_SECONDS", 0.1)
    failures.announce(members(2)[1], "x")


def test_a_port_in_use_is_left_to_its_owner() -> None:
    one = members(2)[0]
    host, _, port = one.address.rpartition(":")
    with contextlib.closing(socket.create_server((host, int(port)))):
        failures.announce(one, "x")


def test_other_servers_say_no_failure() -> None:
    chief, other = members(2)
    host, _, port = other.address.rpartition(":")
    with contextlib.closing(socket.create_server((host, int(port)))) as server:

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.sendall(b"\x00\x00\x18\x04")

        thread = threading.Thread(target=answer)
        thread.start()
        assert failures.failure_at(chief, other.address) == ""
        thread.join()
    assert failures.failure_at(chief, other.address, 0.1) == ""


def test_its_own_message_of_the_end_is_an_error_of_the_run() -> None:
    assert issubclass(failures.JobOverError, RunError)
