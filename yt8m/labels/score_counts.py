"""Counts how often each score occurs in each class; a score is the log-odds that a model gives to a class."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from dataclasses import dataclass
from typing import Self

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats32, Ints32, Ints64

BINS = 256  # number of bins of scores of each class
_LIMIT = 16.0  # scores above 16 count as 16, those below -16 as -16


def log_odds(scores: Floats32) -> Floats32:
    """The log-odds of probabilities, float32 of the same shape, between -16 and 16."""
    with np.errstate(divide="ignore"):
        odds = np.log(scores) - np.log1p(-scores)
    return np.asarray(np.clip(odds, -_LIMIT, _LIMIT))


@dataclass(eq=False)
class ScoreCounts:
    """Counts how often each score occurs in each class. Scores are put into bins, so the size is fixed.

    Attributes:
      labelled: int64 [C, BINS], number of videos with the label.
      others: int64 [C, BINS], number of videos without the label.
      other_labels: int64 [C, BINS], number of labels (of other classes) that the videos without the label have.
    """

    labelled: Ints64
    others: Ints64
    other_labels: Ints64

    @classmethod
    def of_classes(cls, num_classes: int) -> Self:
        """Makes counts without any video."""
        return cls(*np.zeros((3, num_classes, BINS), np.int64))

    def add(self, scores: Floats32, labels: Bools) -> None:
        """Adds the log-odds [B, C] of some videos, with their labels [B, C]."""
        bins = _bin_indices(np.arange(scores.shape[1], dtype=np.int32), scores)
        size, shape = self.others.size, self.others.shape
        videos, labelled = np.bincount(bins.ravel(), minlength=size), np.bincount(bins[labels], minlength=size)
        num_labels = labels.sum(1)
        labels_of_videos = np.bincount(bins.ravel(), np.repeat(num_labels, labels.shape[1]), size)
        labels_of_labelled = np.bincount(bins[labels], np.repeat(num_labels, num_labels), size)
        self.labelled += labelled.reshape(shape)
        self.others += (videos - labelled).reshape(shape)
        self.other_labels += (labels_of_videos - labels_of_labelled).astype(np.int64).reshape(shape)

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        pairs = ((getattr(self, name), getattr(other, name)) for name in SCORE_COUNTS)
        return ScoreCounts(*itertools.starmap(operator.add, pairs))


def _bin_indices(classes: Ints32, scores: Floats32) -> Ints32:
    """The index of the bin of each (class, score) pair in flattened counts [C, BINS], int32 of their shape."""
    bins = np.minimum((scores + np.float32(_LIMIT)) * np.float32(BINS / 2 / _LIMIT), BINS - 1).astype(np.int32)
    return np.asarray(bins + classes * BINS)


SCORE_COUNTS = tuple(field.name for field in dataclasses.fields(ScoreCounts))
BIN_SCORES = (np.arange(BINS) + 0.5) * (2 * _LIMIT / BINS) - _LIMIT  # the score in the middle of each bin
