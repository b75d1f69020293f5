"""MAP@n over rated (segment, class) pairs, fed batch by batch: the challenge's figure in an evaluation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import (
    Bools,
    Floats32,
    Ints64,
    positive_int,
    positive_mask,
    refuse_nan,
    score_matrix,
)
from yt8m.eval_util.entries import Entries
from yt8m.eval_util.gap import class_average_precisions
from yt8m.eval_util.segments import SegmentFigures
from yt8m.eval_util.sort_keys import pack

MOST = 100_000  # segments that a class of a submission may list


class RatedPairs:
    """Every rated pair of any number of batches, 8 bytes each; no class is left out of any example.

    Args:
      num_class: C.
    """

    def __init__(self, num_class: int) -> None:
        positive_int(num_class, "num_class")
        self.num_class = int(num_class)
        self.clear()

    def clear(self) -> None:
        """Forgets all batches."""
        self._entries = Entries()
        self._positives: Ints64 = np.zeros(self.num_class, np.int64)

    def accumulate(self, scores: npt.ArrayLike, hits: npt.ArrayLike) -> None:
        """Adds a batch.

        Args:
          scores: float [B, C]; -inf where the pair was not rated.
          hits: [B, C], above 0 for positives, of which unrated ones do not count.

        Raises:
          ValueError: shapes differ from [B, num_class], or a score is NaN.
        """
        values = score_matrix(scores, "scores")
        if values.shape[1] != self.num_class:
            raise ValueError(f"scores must have {self.num_class} classes; they have {values.shape[1]}")
        refuse_nan(values)
        positive = positive_mask(hits, values.shape, "hits")
        rows, classes = np.nonzero(values > -np.inf)
        self.accumulate_pairs(classes, values[rows, classes], positive[rows, classes])

    def accumulate_pairs(self, classes: Ints64, scores: Floats32, hits: Bools) -> None:
        """Adds rated pairs, whichever examples they are of.

        Args:
          classes: int [P], each below num_class.
          scores: float32 [P].
          hits: bool [P].

        Raises:
          ValueError: a score is NaN.
        """
        refuse_nan(scores)
        self._entries.append(pack(classes, scores, hits))
        self._positives = self._positives + np.bincount(classes[hits], minlength=self.num_class)

    def merge(self, other: RatedPairs) -> None:
        """Adds all batches of `other`, which stays as it is.

        Raises:
          ValueError: num_class differs.
        """
        if self.num_class != other.num_class:
            raise ValueError(
                f"cannot merge pairs of {other.num_class} classes into those of {self.num_class}"
            )
        self._entries.extend(other._entries)
        self._positives = self._positives + other._positives

    def get(self, n: int = MOST) -> SegmentFigures:
        """MAP@n: each class ranks its rated segments; the mean over classes with a positive (nan for none).

        As in `segments.mean_average_precision_at_n`, but ties are the mean over all their orders.
        """
        present = np.flatnonzero(self._positives)
        aps = class_average_precisions(self._entries.all(), self._positives, n)[present]
        return SegmentFigures(float(aps.mean()) if len(aps) else float("nan"), aps, present)
