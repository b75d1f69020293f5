"""For each example: finds the k best classes and which of them are labels, counts the labels, and computes PERR.

PERR, the precision at equal recall rate, of an example with n labels is the share of labels among its n best classes.
If scores tie, the class with the lowest index goes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util import arrays
from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints32, Ints64, Keys

# `top_k` ranks about this many scores at once, so that they stay in a core's cache.
_CHUNK = 1 << 19
# `_may_be_among_best` divides the classes into groups: _GROUPS * k of them, but at least _LEAST_GROUPS, so that vector
# instructions are filled.
_GROUPS, _LEAST_GROUPS = 6, 128
_LOWEST_FINITE = np.finfo(np.float32).min  # a lower score is -inf: its class is not ranked


class TopK(NamedTuple):
    """The scores, float32 [B, k], best first, and the class of each, int32 [B, k]."""

    scores: Floats32
    classes: Ints32


def top_k(scores: Floats32, k: int) -> TopK:
    """The `k` best classes of each row, by score from the best, then by class index from the lowest.

    Args:
      scores: [B, C].
      k: at least 1; values above C count as C.

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
    """The k best classes of each row, int32 [B, k], best first.

    Score and class are packed into one integer, so that nothing ties and sorting needs no index array.
    """
    keys = _pack_candidates(scores, k)
    if k < keys.shape[1]:
        keys.partition(k - 1, axis=1)
    return np.sort(keys[:, :k], axis=1).astype(np.uint32).astype(np.int32)


def _pack_candidates(scores: Floats32, k: int) -> Keys:
    """Packs the scores and classes that may be among the k best of each row.

    Returns:
      uint64 [B, at most C], which sort by descending score and then by class; padding sorts last.
    """
    num_classes = scores.shape[1]
    groups = max(_GROUPS * k, _LEAST_GROUPS)
    flat = np.flatnonzero(_may_be_among_best(scores, k, groups)) if groups * 4 <= num_classes else None
    if flat is None or len(flat) > scores.size // 4:
        arrays.refuse_nan(scores)
        return arrays.pack_numbers(scores, np.arange(num_classes))
    rows, classes = np.divmod(flat, num_classes)
    counts = np.bincount(rows, minlength=len(scores))
    keys = np.full((len(scores), counts.max()), np.iinfo(np.uint64).max, np.uint64)
    keys[rows, arrays.places_within(counts)] = arrays.pack_numbers(scores[rows, classes], classes)
    return keys


def _may_be_among_best(scores: Floats32, k: int, groups: int) -> Bools:
    """bool [B, C], True for the k best classes of each row and, unless many scores tie, for few others.

    The classes are divided into groups. The maxima of the groups are themselves scores of the row, so the k-th best
    score of the row is at least the k-th best maximum.

    Args:
      scores: float32 [B, C].
      groups: number of groups, at least `k`.
    """
    grouped = scores.shape[1] // groups * groups
    maxima = scores[:, :grouped].reshape(len(scores), -1, groups).max(axis=1)
    arrays.refuse_nan(maxima)
    arrays.refuse_nan(scores[:, grouped:])
    bound = np.partition(maxima, groups - k, axis=1)[:, groups - k, np.newaxis]
    may_be = scores >= np.maximum(bound, _LOWEST_FINITE)
    may_be[:, :k] |= bound < _LOWEST_FINITE  # classes with the score -inf all tie, so the first ones are enough
    return np.asarray(may_be)


class Columns(NamedTuple):
    """The k best classes of B examples.

    Attributes:
      scores: float32 [B, k], best first; -inf in the last columns if fewer than k classes of the example were ranked.
      classes: int32 [B, k], the class of each score.
      hits: bool [B, k], whether the example has that class.
      num_labels: int64 [B], positives of the example over all classes.
      label_counts: int64 [C], positives of each class over the examples.
    """

    scores: Floats32
    classes: Ints32
    hits: Bools
    num_labels: Ints64
    label_counts: Ints64

    @property
    def ranked(self) -> Bools:
        """bool [B, k]: False for the columns that a row lacks because fewer than k of its classes were ranked."""
        return np.asarray(self.scores > -np.inf)

    @property
    def examples(self) -> Bools:
        """bool [B]: True for an example that was judged, because it has a ranked class or a label."""
        return self.ranked[:, 0] | (self.num_labels > 0)

    def entries(self, k: int) -> Keys:
        """The first `k` columns as packed entries [N], see `arrays`; columns that were not ranked are left out."""
        keys = arrays.pack_entries(self.classes[:, :k], self.scores[:, :k], self.hits[:, :k])
        ranked = self.ranked[:, :k]
        return keys.ravel() if ranked.all() else keys[ranked]


