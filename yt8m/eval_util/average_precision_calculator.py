"""Average precision of one list, at once or fed in parts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Floats64, positive_int, positive_mask
from yt8m.eval_util.scored_lists import ScoredLists


class AveragePrecisionCalculator:
    """AP of one ranked list, or AP at n; scores in any range, positives are actuals above 0.

    Tied scores: the mean over all orders of the tied items (see `precision`).

    >>> AveragePrecisionCalculator.ap([0.9, 0.5, 0.1], [1, 0, 1])
    0.8333333333333333
    """

    def __init__(self, top_n: int | None = None) -> None:
        """`top_n`: only so many of the best items count; None for all.

        Raises:
          ValueError: top_n is not positive.
        """
        self._items = ScoredLists(1, top_n)

    @property
    def heap_size(self) -> int:
        """Items that count: those seen, at most top_n."""
        return int(self._items.sizes[0])

    @property
    def num_accumulated_positives(self) -> float:
        """Positives so far, as counted or as given."""
        return float(self._items.num_positives[0])

    def accumulate(
        self, predictions: npt.ArrayLike, actuals: npt.ArrayLike, num_positives: float | None = None
    ) -> None:
        """Adds items.

        Args:
          predictions: [N] scores.
          actuals: [N].
          num_positives: positives of this part, where some are not among its items; None to count them.

        Raises:
          ValueError: shapes differ, a score is NaN, or num_positives is negative.
        """
        if num_positives is not None and not num_positives >= 0:
            raise ValueError(f"num_positives must be 0 or more; it is {num_positives}")
        scores, hits = _vectors(predictions, actuals)
        total = None if num_positives is None else [num_positives]
        self._items.append(np.zeros(len(scores), np.int64), scores, hits, total)

    def clear(self) -> None:
        """Forgets everything."""
        self._items.clear()

    def peek_ap_at_n(self) -> float:
        """AP of what came so far; its recall is over min(positives, top_n). 0 where there is none."""
        return float(self._items.average_precisions()[0])

    @staticmethod
    def ap(predictions: npt.ArrayLike, actuals: npt.ArrayLike) -> float:
        """AP of a whole list."""
        return AveragePrecisionCalculator.ap_at_n(predictions, actuals, n=None)

    @staticmethod
    def ap_at_n(
        predictions: npt.ArrayLike,
        actuals: npt.ArrayLike,
        n: int | None = 20,
        total_num_positives: float | None = None,
    ) -> float:
        """AP of the n best items of a list.

        Args:
          predictions: [N] scores.
          actuals: [N].
          n: None for all items.
          total_num_positives: where some positives are not among the items; None to count them. The
            result may pass 1 where it is less than the items hold.

        Raises:
          ValueError: shapes differ, a score is NaN, or n is not positive.
        """
        if n is not None:
            positive_int(n, "n")
        calculator = AveragePrecisionCalculator(n)
        calculator.accumulate(predictions, actuals, total_num_positives)
        return calculator.peek_ap_at_n()


def _vectors(predictions: npt.ArrayLike, actuals: npt.ArrayLike) -> tuple[Floats64, Bools]:
    scores = np.asarray(predictions, np.float64)
    if scores.ndim != 1:
        raise ValueError(f"predictions must be one list; the shape is {scores.shape}")
    return scores, positive_mask(actuals, scores.shape)
