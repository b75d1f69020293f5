"""Scores and labels as an audit keeps them."""

from __future__ import annotations

import numpy as np

from yt8m.labels.folds import FoldScores
from yt8m.labels.score_counts import ScoreCounts


def kept(scores: np.ndarray, labels: np.ndarray, best: int = 20) -> FoldScores:
    """What is kept of scores [N, C] and labels [N, C]."""
    counts = ScoreCounts.of_classes(scores.shape[1])
    counts.add(scores, labels)
    rows, classes = np.nonzero(labels)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :best]
    top = np.take_along_axis(scores, order, 1)
    num_labels = labels.sum(1).astype(np.int32)
    return FoldScores(num_labels, classes.astype(np.int32), scores[rows, classes], order.astype(np.int32), top, counts)
