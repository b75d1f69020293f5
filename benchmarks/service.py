"""`yt8m serve` under 1, 16 and 64 clients; the floor calls the same model directly, one record at a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from benchmarks import data, runs
from benchmarks.measure import Clock, Measured, Sample
from yt8m import scoring, storage
from yt8m.config.train_config import ModelConfig
from yt8m.export.saved_model import export_saved_model
from yt8m.records import shards
from yt8m.runner import checkpoints
from yt8m.scoring import Scorer
from yt8m.video import workload

REQUESTS = 640  # of one sample


def clients_1(repeats: int) -> Measured:
    """LogisticModel, one record a request, one client that waits for each answer."""
    return _measured(1, repeats)


def clients_16(repeats: int) -> Measured:
    """The same with 16 clients at once."""
    return _measured(16, repeats)


def clients_64(repeats: int) -> Measured:
    """The same with 64 clients at once."""
    return _measured(64, repeats)


def _measured(clients: int, repeats: int) -> Measured:
    (path, *_) = storage.glob(data.shards("video"))
    records = list(itertools.islice(shards.read_shard(path), REQUESTS))
    measured = Measured(len(records), [], [])
    with tempfile.TemporaryDirectory() as folder:
        _export(folder)
        with scoring.open(f"{folder}/saved_model") as model, _served(folder) as (url, pid):
            _call(model, records[:50])
            asyncio.run(_ask(url, records[:50], clients))
            measured.floors.append(_call(model, records, measured.bare_latencies))
            for _ in range(repeats):
                cpu, began = _cpu_seconds(pid), time.perf_counter()
                measured.latencies.extend(asyncio.run(_ask(url, records, clients)))
                measured.samples.append(Sample(time.perf_counter() - began, _cpu_seconds(pid) - cpu))
                measured.floors.append(_call(model, records, measured.bare_latencies))
    return measured


def _export(folder: str) -> None:
    """Writes `folder`/saved_model after one step of training."""
    config = runs.video_data()
    runs.one_step(config, "LogisticModel", folder)
    parts = workload.create(config, ModelConfig("LogisticModel"), "infer")
    export_saved_model(f"{folder}/saved_model", checkpoints.path_of(folder, 1), parts.reader, parts.modeler)


def _call(model: Scorer, records: Sequence[bytes], latencies: list[float] | None = None) -> Sample:
    clock = Clock()
    for record in records:
        began = time.perf_counter()
        model.scores([(record, "", 0)])
        if latencies is not None:
            latencies.append(time.perf_counter() - began)
    return clock.sample()


@contextlib.contextmanager
def _served(model: str) -> Iterator[tuple[str, int]]:
    """The address and the process of a service."""
    command = [sys.executable, "-m", "yt8m", "serve", f"--model={model}", "--port=0", "--max_requests=128"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.terminate()


async def _ask(url: str, records: Sequence[bytes], clients: int) -> list[float]:
    """The seconds that each record took, divided among clients that each keep one connection."""
    shares = [records[start::clients] for start in range(clients)]
    found = await asyncio.gather(*(_client(url, share) for share in shares))
    return [seconds for each in found for seconds in each]


async def _client(url: str, records: Sequence[bytes]) -> list[float]:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = "POST /predict HTTP/1.1\r\nHost: bench\r\nContent-Type: application/octet-stream\r\nContent-Length: "
    found = []
    for record in records:
        began = time.perf_counter()
        writer.write(f"{head}{len(record)}\r\n\r\n".encode() + record)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert answer.startswith(b"http/1.1 200"), answer
        await reader.readexactly(int(answer.partition(b"content-length: ")[2].split()[0]))
        found.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()
    return found


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process and of the processes that it started; nan if the system does not report it."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        fields = [pathlib.Path(f"/proc/{each}/stat").read_text().rpartition(")")[2] for each in (pid, *children)]
    except OSError:
        return float("nan")
    return sum(sum(map(int, each.split()[11:13])) for each in fields) / os.sysconf("SC_CLK_TCK")
