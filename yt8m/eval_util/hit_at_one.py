"""Hit@1: the share of examples whose best class is one of theirs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools
from yt8m.eval_util.columns import Columns, rated_only, take_columns


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
