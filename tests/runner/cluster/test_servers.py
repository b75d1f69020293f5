"""What a parameter server and a late worker decide, without a cluster."""

from __future__ import annotations

import math
import pathlib
import socket
from collections.abc import Callable, Iterator

import pytest
from clusters import free_addresses

from yt8m.deploy.cluster import PS, ClusterConfig
from yt8m.errors import UsageError
from yt8m.runner.cluster import exchange, peers, servers
from yt8m.runner.cluster.replica import StoppedWaiting, WorkerCreator


@pytest.fixture
def address() -> Iterator[str]:
    """Where somebody takes connections."""
    with socket.create_server(("localhost", 0)) as there:
        yield f"localhost:{there.getsockname()[1]}"


def awaited(
    workers: list[str], stall_timeout: float = math.inf
) -> tuple[servers._AwaitedProcesses, Callable[[int], str]]:
    cluster = ClusterConfig(("chief:1", *workers), ("ps:1",), PS)
    return servers._AwaitedProcesses(cluster, 0.0, stall_timeout), cluster.replica_name


@pytest.mark.promise("P5")
def test_a_server_ends_when_all_are_done() -> None:
    server, name = awaited(["worker:1"])
    assert server.end_status(set()) is None
    assert server.end_status({name(1)}) is None
    assert server.end_status({name(0), name(1)}) == 0


@pytest.mark.promise("P5")
def test_a_server_waits_for_a_worker_that_lives_and_for_no_other(address: str) -> None:
    (gone,) = free_addresses(1)
    server, name = awaited([address, gone])
    assert server.end_status({name(0)}) is None  # the grace is over, but one still runs
    assert server.end_status({name(0), name(1)}) == 0


@pytest.mark.promise("P5")
def test_a_server_is_left_if_nobody_answers_any_more(address: str) -> None:
    (gone,) = free_addresses(1)
    server, _ = awaited([address, gone], 0.0)
    assert [server.end_status(set()) for _ in range(3)] == [None] * 3
    server, _ = awaited([gone], 0.0)
    assert server.end_status(set()) == 1
    server, _ = awaited([gone], 3600.0)
    assert server.end_status(set()) is None


@pytest.mark.promise("P8")
def test_a_server_ends_once_a_job_is_over_and_all_have_learned_it(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that has not told the server of its end may not have started yet."""
    server, name = awaited([address])
    failed = {name(1): "the disk is broken"}
    assert server.end_status(set(), failed, "worker 0 failed") is None
    assert server.end_status(set(), {**failed, name(0): "worker 0 failed"}, "worker 0 failed") == 1
    assert "worker 0 failed. This ends the whole job" in caplog.text
    monkeypatch.setattr(servers, "OVER_SECONDS", 0.0)
    assert server.end_status(set(), failed, "worker 0 failed") == 1


@pytest.mark.promise("P8")
def test_a_server_ends_with_the_error_of_a_chief_whose_workers_have_ended_too(address: str) -> None:
    (gone,) = free_addresses(1)
    server, name = awaited([gone], 3600.0)
    assert server.end_status({name(1)}, {}) is None
    assert server.end_status({name(1)}, {name(0): "the disk is broken"}) == 1
    server, name = awaited([address, gone], 3600.0)
    assert server.end_status(set(), {name(0): "the disk is broken"}) is None  # the workers go on


@pytest.mark.promise("P4")
def test_a_worker_takes_up_the_variables_of_the_run_while_it_lasts(tmp_path: pathlib.Path) -> None:
    """Not those of another run, not without a chief's note, and not after the end."""

    class Context:
        class config:  # noqa: N801 - stands for an attribute
            model_dir = str(tmp_path)

    live: set[str] = set()
    creator = WorkerCreator("", None, Context(), None, lambda: False)  # type: ignore[arg-type]
    creator._is_live = lambda _, run: run in live  # type: ignore[method-assign]
    creator._check_job = lambda _: None  # type: ignore[method-assign]
    assert not creator._is_ready(None)
    ours = exchange.begin_run_marker(str(tmp_path))
    live.add("another run")
    assert not creator._is_ready(None)
    live.add(ours.run)
    assert creator._is_ready(None)
    exchange.end_run_marker(str(tmp_path), ours, 7)
    with pytest.raises(StoppedWaiting, match=r"ended at step 7\b"):
        creator._is_ready(None)
    assert exchange.begin_run_marker(str(tmp_path)).run == ours.run  # the chief has come again: the run goes on
    assert creator._is_ready(None)


def test_a_server_says_that_it_listens_everywhere(caplog: pytest.LogCaptureFixture) -> None:
    """Told one loopback address, TensorFlow's server takes connections on another interface's too."""
    (port,) = (address.rpartition(":")[2] for address in free_addresses(1))
    cluster = ClusterConfig((f"127.0.0.1:{port}",), ())
    running = servers.start(cluster)
    socket.create_connection(("127.0.0.2", int(port))).close()
    said = f"{cluster.name} listens on port {port} of every network interface, not only of 127.0.0.1"
    assert [said in line for line in caplog.messages] == [True]
    del running


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_chief_without_servers_listens_where_it_is_told(host: str) -> None:
    (address,) = free_addresses(1)
    port = int(address.rpartition(":")[2])
    with peers.answering_at(f"{host}:{port}"):
        socket.create_connection(("127.0.0.1", port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize(("host", "open_to"), [("[::1]", ["::1"]), ("[fd00::5]", ["::1", "127.0.0.1"])])
def test_a_chief_without_servers_answers_at_an_ipv6_address(host: str, open_to: list[str]) -> None:
    (address,) = free_addresses(1)
    port = int(address.rpartition(":")[2])
    with peers.answering_at(f"{host}:{port}"):
        assert [other for other in ("::1", "127.0.0.1") if peers.answers(f"[{other}]:{port}")] == open_to


def test_a_reason_of_tensorflow_ends_with_one_period() -> None:
    (address,) = free_addresses(1)
    reason = f'Could not interpret "http://{address}" as a host-port pair. End the process'
    with pytest.raises(UsageError, match=rf"chief .*listen on http://{address}.*: {reason}"):
        servers.start(ClusterConfig((f"http://{address}",)))


@pytest.mark.promise("P8")
def test_a_taken_port_is_named(address: str) -> None:
    cluster = ClusterConfig((address, "localhost:1"), ("localhost:2",))
    with pytest.raises(UsageError, match=rf"chief .*listen on {address}.*in use"):
        servers.start(cluster)
