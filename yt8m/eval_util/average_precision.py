"""Average precision (AP) of ranked lists: of many lists at once, of one list fed in parts, of each class.

AP = sum over the positives of (precision at their rank) / number of positives. If items tie, AP is the mean over all
orders of the tied items, in closed form: F. McSherry and M. Najork, Computing Information Retrieval Performance
Measures Efficiently in the Presence of Tied Scores (ECIR 2008). So AP depends only on scores and labels, not on the
order in which items arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util import arrays
from yt8m.eval_util.arrays import Bools, Floats64, Ints64, Keys


class _Blocks(NamedTuple):
    """Blocks: neighbouring items of one list with the same score. All arrays are int64 with one entry per block."""

    lists: Ints64
    rank: Ints64
    before: Ints64
    size: Ints64
    positives: Ints64


def average_precisions(
    lists: Ints64, starts: Ints64, hits: Bools, num_positives: Ints64 | Floats64, n: int | None = None
) -> Floats64:
    """Average precision of L lists, each sorted from its best item.

    Args:
      lists: [N], the list of each item, non-decreasing, in 0..L-1.
      starts: ascending indexes of the items at which a block (items of one list with the same score) begins.
      hits: [N], whether each item is a positive.
      num_positives: [L], number of positives of each list, including those that are not among the items.
      n: only the first n ranks count, and the divisor is at most n; None for all ranks and positives.

    Returns:
      The AP of each list, [L]; 0 for a list without positives.
    """
    blocks = _blocks_with_positives(lists, starts, hits, len(num_positives))
    counted = blocks.size if n is None else np.clip(n - blocks.rank, 0, blocks.size)
    sums = np.bincount(
        np.repeat(blocks.lists, counted), weights=_expected_precisions(blocks, counted), minlength=len(num_positives)
    )
    total = num_positives if n is None else np.minimum(num_positives, n)
    return np.divide(sums, total, out=np.zeros(len(total)), where=total > 0)


def _blocks_with_positives(lists: Ints64, starts: Ints64, hits: Bools, num_lists: int) -> _Blocks:
    """The blocks that hold a positive: only positives add to AP, and most blocks hold none."""
    hit_places = np.flatnonzero(hits)
    block, positives = _count_values(np.searchsorted(starts, hit_places, side="right") - 1)
    first = starts[block]
    end = np.where(block + 1 < len(starts), starts[np.minimum(block + 1, len(starts) - 1)], len(hits))
    owner = lists[first]
    list_start = np.searchsorted(lists, np.arange(num_lists))[owner]
    before = np.searchsorted(hit_places, first) - np.searchsorted(hit_places, list_start)
    return _Blocks(owner, first - list_start, before, end - first, positives)


def _count_values(ascending: Ints64) -> tuple[Ints64, Ints64]:
    """The distinct values of a sorted array, and how often each occurs; `np.unique` would sort the array again."""
    starts = np.flatnonzero(np.diff(ascending, prepend=-1))
    return ascending[starts], np.diff(starts, append=len(ascending))


def _expected_precisions(blocks: _Blocks, counted: Ints64) -> Floats64:
    """For each counted rank, its mean share of the sum of precisions if tied items come in random order.

    A block is a run of items with equal scores; its `counted` first ranks count.

    Args:
      counted: [B], number of ranks of each block that count, from its first.

    Returns:
      [sum of counted], block after block: the chance that the item at the rank is positive, times the mean precision
      there if it is.
    """
    place = arrays.places_within(counted)
    share = blocks.positives / blocks.size
    others = (blocks.positives - 1) / np.maximum(blocks.size - 1, 1)
    precision = np.repeat(blocks.before + 1, counted) + place * np.repeat(others, counted)
    return np.asarray(np.repeat(share, counted) * precision / (np.repeat(blocks.rank + 1, counted) + place))


def global_average_precision(entries: Keys, num_positives: int) -> float:
    """AP of all packed entries as one list, whatever their classes; 0 if there is no positive."""
    return float(class_average_precisions(arrays.without_class(entries), np.array([num_positives]))[0])


def class_average_precisions(entries: Keys, num_positives: Ints64, n: int | None = None) -> Floats64:
    """[C], the AP of each class over its own entries; 0 for a class without positives.

    Args:
      num_positives: [C], number of positives of each class, including those that are not among the entries.
      n: number of best entries of each class that count; None for all.
    """
    keys = np.sort(entries)
    return average_precisions(arrays.class_of(keys), arrays.block_starts(keys), arrays.hit_of(keys), num_positives, n)


# `ScoredLists` holds at least this many items before it removes those below the n best of their lists; for fewer, the
# sorting costs more than it saves.
_MIN_ITEMS_TO_DROP = 4096


class ScoredLists:
    """Collects the items of L lists, and computes the AP of each list. Scores are float64.

    With `top_n`, items that cannot be among a list's n best any more are removed from time to time, so memory grows
    with num_lists x top_n. All items that tie with the n-th best stay, since each of them changes the AP.

    Args:
      top_n: how many items of each list count, the best ones; None for all.

    Attributes:
      num_positives: float64 [L], number of positives of each list so far.
    """

    def __init__(self, num_lists: int, top_n: int | None = None) -> None:
        arrays.require_positive_int(top_n, "top_n", or_none=True)
        self.top_n = top_n
        self._num_lists = num_lists
        self.clear()

    def clear(self) -> None:
        """Forgets everything."""
        self.num_positives: Floats64 = np.zeros(self._num_lists)
        self._seen: Ints64 = np.zeros(self._num_lists, np.int64)
        self._parts: list[tuple[Ints64, Floats64, Bools]] = []
        self._limit = _MIN_ITEMS_TO_DROP

    @property
    def sizes(self) -> Ints64:
        """int64 [L], number of items of each list that count: at most top_n."""
        return self._seen if self.top_n is None else np.minimum(self._seen, self.top_n)

    def append(self, lists: Ints64, scores: Floats64, hits: Bools, num_positives: npt.ArrayLike | None = None) -> None:
        """Adds N items.

        Args:
          lists: [N], the list of each item.
          scores: [N].
          hits: [N], whether each item is a positive.
          num_positives: [L], number of positives of each list in this part, including those that are not among its
            items; None to count those among the items.
        """
        arrays.refuse_nan(scores)
        if num_positives is None:
            num_positives = np.bincount(lists[hits], minlength=self._num_lists)
        self.num_positives = self.num_positives + np.asarray(num_positives)
        self._seen = self._seen + np.bincount(lists, minlength=self._num_lists)
        self._parts.append((lists, scores, hits))
        if self.top_n is not None and sum(len(part[0]) for part in self._parts) > self._limit:
            self._drop_below_top_n(self.top_n)

    def _sorted_items(self) -> tuple[Ints64, Floats64, Bools]:
        """(list, score, whether it is a positive) of all items, list after list, each from its best item."""
        if not self._parts:
            return np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_)
        lists, scores, hits = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        order = np.lexsort((-scores, lists))
        return lists[order], scores[order], hits[order]

    def _drop_below_top_n(self, top_n: int) -> None:
        """Removes the items that are below the n best of their list, unless they tie with the n-th best."""
        lists, scores, hits = self._sorted_items()
        starts = _block_starts(lists, scores)
        rank = starts - np.searchsorted(lists, lists[starts])
        is_kept = np.repeat(rank < top_n, np.diff(starts, append=len(lists)))
        self._parts = [(lists[is_kept], scores[is_kept], hits[is_kept])]
        self._limit = max(_MIN_ITEMS_TO_DROP, 2 * int(is_kept.sum()))

    def average_precisions(self) -> Floats64:
        """The AP of each list, float64 [L]; 0 for a list without positives or items."""
        lists, scores, hits = self._sorted_items()
        return average_precisions(lists, _block_starts(lists, scores), hits, self.num_positives, self.top_n)


def _block_starts(lists: Ints64, scores: Floats64) -> Ints64:
    """The indexes of sorted items at which the list or the score changes."""
    is_start = np.ones(len(lists), np.bool_)
    is_start[1:] = (lists[1:] != lists[:-1]) | (scores[1:] != scores[:-1])
    return np.flatnonzero(is_start)


class AveragePrecisionCalculator:
    """AP of one ranked list, or of its n best items. Scores may have any range.

    If scores tie, the AP is the mean over all orders of the tied items.

    >>> AveragePrecisionCalculator.ap([0.9, 0.5, 0.1], [1, 0, 1])
    0.8333333333333333
    """

    def __init__(self, top_n: int | None = None) -> None:
        """Makes an empty list, of which only the `top_n` best items count; None for all."""
        self._items = ScoredLists(1, top_n)

    @property
    def heap_size(self) -> int:
        """The number of items that count: at most top_n."""
        return int(self._items.sizes[0])

    @property
    def num_accumulated_positives(self) -> float:
        """The number of positives so far, as counted or as given to `accumulate`."""
        return float(self._items.num_positives[0])

    def accumulate(
        self, predictions: npt.ArrayLike, actuals: npt.ArrayLike, num_positives: float | None = None
    ) -> None:
        """Adds N items.

        Args:
          predictions: [N] scores.
          actuals: [N]; an item is a positive if its value is above 0.
          num_positives: number of positives of this part, including those that are not among its items; None to count
            those among the items.

        Raises:
          ValueError: shapes differ or are not 1-D, a score is NaN, or num_positives is negative.
        """
        if num_positives is not None and not num_positives >= 0:
            raise ValueError(f"num_positives must be 0 or more; it is {num_positives}")
        scores, hits = _check_list(predictions, actuals)
        total = None if num_positives is None else [num_positives]
        self._items.append(np.zeros(len(scores), np.int64), scores, hits, total)

    def clear(self) -> None:
        """Forgets everything."""
        self._items.clear()

    def peek_ap_at_n(self) -> float:
        """AP of the items so far: sum of precisions / min(number of positives, top_n); 0 if there is no positive."""
        return float(self._items.average_precisions()[0])

    @staticmethod
    def ap(predictions: npt.ArrayLike, actuals: npt.ArrayLike) -> float:
        """AP of a list, all items of which count. Arguments and errors are those of `accumulate`."""
        return AveragePrecisionCalculator.ap_at_n(predictions, actuals, n=None)

    @staticmethod
    def ap_at_n(
        predictions: npt.ArrayLike, actuals: npt.ArrayLike, n: int | None = 20, total_num_positives: float | None = None
    ) -> float:
        """AP of the n best items of a list.

        Args:
          predictions: [N] scores.
          actuals: [N]; an item is a positive if its value is above 0.
          n: number of best items; None for all items.
          total_num_positives: number of positives, including those that are not among the items; None to count those
            among the items. If this is less than the number among the items, the result may exceed 1.

        Raises:
          ValueError: shapes differ or are not 1-D, a score is NaN, n is not positive, or total_num_positives is
            negative.
        """
        arrays.require_positive_int(n, "n", or_none=True)
        calculator = AveragePrecisionCalculator(n)
        calculator.accumulate(predictions, actuals, total_num_positives)
        return calculator.peek_ap_at_n()


def _check_list(predictions: npt.ArrayLike, actuals: npt.ArrayLike) -> tuple[Floats64, Bools]:
    """(scores, whether each item is a positive), [N] each; raises ValueError if the shapes are not equal and 1-D."""
    scores = np.asarray(predictions, np.float64)
    if scores.ndim != 1:
        raise ValueError(f"predictions must be one list; the shape is {scores.shape}")
    return scores, arrays.positive_mask(actuals, scores.shape)


# Scores or labels by class: one list per class (lengths may differ), or an array [C, N].
ByClass = Sequence[npt.ArrayLike] | npt.NDArray[np.floating | np.integer | np.bool_]


class MeanAveragePrecisionCalculator:
    """AP (or AP at n) of each class; their mean is mAP."""

    def __init__(self, num_class: int, filter_empty_classes: bool = True, top_n: int | None = None) -> None:
        """Makes a calculator without items.

        Args:
          filter_empty_classes: leave classes without a positive out of the result; otherwise their AP is 0.
          top_n: number of best items of each class that count; None for all.
        """
        arrays.require_positive_int(num_class, "num_class")
        self._num_class = num_class
        self._filter = filter_empty_classes
        self._items = ScoredLists(num_class, top_n)

    def accumulate(
        self, predictions: ByClass, actuals: ByClass, num_positives: Sequence[float] | Ints64 | None = None
    ) -> None:
        """Adds items to each class.

        Args:
          predictions: C lists of scores, one for each class.
          actuals: C lists, each as long as the list of scores of the same class; an item is a positive if its value is
            above 0.
          num_positives: [C], number of positives of this part, including those that are not among the items; None to
            count those among the items.

        Raises:
          ValueError: there are not C lists, lengths differ, a score is NaN, or a count is negative.
        """
        lengths = np.fromiter(map(np.size, predictions), np.int64)
        lengths_of_actuals = np.fromiter(map(np.size, actuals), np.int64)
        if len(lengths) != self._num_class or len(lengths_of_actuals) != self._num_class:
            raise ValueError(
                f"predictions and actuals must be {self._num_class} lists each, one for each class; "
                f"there are {len(lengths)} and {len(lengths_of_actuals)}"
            )
        if not np.array_equal(lengths, lengths_of_actuals):
            number = int(np.flatnonzero(lengths != lengths_of_actuals)[0])
            raise ValueError(
                f"class {number} has {lengths[number]} predictions and {lengths_of_actuals[number]} actuals; these "
                "numbers must be equal"
            )
        if num_positives is not None and (len(num_positives) != len(lengths) or min(num_positives) < 0):
            raise ValueError(
                f"num_positives must be {self._num_class} counts, each 0 or more; there are {len(num_positives)}, the "
                f"smallest is {min(num_positives, default=None)}"
            )
        scores, marks = (np.concatenate([np.ravel(part) for part in lists]) for lists in (predictions, actuals))
        owners = np.repeat(np.arange(self._num_class), lengths)
        self._items.append(owners, scores.astype(np.float64), np.asarray(marks > 0), num_positives)

    def clear(self) -> None:
        """Forgets everything."""
        self._items.clear()

    def is_empty(self) -> bool:
        """Whether no class has an item."""
        return not self._items.sizes.any()

    def peek_map_at_n(self) -> Floats64:
        """AP of each class, in the order of the classes: [C], or shorter if classes without a positive are left out."""
        aps = self._items.average_precisions()
        return aps[self._items.num_positives > 0] if self._filter else aps
