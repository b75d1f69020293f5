"""`yt8m score`: computes GAP, Hit@1, PERR and mAP of a prediction file, the metrics of the 2017 and 2018 challenges.

If the vocabulary by the records has the counts of the classes, it also gives GAP and mAP of head, middle and tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from yt8m import options, storage, terminal
from yt8m.config import data_fit
from yt8m.config.train_config import DataConfig
from yt8m.datasets import ground_truth
from yt8m.datasets.ground_truth import VideoLabels
from yt8m.errors import RunError
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Ints64
from yt8m.eval_util.metrics import Loss, gap_first, metrics
from yt8m.options import option
from yt8m.records import prediction_files, vocabulary
from yt8m.records.prediction_files import PredictionRow

_BATCH = 4096


@dataclass(frozen=True)
class ScoreConfig(options.Checked):
    """The flags of `yt8m score`."""

    predictions: str = option(
        "", "the predictions: CSV of `VideoId,LabelConfidencePairs`", is_required=True, is_path=True
    )
    eval_data_pattern: str = option(
        "",
        "video- or frame-level records with labels",
        flag="data",
        aliases=("eval_data_pattern",),
        is_required=True,
        is_path=True,
    )
    num_classes: int | None = option(
        None, "number of classes [as many as the vocabulary by the records has, else 3862]", minimum=1
    )
    top_k: int = option(20, "number of best predictions of each video that count", minimum=1)


def run(config: ScoreConfig) -> int:
    """Prints the metrics, one per line; returns the exit status.

    Raises:
      UsageError: a flag is missing, or no file matches.
      RunError: the predictions or the records are damaged; the message names the line or record.
    """
    num_classes = ground_truth.class_count(config.num_classes, config.eval_data_pattern)
    truth = ground_truth.video_labels(config.eval_data_pattern, num_classes)
    rows = prediction_files.read_predictions(config.predictions, num_classes)
    names = vocabulary.shown_for(num_classes, vocabulary.of_data("", storage.glob(config.eval_data_pattern)))
    class_counts = data_fit.training_counts(names, DataConfig(num_classes=num_classes))
    figures = score(rows, truth, num_classes, config.top_k, class_counts)
    for metric in gap_first(metrics.all()):
        if metric is not Loss and metric.figure_key() in figures:
            print(f"{metric.name}: {metric.description().text(figures[metric.figure_key()], 6)}")
    return 0


def score(
    rows: Iterable[PredictionRow],
    truth: VideoLabels,
    num_classes: int,
    top_k: int = 20,
    class_counts: Ints64 | None = None,
) -> dict[str, Any]:
    """The metrics of the predictions, under the names of `EvaluationMetrics.get`; `class_counts` are as there.

    A video that has no predictions counts too: all of its labels are missed.

    Raises:
      RunError: a prediction is for a video that is not in the records; the message names the line.
    """
    accumulated = EvaluationMetrics(num_classes, top_k, class_counts=class_counts)
    for batch in terminal.counted(_batches(rows, truth), len(truth.rows), "videos", len):
        _accumulate(accumulated, batch, truth)
    return accumulated.get()


_Found = tuple[int, np.ndarray, np.ndarray]


def _batches(rows: Iterable[PredictionRow], truth: VideoLabels) -> Iterator[list[_Found]]:
    """Yields batches of (row of `VideoLabels`, classes, scores). Videos without predictions come last."""
    missing = np.ones(len(truth.rows), np.bool_)
    batch: list[_Found] = []
    for row in rows:
        place = truth.rows.get(row.video_id)
        if place is None:
            raise RunError(f"{row.where}: video {row.video_id!r} is not in the records; name those of its split.")
        missing[place] = False
        batch.append((place, row.classes, row.scores))
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch
    nothing = np.zeros(0, np.int32), np.zeros(0, np.float32)
    places = np.flatnonzero(missing).tolist()
    for start in range(0, len(places), _BATCH):
        yield [(place, *nothing) for place in places[start : start + _BATCH]]


def _accumulate(added_to: EvaluationMetrics, batch: list[_Found], truth: VideoLabels) -> None:
    """Adds a batch to the metrics as padded arrays [B, width].

    PERR of a video with n labels needs its n best predictions, so `width` is at least the largest number of labels.
    """
    labels = [truth.labels[truth.splits[place] : truth.splits[place + 1]] for place, _, _ in batch]
    width = max([added_to.top_k, *map(len, labels), *(len(classes) for _, classes, _ in batch)])
    scores = np.full((len(batch), width), -np.inf, np.float32)
    classes = np.zeros((len(batch), width), np.int32)
    hits = np.zeros((len(batch), width), np.bool_)
    for at, (_, predicted, values) in enumerate(batch):
        order = np.lexsort((predicted, -values))
        scores[at, : len(predicted)] = values[order]
        classes[at, : len(predicted)] = predicted[order]
        hits[at, : len(predicted)] = np.isin(predicted[order], labels[at])
    counts = np.bincount(np.concatenate([*labels, np.zeros(0, np.int64)]), minlength=added_to.num_class)
    added_to.accumulate_top_k(
        scores, classes, hits, np.array([len(own_labels) for own_labels in labels], np.int64), counts
    )
