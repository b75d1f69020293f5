"""The k best classes of each row, with a rule for ties: the lowest class index goes first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Floats32, Ints32, Ints64, refuse_nan
from yt8m.eval_util.sort_keys import best_first

# argpartition makes an int64 index as large as its input: in chunks it stays in the cache.
_CHUNK_ROWS = 512


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
    k = min(k, scores.shape[1])
    if not len(scores):
        return TopK(np.zeros((0, k), np.float32), np.zeros((0, k), np.int32))
    chunks = [_top_k_rows(scores[i : i + _CHUNK_ROWS], k) for i in range(0, len(scores), _CHUNK_ROWS)]
    return TopK(*(np.concatenate(column) for column in zip(*chunks, strict=True)))


def _top_k_rows(scores: Floats32, k: int) -> TopK:
    ranks = _ranked(scores, _candidates(scores, k))
    # The one candidate too many tells whether the k-th score is also the score of a class left out.
    undecided = (ranks[:, k - 1] >> 32) == (ranks[:, -1] >> 32)
    ranks = ranks[:, :k]
    if k < scores.shape[1] and undecided.any():
        rows = scores[undecided]
        ranks[undecided] = _ranked(rows, _lowest_of_tied(rows, k))
    classes = (ranks & 0xFFFF_FFFF).astype(np.int32)
    return TopK(np.take_along_axis(scores, classes, axis=1), classes)


def _candidates(scores: Floats32, k: int) -> Ints64:
    """Classes [B, k + 1] (all C where that is less) with the best scores, in any order."""
    rows, num_classes = scores.shape
    if k >= num_classes:
        return np.broadcast_to(np.arange(num_classes), (rows, num_classes))
    boundary = num_classes - k - 1
    return np.argpartition(scores, boundary, axis=1)[:, boundary:]


def _ranked(scores: Floats32, classes: Ints64) -> npt.NDArray[np.uint64]:
    """Score (upper half) and class (lower half) of the candidates, sorted along each row."""
    values = np.take_along_axis(scores, classes, axis=1)
    refuse_nan(values)  # a partition takes NaN for the largest, so none escapes
    return np.sort(best_first(values).astype(np.uint64) << 32 | classes.astype(np.uint64), axis=1)


def _lowest_of_tied(scores: Floats32, k: int) -> Ints64:
    """Classes [B, k]: those above the k-th score, and of those at it the lowest that there is room for."""
    boundary = scores.shape[1] - k
    threshold = np.partition(scores, boundary, axis=1)[:, boundary, None]
    above, level = scores > threshold, scores == threshold
    room = k - np.count_nonzero(above, axis=1)[:, None]
    chosen: Bools = above | (level & (np.cumsum(level, axis=1, dtype=np.int32) <= room))
    return np.nonzero(chosen)[1].reshape(-1, k)
