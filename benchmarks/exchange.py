"""`python -m benchmarks.exchange [--processes 2 4] [--picture PNG]`: the step of several processes that train together.

Times a step of LogisticModel (4.45 million weights, batches of 128 in memory) on this machine: one process alone,
several that exchange nothing, synchronous parameter servers, and all-reduce in float32 and bfloat16. All kinds take
turns, so that other programs disturb them alike; compare the ratios. Then it computes, from the measured times, what
a step takes on 2 to 64 machines.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from yt8m import graph, losses, models, runner
from yt8m.command_line import program
from yt8m.deploy import cluster
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

FEATURES, CLASSES, BATCH = 1152, 3862, 128
WEIGHTS = (FEATURES + 1) * CLASSES
_WARM, _STEPS = 5, 15
KINDS = ("apart", "parameter server", "all-reduce float32", "all-reduce bfloat16")
MACHINES = (2, 4, 8, 16, 32, 64)
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


def train(kind: str, folder: str, model: str = "LogisticModel") -> None:
    """Trains as the process that TF_CONFIG names, and prints the median seconds of a step.

    With another model than LogisticModel it prints when the collectives and the products of a step ran.
    """
    from yt8m.runner.cluster.servers import serve

    program.set_up_log()
    logging.set_verbosity(logging.ERROR)
    found = cluster.from_environment()
    if found is not None and found.role == cluster.PS:
        serve(found, grace_seconds=1.0)
    is_ring = kind.startswith("all-reduce")
    given: dict[str, Any] = {"exchange": "all-reduce", "exchange_dtype": kind.rpartition(" ")[2]} if is_ring else {}
    config = runner.RunnerConfig(
        "train", folder, max_steps=_WARM + _STEPS, cluster=found, sync_replicas=kind == "parameter server", **given
    )
    config = dataclasses.replace(config, batch_size_per_gpu=BATCH, save_summary_steps=0, log_every_n_iter=10**6)
    modeler = VideoModeler(models.get(model)(), losses.get("CrossEntropyLoss")(), CLASSES)
    times: list[float] = []
    spans: list[tuple[str, float, float]] = []
    is_traced = model != "LogisticModel"
    watch: dict[str, Any] = {"benchmarks.stopwatch:StepTimes": {"into": times}}
    if is_traced:
        watch = {"benchmarks.stopwatch:Trace": {"step": _WARM, "into": spans}}
    callbacks = runner.CallbackConfig(options=watch)
    outcome = runner.build(config, Videos(), modeler, callbacks).run()
    assert not outcome.exit_code, outcome.message
    print(json.dumps(spans if is_traced else float(np.median(np.diff(times[_WARM:])))), flush=True)


def measured(kind: str, processes: int) -> float:
    """Median seconds of a step of several processes; they exchange nothing if `kind` is "apart"."""
    return float(np.median(_said(kind, processes)))


def traced(model: str) -> str:
    """When the collectives, and the products of the gradients, ran in a step of two processes."""
    spans: list[tuple[str, float, float]] = _said("all-reduce float32", 2, model)[0]
    shown = [
        span
        for span in spans
        if re.fullmatch(r"CollectiveReduceV2(_\d+)?", span[0]) or ("grad" in span[0] and "MatMul" in span[0])
    ]
    lines = [
        f"{1e3 * begin:7.1f} to {1e3 * end:7.1f} ms  {name}" for name, begin, end in sorted(shown, key=lambda s: s[1])
    ]
    return "\n".join(lines)


def _said(kind: str, processes: int, *words: str) -> list[Any]:
    """What each process that trains has printed."""
    servers = int(kind == "parameter server")
    addresses = _free_addresses(processes + servers)
    jobs = {"chief": addresses[:1], "worker": addresses[1:processes], "ps": addresses[processes:]}
    jobs = {job: tasks for job, tasks in jobs.items() if tasks}
    with contextlib.ExitStack() as held:
        started = []
        for job, tasks in jobs.items():
            for index in range(len(tasks)):
                # The processes of a cluster share a folder.
                if kind == "apart" or not started:
                    folder = held.enter_context(tempfile.TemporaryDirectory())
                spec = "" if kind == "apart" else json.dumps({"cluster": jobs, "task": {"type": job, "index": index}})
                started.append(held.enter_context(_started([kind, folder, *words], spec)))
        said = [process.communicate(timeout=600)[0] for process in started]
    failed = [text for text, process in zip(said, started, strict=True) if process.returncode]
    if failed:
        raise SystemExit(failed[0])
    return [json.loads(text.splitlines()[-1]) for text in said[:processes]]


@contextlib.contextmanager
def _started(words: Sequence[str], spec: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "TF_CONFIG": spec, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "benchmarks.exchange", "--one", *words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _free_addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]


def moved(kind: str, machines: int) -> float:
    """Bytes that the busiest process of a step sends, which are as many as it receives.

    A ring sends 2 (N - 1) / N of the gradients from each machine (Patarasuk & Yuan 2009, J. Parallel Distrib.
    Comput. 69).
    A parameter server receives the gradients of all machines, and sends them the variables. There is one server for
    every four machines, each with its share of the variables.
    """
    if kind == "parameter server":
        return 4.0 * WEIGHTS * machines / -(-machines // 4)
    return (2 if kind.endswith("bfloat16") else 4) * WEIGHTS * 2 * (machines - 1) / machines


def on_paper(compute: float, rates: Mapping[str, float], machines: int) -> dict[str, float]:
    """Seconds of a step on so many machines, by kind; nothing overlaps, since the model has one large matrix.

    Args:
      compute: seconds of a step without exchange.
      rates: bytes per second that the busiest process was measured to move, by kind. The network limits them.
      machines: number of machines that train.
    """
    found = {}
    for kind in KINDS[1:]:
        messages = 2 if kind == "parameter server" else 2 * (machines - 1)
        found[kind] = compute + moved(kind, machines) / min(rates[kind], NETWORK) + messages * LATENCY
    return found


def main() -> None:
    """Measures all kinds in turns, prints the tables, draws the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exchange", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each kind takes its turn, with --add_to in all"
    )
    parser.add_argument(
        "--add_to", default="", help="JSON file of earlier rounds, which count too; it gets these rounds"
    )
    parser.add_argument("--picture", help="PNG file to draw")
    parser.add_argument(
        "--trace", help="a model whose step is traced, such as ResidualMlpModel; nothing else is measured"
    )
    parser.add_argument("--one", nargs="+", help="(used within: trains as one process)")
    arguments = parser.parse_args()
    if arguments.one:
        train(*arguments.one)
        return
    if arguments.trace:
        print(traced(arguments.trace))
        return
    rounds = _with_earlier(arguments.processes, arguments.rounds, arguments.add_to)
    alone = [times[_name("apart", 1)] for times in rounds]
    found = {(kind, n): [times[_name(kind, n)] for times in rounds] for n in arguments.processes for kind in KINDS}
    print(f"{len(rounds)} rounds")
    print(table(arguments.processes, alone, found))
    two, compute = min(arguments.processes), float(np.median(alone))
    extra = {kind: np.median(np.subtract(found[kind, two], found["apart", two])) for kind in KINDS[1:]}
    rates = {kind: moved(kind, two) / max(float(seconds), 1e-3) for kind, seconds in extra.items()}
    print("MB per second:", ", ".join(f"{kind} {rate / 1e6:,.0f}" for kind, rate in rates.items()))
    paper = {n: on_paper(compute, rates, n) for n in MACHINES}
    print(_paper_table(paper))
    if arguments.picture:
        draw(arguments.picture, compute, paper)


