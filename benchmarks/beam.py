"""`yt8m bulk`: what a worker does with one shard, how a job grows from one worker process to two, and what it joins."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from benchmarks import data, large_report
from benchmarks.measure import Measured, Sample, repeat, run_process, take_turns, timed
from yt8m import train
from yt8m.bulk import shard_work
from yt8m.bulk.bulk_config import EvalBulk, InferBulk, ShardTask
from yt8m.eval_util import EvaluationMetrics

VIDEOS, CLASSES, TOP_K = 1_100_000, 3862, 20
_SHARD = 50_000  # videos
_MORE = 3  # times the videos has the larger of two jobs


def infer(model: str, level: str, repeats: int) -> Measured:
    """Predicts for one shard, in this process, from file to CSV file."""
    with _trained(model, level) as (run, shard):
        config = InferBulk(model=run, data=shard.path, out=str(pathlib.Path(shard.output).parent))

        def action() -> int:
            pathlib.Path(shard.output).unlink(missing_ok=True)
            return shard_work.predict(config, shard).records

        return repeat(action, action(), repeats)


def evaluate(model: str, level: str, repeats: int) -> Measured:
    """The same for an evaluation, up to the metrics that are merged."""
    with _trained(model, level) as (run, shard):
        config = EvalBulk(model=run, data=shard.path, out=str(pathlib.Path(shard.output).parent))
        records = shard_work.evaluate(config, shard)[0].records
        return repeat(lambda: shard_work.evaluate(config, shard), records, repeats)


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


def growth(command: str, repeats: int) -> Measured:
    """The samples are jobs with two workers on two cores; the floor is one worker on one core.

    So the share of the floor is the growth: 200 % if two workers take half the time of one. A sample is what a job on
    more videos takes longer than one on fewer, without the start of the job and of its workers.
    """
    with _trained("MoeModel", "video") as (run, _):
        videos = (_MORE - 1) * data.EXAMPLES["video"]
        one_worker = {"one worker": lambda: _longer(command, run, 1)}
        return take_turns(videos, lambda: _longer(command, run, 2), one_worker, repeats)


def _longer(command: str, run: str, workers: int) -> Sample:
    few, many = (job(command, run, workers, times) for times in (1, _MORE))
    return Sample(many.seconds - few.seconds, many.cpu - few.cpu)


def job(command: str, run: str, workers: int, times: int) -> Sample:
    """One job on `times` the videos, with as many cores as worker processes."""
    cores = sorted(os.sched_getaffinity(0))[:workers]
    with tempfile.TemporaryDirectory() as folder:
        for number, path in itertools.product(range(times), map(os.path.abspath, glob.glob(data.shards("video")))):
            os.symlink(path, f"{folder}/{number}-{os.path.basename(path)}")
        words = [f"--model={run}", f"--data={folder}/*.tfrecord", f"--out={folder}/out", f"--workers={workers}"]
        command_line = ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-m", "yt8m", "bulk", command]
        return timed(lambda: run_process([*command_line, *words]))()


def joining(repeats: int) -> Measured:
    """Merges the metrics of the shards of an evaluation of 1.1 million videos, and computes their figures."""
    shards = [accumulated(_SHARD) for _ in range(VIDEOS // _SHARD)]

    def action() -> None:
        merged = EvaluationMetrics(CLASSES, TOP_K)
        for metrics in shards:
            merged.merge(metrics)
        assert merged.get()["num_examples"] == VIDEOS

    return repeat(action, VIDEOS, repeats)


def accumulated(videos: int) -> EvaluationMetrics:
    """The metrics of a model that finds most labels."""
    metrics, drawn = EvaluationMetrics(CLASSES, TOP_K), large_report.drawn(videos, CLASSES)
    counts = np.bincount(drawn.labels, minlength=CLASSES)
    metrics.accumulate_top_k(drawn.scores, drawn.classes, drawn.hits, drawn.num_labels, counts, drawn.perr)
    return metrics
