"""`yt8m serve` under 1, 16 and 64 clients; the floor calls the same model directly, one record at a time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from benchmarks import data, runs
from benchmarks.measure import Clock, Measured, Sample, take_turns, tree_seconds
from benchmarks.rows import Measure
from yt8m import scoring, storage
from yt8m.export.saved_model import export_saved_model
from yt8m.records import shards
from yt8m.runner import checkpoints
from yt8m.scoring import Scorer

REQUESTS = 640  # of one sample


def clients(number: int) -> Measure:
    """The `measure` of a row with so many clients that each wait for an answer: LogisticModel, one record a request."""

    def measure(repeats: int) -> Measured:
        (path, *_) = storage.glob(data.shards("video"))
        records = list(itertools.islice(shards.read_shard(path), REQUESTS))
        calls: list[float] = []
        requests: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            _export(folder)
            with scoring.open(f"{folder}/saved_model") as model, _served(folder) as (url, pid):
                bare_calls = {"bare calls": lambda: _call(model, records, calls)}
                measured = take_turns(
                    len(records), lambda: _ask(url, pid, records, number, requests), bare_calls, repeats
                )
        return dataclasses.replace(measured, notes=[_describe_latency(requests, statistics.median(calls))])

    return measure


def _describe_latency(seconds: Sequence[float], bare: float) -> str:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    shares = f"{cuts[49] / bare:.1f} and {cuts[98] / bare:.1f} bare calls"
    return f"p50 {1000 * cuts[49]:.1f} ms, p99 {1000 * cuts[98]:.1f} ms: {shares}"


def _export(folder: str) -> None:
    """Writes `folder`/saved_model after one step of training."""
    config = runs.video_data()
    runs.train_one_step(config, "LogisticModel", folder)
    videos = runs.create_workload("infer", config, "LogisticModel")
    export_saved_model(f"{folder}/saved_model", checkpoints.path_of(folder, 1), videos.reader, videos.modeler)


def _call(model: Scorer, records: Sequence[bytes], latencies: list[float]) -> Sample:
    clock = Clock()
    for record in records:
        began = time.perf_counter()
        model.scores([(record, "", 0)])
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


def _ask(url: str, pid: int, records: Sequence[bytes], clients: int, latencies: list[float]) -> Sample:
    """The time of all records, divided among clients that each keep one connection; the CPU time is the service's."""

    async def ask_all() -> None:
        for seconds in await asyncio.gather(*(_client(url, records[start::clients]) for start in range(clients))):
            latencies.extend(seconds)

    cpu, began = tree_seconds(pid), time.perf_counter()
    asyncio.run(ask_all())
    return Sample(time.perf_counter() - began, tree_seconds(pid) - cpu)


async def _client(url: str, records: Sequence[bytes]) -> list[float]:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = "POST /predict HTTP/1.1\r\nHost: bench\r\nContent-Type: application/octet-stream\r\nContent-Length: "
    latencies = []
    for record in records:
        began = time.perf_counter()
        writer.write(f"{head}{len(record)}\r\n\r\n".encode() + record)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert answer.startswith(b"http/1.1 200"), answer
        await reader.readexactly(int(answer.partition(b"content-length: ")[2].split()[0]))
        latencies.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()
    return latencies
