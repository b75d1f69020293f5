"""`yt8m bulk`: what a worker does with one shard, how a job grows from one worker process to two, and what it joins."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks import data, large_report
from benchmarks.measure import Clock, Measured, Sample, repeat, take_turns
from yt8m import train
from yt8m.bulk import shard_work
from yt8m.bulk.bulk_config import EvalBulk, InferBulk, ShardTask
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Keys
from yt8m.eval_util.average_precision import class_average_precisions, precision_sum

VIDEOS, CLASSES, TOP_K = 1_100_000, 3862, 20
_MORE = 3  # times the videos has the larger of two jobs


def infer(model: str, level: str) -> Callable[[int], Measured]:
    """The `measure` of a row that predicts for one shard, in this process, from file to CSV file."""

    def measure(repeats: int) -> Measured:
        with _trained(model, level) as (run, shard):
            config = InferBulk(model=run, input=shard.path, output=str(pathlib.Path(shard.output).parent))

            def action() -> int:
                pathlib.Path(shard.output).unlink(missing_ok=True)
                return shard_work.predict(config, shard).records

            return repeat(action, action(), repeats)

    return measure


def evaluate(model: str, level: str) -> Callable[[int], Measured]:
    """The same for an evaluation, up to the parts that are joined."""

    def measure(repeats: int) -> Measured:
        from yt8m.bulk import pipelines

        with _trained(model, level) as (run, shard):
            config = EvalBulk(model=run, input=shard.path, output=str(pathlib.Path(shard.output).parent))
            *_, done = pipelines.states_of(config, shard)
            return repeat(lambda: list(pipelines.states_of(config, shard)), done.records, repeats)

    return measure


@contextlib.contextmanager
def _trained(model: str, level: str) -> Iterator[tuple[str, ShardTask]]:
    """A run of one step, and a shard with the file for its predictions."""
    with tempfile.TemporaryDirectory() as folder:
        pattern = data.shards(level)
        words = [f"--train_data_pattern={pattern}", f"--train_dir={folder}/run", f"--model={model}", "--max_steps=1"]
        assert train.main([*words, "--batch_size=64", *(["--frame_features"] if level == "frame" else [])]) == 0
        first = min(pathlib.Path(pattern).parent.glob("*.tfrecord"))
        try:
            yield f"{folder}/run", ShardTask(0, str(first), f"{folder}/out/predictions.csv")
        finally:
            shard_work.close_models()


def growth(command: str) -> Callable[[int], Measured]:
    """The `measure` of a row whose samples are jobs with two workers on two cores; the floor is one worker on one core.

    So the share of the floor is the growth: 200 % if two workers take half the time of one. A sample is what a job on
    more videos takes longer than one on fewer, without the start of the job and of its workers.
    """

    def measure(repeats: int) -> Measured:
        with _trained("MoeModel", "video") as (run, _):
            videos = (_MORE - 1) * data.EXAMPLES["video"]
            one_worker = {"one worker": lambda: _longer(command, run, 1)}
            return take_turns(videos, lambda: _longer(command, run, 2), one_worker, repeats)

    return measure


def _longer(command: str, run: str, workers: int) -> Sample:
    few, many = (job(command, run, workers, times) for times in (1, _MORE))
    return Sample(many.seconds - few.seconds, many.cpu - few.cpu)


def job(command: str, run: str, workers: int, times: int) -> Sample:
    """One job on `times` the videos, with as many cores as worker processes."""
    cores = sorted(os.sched_getaffinity(0))[:workers]
    with tempfile.TemporaryDirectory() as folder:
        for number, path in itertools.product(range(times), map(os.path.abspath, glob.glob(data.shards("video")))):
            os.symlink(path, f"{folder}/{number}-{os.path.basename(path)}")
        words = [f"--model={run}", f"--input={folder}/*.tfrecord", f"--output={folder}/out", f"--workers={workers}"]
        command_line = ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-m", "yt8m", "bulk", command]
        clock = Clock()
        done = subprocess.run([*command_line, *words], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return clock.sample()


def joining(repeats: int) -> Measured:
    """Joins the parts of an evaluation of 1.1 million videos, element by element, as workers would."""
    keys, label_counts = entries(VIDEOS)
    return repeat(lambda: largest_part(keys, label_counts), VIDEOS, repeats)


def largest_part(keys: Keys, label_counts: np.ndarray) -> int:
    """Computes average precisions and GAP from the parts; returns the bytes of the largest."""
    from yt8m.bulk import pipelines

    largest = entries = hits = 0
    for _, part in pipelines.parts_by_class(keys):
        class_average_precisions(np.frombuffer(part, np.uint64), label_counts)
        largest = max(largest, len(part))
    for number, part in pipelines.parts_by_score(keys):
        precision_sum(np.frombuffer(part, np.uint64), entries, hits)
        _, (more, right) = pipelines.size_of_range(number, part)
        entries, hits, largest = entries + more, hits + right, max(largest, len(part))
    return largest


def entries(videos: int, batch: int = 50_000) -> tuple[Keys, np.ndarray]:
    """The packed entries of a model that finds most labels, and the number of labels of each class."""
    metrics, drawn = EvaluationMetrics(CLASSES, TOP_K), large_report.drawn(batch, CLASSES)
    counts = np.bincount(drawn.labels, minlength=CLASSES)
    for number in range(videos // batch):
        scores = drawn.scores * np.float32(1 - 1e-4 * number)  # the order of each row stays, and nothing ties
        metrics.accumulate_top_k(scores, drawn.classes, drawn.hits, drawn.num_labels, counts, drawn.perr)
    state = metrics.state()
    return state.ranked.keys, state.ranked.label_counts
