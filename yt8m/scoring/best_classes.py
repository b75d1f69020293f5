"""The classes of a video that are shown: the best ones, or its tags."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yt8m.eval_util.top_k import top_k
from yt8m.records.thresholds import AMONG, Tagger

ScoredClasses = list[tuple[int, float]]  # (class, score), best first


def best_classes(scores: NDArray[np.float32], count: int) -> ScoredClasses:
    """The `count` best classes of a video with the scores [C]."""
    best = top_k(scores[np.newaxis], count)
    return list(zip(best.classes[0].tolist(), best.scores[0].tolist(), strict=True))


def tags(scores: NDArray[np.float32], tagger: Tagger) -> ScoredClasses:
    """The classes, among the 20 best of a video with the scores [C], whose scores reach their thresholds."""
    best = top_k(scores[np.newaxis], AMONG)
    are_tags = tagger.are_tags(best.classes[0], best.scores[0])
    return list(zip(best.classes[0][are_tags].tolist(), best.scores[0][are_tags].tolist(), strict=True))