def take_columns(scores: Floats32, positives: Bools, k: int) -> Columns:
    """The k best classes of each example.

    Args:
      scores: [B, C].
      positives: [B, C], the labels.
    """
    best = top_k(scores, k)
    rows, classes = np.divmod(np.flatnonzero(positives), positives.shape[1])
    return Columns(
        *best,
        hits=np.take_along_axis(positives, best.classes, axis=1),
        num_labels=np.bincount(rows, minlength=len(positives)),
        label_counts=np.bincount(classes, minlength=positives.shape[1]),
    )


def rated_only(
    predictions: npt.ArrayLike, labels: npt.ArrayLike, label_weights: npt.ArrayLike | None = None
) -> tuple[Floats32, Bools]:
    """The scores and labels, in which a pair that was not rated has the score -inf and is no label.

    Args:
      predictions: [B, C].
      labels: [B, C], positive if above 0.
      label_weights: [B, C]; a pair with a weight of 0 or less was not rated. None if all were.

    Returns:
      Scores, float32 [B, C], and labels, bool [B, C].
    """
    scores = arrays.score_matrix(predictions)
    positives = arrays.positive_mask(labels, scores.shape, "labels")
    if label_weights is None:
        return scores, positives
    rated = arrays.positive_mask(label_weights, scores.shape, "label_weights")
    return np.where(rated, scores, np.float32(-np.inf)), positives & rated


def check_columns(columns: Columns) -> None:
    """Checks that columns from the caller agree with each other."""
    scores, classes, _, num_labels, label_counts = columns
    if classes.shape != scores.shape or num_labels.shape != scores.shape[:1] or label_counts.ndim != 1:
        raise ValueError(
            "scores and classes must be [B, k], num_labels [B], label_counts [C]; they are "
            f"{scores.shape}, {classes.shape}, {num_labels.shape}, {label_counts.shape}"
        )
    if classes.size and not 0 <= classes.min() <= classes.max() < len(label_counts):
        raise ValueError(f"classes must lie in 0..{len(label_counts) - 1}; found {classes.min()}..{classes.max()}")
    # The condition is negated as a whole so that it holds for NaN too, of which every comparison is false.
    if not (scores[:, :-1] >= scores[:, 1:]).all() or np.isnan(scores).any():
        raise ValueError("scores must be sorted from the best along each row, and not NaN")
    if num_labels.sum() != label_counts.sum():
        raise ValueError(f"num_labels add up to {num_labels.sum()}, label_counts to {label_counts.sum()}")


def perr_of_columns(columns: Columns) -> Floats64:
    """PERR of each example, float64 [B]. Scores of 0 or less never count; 0 for an example without labels."""
    width = columns.scores.shape[1]
    most = int(columns.num_labels.max(initial=0))
    if width < min(most, len(columns.label_counts)):
        raise ValueError(
            f"PERR of an example with {most} labels needs {most} columns; there are {width}. "
            "Take more columns, or pass perr."
        )
    return _precision_at_num_labels(columns.scores, columns.hits, columns.num_labels)


def perr_of_rows(scores: Floats32, positives: Bools, columns: Columns) -> Floats64:
    """PERR of each example, float64 [B], as in `perr_of_columns`, however few the columns are.

    Args:
      scores: [B, C].
      positives: [B, C], the labels.
    """
    values = _precision_at_num_labels(columns.scores, columns.hits, columns.num_labels)
    has_more_labels = columns.num_labels > columns.scores.shape[1]
    if has_more_labels.any():
        num_labels = columns.num_labels[has_more_labels]
        best = top_k(scores[has_more_labels], int(num_labels.max()))
        hits = np.take_along_axis(positives[has_more_labels], best.classes, axis=1)
        values[has_more_labels] = _precision_at_num_labels(best.scores, hits, num_labels)
    return values


def _precision_at_num_labels(scores: Floats32, hits: Bools, num_labels: Ints64) -> Floats64:
    """The share of hits with a score above 0 among the first num_labels [B] columns of each row; 0 without labels."""
    within = np.arange(scores.shape[1]) < num_labels[:, None]
    right = np.count_nonzero(hits & within & (scores > 0), axis=1)
    return np.asarray(right / np.maximum(num_labels, 1))
