"""Average precision of each class, fed in parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Floats64, Ints64, positive_int
from yt8m.eval_util.scored_lists import ScoredLists

# One list of scores a class (they may differ in length), or an array [C, N].
ByClass = Sequence[npt.ArrayLike] | npt.NDArray[np.floating | np.integer | np.bool_]


class MeanAveragePrecisionCalculator:
    """AP (or AP at n) of each class; their mean is mAP."""

    def __init__(self, num_class: int, filter_empty_classes: bool = True, top_n: int | None = None) -> None:
        """A calculator for `num_class` classes.

        Args:
          num_class: C.
          filter_empty_classes: leave classes without a positive out of the result; else their AP is 0.
          top_n: only so many of the best items of each class count; None for all.

        Raises:
          ValueError: num_class or top_n is not positive.
        """
        positive_int(num_class, "num_class")
        self._num_class = num_class
        self._filter = filter_empty_classes
        self._items = ScoredLists(num_class, top_n)

    def accumulate(
        self, predictions: ByClass, actuals: ByClass, num_positives: Sequence[float] | Ints64 | None = None
    ) -> None:
        """Adds items to each class.

        Args:
          predictions: C lists of scores.
          actuals: C lists, each as long as its scores; positive where above 0.
          num_positives: [C], positives of this part where some are not among the items; None to count them.

        Raises:
          ValueError: there are not C lists, lengths differ, a score is NaN, or a count is negative.
        """
        lengths = np.fromiter(map(np.size, predictions), np.int64)
        if len(lengths) != self._num_class or not np.array_equal(lengths, list(map(np.size, actuals))):
            raise ValueError(
                f"predictions and actuals must be {self._num_class} lists each, of equal lengths; "
                f"there are {len(lengths)} and {len(actuals)}"
            )
        if num_positives is not None and (len(num_positives) != len(lengths) or min(num_positives) < 0):
            raise ValueError(f"num_positives must be {self._num_class} counts, each 0 or more")
        scores, marks = (
            np.concatenate([np.ravel(part) for part in parts]) for parts in (predictions, actuals)
        )
        owners = np.repeat(np.arange(self._num_class), lengths)
        self._items.append(owners, scores.astype(np.float64), np.asarray(marks > 0), num_positives)

    def clear(self) -> None:
        """Forgets everything."""
        self._items.clear()

    def is_empty(self) -> bool:
        """Whether no class has an item."""
        return not self._items.sizes.any()

    def peek_map_at_n(self) -> Floats64:
        """AP of each class (of each with a positive, where empty classes are filtered), in class order."""
        aps = self._items.average_precisions()
        return aps[self._items.num_positives > 0] if self._filter else aps
