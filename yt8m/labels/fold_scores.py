"""Trains a model without the videos of a fold, and scores these videos by it.

Of each video the best scores and those of its labels are kept: 8 bytes each. What all other scores say is in counts,
whose size does not depend on the number of videos.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from yt8m import runner, scoring, storage, terminal
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError
from yt8m.eval_util.arrays import Floats32, Ints32, Ints64
from yt8m.eval_util.top_k import top_k
from yt8m.labels.label_noise import SCORE_COUNTS, ScoreCounts, log_odds
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring import Scorer
from yt8m.termination import Terminated
from yt8m.training import training_run

BEST = 20  # scores of a video that are kept, besides those of its labels
_USUAL_STEPS, _MOST_PASSES, _LEAST_PASSES = 1000, 40, 2


class FoldScores(NamedTuple):
    """The scores of some videos, as log-odds. N is the number of videos, L that of their labels.

    Attributes:
      num_labels: int32 [N].
      labels: int32 [L], the classes of the labels, those of the first video first.
      label_scores: float32 [L].
      best: int32 [N, at most BEST], the classes with the best scores, best first.
      best_scores: float32, of the same shape.
      counts: how often each score of any class occurs.
    """

    num_labels: Ints32
    labels: Ints32
    label_scores: Floats32
    best: Ints32
    best_scores: Floats32
    counts: ScoreCounts

    def owners(self) -> Ints64:
        """int64 [L], the place of the video of each label."""
        return np.repeat(np.arange(len(self.num_labels)), self.num_labels)


def score_videos(scorer: Scorer, batches: Iterable[NumpyBatch]) -> FoldScores:
    """The scores that a model gives to labelled videos."""
    counts = ScoreCounts.of_classes(scorer.num_classes)
    columns: list[tuple[Any, ...]] = []
    for batch in batches:
        unlabelled = dataclasses.replace(batch, labels=np.zeros((len(batch), 0), np.bool_))
        scores = log_odds(scorer.scores(scorer.takes.arranged(unlabelled))[1])
        counts.add(scores, batch.labels)
        rows, classes = np.nonzero(batch.labels)
        top, number = top_k(scores, BEST), batch.labels.sum(1, dtype=np.int32)
        columns.append((number, classes.astype(np.int32), scores[rows, classes], top.classes, top.scores))
    num_labels, labels, label_scores, best, best_scores = zip(*columns, strict=True)
    return FoldScores(
        np.concatenate(num_labels),
        np.concatenate(labels),
        np.concatenate(label_scores),
        np.concatenate(best),
        np.concatenate(best_scores),
        counts,
    )


def joined(folds: Iterable[tuple[Ints64, FoldScores]]) -> FoldScores:
    """The scores of all folds, in the order of the videos.

    Args:
      folds: for each fold the places of its videos, and their scores.
    """
    places, scores = zip(*folds, strict=True)
    order = np.argsort(np.concatenate(places))
    lengths = np.concatenate([fold.num_labels for fold in scores])
    starts = (np.cumsum(lengths) - lengths)[order]
    lengths = lengths[order]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    taken = np.repeat(starts, lengths) + within
    return FoldScores(
        lengths,
        np.concatenate([fold.labels for fold in scores])[taken],
        np.concatenate([fold.label_scores for fold in scores])[taken],
        np.concatenate([fold.best for fold in scores])[order],
        np.concatenate([fold.best_scores for fold in scores])[order],
        functools.reduce(operator.add, [fold.counts for fold in scores]),
    )


def write_scores(path: str, scores: FoldScores) -> None:
    """Writes scores into an NPZ file, whole or not at all."""
    arrays = scores._asdict()
    counts = arrays.pop("counts")
    with storage.write_atomic(path) as file:
        np.savez(file, **arrays, **{name: getattr(counts, name) for name in SCORE_COUNTS})


def read_scores(path: str) -> FoldScores:
    """The scores that `write_scores` wrote."""
    with storage.open_read(path) as file, np.load(file) as arrays:
        counts = ScoreCounts(*(arrays[name] for name in SCORE_COUNTS))
        return FoldScores(**{name: arrays[name] for name in FoldScores._fields[:-1]}, counts=counts)


def with_usual_length(config: TrainConfig, videos: int, batch_size: int | None, epochs: int | None) -> TrainConfig:
    """The config of a training on so many videos; batch size and passes follow from their number if they are None."""
    batch_size = batch_size or min(max(16, 1 << (videos // 64).bit_length() >> 1), 1024)
    steps = -(-videos // batch_size)
    epochs = epochs or min(max(_LEAST_PASSES, round(_USUAL_STEPS / steps)), _MOST_PASSES)
    data = dataclasses.replace(config.data, batch_size=batch_size, num_epochs=epochs)
    return dataclasses.replace(config, data=data)


@contextlib.contextmanager
def _quiet_log() -> Iterator[None]:
    """Only warnings are logged in the block: the lines of a training are of no use to whoever audits labels."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def score_fold(config: TrainConfig, held_out: Sequence[str]) -> FoldScores:
    """Trains the run of `config` to its end, and scores the videos of the shards that match `held_out`.

    Raises:
      KeyboardInterrupt: a signal stopped the training.
      RunError: the training failed.
    """
    with _quiet_log():
        _, outcome = training_run.train(config)
    if outcome.status is runner.Status.STOPPED:
        raise KeyboardInterrupt if outcome.exit_code == 130 else Terminated
    if outcome.exit_code:
        raise RunError(f"the training of {config.train_dir} failed: {outcome.message}")
    with scoring.open(config.train_dir, first_input="parsed records") as scorer:
        records = scorer.records(held_out)
        return score_videos(scorer, terminal.with_bar(iter(records), "scoring"))
