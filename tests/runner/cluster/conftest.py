"""A cluster that trains the tiny workload."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from clusters import Cluster
from fork_server import ForkServer
from tiny_workload import write_rows


@pytest.fixture
def cluster(tmp_path: pathlib.Path, fork_server: ForkServer) -> Iterator[Callable[..., Cluster]]:
    """`cluster(workers, servers, **config)`; its processes stop when `tmp_path/stop` is there."""
    made: list[Cluster] = []

    def start(command: Sequence[str], variables: dict[str, str]) -> Any:
        return fork_server.start_joined("tiny_replica", *command, variables)

    def make(workers: int = 1, servers: int = 1, files: int | None = None, uneven: int = 0, **config: Any) -> Cluster:
        count = 1 + workers if files is None else files
        data = [write_rows(tmp_path / f"{i}.tfrecord", rows=32 + 8 * i + uneven, seed=i) for i in range(count)]
        given = {"model_dir": str(tmp_path / "run"), "data": data, "stop": str(tmp_path / "stop"), **config}
        made.append(Cluster([json.dumps(given)], workers, servers, start))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def stop(tmp_path: pathlib.Path) -> Callable[[], None]:
    """Lets all processes end after the step they are in."""
    return (tmp_path / "stop").touch
