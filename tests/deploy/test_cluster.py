"""A real parameter server and a real worker, two processes over loopback."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def process(*arguments):
    path = os.pathsep.join([str(TESTS), str(TESTS / "support"), str(TESTS.parent)])
    started = subprocess.Popen(
        [sys.executable, str(TESTS / "deploy/cluster_process.py"), *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


@pytest.fixture(scope="module")
def seen():
    ports = free_ports(2)
    with process("ps", *ports), process("worker", *ports) as worker:
        output, errors = worker.communicate()
        assert worker.returncode == 0, errors
        return json.loads(output.splitlines()[-1])


@pytest.mark.heavy
def test_a_worker_trains_variables_of_the_server(seen):
    assert seen["step"] == 5
    assert seen["losses"][-1] < seen["losses"][0]


@pytest.mark.heavy
def test_ops_run_where_they_were_put(seen):
    where = {name: device for name, device in seen["devices"].items() if name}
    assert where["w"] == "/job:ps/replica:0/task:0/device:CPU:0"
    for index in range(2):
        assert where[f"clone_{index}/MatMul"] == f"/job:worker/replica:0/task:0/device:CPU:{index}"


@pytest.mark.heavy
def test_variables_are_copied_once_a_step_to_the_worker(seen):
    assert seen["devices"]["w/Read/Identity"] == "/job:worker/replica:0/task:0/device:CPU:0"
    sent = [name for name in seen["devices"] if name.startswith("w/Read/ReadVariableOp_S")]
    assert [seen["devices"][name].startswith("/job:ps") for name in sent].count(True) == 1
