"""The k best classes of each row, with a rule for ties: the lowest class index goes first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats32, Ints32, Ints64, Keys, places_within, refuse_nan
from yt8m.eval_util.sort_keys import best_first

# Scores are ranked in chunks of so many, which stay in a core's cache.
_CHUNK = 1 << 19
# Groups of classes that bound the k best: so many for each of them, and no fewer than are compared at once.
_GROUPS, _LEAST_GROUPS = 6, 128
_LEAST = np.finfo(np.float32).min


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
        chunk = np.ascontiguousarray(scores[start : start + step])
        classes[start : start + step] = _best_classes(chunk, classes.shape[1])
    return TopK(np.take_along_axis(scores, classes, axis=1), classes)


def _best_classes(scores: Floats32, k: int) -> Ints32:
    """[B, k]. Score and class make one integer, so that nothing ties and no index array is moved about."""
    keys = _keys(scores, k)
    if k < keys.shape[1]:
        keys.partition(k - 1, axis=1)
    return np.sort(keys[:, :k], axis=1).astype(np.uint32).astype(np.int32)


def _keys(scores: Floats32, k: int) -> Keys:
    """uint64 [B, at most C], those of the k best classes among them; short rows are filled up at the end."""
    num_classes = scores.shape[1]
    groups = max(_GROUPS * k, _LEAST_GROUPS)
    flat = np.flatnonzero(_may_be_best(scores, k, groups)) if groups * 4 <= num_classes else None
    if flat is None or len(flat) > scores.size // 4:
        refuse_nan(scores)
        return _key(scores, np.arange(num_classes))
    rows, classes = np.divmod(flat, num_classes)
    counts = np.bincount(rows, minlength=len(scores))
    keys = np.full((len(scores), counts.max()), np.iinfo(np.uint64).max, np.uint64)
    keys[rows, places_within(counts)] = _key(scores.ravel()[flat], classes)
    return keys


def _may_be_best(scores: Floats32, k: int, groups: int) -> Bools:
    """[B, C], True for the k best of each row and, unless much ties, few others.

    The maxima of groups of classes are scores of the row, so the k-th best of all is no worse than theirs.
    """
    grouped = scores.shape[1] // groups * groups
    maxima = scores[:, :grouped].reshape(len(scores), -1, groups).max(axis=1)
    refuse_nan(maxima)
    refuse_nan(scores[:, grouped:])
    bound = np.partition(maxima, groups - k, axis=1)[:, groups - k, np.newaxis]
    found = scores >= np.maximum(bound, _LEAST)
    found[:, :k] |= bound < _LEAST  # classes at -inf all tie, so that the first are enough
    return np.asarray(found)


def _key(scores: Floats32, classes: Ints64) -> Keys:
    return np.asarray(best_first(scores).astype(np.uint64) << np.uint64(32) | classes.astype(np.uint64))
