"""Metrics of rated segments, of which only some (segment, class) pairs were rated.

`mean_average_precision_at_n` is MAP@n of a submission, the measure of the 2019 challenge: each class ranks segments of
all videos. `RatedPairs` computes the same metric in an evaluation, fed batch by batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util import arrays
from yt8m.eval_util.arrays import Bools, Entries, Floats32, Floats64, Ints64
from yt8m.eval_util.average_precision import average_precisions, class_average_precisions
from yt8m.eval_util.top_k import Columns, perr_of_rows, take_columns

MOST_SEGMENTS = 100_000  # n of the challenge's MAP@n, and its limit of segments per class in a submission


class SegmentFigures(NamedTuple):
    """The AP of each of the P classes that have a positive rating, and their mean.

    Attributes:
      map: mean of `aps`; nan if P is 0.
      aps: float64 [P]; 0 for a class that was not submitted.
      aps_class: int64 [P], the class of each AP, ascending.
    """

    map: float
    aps: Floats64
    aps_class: Ints64

    @classmethod
    def of_classes(cls, aps: Floats64, classes: Ints64) -> SegmentFigures:
        """The figures of `classes`, int64 [P], with these `aps`, float64 [P]."""
        return cls(float(aps.mean()) if len(aps) else float("nan"), aps, classes)


class _Ratings(NamedTuple):
    """M different rated (class, segment) pairs.

    Attributes:
      segments: [S], the different names of the rated segments, ascending.
      codes: int64 [M], ascending: class x S + index of the segment in `segments`, for each pair.
      positive: bool [M], whether each pair is positive.
    """

    segments: npt.NDArray[np.str_]
    codes: Ints64
    positive: Bools


def mean_average_precision_at_n(
    submitted_classes: npt.ArrayLike,
    submitted_segments: npt.ArrayLike,
    rated_classes: npt.ArrayLike,
    rated_segments: npt.ArrayLike,
    rated_scores: npt.ArrayLike,
    top_n: int | None = MOST_SEGMENTS,
) -> SegmentFigures:
    """Computes the AP of each class over its rated segments; segments not rated for the class are skipped.

    Ratings are not exhaustive, so an unrated segment gives no information. Recall is over all rated
    positives of the class, submitted or not.

    Args:
      submitted_classes: int [N], the class of each of N submitted pairs.
      submitted_segments: text or bytes [N], `video:start`; the segments of one class come best first,
        the classes in any order. A segment that a class names again is skipped.
      rated_classes: int [M], the class of each of M ratings.
      rated_segments: text or bytes [M], `video:start` of each rating.
      rated_scores: [M], positive if above 0; a pair rated several times is positive if one of its ratings is.
      top_n: number of submitted segments of each class that count, including skipped ones; None for all.
    """
    arrays.require_positive_int(top_n, "top_n", or_none=True)
    ratings = _join_ratings(rated_classes, rated_segments, rated_scores)
    hits, classes = _ranked_ratings(
        *_to_pair_arrays(submitted_classes, submitted_segments, "submitted"), ratings, top_n
    )
    present, total = np.unique(ratings.codes[ratings.positive] // max(len(ratings.segments), 1), return_counts=True)
    judged = np.isin(classes, present)
    lists = np.searchsorted(present, classes[judged])
    aps = average_precisions(lists, np.arange(len(lists)), hits[judged], total)
    return SegmentFigures.of_classes(aps, present)


def _to_pair_arrays(classes: npt.ArrayLike, segments: npt.ArrayLike, name: str) -> tuple[Ints64, npt.NDArray[np.str_]]:
    """The classes of N pairs as int64 [N], and the names of their segments as text [N]."""
    numbers, names = np.asarray(classes, np.int64), np.asarray(segments)
    if numbers.ndim != 1 or numbers.shape != names.shape:
        raise ValueError(
            f"{name} classes and segments must be 1-D and of one length; found {numbers.shape}, {names.shape}"
        )
    if names.dtype.kind == "O" and len(names) and isinstance(names[0], bytes):
        names = names.astype(np.bytes_)
    return numbers, np.char.decode(names, "utf-8") if names.dtype.kind == "S" else names.astype(np.str_)


def _join_ratings(classes: npt.ArrayLike, segments: npt.ArrayLike, scores: npt.ArrayLike) -> _Ratings:
    """Joins several ratings of a pair to one; the arguments are the rated ones of `mean_average_precision_at_n`."""
    numbers, names = _to_pair_arrays(classes, segments, "rated")
    positive = arrays.positive_mask(scores, numbers.shape, "rated_scores")
    segments_rated, index = np.unique(names, return_inverse=True)
    codes, pair = np.unique(numbers * len(segments_rated) + index, return_inverse=True)
    return _Ratings(segments_rated, codes, np.bincount(pair[positive], minlength=len(codes)) > 0)


def _ranked_ratings(
    classes: Ints64, segments: npt.NDArray[np.str_], ratings: _Ratings, top_n: int | None
) -> tuple[Bools, Ints64]:
    """(whether the pair is positive, its class) of each submitted pair that was rated: class by class, best first.

    Only the first `top_n` pairs of a class are read (None: all). A pair that was submitted twice counts once.
    """
    order = np.argsort(classes, kind="stable")
    classes, segments = classes[order], segments[order]
    if top_n is not None:
        is_counted = np.arange(len(classes)) - np.searchsorted(classes, classes) < top_n
        classes, segments = classes[is_counted], segments[is_counted]
    is_rated, index = _find_in_sorted(ratings.segments, segments)
    rated, pair = _find_in_sorted(ratings.codes, classes[is_rated] * len(ratings.segments) + index)
    classes = classes[is_rated][rated]
    first = np.sort(np.unique(pair, return_index=True)[1])
    return ratings.positive[pair[first]], classes[first]


def _find_in_sorted(table: npt.NDArray[np.generic], values: npt.NDArray[np.generic]) -> tuple[Bools, Ints64]:
    """(whether each of `values` is in the sorted `table`, the positions in `table` of those that are)."""
    if not len(table):
        return np.zeros(len(values), np.bool_), np.zeros(0, np.int64)
    place = np.minimum(np.searchsorted(table, values), len(table) - 1)
    present = np.asarray(table[place] == values)
    return present, place[present]


class Pairs(NamedTuple):
    """The P rated (example, class) pairs of B examples; the pairs of an example are adjacent.

    Attributes:
      counts: int64 [B], number of pairs of each example.
      classes: int64 [P], the class of each pair, ascending within an example.
      scores: float32 [P], the score of each pair.
      hits: bool [P], whether the example has the class.
    """

    counts: Ints64
    classes: Ints64
    scores: Floats32
    hits: Bools


def columns_of_pairs(pairs: Pairs, k: int, num_class: int) -> tuple[Columns, Floats64]:
    """The k best classes and the PERR [B] of each example, as if all pairs that were not rated had the score -inf.

    Args:
      k: number of classes, at most num_class.
    """
    rows = np.repeat(np.arange(len(pairs.counts)), pairs.counts)
    places = arrays.places_within(pairs.counts)
    shape = len(pairs.counts), max(k, int(pairs.counts.max(initial=0)))
    scores, hits = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.bool_)
    classes = np.zeros(shape, np.int32)
    scores[rows, places], hits[rows, places], classes[rows, places] = pairs.scores, pairs.hits, pairs.classes
    # A position stands for a class. Positions and classes ascend together, so ties are broken in the same way.
    by_place = take_columns(scores, hits, k)
    columns = by_place._replace(
        classes=np.take_along_axis(classes, by_place.classes, axis=1),
        label_counts=np.bincount(pairs.classes[pairs.hits], minlength=num_class),
    )
    return columns, perr_of_rows(scores, hits, by_place)


class RatedPairs:
    """Collects all rated pairs of any number of batches, in 8 bytes each, and computes their MAP@n."""

    def __init__(self, num_class: int) -> None:
        arrays.require_positive_int(num_class, "num_class")
        self.num_class = int(num_class)
        self._entries = Entries()
        self._positives: Ints64 = np.zeros(self.num_class, np.int64)

    def accumulate(self, classes: Ints64, scores: Floats32, hits: Bools) -> None:
        """Adds rated pairs of any examples.

        Args:
          classes: int [P], each below num_class.
          scores: float32 [P].
          hits: bool [P].
        """
        arrays.refuse_nan(scores)
        self._entries.append(arrays.pack_entries(classes, scores, hits))
        self._positives = self._positives + np.bincount(classes[hits], minlength=self.num_class)

    def merge(self, other: RatedPairs) -> None:
        """Adds all batches of `other`, which stays as it is."""
        if self.num_class != other.num_class:
            raise ValueError(f"cannot merge pairs of {other.num_class} classes into those of {self.num_class}")
        self._entries.extend(other._entries)
        self._positives = self._positives + other._positives

    def get(self, n: int = MOST_SEGMENTS) -> SegmentFigures:
        """MAP@n: the AP of the n best rated segments of each class, and the mean over classes with a positive.

        The same as `mean_average_precision_at_n`, except that tied scores give the mean over all their orders, and that
        n counts rated segments only.
        """
        present = np.flatnonzero(self._positives)
        aps = class_average_precisions(self._entries.all(), self._positives, n)[present]
        return SegmentFigures.of_classes(aps, present)
