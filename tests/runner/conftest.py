"""Runs of the tiny workload, in this process and in others."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from absl import logging
from fork_server import Forked, ForkServer
from tiny_workload import TinyInputter, TinyModeler, write_rows

from yt8m import runner
from yt8m.config.run_options import CheckpointConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]


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


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Starts runs of the tiny workload, alone or as parts of a cluster."""
    with ForkServer("tiny_run", ROOT / "tests/runner", ROOT / "tests/runner/cluster") as parent:
        yield parent


@pytest.fixture
def start(tmp_path: pathlib.Path, data: str, fork_server: ForkServer) -> Iterator[Callable[..., Forked]]:
    """Starts a run in a process of its own; none outlives the test."""
    started: list[Forked] = []

    def run(**fields: Any) -> Forked:
        fields = {"model_dir": str(tmp_path / "run"), "data": data, **fields}
        started.append(fork_server.start(json.dumps(fields)))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()
