"""Runs of the tiny workload, in this process and in others."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from absl import logging
from tiny_workload import TinyInputter, TinyModeler, write_rows

from yt8m import runner
from yt8m.config import CheckpointConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Fails a test that leaves a thread or a signal handler behind."""
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
    names = {thread.name for thread in threading.enumerate()}
    assert not names & {"stop-signals", "close-session"}
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    assert wakeup == -1


@pytest.fixture
def data(tmp_path: pathlib.Path) -> str:
    return write_rows(tmp_path / "rows.tfrecord")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """The messages logged so far."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    absl_logger = logging.get_absl_logger()
    absl_logger.addHandler(caplog.handler)
    propagates, absl_logger.propagate = absl_logger.propagate, False
    yield lambda: [record.getMessage() for record in caplog.records]
    absl_logger.propagate = propagates
    absl_logger.removeHandler(caplog.handler)
    logging.set_verbosity(before)


@pytest.fixture
def train(tmp_path: pathlib.Path, data: str) -> Callable[..., runner.Outcome]:
    """Trains in this process; the run is in `tmp_path/run`."""

    def run(
        callbacks: Any = (),
        *,
        inputter: Any = None,
        modeler: Any = None,
        checkpoints: dict[str, Any] | None = None,
        **fields: Any,
    ) -> runner.Outcome:
        given = {"model_dir": str(tmp_path / "run")}
        batch_size = inputter.batch_size if inputter else fields.get("batch_size_per_gpu", 8)
        fields = {**given, "signature": {"workload": "tiny"}, **fields}
        config = runner.RunnerConfig(checkpoints=CheckpointConfig(**(checkpoints or {})), **fields)
        inputter = inputter or TinyInputter(data, batch_size)
        return runner.build(config, inputter, modeler or TinyModeler(), callbacks).run()

    return run


@pytest.fixture
def start(tmp_path: pathlib.Path, data: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a run in a process of its own; none outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def run(**fields: Any) -> subprocess.Popen[str]:
        fields = {"model_dir": str(tmp_path / "run"), "data": data, **fields}
        command = [sys.executable, str(ROOT / "tests/runner/tiny_run.py"), json.dumps(fields)]
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = {**os.environ, "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "2"}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()
