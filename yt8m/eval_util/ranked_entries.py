"""The input of the ranking metrics: the ranked entries of examples, and the thirds of the classes.

The classes are divided by how often they occur in the training data: the head is the most frequent third, the tail the
rarest. A model may have a high GAP and yet miss the tail, because most labels are of the head.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from yt8m.eval_util.arrays import Floats64, Ints64, Keys, class_of
from yt8m.eval_util.average_precision import class_average_precisions, global_average_precision

THIRDS = ("head", "middle", "tail")  # names of the thirds, from the most frequent classes to the rarest


def thirds(class_counts: Ints64 | None) -> list[Ints64]:
    """The classes of the head, of the middle and of the tail, most frequent first; an empty list if no count is known.

    If the classes do not divide by three, the earlier thirds are larger by one class. Among equally frequent classes
    the one with the lowest index counts as the more frequent one.

    Args:
      class_counts: [C], number of training videos of each class; None or all 0 if it is not known.
    """
    if class_counts is None or not class_counts.any():
        return []
    return list(np.array_split(np.argsort(-class_counts, kind="stable"), len(THIRDS)))


def third_of_class(class_counts: Ints64) -> Ints64:
    """int64 [C]: whether each class is in the head, the middle or the tail, as an index of `THIRDS`.

    Args:
      class_counts: [C], number of training videos of each class; at least one must be above 0.
    """
    third_of = np.empty(len(class_counts), np.int64)
    for number, classes in enumerate(thirds(class_counts)):
        third_of[classes] = number
    return third_of


@dataclass(frozen=True)
class RankedEntries:
    """The entries of the top_k best classes of each example, and label counts, of one batch or a whole evaluation.

    Attributes:
      label_counts: int64 [C], number of labels of each class.
      top_n: number of best entries of a class that count for its AP; None for all.
      class_counts: int64 [C], number of training videos of each class; None if it is not known.
    """

    keys: Keys
    label_counts: Ints64
    num_examples: int
    top_n: int | None = None
    class_counts: Ints64 | None = None

    @cached_property
    def classes(self) -> Ints64:
        """int64 [P], the classes that have a label."""
        return np.flatnonzero(self.label_counts)

    @cached_property
    def aps(self) -> Floats64:
        """float64 [P], the AP of each of `classes`."""
        return class_average_precisions(self.keys, self.label_counts, self.top_n)[self.classes]

    @cached_property
    def gap(self) -> float:
        """Global average precision: the AP of all entries in one list; 0 if there is no label."""
        return global_average_precision(self.keys, int(self.label_counts.sum()))

    @cached_property
    def gaps_of_thirds(self) -> Floats64:
        """float64 [3], the AP of the entries of each third in one list; nan if no class of the third has a label.

        An entry is still one of the top_k among all classes of an example. Empty if it is not known how frequent the
        classes are.
        """
        counts = self.class_counts
        if counts is None or not counts.any():
            return np.zeros(0)
        third_of = third_of_class(counts)
        labels = np.bincount(third_of, self.label_counts, len(THIRDS)).astype(np.int64).tolist()
        owners = third_of[class_of(self.keys)]
        return np.array(
            [
                global_average_precision(self.keys[owners == number], count) if count else np.nan
                for number, count in enumerate(labels)
            ]
        )

    @cached_property
    def maps_of_thirds(self) -> Floats64:
        """float64 [3], the mAP of each third over its classes that have a label; nan if none of them has one.

        Empty if it is not known how frequent the classes are.
        """
        members = [self.aps[np.isin(self.classes, classes)] for classes in thirds(self.class_counts)]
        return np.array([aps.mean() if len(aps) else np.nan for aps in members])
