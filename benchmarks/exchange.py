"""The step of several processes that train together, on this machine and, computed from it, on 2 to 64 machines.

The rows train LogisticModel (4.45 million weights, batches of 128 in memory) by synchronous parameter servers, and by
all-reduce in float32 and bfloat16. Processes that exchange nothing, and one process alone, take turns with them.

`python -m benchmarks.exchange MODEL` prints when the collectives, and the products of the gradients, ran in a step of
two processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from benchmarks import runs
from benchmarks.measure import Measured, Sample, Work, take_turns
from yt8m import graph, losses, models, runner
from yt8m.command_line import program
from yt8m.deploy import cluster
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

FEATURES, CLASSES, BATCH = 1152, 3862, 128
WEIGHTS = (FEATURES + 1) * CLASSES
_WARM, _STEPS = 5, 15
APART, SERVERS = "processes apart", "parameter server"
KINDS = (SERVERS, "all-reduce float32", "all-reduce bfloat16")
_MACHINES = (2, 8, 64)
NETWORK = 1.25e9  # bytes per second in each direction: 10 Gbit/s, as many machines of a cloud have
LATENCY = 1e-4  # seconds of one message between two machines


class Videos(graph.Inputter):
    """One batch, over and over."""

    batch_size = BATCH

    def files(self) -> Sequence[str]:
        """No file is read."""
        return ["memory"]

    def share(self, index: int, count: int) -> Videos:
        """Every process has the same batch."""
        return self

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """The batch without end."""
        draw = np.random.default_rng(0)
        features = draw.normal(size=(BATCH, FEATURES)).astype(np.float32)
        labels = draw.random((BATCH, CLASSES)) < 1e-3
        batch = Batch(np.array([b"id"] * BATCH), (features,), np.ones(BATCH, np.int32), labels)
        return tf.data.Dataset.from_tensors(batch).repeat()


def steps(kind: str, processes: int, repeats: int) -> Measured:
    """Steps of several processes.

    The first floor is parameter servers; for these it is processes that exchange nothing.
    """
    floors = {SERVERS: _cluster(SERVERS, processes)} if kind != SERVERS else {}
    floors |= {APART: _cluster(APART, processes), "one process": _cluster(APART, 1)}
    measured = take_turns(BATCH * processes, _cluster(kind, processes), floors, repeats)
    taken = measured.floors | {kind: measured.samples}
    seconds = {name: statistics.median(sample.seconds for sample in samples) for name, samples in taken.items()}
    rate = moved(kind, processes) / max(seconds[kind] - seconds[APART], 1e-3)
    paper = "; ".join(f"{1e3 * on_paper(kind, seconds['one process'], rate, n):.0f} ms on {n}" for n in _MACHINES)
    measured.notes.append(f"{rate / 1e6:,.0f} MB per second; computed for machines: {paper}")
    return measured


def _cluster(kind: str, processes: int) -> Work:
    """A job of so many processes; its sample is a step, without the start."""

    def work() -> Sample:
        answers = [Sample(*answer) for answer in _run(kind, processes)]
        return Sample(statistics.median(each.seconds for each in answers), sum(each.cpu for each in answers))

    return work


def train(kind: str, folder: str, model: str = "") -> None:
    """Trains as the process that TF_CONFIG names, and prints the median seconds of a step, and its CPU time.

    With a model's name it trains that model, and prints when the ops of a step ran.
    """
    from yt8m.runner.cluster.servers import serve

    program.set_up_log()
    logging.set_verbosity(logging.ERROR)
    task = cluster.from_environment()
    if task is not None and task.role == cluster.PS:
        serve(task, grace_seconds=1.0)
    job: dict[str, Any] = {"max_steps": _WARM + _STEPS, "cluster": task, "sync_replicas": kind == SERVERS}
    job |= {"save_summary_steps": 0, "log_every_n_iter": 10**6}
    if kind.startswith("all-reduce"):
        job |= {"exchange": "all-reduce", "exchange_dtype": kind.rpartition(" ")[2]}
    modeler = VideoModeler(models.get(model or "LogisticModel")(), losses.get("CrossEntropyLoss")(), CLASSES)
    times: list[Sample] = []
    spans: list[tuple[str, float, float]] = []
    watch, settings = ("Trace", {"step": _WARM, "spans": spans}) if model else ("StepTimes", {"times": times})
    runs.run_watched(runner.RunnerConfig("train", folder, **job), Videos(), modeler, watch, settings)
    print(json.dumps(spans or np.median(np.diff(times[_WARM:], axis=0), axis=0).tolist()), flush=True)


def describe_trace(model: str) -> str:
    """When the collectives, and the products of the gradients, ran in a step of two processes."""
    spans: list[tuple[str, float, float]] = _run("all-reduce float32", 2, model)[0]
    pattern = re.compile(r"CollectiveReduceV2(_\d+)?|.*grad.*MatMul.*|.*MatMul.*grad.*")
    shown = sorted((begin, end, name) for name, begin, end in spans if pattern.fullmatch(name))
    return "\n".join(f"{1e3 * begin:7.1f} to {1e3 * end:7.1f} ms  {name}" for begin, end, name in shown)


def _run(kind: str, processes: int, *words: str) -> list[Any]:
    """What each process that trains has printed."""
    addresses = _free_addresses(processes + 1)
    jobs = {"chief": addresses[:1], "worker": addresses[1:processes], "ps": addresses[processes:]}
    if kind != SERVERS:
        del jobs["ps"]
    tasks = [(job, index) for job, places in jobs.items() for index in range(len(places))]
    with contextlib.ExitStack() as stack:
        started: list[Any] = []
        for job, index in tasks:
            # The processes of a cluster share a folder.
            if kind == APART or not started:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
            spec = "" if kind == APART else json.dumps({"cluster": jobs, "task": {"type": job, "index": index}})
            environment = {**os.environ, "TF_CONFIG": spec, "TF_CPP_MIN_LOG_LEVEL": "3"}
            command = [sys.executable, "-m", "benchmarks.exchange", kind, folder, *words]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            started.append(stack.enter_context(process))
            stack.callback(process.kill)
        texts = [process.communicate(timeout=600)[0] for process in started]
    if failed := [text for text, process in zip(texts, started, strict=True) if process.returncode]:
        raise SystemExit(failed[0])
    return [json.loads(text.splitlines()[-1]) for text in texts[:processes]]


def _free_addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


def moved(kind: str, machines: int) -> float:
    """Bytes that the busiest process of a step sends, which are as many as it receives.

    A ring sends 2 (N - 1) / N of the gradients from each machine (Patarasuk & Yuan 2009, J. Parallel Distrib.
    Comput. 69).
    A parameter server receives the gradients of all machines, and sends them the variables. There is one server for
    every four machines, each with its share of the variables.
    """
    if kind == SERVERS:
        return 4.0 * WEIGHTS * machines / -(-machines // 4)
    return (2 if kind.endswith("bfloat16") else 4) * WEIGHTS * 2 * (machines - 1) / machines


def on_paper(kind: str, compute: float, rate: float, machines: int) -> float:
    """Seconds of a step on so many machines; nothing overlaps, since the model has one large matrix.

    Args:
      kind: how they exchange.
      compute: seconds of a step without exchange.
      rate: bytes per second that the busiest process was measured to move. The network limits it.
      machines: number of machines that train.
    """
    messages = 2 if kind == SERVERS else 2 * (machines - 1)
    return compute + moved(kind, machines) / min(rate, NETWORK) + messages * LATENCY


if __name__ == "__main__":
    train(*sys.argv[1:]) if len(sys.argv) > 2 else print(describe_trace(*sys.argv[1:]))
