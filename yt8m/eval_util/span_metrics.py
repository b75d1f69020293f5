"""Average precision of spans in time, as ActivityNet's evaluation defines it (Caba Heilbron et al., CVPR 2015).

The predicted spans of a class are taken from the best score on. Each takes the true span of its video and class with
the largest tIoU, the length of what both share divided by the length of what either covers, among those that no better
one has taken. It is right if that tIoU reaches the threshold. AP is the area under the interpolated curve of precision
and recall: at each recall, the largest precision at that recall or a higher one counts. mAP is the mean over the
classes that have a true span, and the average mAP is the mean over the thresholds 0.5, 0.55, ..., 0.95.

Of equal scores, the span that was given first is taken first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.eval_util.arrays import Bools, Floats64, Ints64

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)  # of tIoU, for which mAP is shown
AVERAGED = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))  # those of the average mAP
ALL = tuple(sorted({*THRESHOLDS, *AVERAGED}))


class SpanTable(NamedTuple):
    """Spans of any number of videos and classes; all arrays are [N].

    Attributes:
      videos, classes: int64, the index of the video and the class of each span.
      starts, ends: float64, in any unit.
      scores: float64; of true spans they have no meaning.
    """

    videos: Ints64
    classes: Ints64
    starts: Floats64
    ends: Floats64
    scores: Floats64

    @property
    def size(self) -> int:
        """The number of spans."""
        return int(self.starts.size)

    def at(self, rows: NDArray[np.int64]) -> SpanTable:
        """The spans at some places, in this order."""
        videos, classes, starts, ends, scores = self
        return SpanTable(videos[rows], classes[rows], starts[rows], ends[rows], scores[rows])


class SpanFigures(NamedTuple):
    """The figures of predicted spans.

    Attributes:
      classes: int64 [K], the classes with a true span.
      aps: float64 [K, thresholds], for the thresholds `ALL`; nan for a class that has no true span in a resample.
    """

    classes: Ints64
    aps: Floats64

    def mean_ap(self, threshold: float) -> float:
        """mAP at a threshold of tIoU; nan without a true span."""
        aps = self.aps[:, ALL.index(threshold)]
        return float(np.nanmean(aps)) if not np.isnan(aps).all() else float("nan")

    @property
    def average_map(self) -> float:
        """The mean of mAP over the thresholds `AVERAGED`; nan without a true span."""
        return float(np.mean([self.mean_ap(threshold) for threshold in AVERAGED]))


def overlap(starts: Floats64, ends: Floats64, other_starts: Floats64, other_ends: Floats64) -> Floats64:
    """The tIoU of pairs of spans; 0 if neither has a length."""
    shared = np.clip(np.minimum(ends, other_ends) - np.maximum(starts, other_starts), 0, None)
    covered = (ends - starts) + (other_ends - other_starts) - shared
    return np.asarray(np.divide(shared, covered, out=np.zeros(shared.shape), where=covered > 0))


class MatchedSpans:
    """Predicted spans, each right or wrong at each threshold; computes figures, also of resampled videos."""

    def __init__(self, truth: SpanTable, predicted: SpanTable, thresholds: tuple[float, ...] = ALL) -> None:
        order = np.lexsort((-predicted.scores, predicted.classes))  # stable: of equal scores the first one comes first
        self._predicted, self._truth = predicted.at(order), truth
        self._thresholds = np.array(thresholds)
        self.is_right = _match(truth, self._predicted, self._thresholds)
        self.classes = np.unique(truth.classes)

    def figures(self, counts: Ints64 | None = None) -> SpanFigures:
        """The figures if each video is repeated `counts` times, int64 [videos]; by default once."""
        aps = np.zeros((self.classes.size, self._thresholds.size))
        for row, number in enumerate(self.classes.tolist()):
            first, last = np.searchsorted(self._predicted.classes, [number, number + 1])
            of_class = self._truth.videos[self._truth.classes == number]
            videos = self._predicted.videos[first:last]
            weights = np.ones(videos.size) if counts is None else counts[videos].astype(np.float64)
            total = of_class.size if counts is None else int(counts[of_class].sum())
            aps[row] = _interpolated(self.is_right[:, first:last], weights, total)
        return SpanFigures(self.classes, aps)


def _match(truth: SpanTable, predicted: SpanTable, thresholds: Floats64) -> Bools:
    """bool [thresholds, N]: whether each predicted span, sorted from the best of its class, is right.

    The spans of a class and a video do not compete with others. So the best span of every such group is matched at
    once, then the second one of every group, and so on.
    """
    width = int(max(truth.videos.max(initial=0), predicted.videos.max(initial=0))) + 1
    groups, true_groups = (table.classes * width + table.videos for table in (predicted, truth))
    order = np.argsort(true_groups, kind="stable")
    sorted_groups = true_groups[order]
    first, last = (np.searchsorted(sorted_groups, groups, side=side) for side in ("left", "right"))
    rank = _ranks_in_groups(groups)
    is_right = np.zeros((thresholds.size, predicted.size), bool)
    is_taken = np.zeros((thresholds.size, truth.size), bool)
    candidates = np.flatnonzero(last > first)
    by_rank = candidates[np.argsort(rank[candidates], kind="stable")]
    for rows in np.split(by_rank, np.flatnonzero(np.diff(rank[by_rank])) + 1) if by_rank.size else ():
        counts = (last - first)[rows]
        owners = np.repeat(rows, counts)
        offsets = np.cumsum(counts) - counts
        trues = order[np.repeat(first[rows] - offsets, counts) + np.arange(owners.size)]
        shared = overlap(*(predicted.starts[owners], predicted.ends[owners]), *(truth.starts[trues], truth.ends[trues]))
        for index, threshold in enumerate(thresholds.tolist()):
            free = np.where(is_taken[index, trues], -1.0, shared)
            best = np.maximum.reduceat(free, offsets)
            is_best = free == np.repeat(best, counts)
            place = np.minimum.reduceat(np.where(is_best, np.arange(owners.size), owners.size), offsets)
            hits = best >= threshold
            is_right[index, rows] = hits
            is_taken[index, trues[place[hits]]] = True
    return is_right


def _ranks_in_groups(groups: Ints64) -> Ints64:
    """int64 [N], how many earlier items have the same group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    ranks = np.empty(groups.size, np.int64)
    ranks[order] = np.arange(groups.size) - np.repeat(starts, np.diff(starts, append=groups.size))
    return ranks


def _interpolated(is_right: Bools, weights: Floats64, total: int) -> Floats64:
    """The AP of one class at each threshold, [thresholds]; each span counts `weights` times, [N]."""
    if not total:
        return np.full(is_right.shape[0], np.nan)
    if not weights.sum():
        return np.zeros(is_right.shape[0])
    right = np.cumsum(is_right * weights, axis=1)
    count = np.cumsum(weights)
    precision = np.divide(right, count, out=np.zeros(right.shape), where=count > 0)
    best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    return np.asarray((is_right * weights * best).sum(axis=1) / total)
