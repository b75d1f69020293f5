"""Computes metrics of prediction files against the labels in records: `yt8m score` and `yt8m segment-eval`.

`score` computes GAP, Hit@1, PERR and mAP of a prediction file, the metrics of the 2017 and 2018 challenges. If the
vocabulary beside the records has the counts of the classes, it also computes GAP and mAP of head, middle and tail.
`segment-eval` computes MAP@n of a segment submission, the metric of the 2019 challenge.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from absl import logging

from yt8m import options, storage, terminal
from yt8m.datasets import ground_truth
from yt8m.datasets.ground_truth import Ratings, VideoLabels
from yt8m.errors import RunError, UsageError
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Ints64
from yt8m.eval_util.metrics import Loss, gap_first, metrics, why_undefined
from yt8m.eval_util.segments import SegmentFigures, mean_average_precision_at_n
from yt8m.options import option, path_option
from yt8m.records import prediction_files
from yt8m.records.opened_data import open_data
from yt8m.records.prediction_files import ClassLine, PredictionRow
from yt8m.records.vocabulary import read_segment_classes

_BATCH_SIZE = 4096  # videos whose predictions are added to the metrics together


@dataclass(frozen=True)
class ScoreConfig(options.Checked):
    """The flags of `yt8m score`."""

    predictions: str = path_option("the predictions: CSV of `VideoId,LabelConfidencePairs`", is_required=True)
    eval_data_pattern: str = path_option(
        "video- or frame-level records with labels", flag="data", aliases=("eval_data_pattern",), is_required=True
    )
    num_classes: int | None = option(
        None, "number of classes [as many as the vocabulary by the records has, else 3862]", minimum=1
    )
    top_k: int = option(20, "number of best predictions of each video that count", minimum=1)
    json: bool = option(False, terminal.JSON_HELP)


def score_predictions(config: ScoreConfig) -> int:
    """Prints the metrics, one per line; returns the exit status 0."""
    data = open_data(config.eval_data_pattern, flag="data")
    num_classes = ground_truth.class_count(config.num_classes, data)
    truth = ground_truth.video_labels(data, num_classes)
    if unlabelled := (np.diff(truth.splits) == 0).sum():
        logging.warning(
            f"{unlabelled} of the {len(truth.rows)} videos of --data have no label: every prediction for them counts "
            "as wrong. Leave them out if their labels are not known."
        )
    rows = prediction_files.read_predictions(config.predictions, num_classes)
    class_counts = data.vocabulary.shown(num_classes).class_counts(num_classes)
    figures = score(rows, truth, num_classes, config.top_k, class_counts)
    shown = [metric for metric in gap_first(metrics.all()) if metric is not Loss and metric.figure_key() in figures]
    for metric in shown:
        value = figures[metric.figure_key()]
        why = why_undefined(metric.key, value, len(figures["aps"]) > 0)
        print(f"{metric.name}: " + (f"— ({why})" if why else metric.description().text(value, 6)))
    terminal.print_json({metric.key: figures[metric.figure_key()] for metric in shown} | {"videos": len(truth.rows)})
    return 0


def score(
    rows: Iterable[PredictionRow],
    truth: VideoLabels,
    num_classes: int,
    top_k: int = 20,
    class_counts: Ints64 | None = None,
) -> dict[str, Any]:
    """The metrics of the predictions, under the names of `EvaluationMetrics.get`.

    A video that has no predictions counts too: all of its labels are missed.

    Args:
      class_counts: int64 [C], number of training videos of each class; None if it is not known.
    """
    accumulated = EvaluationMetrics(num_classes, top_k, class_counts=class_counts)
    for batch in terminal.with_progress(_batches(rows, truth), len(truth.rows), "videos", len):
        _accumulate(accumulated, batch, truth)
    return accumulated.get()


# (row of the video in `VideoLabels`, classes int32 [P], scores float32 [P])
_VideoPredictions = tuple[int, np.ndarray, np.ndarray]


def _batches(rows: Iterable[PredictionRow], truth: VideoLabels) -> Iterator[list[_VideoPredictions]]:
    """Yields the predictions of all videos in batches. Videos without predictions come last."""
    is_missing = np.ones(len(truth.rows), np.bool_)
    batch: list[_VideoPredictions] = []
    for row in rows:
        video_row = truth.rows.get(row.video_id)
        if video_row is None:
            raise RunError(f"{row.where}: video {row.video_id!r} is not in the records; name the records of its split.")
        is_missing[video_row] = False
        batch.append((video_row, row.classes, row.scores))
        if len(batch) == _BATCH_SIZE:
            yield batch
            batch = []
    yield batch
    if is_missing.any():
        logging.warning(
            f"--predictions has no line for {is_missing.sum()} of the {len(is_missing)} videos of --data: their labels "
            "count as missed. Give the predictions of all videos, or name the records of the predicted ones by --data."
        )
    no_predictions = np.zeros(0, np.int32), np.zeros(0, np.float32)
    missing_rows = np.flatnonzero(is_missing).tolist()
    for start in range(0, len(missing_rows), _BATCH_SIZE):
        yield [(video_row, *no_predictions) for video_row in missing_rows[start : start + _BATCH_SIZE]]


def _accumulate(accumulated: EvaluationMetrics, batch: list[_VideoPredictions], truth: VideoLabels) -> None:
    """Adds a batch of B videos to the metrics, as arrays [B, width] with the predictions of each video, best first.

    Shorter rows are padded with the score -inf. PERR of a video with n labels needs its n best predictions, so `width`
    is at least the largest number of labels.
    """
    labels = [truth.labels[truth.splits[video_row] : truth.splits[video_row + 1]] for video_row, _, _ in batch]
    width = max([accumulated.top_k, *map(len, labels), *(len(classes) for _, classes, _ in batch)])
    scores = np.full((len(batch), width), -np.inf, np.float32)
    classes = np.zeros((len(batch), width), np.int32)
    hits = np.zeros((len(batch), width), np.bool_)
    for index, (_, predicted, values) in enumerate(batch):
        order = np.lexsort((predicted, -values))
        scores[index, : len(predicted)] = values[order]
        classes[index, : len(predicted)] = predicted[order]
        hits[index, : len(predicted)] = np.isin(predicted[order], labels[index])
    counts = np.bincount(np.concatenate([*labels, np.zeros(0, np.int64)]), minlength=accumulated.num_class)
    accumulated.accumulate_top_k(
        scores, classes, hits, np.array([len(video_labels) for video_labels in labels], np.int64), counts
    )


@dataclass(frozen=True)
class SegmentEvalConfig(options.Checked):
    """The flags of `yt8m segment-eval`."""

    submission_file: str = path_option(
        "the submission: `Class,Segments`, with or without that header",
        flag="predictions",
        aliases=("submission_file",),
        is_required=True,
    )
    eval_data_pattern: str = path_option(
        "segment records with ratings; not needed if the cache exists", flag="data", aliases=("eval_data_pattern",)
    )
    label_cache: str = path_option("the ratings as text: read if the file exists, else written")
    top_n: int = option(100_000, "segments of each class that count; 0: all", minimum=0)
    classes: str = option(
        "rated",
        "average over every class with a rated positive, or only over submitted ones, as the published tool does",
        choices=("rated", "submitted"),
    )
    segment_label_ids_file: str = path_option(
        "CSV of the classes that segments may have; by default the published 1000"
    )
    json: bool = option(False, terminal.JSON_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.eval_data_pattern and not (self.label_cache and storage.exists(self.label_cache)):
            raise UsageError("there are no ratings: give --data, or a --label_cache that exists.")


def score_segments(config: SegmentEvalConfig) -> int:
    """Prints `MAP@n: x`; returns the exit status 0."""
    ratings = load_ratings(config.eval_data_pattern, config.label_cache)
    classes = read_segment_classes(config.segment_label_ids_file) | set(ratings.classes.tolist())
    # If a rated segment starts at a second that is not a multiple of 5, submitted ones may too.
    may_start_anywhere = any(int(segment.rpartition(b":")[2]) % 5 for segment in ratings.segments)
    lines = prediction_files.read_segments(config.submission_file, classes, may_start_anywhere)
    figures = evaluate_submission(lines, ratings, config.top_n or None, only_submitted=config.classes == "submitted")
    if not len(figures.aps):
        which = "submitted class" if config.classes == "submitted" else "class"
        raise RunError(
            f"{config.label_cache or config.eval_data_pattern}: no {which} has a rated positive, so MAP is not "
            "defined; name the ratings of the submitted split."
        )
    print(f"MAP@{config.top_n or 'all'}: {figures.map:.6f}")
    print(f"mean over {len(figures.aps)} classes", file=sys.stderr)
    terminal.print_json({"map": figures.map, "num_classes_with_positives": len(figures.aps)})
    return 0


def load_ratings(pattern: str, cache: str) -> Ratings:
    """The ratings: from the file `cache` if it exists, else from the records that match `pattern`.

    Ratings from records are written to `cache`, for the next time. If `cache` is empty, there is no such file.
    """
    if cache and storage.exists(cache):
        if pattern:
            print(f"taking the ratings from {cache}, not from the records", file=sys.stderr)
        return ground_truth.read_ratings(cache)
    ratings = ground_truth.ratings(open_data(pattern or None, flag="data"))
    if cache:
        ground_truth.write_ratings(cache, ratings)
    return ratings


def evaluate_submission(
    lines: Iterable[ClassLine], ratings: Ratings, top_n: int | None, only_submitted: bool = False
) -> SegmentFigures:
    """MAP@n of a segment submission, and the AP of each class.

    Args:
      top_n: number of segments of each line that count; None for all.
    """
    rated_segments: dict[int, set[bytes]] = {}  # by class
    for segment, number in zip(ratings.segments, ratings.classes.tolist(), strict=True):
        rated_segments.setdefault(number, set()).add(segment)
    classes: list[int] = []
    segments: list[bytes] = []
    submitted = set()
    for number, ranks in lines:
        submitted.add(number)
        # Only rated segments count, and a line has many more segments than that. So the rated segments are looked up
        # in the line, not the segments of the line among the rated ones.
        ranked = sorted((ranks[name], name) for name in rated_segments.get(number, ()) if name in ranks)
        counted = [name for rank, name in ranked if top_n is None or rank < top_n]
        segments += counted
        classes += [number] * len(counted)
    figures = mean_average_precision_at_n(
        classes, np.array(segments, object), ratings.classes, np.array(ratings.segments, object), ratings.scores, None
    )
    if not only_submitted:
        return figures
    is_submitted = np.isin(figures.aps_class, list(submitted))
    return SegmentFigures.of_classes(figures.aps[is_submitted], figures.aps_class[is_submitted])
