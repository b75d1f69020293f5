"""GAP, global average precision: the AP of all examples' top k entries pooled in one list.

Its recall counts every positive of the ground truth, those outside of the top k too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Floats64, Ints64, Keys, positive_int
from yt8m.eval_util.columns import Columns, rated_only, take_columns
from yt8m.eval_util.precision import average_precisions
from yt8m.eval_util.sort_keys import block_starts, class_of, hit_of, pack, without_class


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
