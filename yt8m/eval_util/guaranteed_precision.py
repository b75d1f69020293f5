"""Thresholds at which the precision on new videos is at least a target, with a stated confidence.

The videos are divided by a hash of their ids. A fifth of them, the planning part, gives a grid of thresholds for each
class, and the threshold on it with which the tests begin. The other videos test the grid from there on, from the
stricter to the looser thresholds, until one does not pass. The last that passed is the threshold of the class. Consider
the first threshold of the sequence whose precision is below the target. If it does not pass its test, the tests end
there and the result is right. So the result can be wrong only if this one test errs, and the tests need no correction
for their number. Source: fixed-sequence testing with split data, A. N. Angelopoulos, S. Bates, E. J. Candes, M. I.
Jordan and L. Lei, Learn then Test: Calibrating Predictive Algorithms to Achieve Risk Control (2021).

For one class the videos are independent. Given how many videos reach a threshold, the number of those that have the
class is binomial, with the precision as its probability. So the tail of that distribution at the target is a valid
p-value (it is the test that belongs to the lower bound of C. J. Clopper and E. S. Pearson, Biometrika 26, 1934).

For one threshold for all classes, the predictions of one video are dependent, so videos are tested, not predictions.
Let a video have N predictions, H of them right, and let t be the target. The precision is at least t if the mean of
Z = H - t N over all videos is not negative. If it is negative, the product of 1 + b Z over independent videos has an
expectation below 1, for each fixed b > 0 that keeps all factors positive. So by Markov's inequality the product exceeds
1 / (1 - confidence) with a probability of at most 1 - confidence. The planning part gives b. Source: I. Waudby-Smith
and A. Ramdas, Estimating means of bounded random variables by betting, Journal of the Royal Statistical Society B 86
(2024).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util import arrays
from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints64, Keys
from yt8m.eval_util.videos import hashes
from yt8m.records.thresholds import Guarantee, OperatingPoints, PrecisionTarget

PARTS = 5  # number of equal parts of the videos, the first of which is the planning part
_GRID_STEP = 1.1  # ratio of the numbers of predictions that reach neighbouring thresholds of the grid
# The bet b (see the top of this file) is at most this share of the b at which the factor 1 + b Z of a video with the
# most predictions, all of them wrong, would be 0: factors must be positive.
_LARGEST_BET = 0.75


def least_labels(target: PrecisionTarget) -> int:
    """The number of labels that a class needs in the testing part: with fewer, no threshold passes its test."""
    return trials_without_a_miss(target.precision, 1 - target.confidence)


class CommonThreshold(NamedTuple):
    """One threshold for all classes.

    Attributes:
      videos, predictions: how many videos and predictions of the testing part reach the threshold; 0 if it is inf.
    """

    threshold: float
    videos: int
    predictions: int


class _Part:
    """Collects the videos of one of the two parts that the top of this file describes, planning or testing.

    Attributes:
      label_counts: int64 [C], number of labels of each class.
    """

    def __init__(self, num_classes: int) -> None:
        self._rows: list[Keys] = []
        self.label_counts = np.zeros(num_classes, np.int64)

    def add(self, entries: Keys, labels: Bools) -> None:
        """Adds B videos: packed entries [B, K], see `arrays`, and labels [B, C]."""
        self._rows.append(entries)
        self.label_counts = self.label_counts + labels.sum(0, dtype=np.int64)

    def entries(self) -> Keys:
        """The packed entries of all N videos, [N, K]."""
        self._rows = [np.concatenate(self._rows)] if self._rows else [np.zeros((0, 1), np.uint64)]
        return self._rows[0]


class PrecisionCalibration:
    """Collects evaluated videos, and chooses thresholds whose precision is at least a target.

    Each prediction takes 8 bytes.
    """

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self.clear()

    def clear(self) -> None:
        """Forgets all videos."""
        self._planning, self._testing = _Part(self.num_classes), _Part(self.num_classes)

    def add(self, reports: Mapping[str, npt.NDArray[Any]]) -> None:
        """Adds a batch of B videos, of which all classes were judged.

        Args:
          reports: `video_ids` [B] bytes; `scores`, `classes` and `hits` [B, K], the K best classes of each video,
            their scores, and whether they are labels; `labels` bool [B, C].
        """
        scores = np.asarray(reports["scores"], np.float32)
        entries = arrays.pack_entries(np.asarray(reports["classes"]), scores, np.asarray(reports["hits"]) > 0)
        labels = np.asarray(reports["labels"], np.bool_)
        is_planning = hashes(reports["video_ids"].tolist()) % np.uint64(PARTS) == 0
        self._planning.add(entries[is_planning], labels[is_planning])
        self._testing.add(entries[~is_planning], labels[~is_planning])

    @property
    def testing_videos(self) -> int:
        """The number of videos in the testing part, on which thresholds are tested."""
        return len(self._testing.entries())

    def choose_class_thresholds(self, target: PrecisionTarget) -> OperatingPoints:
        """Chooses a threshold for each class, inf if none passed its test. Recall is measured on all videos."""
        ratio = len(self._testing.entries()) / max(1, len(self._planning.entries()))
        thresholds, tested = _choose_class_thresholds(*self._sorted_entries(), self.num_classes, ratio, target)
        enough = np.asarray(self._testing.label_counts >= least_labels(target))
        return self._operating_points(thresholds, Guarantee(target, tested, enough), np.isfinite(thresholds))

    def choose_common_threshold(self, target: PrecisionTarget) -> CommonThreshold:
        """Chooses one threshold for all classes; it is inf if none passed its test."""
        return _choose_common_threshold(self._planning.entries(), self._testing.entries(), target)

    def points_at_common_threshold(self, common: CommonThreshold, target: PrecisionTarget) -> OperatingPoints:
        """Operating points in which each class has the threshold `common`, which was chosen for `target`."""
        all_classes = np.ones(self.num_classes, np.bool_)
        guarantee = Guarantee(target, np.full(self.num_classes, common.predictions), all_classes)
        return self._operating_points(np.full(self.num_classes, common.threshold), guarantee, ~all_classes)

    def _sorted_entries(self) -> tuple[Keys, Keys]:
        """The entries of the planning and of the testing part, each sorted, so that those of a class are adjacent."""
        return np.sort(self._planning.entries(), axis=None), np.sort(self._testing.entries(), axis=None)

    def _operating_points(self, thresholds: Floats64, guarantee: Guarantee, is_own: Bools) -> OperatingPoints:
        """Operating points with the recall that the thresholds have on all videos, and without precision and F1.

        Args:
          thresholds: [C].
          is_own: [C], which classes have a threshold of their own.
        """
        positives = self._planning.label_counts + self._testing.label_counts
        hits = sum(_count_reaching(keys, thresholds[:, np.newaxis])[1][:, 0] for keys in self._sorted_entries())
        unknown = np.full(len(positives), np.nan)
        recall = np.divide(hits, positives, out=unknown.copy(), where=positives > 0)
        return OperatingPoints(thresholds, is_own, positives, unknown, recall, unknown, guarantee)


def thresholds_at(scores: Floats32) -> Floats64:
    """A threshold just below each score, half-way to the next lower float32, rounded to nine digits: float64 [N].

    The file of thresholds has nine digits too, so the thresholds that are read from it are exactly those tested here.
    """
    halfway = (scores.astype(np.float64) + np.nextafter(scores, np.float32(-np.inf))) / 2
    return np.array([float(f"{threshold:.9g}") for threshold in halfway.tolist()], np.float64)


def _choose_class_thresholds(
    planning: Keys, testing: Keys, num_classes: int, ratio: float, target: PrecisionTarget
) -> tuple[Floats64, Ints64]:
    """Chooses the threshold of each class.

    Args:
      planning, testing: sorted entries of the videos that plan the tests, and of those on which they are made.

    Returns:
      The thresholds [C], inf if none passes; and how many predictions in the testing part reach each of them [C].
    """
    grid = _class_grids(planning, num_classes)
    start = _first_tested_thresholds(*_count_reaching(planning, grid), ratio, target)
    places = np.arange(grid.shape[1])
    is_tested = np.isfinite(grid) & (places >= start[:, np.newaxis])
    counts, hits = _count_reaching(testing, grid)
    tails = np.ones(grid.shape)
    tails[is_tested] = upper_tail(hits[is_tested], counts[is_tested], target.precision)
    last = _last_passed(tails <= 1 - target.confidence, start)
    rows, has_passed = np.arange(num_classes), last >= start
    columns = np.where(has_passed, last, 0)
    return np.where(has_passed, grid[rows, columns], np.inf), np.where(has_passed, counts[rows, columns], 0)


def _last_passed(passes: Bools, start: Ints64) -> Ints64:
    """The last test of each class before the first one that fails.

    Args:
      passes: [C, G], whether each test passes.
      start: [C], index of the first test.

    Returns:
      [C], indexes of tests; start - 1 for a class whose first test fails.
    """
    is_before = np.arange(passes.shape[1]) < start[:, np.newaxis]
    return np.asarray(np.cumprod(passes | is_before, axis=1).sum(axis=1) - 1)


def _grid_counts(most: int) -> Ints64:
    """Numbers of predictions, each about _GRID_STEP times the one before, from 1 to `most` or a little more."""
    count = int(np.ceil(np.log(max(most, 1)) / np.log(_GRID_STEP))) + 1
    return np.unique(np.ceil(_GRID_STEP ** np.arange(count)).astype(np.int64))


def _class_grids(planning: Keys, num_classes: int) -> Floats64:
    """The thresholds of each class that may be tested: those that 1, 2, ... of its planning predictions just reach.

    The numbers of predictions are those of `_grid_counts`.

    Args:
      planning: sorted entries.

    Returns:
      float64 [C, G], descending in each row; inf in the places that a class leaves empty.
    """
    bounds = np.searchsorted(arrays.class_of(planning), np.arange(num_classes + 1))
    sizes = np.diff(bounds)
    depths = _grid_counts(int(sizes.max(initial=0)))
    is_on_grid = depths <= sizes[:, np.newaxis]
    # The last threshold of a class is its lowest score.
    is_on_grid[:, 1:] |= (depths[1:] > sizes[:, np.newaxis]) & (depths[:-1] < sizes[:, np.newaxis])
    grid = np.full(is_on_grid.shape, np.inf)
    rows, columns = np.nonzero(is_on_grid)
    grid[is_on_grid] = thresholds_at(
        arrays.score_of(planning[bounds[rows] + np.minimum(depths[columns], sizes[rows]) - 1])
    )
    return grid


def _count_reaching(keys: Keys, thresholds: Floats64) -> tuple[Ints64, Ints64]:
    """Counts the predictions of each class that reach each of its thresholds.

    Args:
      keys: sorted entries.
      thresholds: float64 [C, G].

    Returns:
      How many predictions reach each threshold, and how many of these are correct: int64 [C, G] each.
    """
    classes = np.broadcast_to(np.arange(len(thresholds))[:, np.newaxis], thresholds.shape)
    lowest = thresholds.astype(np.float32)
    lowest = np.where(lowest < thresholds, np.nextafter(lowest, np.float32(np.inf)), lowest)
    ends = np.searchsorted(keys, arrays.pack_entries(classes, lowest, np.ones(lowest.shape, np.bool_)), side="right")
    first = np.searchsorted(arrays.class_of(keys), np.arange(len(thresholds)))[:, np.newaxis]
    hits = np.append(0, np.cumsum(arrays.hit_of(keys)))
    return ends - first, hits[ends] - hits[first]


def _first_tested_thresholds(counts: Ints64, hits: Ints64, ratio: float, target: PrecisionTarget) -> Ints64:
    """The threshold of each class that is tested first, as an index on its row of the grid: int64 [C].

    It is the one whose test would have the smallest p-value if the testing part were like the planning part.

    Args:
      counts: int64 [C, G], how many planning predictions reach each threshold.
      hits: int64 [C, G], how many of these are correct.
    """
    expected = np.floor(ratio * counts).astype(np.int64)
    tails = upper_tail(np.floor(ratio * hits).astype(np.int64), expected, target.precision)
    return np.asarray(tails.argmin(axis=1))


class _VideoPredictions(NamedTuple):
    """The predictions of N videos: scores float32 [N, K], and which are labels, bool [N, K]."""

    scores: Floats32
    hits: Bools

    def gains(self, threshold: float, target: PrecisionTarget) -> Floats64:
        """float64 [N], Z (see the top of this file) of each video, from its predictions that reach `threshold`."""
        reaching = self.scores >= threshold
        right = np.count_nonzero(reaching & self.hits, axis=1)
        return np.asarray(right - target.precision * np.count_nonzero(reaching, axis=1))


def _choose_common_threshold(planning: Keys, testing: Keys, target: PrecisionTarget) -> CommonThreshold:
    """Chooses the threshold for all classes.

    Args:
      planning, testing: entries [N, K] of the videos that plan the tests, and of those on which they are made.
    """
    plan, test = (
        _VideoPredictions(arrays.score_of(entries), arrays.hit_of(entries)) for entries in (planning, testing)
    )
    grid = _common_grid(plan.scores)
    bets = [_choose_bet(plan.gains(threshold, target), plan.scores.shape[1], target) for threshold in grid]
    start = int(np.argmax([bet.log_product for bet in bets])) if bets else 0
    last_passed = np.inf
    for threshold, bet in zip(grid[start:], bets[start:], strict=True):
        if np.log1p(bet.size * test.gains(threshold, target)).sum() < -np.log(1 - target.confidence):
            break
        last_passed = threshold
    reaching = test.scores >= last_passed
    return CommonThreshold(float(last_passed), int(reaching.any(axis=1).sum()), int(reaching.sum()))


def _common_grid(scores: Floats32) -> Floats64:
    """The thresholds for all classes that may be tested, descending; `scores` are those of the planning part."""
    ranked = np.sort(scores[scores > -np.inf])[::-1]
    places = np.minimum(_grid_counts(len(ranked)), len(ranked)) - 1
    return np.unique(thresholds_at(ranked[places]))[::-1] if len(ranked) else np.zeros(0)


class _Bet(NamedTuple):
    """The factor b in the product of 1 + b Z that tests a threshold; the top of this file explains it."""

    size: float
    log_product: float


def _choose_bet(gains: Floats64, most: int, target: PrecisionTarget) -> _Bet:
    """Chooses the bet b with which a threshold is tested, and computes its product on the planning part.

    Args:
      gains: [N], Z of each video of the planning part.
    """
    squares = float(gains @ gains)
    best = float(gains.sum()) / squares if squares else 0.0  # maximises the log of the product to the second order
    size = min(max(best, 0.0), _LARGEST_BET / (target.precision * most))
    return _Bet(size, float(np.log1p(size * gains).sum()))


_NEGLIGIBLE = 1e-17  # a sum ends at a term below this share of the sum, because such a term changes no digit


def upper_tail(hits: npt.ArrayLike, trials: npt.ArrayLike, share: float) -> Floats64:
    """P(X >= hits), if X is the number of hits in `trials` independent trials that each hit with probability `share`.

    Args:
      hits: integers, at most `trials`.
      trials: integers of the same shape.
      share: between 0 and 1, both excluded.

    Returns:
      float64 of that shape; 1 where `hits` is not above 0.
    """
    counts, totals = (np.atleast_1d(np.asarray(values, np.int64)) for values in (hits, trials))
    # `_far_tail` needs a start above the mean. Any other tail is 1 - P(misses >= trials - hits + 1).
    is_small = counts > totals * share
    ends = np.where(is_small, counts, totals - counts + 1)
    shares = np.where(is_small, share, 1 - share)
    sums = _far_tail(ends, totals, shares)
    tails = np.where(counts <= 0, 1.0, np.where(is_small, sums, 1 - sums))
    return tails.reshape(np.shape(hits))


def _far_tail(hits: Ints64, trials: Ints64, shares: Floats64) -> Floats64:
    """Computes N tails P(X >= hits) as in `upper_tail`, for hits above the mean: the terms of the sum then decrease.

    Args:
      hits, trials: int64 [N].
      shares: [N], the probability that a trial hits.
    """
    tails = np.zeros(hits.shape)
    place = np.nonzero(hits <= trials)
    k, n, odds = hits[place].astype(np.float64), trials[place].astype(np.float64), shares[place] / (1 - shares[place])
    first = np.exp(_log_probability(hits[place], trials[place], shares[place]))
    sums, term, active = np.ones(len(k)), np.ones(len(k)), np.arange(len(k))
    while len(active):
        term[active] *= (n[active] - k[active]) / (k[active] + 1) * odds[active]
        k[active] += 1
        sums[active] += term[active]
        active = active[term[active] > _NEGLIGIBLE * sums[active]]
    tails[place] = first * sums
    return tails


def _log_probability(hits: Ints64, trials: Ints64, shares: Floats64) -> Floats64:
    """The log of the binomial probability P(X = hits), float64 [N]; the arguments are those of `_far_tail`."""
    ways = _log_factorials(trials) - _log_factorials(hits) - _log_factorials(trials - hits)
    return np.asarray(ways + hits * np.log(shares) + (trials - hits) * np.log1p(-shares))


def _log_factorials(numbers: Ints64) -> Floats64:
    """The natural logarithms of the factorials of N numbers, [N]."""
    return np.array([math.lgamma(number + 1) for number in numbers.tolist()], np.float64)


def trials_without_a_miss(share: float, tail: float) -> int:
    """The smallest n for which n trials all hit with a probability of at most `tail`, if each hits with `share`."""
    return math.ceil(math.log(tail) / math.log(share))
