"""`yt8m serve` under 1, 16 and 64 clients.

The floor of a SavedModel calls the model directly, one record at a time. That of an ONNX file is the SavedModel's
service. The clients are a process of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from benchmarks import data, runs
from benchmarks.measure import Clock, Measured, Sample, run_process, take_turns, tree_seconds
from benchmarks.service_clients import Answers
from yt8m import scoring, storage
from yt8m.export.onnx_export import export_onnx
from yt8m.export.saved_model import export_saved_model
from yt8m.records import shards
from yt8m.runner import checkpoints
from yt8m.scoring import Scorer

REQUESTS = 640  # of one sample


def clients(number: int, repeats: int) -> Measured:
    """So many clients that each wait for an answer: LogisticModel, one record a request."""
    (path, *_) = storage.glob(data.shards("video"))
    records = list(itertools.islice(shards.read_shard(path), REQUESTS))
    calls: list[float] = []
    answers: list[Answers] = []
    with tempfile.TemporaryDirectory() as folder:
        _export(folder)
        with scoring.open(f"{folder}/saved_model") as model, _served(folder) as (url, pid):
            bare_calls = {"bare calls": lambda: _call(model, records, calls)}
            measured = take_turns(len(records), lambda: _ask(url, pid, number, path, answers), bare_calls, repeats)
    p50, p99 = _percentiles(answers)
    bare = statistics.median(calls)
    shares = f"{p50 / bare:.1f} and {p99 / bare:.1f} bare calls"
    return dataclasses.replace(measured, notes=[f"{_describe(answers)}: {shares}"])


def clients_of_onnx(number: int, repeats: int) -> Measured:
    """As `clients`, for the same model in an ONNX file, in turn with the service of its SavedModel."""
    (path, *_) = storage.glob(data.shards("video"))
    answers: tuple[list[Answers], list[Answers]] = ([], [])
    with tempfile.TemporaryDirectory() as folder:
        _export(folder)
        with _served(f"{folder}/model.onnx") as (url, pid), _served(folder) as (other_url, other_pid):
            saved_model = {"SavedModel": lambda: _ask(other_url, other_pid, number, path, answers[1])}
            measured = take_turns(REQUESTS, lambda: _ask(url, pid, number, path, answers[0]), saved_model, repeats)
    notes = [f"{name}: {_describe(each)}" for name, each in zip(("ONNX", "SavedModel"), answers, strict=True)]
    return dataclasses.replace(measured, notes=notes)


def _percentiles(answers: Sequence[Answers]) -> tuple[float, float]:
    """p50 and p99 of the latencies in seconds, without those of the first turn, which is not counted."""
    seconds = [each for answered in answers[1:] for each in answered.latencies]
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return cuts[49], cuts[98]


def _describe(answers: Sequence[Answers]) -> str:
    p50, p99 = _percentiles(answers)
    busy = sum(answered.cpu for answered in answers) / sum(answered.seconds for answered in answers)
    return f"p50 {1000 * p50:.1f} ms, p99 {1000 * p99:.1f} ms, clients on {busy:.0%} of a core"


def _export(folder: str) -> None:
    """Writes `folder`/saved_model and `folder`/model.onnx after one step of training."""
    config = runs.video_data()
    runs.train_one_step(config, "LogisticModel", folder)
    videos = runs.create_workload("infer", config, "LogisticModel")
    checkpoint = checkpoints.path_of(folder, 1)
    export_saved_model(f"{folder}/saved_model", checkpoint, videos.reader, videos.modeler)
    export_onnx(f"{folder}/model.onnx", checkpoint, config, videos.modeler)


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


def _ask(url: str, pid: int, clients: int, path: str, answers: list[Answers]) -> Sample:
    """The time of all records, divided among clients that each keep one connection; the CPU time is the service's."""
    cpu = tree_seconds(pid)
    command = [sys.executable, "-m", "benchmarks.service_clients", url, str(clients), path, str(REQUESTS)]
    answered = Answers(*json.loads(run_process(command)))
    answers.append(answered)
    return Sample(answered.seconds, tree_seconds(pid) - cpu)
