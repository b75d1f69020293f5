"""The classes that are shown: the best ones, and tags among the twenty best."""

from __future__ import annotations

import numpy as np

from yt8m.records.thresholds import Tagger
from yt8m.scoring.scorer import best_classes, tags

SCORES = np.linspace(0.01, 0.5, 50, dtype=np.float32)  # class 49 is the best


def test_the_best_come_first() -> None:
    assert [index for index, _ in best_classes(SCORES, 3)] == [49, 48, 47]
    assert [score for _, score in best_classes(SCORES, 3)] == SCORES[[49, 48, 47]].tolist()
    assert len(best_classes(SCORES, 99)) == 50


def test_tags_reach_their_thresholds_and_are_among_the_twenty_best() -> None:
    thresholds = np.full(50, 0.005)
    thresholds[48] = 0.9
    assert [index for index, _ in tags(SCORES, Tagger(thresholds, 1))] == [49, *range(47, 29, -1)]
