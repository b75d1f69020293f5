"""Confidence intervals of metrics, by resampling videos with replacement (the bootstrap).

B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), chapters 10 and 13.

The AP of a class with few labels is too high, because the precision at a label counts that label itself. For example,
one label at a random place among 100 videos has on average an AP of 0.05, not 0.01. So mAP of few videos is too high,
and resamples of the videos do not show by how much (K. Boyd, K. H. Eng and C. D. Page, Area under the Precision-Recall
Curve: Point Estimates and Confidence Intervals, ECML PKDD 2013). The intervals of AP and of its means are therefore
computed from a corrected AP, see `_RepeatedLists.corrected`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from yt8m.eval_util import arrays
from yt8m.eval_util.arrays import Floats64, Ints32, Ints64, Keys
from yt8m.eval_util.metrics import (
    THIRDS,
    Gap,
    MeanAveragePrecision,
    MeanMetric,
    Metric,
    ScoredBatch,
    metrics,
    third_of_class,
    thirds,
)
from yt8m.eval_util.videos import Videos

MOST_CLASS_APS = 1000  # largest number of resamples whose APs of the classes are kept: 30 MB with 3862 classes
# Drawn sets of videos are computed in groups, so many at once that they have about this many ranked entries together.
ENTRIES_AT_ONCE = 100_000


class Resampled(NamedTuple):
    """The metrics of R sets of videos, the resamples.

    Attributes:
      figures: {key of the metric: float64 [R]}; mAP is the mean of the corrected APs.
      class_aps: float64 [min(R, MOST_CLASS_APS), C], corrected AP of each class; nan for a class without a label in
        the set.
      excess: float64 [C], by how much the AP of each class over the videos themselves, each once, is above the
        corrected AP; nan for a class without a label.
    """

    figures: Mapping[str, Floats64]
    class_aps: Floats64
    excess: Floats64


def resample(
    videos: Videos,
    num_classes: int,
    resamples: int,
    seed: int,
    with_progress: Callable[[Iterable[int]], Iterable[int]] = iter,
    metric_classes: Sequence[type[Metric]] = (),
    class_counts: Ints64 | None = None,
) -> Resampled:
    """Draws sets of videos; computes GAP, mAP, the AP of each class, and the metrics that are means, of each set.

    Each of the R sets has as many videos as `videos`, drawn from them with replacement. The same seed and number of
    videos draw the same sets. So the metrics of two models on the same videos (in the same order) may be subtracted,
    set by set. Each value is exactly what `EvaluationMetrics` gives for the videos of the set, except for AP and mAP,
    which are corrected.

    Args:
      videos: the videos to draw from, at least one.
      resamples: number of sets, R, at least 1.
      class_counts: [C], number of training videos of each class. If it is known, GAP and mAP of head, middle and tail
        are computed too.
    """
    generator, size = np.random.default_rng(seed), len(videos)
    resampler = _Resampler(videos, num_classes, (*metrics.all(), *metric_classes), class_counts)
    sets = (np.bincount(generator.integers(size, size=size), minlength=size) for _ in with_progress(range(resamples)))
    rows, class_aps = [], np.empty((min(resamples, MOST_CLASS_APS), num_classes))
    at_once, number = max(1, ENTRIES_AT_ONCE // max(1, videos.scores.size)), 0
    while counts := list(itertools.islice(sets, at_once)):
        figures, aps = resampler.figures(np.array(counts))
        rows.append(figures)
        class_aps[number : number + len(aps)] = aps[: max(0, len(class_aps) - number)]
        number += len(aps)
    by_key = {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}
    return Resampled(by_key, class_aps, resampler.excess(np.ones(size, np.int64)))


class Interval(NamedTuple):
    """A confidence interval: its lower and upper bound."""

    low: float
    high: float


def wilson_interval(share: float, count: int, level: float = 0.95) -> Interval:
    """Wilson's confidence interval of a probability, from the observed `share` of `count` independent examples.

    Use it for few examples: intervals from resamples then contain the probability too rarely, above all near 0 and 1.
    `level` is how often such intervals contain the probability.

    Source: E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, Journal of the American
    Statistical Association 22 (1927).
    """
    width = NormalDist().inv_cdf((1 + level) / 2) ** 2 / count
    middle, half = share + width / 2, math.sqrt(width * (share * (1 - share) + width / 4))
    return Interval(max(0.0, (middle - half) / (1 + width)), min(1.0, (middle + half) / (1 + width)))


def interval(
    figure: float, resampled: Floats64, shrink: float = 1.0, level: float = 0.95, least: float | None = 0.0
) -> Interval:
    """The percentile interval: the middle `level` of the resamples, shifted so that their median is `figure`.

    The resamples are shifted because each lacks some of the rare classes and repeats videos. That makes its mAP
    higher than that of the videos themselves, so only the spread of the resamples is meaningful. Shares are shifted
    and shrunk on the scale arcsin(sqrt(x)), which stabilises the variance of a share, and stop at the ends of that
    scale. So the interval never leaves the range of the figure, and it always contains the figure.

    Source of the scale: F. J. Anscombe, The transformation of Poisson, binomial and negative-binomial data,
    Biometrika 35 (1948).

    Args:
      figure: the value over all videos, from `least` to 1; corrected, if the resamples are.
      resampled: [R], the values of the resamples; nan (not defined) is left out.
      shrink: factor by which the spread is multiplied. If the resampled videos are themselves a sample of all videos,
        give the square root of the sample's share.
      level: the share of the resamples between the bounds.
      least: lower end of the range of a share: 0, or -1 for a difference of two shares. None for a figure that is no
        share, such as the loss: it is shifted and shrunk on its own scale, which has no ends.
    """
    low, high = intervals(np.array([figure]), resampled[:, np.newaxis], shrink, level, least)
    return Interval(float(low[0]), float(high[0]))


def intervals(
    figures: Floats64, resampled: Floats64, shrink: float = 1.0, level: float = 0.95, least: float | None = 0.0
) -> tuple[Floats64, Floats64]:
    """The lower and the upper bounds, float64 [P] each, of `interval` for P values.

    Args:
      figures: [P], each as for `interval`.
      resampled: [R, P], the values of R resamples; the bounds of a column of nothing but nan are nan.
    """
    shares = np.array([(1 - level) / 2, 0.5, (1 + level) / 2])
    if least is None:
        start, middle, end = _quantiles(resampled, shares)
        return figures + shrink * (start - middle), figures + shrink * (end - middle)
    start, middle, end = _quantiles(_angles(resampled, least), shares)
    bounds = []
    for edge in (start, end):
        moved = np.clip(_angles(figures, least) + shrink * (edge - middle), 0, np.pi / 2)
        bounds.append(least + (1 - least) * np.sin(moved) ** 2)
    return bounds[0], bounds[1]


def _quantiles(values: Floats64, shares: Floats64) -> Floats64:
    """float64 [len(shares), P], the quantiles `shares` of each column without its nans, as in `np.quantile`."""
    ranked = np.sort(values, axis=0)  # nans go last
    counts = np.count_nonzero(~np.isnan(ranked), axis=0)
    place = shares[:, np.newaxis] * np.maximum(counts - 1, 0)
    lower = np.floor(place).astype(np.int64)
    columns = np.arange(values.shape[1])
    below, above = ranked[lower, columns], ranked[np.minimum(lower + 1, np.maximum(counts - 1, 0)), columns]
    return np.asarray(below + (place - lower) * (above - below))


def _angles(figures: Floats64, least: float) -> Floats64:
    """Maps values to angles, from 0 for `least` to pi/2 for 1; values outside, from rounding, are clipped."""
    return np.asarray(np.arcsin(np.sqrt(np.clip((figures - least) / (1 - least), 0, 1))))


def means_of_rows(values: Floats64) -> Floats64:
    """float64 [R], the mean of each row of [R, C] values without its nans; nan for a row of nans."""
    defined = ~np.isnan(values)
    sizes = np.count_nonzero(defined, axis=1)
    return np.where(sizes > 0, np.where(defined, values, 0).sum(1) / np.maximum(sizes, 1), np.nan)


class _Resampler:
    """Computes the metrics of bootstrap resamples, in which a video may occur several times or not at all.

    The (video, class) entries are sorted by score once, in the constructor: a resample changes how often each of them
    counts, not their order.
    """

    def __init__(
        self, videos: Videos, num_classes: int, metric_classes: Sequence[type[Metric]], class_counts: Ints64 | None
    ) -> None:
        """Sorts the entries of the videos; the arguments are those of `resample`."""
        columns = videos.columns(num_classes)
        self._labels, self._owners, self._num_classes = videos.labels, videos.owners(), num_classes
        batch = ScoredBatch(columns, videos.perr, videos.losses)
        means = {metric.key: metric.of_examples(batch) for metric in metric_classes if issubclass(metric, MeanMetric)}
        self._means = {key: np.asarray(values) for key, values in means.items() if values is not None}
        keys = columns.entries(columns.scores.shape[1])
        rows = np.repeat(np.arange(len(videos)), np.count_nonzero(columns.ranked, axis=1))
        self._by_class = _RepeatedLists(keys, rows, num_classes)
        self._pooled = _RepeatedLists(arrays.without_class(keys), rows, 1)
        self._thirds = thirds(class_counts)
        if self._thirds:
            self._third_of = third_of_class(np.asarray(class_counts))
            self._by_third = _RepeatedLists(
                arrays.with_class(keys, self._third_of[arrays.class_of(keys)]), rows, len(self._thirds)
            )

    def figures(self, counts: Ints64) -> tuple[dict[str, Floats64], Floats64]:
        """Computes R resamples: the metrics, {key: float64 [R]}, and the corrected AP of each class, float64 [R, C].

        Args:
          counts: int64 [R, N], how often each resample has each video.
        """
        label_counts = self._label_counts(counts)
        by_class = self._by_class.corrected(counts, label_counts)
        pooled = self._pooled.average_precisions(counts, label_counts.sum(-1, keepdims=True))
        return {key: counts @ values / counts.sum(-1) for key, values in self._means.items()} | {
            Gap.key: np.nan_to_num(pooled[:, 0]),
            MeanAveragePrecision.key: means_of_rows(by_class),
            **self._figures_of_thirds(counts, label_counts, by_class),
        }, by_class

    def _figures_of_thirds(self, counts: Ints64, label_counts: Floats64, by_class: Floats64) -> dict[str, Floats64]:
        """{key: float64 [R]} of GAP and corrected mAP of each third of the classes; {} if frequencies are not known.

        Args:
          counts: int64 [R, N], how often each resample has each video.
          label_counts: float64 [R, C], number of labels of each class.
          by_class: float64 [R, C], the corrected AP of each class.
        """
        if not self._thirds:
            return {}
        labels = np.stack([label_counts[..., classes].sum(-1) for classes in self._thirds], axis=-1)
        gaps = self._by_third.average_precisions(counts, labels)
        of_gap = {f"{Gap.key}_{third}": gaps[..., place] for place, third in enumerate(THIRDS)}
        means = [means_of_rows(by_class[:, classes]) for classes in self._thirds]
        return of_gap | {f"{MeanAveragePrecision.key}_{third}": mean for third, mean in zip(THIRDS, means, strict=True)}

    def excess(self, counts: Ints64) -> Floats64:
        """float64 [C], AP minus corrected AP of each class; nan for a class without a label.

        Args:
          counts: int64 [N], how often each video is repeated.
        """
        label_counts = self._label_counts(counts)
        plain = self._by_class.average_precisions(counts, label_counts)
        return np.asarray(plain - self._by_class.corrected(counts, label_counts))

    def _label_counts(self, counts: Ints64) -> Floats64:
        """float64 [..., C], labels of each class if each video is repeated `counts` times, int64 [..., N]."""
        return _sums(self._labels, counts[..., self._owners], self._num_classes)


class _RepeatedBlocks(NamedTuple):
    """Numbers of items of the blocks that hold a positive. A block is the items of one list that have the same score.

    An item counts as often as the resample repeats its video. All arrays are int64 [..., B], of B blocks.
    """

    rank: Ints64
    size: Ints64
    before: Ints64
    right: Ints64


def _totals_before(values: Ints64) -> Ints64:
    """int64 [..., B + 1], the sum of the values [..., B] before each place."""
    totals = np.zeros((*values.shape[:-1], values.shape[-1] + 1), np.int64)
    np.cumsum(values, axis=-1, out=totals[..., 1:])
    return totals


def _sums(places: Ints32 | Ints64, values: Ints64 | Floats64, size: int) -> Floats64:
    """float64 [..., size], sums of `values` [..., B]: value b is added to element places[b] of the result."""
    rows = values.reshape(math.prod(values.shape[:-1]), len(places))
    numbers = np.arange(len(rows))[:, np.newaxis] * size + places
    sums = np.bincount(numbers.ravel(), rows.ravel(), minlength=len(rows) * size)
    return sums.astype(np.float64, copy=False).reshape(*values.shape[:-1], size)


class _RepeatedLists:
    """The AP of ranked lists in which each item is repeated as often as its video.

    A block is the items of one list with the same score. The blocks do not depend on the repetitions, and only blocks
    with a positive add to AP. So the blocks are found once; a resample needs only their numbers of items.
    """

    def __init__(self, entries: Keys, rows: Ints64, num_lists: int) -> None:
        """Finds the blocks of E items.

        Args:
          entries: [E], packed; the class of an entry is its list.
          rows: [E], the video of each entry, in 0..N-1.
        """
        order = np.argsort(entries, kind="stable")
        keys, self._rows, self._num_lists = entries[order], rows[order], num_lists
        hits, lists, starts = arrays.hit_of(keys), arrays.class_of(keys), arrays.block_starts(keys)
        ends = np.append(starts[1:], len(keys))[: len(starts)]
        hits_before = np.append(0, np.cumsum(hits))  # number of positives before each item, and before the end
        used = np.flatnonzero(hits_before[ends] > hits_before[starts]) if len(keys) else np.zeros(0, np.int64)
        self._start, self._end = starts[used], ends[used]
        self._lists = lists[self._start]
        self._first = np.searchsorted(lists, np.arange(num_lists))[self._lists]
        self._hit_rows = self._rows[hits]
        self._hit_start, self._hit_end, self._hit_first = (
            hits_before[items] for items in (self._start, self._end, self._first)
        )
        self._harmonic: Floats64 = np.zeros(1)

    def _count_items(self, counts: Ints64) -> _RepeatedBlocks:
        """The numbers of items of the blocks if each video is repeated `counts` times, int64 [..., N]."""
        items, positives = _totals_before(counts[..., self._rows]), _totals_before(counts[..., self._hit_rows])
        return _RepeatedBlocks(
            items[..., self._start] - items[..., self._first],
            items[..., self._end] - items[..., self._start],
            positives[..., self._hit_start] - positives[..., self._hit_first],
            positives[..., self._hit_end] - positives[..., self._hit_start],
        )

    def average_precisions(self, counts: Ints64, num_positives: Floats64) -> Floats64:
        """The AP of each of the L lists: float64 [..., L]; nan for a list without a positive.

        Tied items count as in `average_precision.average_precisions`.

        Args:
          counts: int64 [..., N], how often each video is repeated.
          num_positives: float64 [..., L], number of positives of each list with their repetitions, including those that
            are not among its items.
        """
        rank, size, before, right = self._count_items(counts)
        harmonic = self._harmonic_numbers(int((rank + size).max(initial=0)))
        # The expected precision of the item at place j of a block is (before + 1 + j * others) / (rank + 1 + j).
        others = (right - 1) / np.maximum(size - 1, 1)
        constant = before + 1 - others * (rank + 1)
        expected = others * size + constant * (harmonic[rank + size] - harmonic[rank])
        expected = np.where(size == 1, (before + 1) / (rank + 1), expected)
        return self._means(right / np.maximum(size, 1) * expected, num_positives)

    def corrected(self, counts: Ints64, num_positives: Floats64) -> Floats64:
        """An AP that is less biased than `average_precisions` if there are few positives; it has the same arguments.

        Over very many videos, AP is the mean, over the positives, of the precision w S / (w S + F). S is the share of
        the other positives that score higher, F the share of the negatives that score higher, and w the number of
        positives divided by that of negatives. For one of K positives, let P of the K - 1 others and N negatives score
        higher. Then S = P / (K - 1), and the precision is K P / (K P + (K - 1) N), or 1 if nothing scores higher. AP
        itself takes (P + 1) / (P + 1 + N), which counts the positive as one that confirms itself. Half of the tied
        items count as scoring higher.

        Returns:
          float64 [..., L]; nan for a list without a positive.

        Leaving one item out is the idea of the jackknife: M. H. Quenouille, Notes on Bias in Estimation, Biometrika 43
        (1956).
        """
        rank, size, before, right = self._count_items(counts)
        total = num_positives[..., self._lists]
        above = total * (before + (right - 1) / 2)
        wrong = (total - 1) * (rank - before + (size - right) / 2)
        precision = np.divide(above, above + wrong, out=np.zeros(above.shape), where=above > 0)
        precision[rank + size == 1] = 1
        return self._means(right * precision, num_positives)

    def _means(self, sums: Ints64 | Floats64, num_positives: Floats64) -> Floats64:
        """float64 [..., L]: `sums` [..., number of blocks], added up over each list and divided by its positives."""
        totals = _sums(self._lists, sums, self._num_lists)
        means: Floats64 = np.divide(totals, num_positives, out=np.full(totals.shape, np.nan), where=num_positives > 0)
        return means

    def _harmonic_numbers(self, most: int) -> Floats64:
        """The harmonic numbers (sums of 1/i for i = 1..n) of n = 0, 1, ..., to `most` or further."""
        if most >= len(self._harmonic):
            self._harmonic = np.append(0.0, np.cumsum(1 / np.arange(1, 2 * most + 2)))
        return self._harmonic
