"""PERR, precision at equal recall rate: the share of right classes among the n best, n the number of labels.

Source: S. Abu-El-Haija et al., YouTube-8M: A Large-Scale Video Classification Benchmark (2016),
section on evaluation metrics.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints64
from yt8m.eval_util.columns import Columns, rated_only, take_columns
from yt8m.eval_util.top_k import top_k

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
