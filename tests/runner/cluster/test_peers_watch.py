"""The thread that does not let a process wait without end."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from clusters import free_addresses

from yt8m import runner
from yt8m.config.train_config import OptimizerConfig
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import UsageError
from yt8m.runner.cluster import peers
from yt8m.runner.cluster.peers import Watch

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.promise("P3")
def test_a_stall_is_noticed_once_and_its_end_is_said(
    lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = threading.Event()
    describe_suspects = peers.describe_suspects

    def name_suspects(addresses: dict[str, str]) -> str:
        named.set()
        return describe_suspects(addresses)

    monkeypatch.setattr(peers, "describe_suspects", name_suspects)
    (gone,) = free_addresses(1)
    watch = Watch({"worker 0": gone}, stall_timeout=0.4 * 60)
    watch._notice = 0.2  # a notice after 0.2 s, an end far away
    with watch:
        assert named.wait(600)
        watch.beat()
    noticed = [line for line in lines() if "no progress for" in line]
    assert len(noticed) == 1
    assert "worker 0 accepts no connection" in noticed[0]


@pytest.mark.promise("P3")
def test_a_process_that_waits_in_vain_ends_with_status_1() -> None:
    code = (
        "import threading; from yt8m.runner.cluster.peers import Watch\n"
        "with Watch({'worker 0': 'localhost:1'}, 1.0): threading.Event().wait()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "worker 0 accepts no connection. Ending with status 1" in done.stderr


@pytest.mark.promise("P4")
def test_a_process_that_needs_one_that_died_ends_with_status_1() -> None:
    """Its main thread waits in the runtime, which does not report the death."""
    code = (
        "import socket, threading; from yt8m.runner.cluster import peers\n"
        "other = socket.create_server(('localhost', 0)); address = f'localhost:{other.getsockname()[1]}'\n"
        "peers.DEAD_SECONDS = 0.5\n"
        "with peers.Watch({'worker 0': address}, 4.0) as watch:\n"
        "    watch.need_all(); other.close(); threading.Event().wait()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "lost worker 0: " in done.stderr


@pytest.mark.heavy
@pytest.mark.promise("P5")
def test_a_process_that_works_alone_may_take_any_time_until_something_is_wrong() -> None:
    code = (
        "import threading, sys; from absl import logging; from yt8m.runner.cluster.peers import Watch\n"
        "asked = []\n"
        "def is_fine(): asked.append(1); return len(asked) < 5\n"
        "logging.set_verbosity(logging.INFO)\n"
        "with Watch({'the server': 'localhost:1'}, 1.0) as watch: watch.leave_alone(is_fine); threading.Event().wait()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert (
        done.stderr.count("the final save and export have taken") == 4
    )  # each half a second, so longer than the limit
    assert "the server accepts no connection. Ending with status 1" in done.stderr


@pytest.mark.parametrize(
    ("servers", "fields", "words"),
    [
        (("c:1",), {"exact_resume": True}, "--exact_resume is for one machine"),
        (("c:1",), {"optimizer": OptimizerConfig(accumulate_steps=2)}, "--accumulate_steps=2: with parameter servers"),
        (("c:1",), {"mode": "eval"}, "the mode is eval"),
        ((), {}, "no parameter server"),
    ],
)
def test_what_a_cluster_cannot_keep_is_refused(servers: tuple[str, ...], fields: dict, words: str) -> None:
    cluster = ClusterConfig(("a:1", "b:1"), servers)
    with pytest.raises(UsageError, match=words):
        runner.RunnerConfig(model_dir="run", cluster=cluster, **fields)
