"""Many lists of scored items, fed in parts, for the calculators of average precision."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Floats64, Ints64, positive_int, refuse_nan
from yt8m.eval_util.precision import average_precisions

# Below this many items it is not worth to look for those that no longer matter.
_SMALL = 4096


class ScoredLists:
    """Items (list, score in float64, positive or not) and how many positives each list has in all.

    With `top_n` only what may still be among a list's n best is kept, in memory that grows with
    num_lists x top_n; items tied with the n-th best all stay, since each has its share in the figure.

    Attributes:
      num_positives: float64 [L], so far.
      top_n: how many items of each list count; None for all.
    """

    def __init__(self, num_lists: int, top_n: int | None = None) -> None:
        if top_n is not None:
            positive_int(top_n, "top_n")
        self.top_n = top_n
        self._num_lists = num_lists
        self.clear()

    def clear(self) -> None:
        """Forgets everything."""
        self.num_positives: Floats64 = np.zeros(self._num_lists)
        self._seen: Ints64 = np.zeros(self._num_lists, np.int64)
        self._parts: list[tuple[Ints64, Floats64, Bools]] = []
        self._limit = _SMALL

    @property
    def sizes(self) -> Ints64:
        """int64 [L], items that count: those seen, at most top_n."""
        return self._seen if self.top_n is None else np.minimum(self._seen, self.top_n)

    def append(
        self, lists: Ints64, scores: Floats64, hits: Bools, num_positives: npt.ArrayLike | None = None
    ) -> None:
        """Adds items [N], each of its list; `num_positives` [L] stands for the positives among them.

        Raises:
          ValueError: a score is NaN.
        """
        refuse_nan(scores)
        if num_positives is None:
            num_positives = np.bincount(lists[hits], minlength=self._num_lists)
        self.num_positives = self.num_positives + np.asarray(num_positives)
        self._seen = self._seen + np.bincount(lists, minlength=self._num_lists)
        self._parts.append((lists, scores, hits))
        if self.top_n is not None and sum(len(part[0]) for part in self._parts) > self._limit:
            self._drop_below_top_n(self.top_n)

    def _sorted(self) -> tuple[Ints64, Floats64, Bools]:
        if not self._parts:
            return np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_)
        lists, scores, hits = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        order = np.lexsort((-scores, lists))
        return lists[order], scores[order], hits[order]

    def _drop_below_top_n(self, top_n: int) -> None:
        lists, scores, hits = self._sorted()
        starts = _block_starts(lists, scores)
        rank = starts - np.searchsorted(lists, lists[starts])
        kept = np.repeat(rank < top_n, np.diff(starts, append=len(lists)))
        self._parts = [(lists[kept], scores[kept], hits[kept])]
        self._limit = max(_SMALL, 2 * int(kept.sum()))

    def average_precisions(self) -> Floats64:
        """float64 [L]; 0 for a list without positives or items."""
        lists, scores, hits = self._sorted()
        return average_precisions(lists, _block_starts(lists, scores), hits, self.num_positives, self.top_n)


def _block_starts(lists: Ints64, scores: Floats64) -> Ints64:
    first = np.ones(len(lists), np.bool_)
    first[1:] = (lists[1:] != lists[:-1]) | (scores[1:] != scores[:-1])
    return np.flatnonzero(first)
