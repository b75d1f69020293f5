"""Columns of examples of which a few pairs were rated, from those pairs alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints64, places_within
from yt8m.eval_util.columns import Columns, take_columns
from yt8m.eval_util.perr import perr_of_rows


class Pairs(NamedTuple):
    """The P rated (example, class) pairs of B examples, those of an example side by side.

    Attributes:
      counts: int64 [B], the pairs of each example.
      classes: int64 [P], ascending within an example.
      scores: float32 [P].
      hits: bool [P], whether the example has the class.
    """

    counts: Ints64
    classes: Ints64
    scores: Floats32
    hits: Bools


def columns_of_pairs(pairs: Pairs, k: int, num_class: int) -> tuple[Columns, Floats64]:
    """The `k` best columns, at most num_class, and PERR [B]: as of dense scores that are -inf elsewhere.

    Raises:
      ValueError: a score is NaN.
    """
    rows = np.repeat(np.arange(len(pairs.counts)), pairs.counts)
    places = places_within(pairs.counts)
    shape = len(pairs.counts), max(k, int(pairs.counts.max(initial=0)))
    scores, hits = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.bool_)
    classes = np.zeros(shape, np.int32)
    scores[rows, places], hits[rows, places], classes[rows, places] = pairs.scores, pairs.hits, pairs.classes
    # A place stands for a class; both ascend, so that ties come out alike.
    by_place = take_columns(scores, hits, k)
    columns = by_place._replace(
        classes=np.take_along_axis(classes, by_place.classes, axis=1),
        label_counts=np.bincount(pairs.classes[pairs.hits], minlength=num_class),
    )
    return columns, perr_of_rows(scores, hits, by_place)
