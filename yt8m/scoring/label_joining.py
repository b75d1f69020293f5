"""How cells become spans if only the labels of whole videos are known, which say nothing of times.

The score of a whole video is that of all its frames together, and a cell has more extreme ones. So each class has a
threshold for cells: the one with the best F1 where a video counts as found if its best cell reaches it. The best cells
are no measure of the others, so a span goes on to where the score falls below a part of the threshold. With
the thresholds of whole videos most of the spans that are found are not there (tests/scoring/test_label_joining.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yt8m.config.programs import EvalConfig
from yt8m.eval_util.evaluation_metrics import EvaluationMetrics
from yt8m.eval_util.span_joining import JoinRule
from yt8m.scoring.film_spans import Joining

RULE = JoinRule(hysteresis=0.7)
MOST_VIDEOS = 1000  # that choose; each takes 8 bytes for each class


class BestCells:
    """Collects the best cells of videos.

    Attributes:
      videos, labels: how many there were.
    """

    def __init__(self, num_classes: int) -> None:
        self._metrics = EvaluationMetrics(num_classes, num_classes, metric_classes=())
        self.videos = self.labels = 0

    def add(self, scores: NDArray[np.float32], labels: NDArray[np.bool_]) -> None:
        """Adds a video with the scores of its cells [T, C], T > 0, and its labels [C]."""
        self._metrics.accumulate(scores.max(axis=0, keepdims=True), labels[np.newaxis])
        self.videos, self.labels = self.videos + 1, self.labels + int(labels.sum())

    def joining(self, cells: Joining) -> Joining:
        """How cells of this kind are joined, by the videos so far."""
        points = self._metrics.operating_points(EvalConfig.min_positives)
        return cells._replace(thresholds=points.thresholds, rule=RULE)
