"""Segments: ranking a stream of generated predictions, judging a submission, inference from files.

`python -m benchmarks.segments [VIDEOS]` ranks the segments of 1.1 million videos, writes the submission,
judges it, and prints times and peak memory of both.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from benchmarks import runs
from benchmarks.measure import Measured, repeat
from yt8m import readers, runner
from yt8m.config.programs import InferenceConfig
from yt8m.config.train_config import ModelConfig
from yt8m.datasets.ground_truth import Ratings
from yt8m.records import vocabulary
from yt8m.records.prediction_files import read_segments
from yt8m.reports.segment_score import evaluate
from yt8m.scoring import segment_inference
from yt8m.scoring.segment_inference import SegmentRanking
from yt8m.video import workload

CLASSES, SEGMENTS, BATCH = 1000, 60, 64  # segments of a five-minute video; videos in a batch
FULL = 1_100_000


def ranking(repeats: int) -> Measured:
    """Ranking of 2,048 videos by 1000 classes."""
    batches = list(predictions(2048))
    return repeat(lambda: rank(batches), 2048 * SEGMENTS, repeats)


def judging(repeats: int) -> Measured:
    """Judging of a submission of 1000 classes with 2,000 segments each."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "submission.csv")
        with open(path, "wb") as file:
            segment_inference.write(file, rank(predictions(256), most=2000))
        judged = ratings(256)
        return repeat(lambda: judge(path, judged), CLASSES * 2000, repeats)


def inference(repeats: int) -> Measured:
    """FrameLevelLogisticModel from files to ranked segments of the 1000 published classes."""
    config, measured = runs.frame_data(1024), Measured(1024, [], [])
    reader = readers.EverySegmentReader()
    queue = readers.BatchQueue(reader, config.data_pattern, config.batch_size, num_epochs=None)
    with tempfile.TemporaryDirectory() as folder:
        runs.one_step(runs.frame_data(16), "FrameLevelLogisticModel", folder)
        modeler = workload.create_modeler(config, ModelConfig("FrameLevelLogisticModel"), "infer")
        ranking = segment_inference.ranking_for(InferenceConfig(segment_labels=True), modeler.num_classes)
        modeler.listed_classes = tuple(ranking.classes)
        watch = {"into": measured, "steps": 40, "repeats": repeats, "floor": None}
        consumer = segment_inference.consumer_for(ranking, None)
        options = {"benchmarks.stopwatch:Stopwatch": watch, "infer_writer": {"consumer": consumer}}
        settings = runner.RunnerConfig("infer", folder, batch_size_per_gpu=config.batch_size)
        callbacks = runner.CallbackConfig(("benchmarks.stopwatch:Stopwatch",), options)
        runs.finish(runner.build(settings, queue, modeler, callbacks))
    return measured


def predictions(videos: int) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """Batches of segments and their scores, drawn afresh for each."""
    draw = np.random.default_rng(0)
    for start in range(0, videos, BATCH):
        ids = [_id(video) for video in range(start, min(start + BATCH, videos))]
        names = [b"%s:%d" % (name, 5 * place) for name in ids for place in range(SEGMENTS)]
        yield names, draw.random((len(names), CLASSES), dtype=np.float32)


_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _id(video: int) -> bytes:
    """A video id of four characters, as in the published data."""
    return bytes(_LETTERS[video // 62**place % 62] for place in range(4))


def rank(batches: Iterator[tuple[list[bytes], np.ndarray]] | list, most: int = 100_000) -> SegmentRanking:
    """The ranking of all batches by the published classes."""
    found = SegmentRanking(vocabulary.segment_classes().tolist(), most)
    for names, scores in batches:
        found.add(names, scores)
    return found


def ratings(videos: int) -> Ratings:
    """237 ratings per class, as in the published segments."""
    draw = np.random.default_rng(1)
    classes = np.repeat(vocabulary.segment_classes(), 237)
    numbers = zip(draw.integers(0, videos, len(classes)), draw.integers(0, SEGMENTS, len(classes)), strict=True)
    names = [b"%s:%d" % (_id(int(video)), 5 * place) for video, place in numbers]
    return Ratings(names, classes, (draw.random(len(classes)) < 0.5).astype(float))


def judge(path: str, judged: Ratings) -> float:
    """MAP@100,000 of a submission."""
    return evaluate(read_segments(path, set(judged.classes.tolist())), judged, 100_000).map


def main() -> None:
    """Runs at full size: segments of 1.1 million videos."""
    videos = int(sys.argv[1]) if len(sys.argv) > 1 else FULL
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "submission.csv")
        start = time.perf_counter()
        found = rank(predictions(videos))
        _tell(f"{found.count} segments by {CLASSES} classes ranked", start)
        start = time.perf_counter()
        with open(path, "wb") as file:
            segment_inference.write(file, found)
        _tell(f"{os.path.getsize(path) / 1e6:.0f} MB written", start)
        del found
        pid = os.fork()  # judge in a process of its own, to measure its own peak memory
        if pid == 0:
            start = time.perf_counter()
            figure = judge(path, ratings(videos))
            _tell(f"judged: MAP {figure:.4f}", start)
            os._exit(0)
        os.waitpid(pid, 0)


def _tell(what: str, start: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{what}: {time.perf_counter() - start:.0f} s; {used.ru_utime + used.ru_stime:.0f} s of CPU time "
        f"since the start; peak memory {used.ru_maxrss / 1024:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
