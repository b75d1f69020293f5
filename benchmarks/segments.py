"""Segments: ranking a stream of generated predictions, judging a submission, inference from files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import data, runs
from benchmarks.measure import Clock, Measured, repeat, timed
from yt8m import readers, runner
from yt8m.config.programs import InferenceConfig
from yt8m.config.train_config import ModelConfig
from yt8m.datasets.ground_truth import Ratings
from yt8m.eval_util.segment_ranking import SegmentRanking, write_lists
from yt8m.records import vocabulary
from yt8m.records.prediction_files import read_segments
from yt8m.reports.file_scores import evaluate_submission
from yt8m.scoring.inference import new_segment_ranking, segment_consumer
from yt8m.video import workload

CLASSES, SEGMENTS, BATCH = 1000, 60, 64  # segments of a five-minute video; videos in a batch
_ALL_VIDEOS, _SUBMISSION = 1_100_000, data.FOLDER / "submission.csv"


def ranking(repeats: int) -> Measured:
    """Ranking of 2,048 videos by 1000 classes."""
    batches = list(predictions(2048))
    return repeat(lambda: rank(batches), 2048 * SEGMENTS, repeats)


def judging(repeats: int) -> Measured:
    """Judging of a submission of 1000 classes with 2,000 segments each."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "submission.csv")
        with open(path, "wb") as file:
            write_lists(file, rank(predictions(256), most=2000))
        judged = ratings(256)
        return repeat(lambda: judge(path, judged), CLASSES * 2000, repeats)


def inference(repeats: int) -> Measured:
    """FrameLevelLogisticModel from files to ranked segments of the 1000 published classes."""
    config, reader = runs.frame_data(1024), readers.EverySegmentReader()
    queue = readers.BatchQueue(reader, config.data_pattern, config.batch_size, num_epochs=None)
    with tempfile.TemporaryDirectory() as folder:
        runs.train_one_step(runs.frame_data(16), "FrameLevelLogisticModel", folder)
        modeler = workload.create_modeler(config, ModelConfig("FrameLevelLogisticModel"), "infer")
        ranking = new_segment_ranking(InferenceConfig(segment_labels=True), modeler.num_classes)
        modeler.listed_classes = tuple(ranking.classes)
        writer = {"consumer": segment_consumer(ranking, None)}
        videos, job = workload.Workload(reader, queue, modeler), runner.RunnerConfig("infer", folder)
        return runs.run(job, videos, repeats, {}, runs.EVAL_BLOCK, infer_writer=writer)


def rank_all(_repeats: int) -> Measured:
    """Ranks the segments of 1.1 million videos once, and writes the submission."""
    clock = Clock()
    ranked = rank(predictions(_ALL_VIDEOS))
    sample, clock = clock.sample(), Clock()
    data.FOLDER.mkdir(parents=True, exist_ok=True)
    with open(_SUBMISSION, "wb") as file:
        write_lists(file, ranked)
    written = f"{os.path.getsize(_SUBMISSION) / 1e6:.0f} MB written in {clock.sample().cpu:.0f} s of CPU time"
    return Measured(ranked.count, [sample], notes=[written])


def judge_all(_repeats: int) -> Measured:
    """Judges the submission of `rank_all` once."""
    if not _SUBMISSION.exists():
        raise SystemExit("there is no submission to judge; run the row that ranks 1.1 million videos first")
    judged = ratings(_ALL_VIDEOS)
    sample = timed(lambda: judge(str(_SUBMISSION), judged))()
    return Measured(CLASSES * 100_000, [sample])


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


def rank(batches: Iterator[tuple[list[bytes], np.ndarray]] | list[Any], most: int = 100_000) -> SegmentRanking:
    """The ranking of all batches by the published classes."""
    ranking = SegmentRanking(vocabulary.segment_classes().tolist(), most)
    for names, scores in batches:
        ranking.add(names, scores)
    return ranking


def ratings(videos: int) -> Ratings:
    """237 ratings per class, as in the published segments."""
    draw = np.random.default_rng(1)
    classes = np.repeat(vocabulary.segment_classes(), 237)
    numbers = zip(draw.integers(0, videos, len(classes)), draw.integers(0, SEGMENTS, len(classes)), strict=True)
    names = [b"%s:%d" % (_id(int(video)), 5 * place) for video, place in numbers]
    return Ratings(names, classes, (draw.random(len(classes)) < 0.5).astype(float))


def judge(path: str, judged: Ratings) -> float:
    """MAP@100,000 of a submission."""
    return evaluate_submission(read_segments(path, set(judged.classes.tolist())), judged, 100_000).map
