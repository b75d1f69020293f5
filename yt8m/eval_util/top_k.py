"""The k best classes of each row, with a rule for ties: the lowest class index goes first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Floats32, Ints32, refuse_nan
from yt8m.eval_util.sort_keys import best_first

# Scores are ranked in chunks of so many, whose sort keys (8 bytes each) stay in a core's cache.
_CHUNK = 1 << 16


class TopK(NamedTuple):
    """Scores float32 [B, k], best first, and the class int32 [B, k] of each."""

    scores: Floats32
    classes: Ints32


def top_k(scores: Floats32, k: int) -> TopK:
    """The `k` best classes of each row, by score from the best, then by class index from the lowest.

    Args:
      scores: [B, C].
      k: at least 1; clipped to C.

    Raises:
      ValueError: a score is NaN.
    """
    rows, num_classes = scores.shape
    classes = np.empty((rows, min(k, num_classes)), np.int32)
    step = max(1, _CHUNK // num_classes)
    for start in range(0, rows, step):
        classes[start : start + step] = _best_classes(scores[start : start + step], classes.shape[1])
    return TopK(np.take_along_axis(scores, classes, axis=1), classes)


def _best_classes(scores: Floats32, k: int) -> Ints32:
    """[B, k]. Score and class make one integer, so that nothing ties and no index array is moved about."""
    refuse_nan(scores)
    num_classes = scores.shape[1]
    keys = best_first(scores).astype(np.uint64) << np.uint64(32) | np.arange(num_classes, dtype=np.uint64)
    if k < num_classes:
        keys.partition(k - 1, axis=1)
    return np.sort(keys[:, :k], axis=1).astype(np.uint32).astype(np.int32)
