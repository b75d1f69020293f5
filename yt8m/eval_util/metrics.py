"""Hit@1: the share of examples whose best class is one of theirs.

PERR, precision at equal recall rate: the share of right classes among the n best, n the number of labels.

Source: S. Abu-El-Haija et al., YouTube-8M: A Large-Scale Video Classification Benchmark (2016),
section on evaluation metrics.

GAP, global average precision: the AP of all examples' top k entries pooled in one list.

Its recall counts every positive of the ground truth, those outside of the top k too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import (
    Bools,
    Floats32,
    Floats64,
    Ints64,
    Keys,
    block_starts,
    class_of,
    hit_of,
    pack,
    positive_int,
    without_class,
)
from yt8m.eval_util.average_precision import average_precisions
from yt8m.eval_util.top_k import Columns, rated_only, take_columns, top_k


def hit_at_one_of_rows(columns: Columns) -> Bools:
    """bool [B]; among tied best classes the lowest index counts; False for a row without labels."""
    return np.asarray(columns.hits[:, 0] & columns.ranked[:, 0])


def calculate_hit_at_one(predictions: npt.ArrayLike, actuals: npt.ArrayLike) -> float:
    """The mean over examples; those without labels count as misses.

    Args:
      predictions: float [B, C].
      actuals: [B, C], positive where above 0.

    Returns:
      0..1; 0 where there is no example.

    Raises:
      ValueError: shapes differ or a score is NaN.
    """
    scores, positives = rated_only(predictions, actuals)
    hits = hit_at_one_of_rows(take_columns(scores, positives, 1))
    return float(hits.mean()) if len(hits) else 0.0


# Few examples have more labels than this; those that do are ranked once more, deeper.
_USUAL_LABELS = 20


def perr_of_columns(columns: Columns) -> Floats64:
    """[B], exact from the columns.

    Scores of 0 or less never count; a row without labels has 0.

    Raises:
      ValueError: a row has more labels than there are columns, and not all classes are there.
    """
    width = columns.scores.shape[1]
    most = int(columns.num_labels.max(initial=0))
    if width < min(most, len(columns.label_counts)):
        raise ValueError(
            f"PERR of an example with {most} labels needs as many columns; there are {width}. "
            "Take more columns, or hand in perr."
        )
    return _precision(columns.scores, columns.hits, columns.num_labels)


def perr_of_rows(scores: Floats32, positives: Bools, columns: Columns) -> Floats64:
    """[B], of dense [B, C] scores; `columns` are those already taken from them, of any width."""
    values = _precision(columns.scores, columns.hits, columns.num_labels)
    deep = columns.num_labels > columns.scores.shape[1]
    if deep.any():
        num_labels = columns.num_labels[deep]
        best = top_k(scores[deep], int(num_labels.max()))
        hits = np.take_along_axis(positives[deep], best.classes, axis=1)
        values[deep] = _precision(best.scores, hits, num_labels)
    return values


def _precision(scores: Floats32, hits: Bools, num_labels: Ints64) -> Floats64:
    within = np.arange(scores.shape[1]) < num_labels[:, None]
    right = np.count_nonzero(hits & within & (scores > 0), axis=1)
    return np.asarray(right / np.maximum(num_labels, 1))


def calculate_precision_at_equal_recall_rate(predictions: npt.ArrayLike, actuals: npt.ArrayLike) -> float:
    """The mean over examples; those without labels count as 0. Ties at the boundary go to the lowest class.

    Args:
      predictions: float [B, C]; scores of 0 or less never count.
      actuals: [B, C], positive where above 0.

    Returns:
      0..1; 0 where there is no example.

    Raises:
      ValueError: shapes differ or a score is NaN.
    """
    scores, positives = rated_only(predictions, actuals)
    values = perr_of_rows(scores, positives, take_columns(scores, positives, _USUAL_LABELS))
    return float(values.mean()) if len(values) else 0.0


def entries_of(columns: Columns, k: int) -> Keys:
    """The first `k` columns as packed entries [N]; columns without a class are left out."""
    keys = pack(columns.classes[:, :k], columns.scores[:, :k], columns.hits[:, :k])
    ranked = columns.ranked[:, :k]
    return keys.ravel() if ranked.all() else keys[ranked]


def global_average_precision(entries: Keys, num_positives: int) -> float:
    """AP of all entries as one list; 0 where there is no positive."""
    return float(class_average_precisions(without_class(entries), np.array([num_positives]))[0])


def class_average_precisions(entries: Keys, num_positives: Ints64, n: int | None = None) -> Floats64:
    """[C], the AP of each class over its own entries; 0 for a class without positives.

    Args:
      entries: packed, in any order.
      num_positives: [C].
      n: only the n best entries of each class count; None for all.
    """
    keys = np.sort(entries)
    return average_precisions(class_of(keys), block_starts(keys), hit_of(keys), num_positives, n)


def calculate_gap(predictions: npt.ArrayLike, actuals: npt.ArrayLike, top_k: int = 20) -> float:
    """GAP of a batch.

    Args:
      predictions: float [B, C].
      actuals: [B, C], positive where above 0.
      top_k: how many of each example's best classes enter the list; clipped to C.

    Returns:
      0..1; 0 where there is no positive or no example.

    Raises:
      ValueError: shapes differ, a score is NaN, or top_k is not positive.
    """
    positive_int(top_k, "top_k")
    scores, positives = rated_only(predictions, actuals)
    columns = take_columns(scores, positives, top_k)
    return global_average_precision(entries_of(columns, top_k), int(columns.num_labels.sum()))
