"""MAP@n of ranked segments, the measure of the 2019 challenge: each class ranks segments of all videos."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Floats64, Ints64, positive_int, positive_mask
from yt8m.eval_util.precision import average_precisions


class SegmentFigures(NamedTuple):
    """mAP over the classes that have a positive rating (nan where none has), and the AP of each.

    Attributes:
      map: mean of `aps`.
      aps: float64 [P]; 0 for a class that was not submitted.
      aps_class: int64 [P], ascending.
    """

    map: float
    aps: Floats64
    aps_class: Ints64


class _Ratings(NamedTuple):
    """The rated pairs, as ascending codes of (class, segment), and which are positive."""

    segments: npt.NDArray[np.str_]
    codes: Ints64
    positive: Bools


def mean_average_precision_at_n(
    submitted_classes: npt.ArrayLike,
    submitted_segments: npt.ArrayLike,
    rated_classes: npt.ArrayLike,
    rated_segments: npt.ArrayLike,
    rated_scores: npt.ArrayLike,
    top_n: int | None = 100_000,
) -> SegmentFigures:
    """AP of each class over its rated segments; segments not rated for the class are skipped.

    Ratings are not exhaustive, so a segment that nobody rated says nothing. Recall is over all rated
    positives of the class, submitted or not.

    Args:
      submitted_classes: int [N].
      submitted_segments: text or bytes [N], `video:start`; those of one class come best first, the
        classes in any order. A segment that a class names again is skipped.
      rated_classes: int [M].
      rated_segments: text or bytes [M].
      rated_scores: [M], positive where above 0; a pair rated several times is positive if any is.
      top_n: only so many submitted segments of each class are looked at, skipped ones among them;
        None for all.

    Raises:
      ValueError: lengths differ, or top_n is not positive.
    """
    if top_n is not None:
        positive_int(top_n, "top_n")
    ratings = _ratings(rated_classes, rated_segments, rated_scores)
    hits, classes = _ranked_ratings(
        *_pairs(submitted_classes, submitted_segments, "submitted"), ratings, top_n
    )
    present, total = np.unique(
        ratings.codes[ratings.positive] // max(len(ratings.segments), 1), return_counts=True
    )
    judged = np.isin(classes, present)
    lists = np.searchsorted(present, classes[judged])
    aps = average_precisions(lists, np.arange(len(lists)), hits[judged], total)
    return SegmentFigures(float(aps.mean()) if len(aps) else float("nan"), aps, present)


def _pairs(classes: npt.ArrayLike, segments: npt.ArrayLike, name: str) -> tuple[Ints64, npt.NDArray[np.str_]]:
    numbers, names = np.asarray(classes, np.int64), np.asarray(segments)
    if numbers.ndim != 1 or numbers.shape != names.shape:
        raise ValueError(
            f"{name} classes and segments must be as many; found {numbers.shape} and {names.shape}"
        )
    if names.dtype.kind == "O" and len(names) and isinstance(names[0], bytes):
        names = names.astype(np.bytes_)
    return numbers, np.char.decode(names, "utf-8") if names.dtype.kind == "S" else names.astype(np.str_)


def _ratings(classes: npt.ArrayLike, segments: npt.ArrayLike, scores: npt.ArrayLike) -> _Ratings:
    numbers, names = _pairs(classes, segments, "rated")
    positive = positive_mask(scores, numbers.shape, "rated_scores")
    known, index = np.unique(names, return_inverse=True)
    codes, pair = np.unique(numbers * len(known) + index, return_inverse=True)
    return _Ratings(known, codes, np.bincount(pair[positive], minlength=len(codes)) > 0)


def _ranked_ratings(
    classes: Ints64, segments: npt.NDArray[np.str_], ratings: _Ratings, top_n: int | None
) -> tuple[Bools, Ints64]:
    """What was submitted and is rated, by class and then from the best: positive or not, and class."""
    order = np.argsort(classes, kind="stable")
    classes, segments = classes[order], segments[order]
    if top_n is not None:
        kept = np.arange(len(classes)) - np.searchsorted(classes, classes) < top_n
        classes, segments = classes[kept], segments[kept]
    known, index = _found(ratings.segments, segments)
    rated, pair = _found(ratings.codes, classes[known] * len(ratings.segments) + index)
    classes = classes[known][rated]
    first = np.sort(np.unique(pair, return_index=True)[1])
    return ratings.positive[pair[first]], classes[first]


def _found(table: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic]) -> tuple[Bools, Ints64]:
    """Which of `wanted` are in the sorted `table`, and where those that are stand in it."""
    if not len(table):
        return np.zeros(len(wanted), np.bool_), np.zeros(0, np.int64)
    place = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    present = np.asarray(table[place] == wanted)
    return present, place[present]
