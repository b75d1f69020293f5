"""The threshold of each class that gives the best F1 on ranked entries.

F1 = 2 * true positives / (predictions + labels), the harmonic mean of precision and recall: C. J. van Rijsbergen,
Information Retrieval (1979), chapter 7. As for AP, only the entries (the top_k best classes of each example) are
predictions, and all labels count for the recall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats64, Ints64, Keys, block_starts, class_of, hit_of, score_of, without_class
from yt8m.records.thresholds import OperatingPoints

NOTHING_KNOWN = 0.5  # the common threshold if no entry is a positive
_BELOW = 1e-3  # the share of the lowest score by which a threshold is below it


class _Best(NamedTuple):
    """The best threshold of each of L lists, float64 [L], and its F1, float64 [L]; 0 for a list without a positive."""

    thresholds: Floats64
    f1: Floats64


def best_f1(entries: Keys, label_counts: Ints64, min_positives: int) -> OperatingPoints:
    """The best threshold of each class, and precision, recall and F1 of all classes at their thresholds.

    Of several thresholds that give the best F1, the highest is taken. A threshold is half-way between the lowest score
    that reaches it and the next lower one (if there is none, a thousandth below the score), so that rounding changes no
    decision. A class gets the common threshold if it has fewer than `min_positives` labels, or none of them among its
    entries. The common threshold gives the best F1 of all entries in one list.

    Args:
      entries: packed entries (see `arrays`), in any order.
      label_counts: int64 [C], number of labels of each class.
      min_positives: number of labels that a class needs for a threshold of its own.
    """
    keys = np.sort(entries)
    own = _best_of_lists(keys, label_counts)
    common = _best_of_lists(np.sort(without_class(keys)), label_counts.sum(keepdims=True))
    is_own = np.asarray((label_counts >= min_positives) & (own.f1 > 0))
    anyone = common.thresholds[0] if common.f1[0] > 0 else NOTHING_KNOWN
    return _counted(keys, label_counts, np.where(is_own, own.thresholds, anyone), is_own)


def _best_of_lists(keys: Keys, positives: Ints64) -> _Best:
    """Computes the F1 of each possible threshold, that is, for each block of equal scores as the last one predicted."""
    found = _Best(np.zeros(len(positives)), np.zeros(len(positives)))
    if not len(keys):
        return found
    starts, lists = block_starts(keys), class_of(keys)
    ends, owners = np.append(starts[1:], len(keys)), lists[starts]
    first = np.searchsorted(lists, np.arange(len(positives)))[owners]
    hits = np.append(0, np.cumsum(hit_of(keys)))
    f1 = 2 * (hits[ends] - hits[first]) / (ends - first + positives[owners])
    np.maximum.at(found.f1, owners, f1)
    reached = np.flatnonzero(f1 == found.f1[owners])
    which, place = np.unique(owners[reached], return_index=True)
    last = reached[place]
    after = np.minimum(last + 1, len(starts) - 1)
    scores = score_of(keys[starts]).astype(np.float64)
    has_lower = (after > last) & (owners[after] == which)
    lower = np.where(has_lower, scores[after], scores[last] - 2 * _BELOW * np.abs(scores[last]))
    found.thresholds[which] = (scores[last] + lower) / 2
    return found


def _counted(keys: Keys, positives: Ints64, thresholds: Floats64, is_own: Bools) -> OperatingPoints:
    classes = class_of(keys)
    chosen = score_of(keys) >= thresholds[classes]
    predicted = np.bincount(classes[chosen], minlength=len(positives))
    right = np.bincount(classes[chosen & hit_of(keys)], minlength=len(positives))
    shares = (_share(right, predicted), _share(right, positives), _share(2 * right, predicted + positives))
    return OperatingPoints(thresholds, is_own, positives, *shares)


def _share(part: Ints64, whole: Ints64) -> Floats64:
    return np.asarray(np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0))