def _with_earlier(processes: Sequence[int], count: int, path: str) -> list[dict[str, float]]:
    """The seconds of `count` rounds. Those in the file at `path` are not measured again; it gets each new figure."""
    file = pathlib.Path(path) if path else None
    rounds: list[dict[str, float]] = json.loads(file.read_text()) if file and file.exists() else []
    rounds += [{} for _ in range(count - len(rounds))]
    for times, (kind, n) in itertools.product(rounds, [("apart", 1), *itertools.product(KINDS, processes)]):
        if _name(kind, n) not in times:
            times[_name(kind, n)] = measured(kind, n)
            if file:
                file.write_text(json.dumps(rounds))
    return rounds


def _name(kind: str, processes: int) -> str:
    return f"{kind}, {processes}"


def table(processes: Sequence[int], alone: Sequence[float], found: dict[tuple[str, int], list[float]]) -> str:
    """A Markdown table: milliseconds of a step, and its ratio to synchronous parameter servers (medians)."""
    lines = [f"| exchange | {' | '.join(f'{n} processes' for n in processes)} |", "|" + "---|" * (1 + len(processes))]
    for kind in KINDS:
        cells = []
        for n in processes:
            ratio = np.median(np.divide(found[kind, n], found["parameter server", n]))
            cells.append(f"{1e3 * np.median(found[kind, n]):.0f} ms ({ratio:.2f})")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join([*lines, f"one process alone: {1e3 * np.median(alone):.0f} ms"])


def _paper_table(paper: dict[int, dict[str, float]]) -> str:
    kinds = KINDS[1:]
    lines = [f"| machines | {' | '.join(kinds)} |", "|" + "---|" * (1 + len(kinds))]
    lines += [f"| {n} | {' | '.join(f'{1e3 * times[kind]:.0f} ms' for kind in kinds)} |" for n, times in paper.items()]
    return "\n".join(lines)


def draw(path: str, compute: float, paper: dict[int, dict[str, float]]) -> None:
    """Draws the examples per second of all machines against their number."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axes.plot(MACHINES, [BATCH * n / compute for n in MACHINES], ":", color="gray", label="without any exchange")
    for kind in KINDS[1:]:
        axes.plot(MACHINES, [BATCH * n / paper[n][kind] for n in MACHINES], "o-", label=kind)
    axes.set(xscale="log", yscale="log", xlabel="machines", ylabel="examples per second of all machines")
    axes.set_xticks(MACHINES, [str(n) for n in MACHINES])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
