"""Estimates how often classes occur, from the scores of a model and a small labelled sample that corrects them.

Prediction-powered inference: A. N. Angelopoulos, S. Bates, C. Fannjiang, M. I. Jordan and T. Zrnic, Prediction-powered
inference, Science 382 (2023). With N videos without labels, n videos with labels Y, and scores f of both, the share of
the videos that show a class is estimated by

    b mean(f, N) + mean(Y - b f, n),  with the variance  b^2 var(f, N) / N + var(Y - b f, n) / n.

The first mean is what the model says; the second corrects its errors. The weight b is the one with the least variance:
A. N. Angelopoulos, J. C. Duchi and T. Zrnic, PPI++: Efficient Prediction-Powered Inference (2023), section 6. The
weight is near 0 for a bad model: then the labels alone count, so the interval is never much wider than theirs.

The number of the N videos that show a class varies with these videos, not only with the sample. A class with few labels
gets the exact interval of that number, `interval_of_count`.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints64
from yt8m.eval_util.resampling import Interval, wilson_interval

# A class needs this many labelled videos that show it, and as many that do not, for its estimate to be nearly normal.
MIN_VIDEOS_PER_SIDE = 10


class ScoreSums:
    """Sums over videos, for each class, from which `class_shares` computes its estimates.

    Attributes:
      sums, squares: float64 [C], sums of the scores and of their squares.
      labels: float64 [C], number of videos with the label.
      products: float64 [C], sums of score x label.
    """

    def __init__(self, num_classes: int) -> None:
        self.videos = 0
        self.sums, self.squares, self.labels, self.products = (np.zeros(num_classes) for _ in range(4))

    def add(self, scores: Floats32, labels: Bools | None = None) -> None:
        """Adds B videos: scores [B, C], and labels [B, C] if they are known (for all videos, or for none)."""
        values = scores.astype(np.float64)
        self.videos += len(values)
        self.sums += values.sum(axis=0)
        self.squares += (values * values).sum(axis=0)
        if labels is not None:
            self.labels += labels.sum(axis=0)
            self.products += (values * labels).sum(axis=0)


class ClassShares(NamedTuple):
    """The shares of the videos that show each class. All arrays are [C].

    Attributes:
      shares: float64, the estimates, from 0 to 1.
      low, high: float64, the confidence intervals of the shares, among all videos of the kind that was sampled.
      count_low, count_high: float64, the confidence intervals of the number of the unlabelled videos that show the
        class.
      weights: float64, the weight of the scores, from 0 to 1; 0 if only the labels count.
      is_corrected: bool, False if too few labelled videos have, or lack, the class: its share has Wilson's interval,
        its number that of `interval_of_count`, both from labels only.
      positives: int64, number of labelled videos with the class.
    """

    shares: Floats64
    low: Floats64
    high: Floats64
    count_low: Floats64
    count_high: Floats64
    weights: Floats64
    is_corrected: Bools
    positives: Ints64


def class_shares(labelled: ScoreSums, others: ScoreSums, level: float = 0.95) -> ClassShares:
    """Estimates the share of the videos that show each class, with confidence intervals.

    Args:
      others: the sums of N videos without labels, none of which is among the labelled ones.
      level: probability with which an interval contains the share.
    """
    n, count = labelled.videos, others.videos
    if not n or not count:
        raise ValueError(f"videos with and without labels are needed; there are {n} and {count}")
    weights = tuned_weights(labelled, others)
    rate, mean = labelled.labels / n, labelled.sums / n
    shares = weights * others.sums / count + rate - weights * mean
    score_variance = others.squares / count - (others.sums / count) ** 2
    width = NormalDist().inv_cdf((1 + level) / 2)
    residuals = _residual_variance(labelled, weights)
    # A sample in which the scores hardly err may lack the rare errors that the other videos have. So at least width^2
    # squared errors count: 3.8 at the level of 95 %, near the 3.7 errors of which a sample has none in 2.5 % of cases.
    residuals = np.maximum(residuals, width**2 / n)
    half = width * np.sqrt(weights**2 * score_variance / count + residuals / n)
    # The number of unlabelled videos that show the class differs from the estimate for two reasons: the scores err on
    # these videos, and the sample shows the size of these errors only roughly.
    half_of_count = width * np.sqrt(residuals * (1 / n + 1 / count))
    is_corrected = np.asarray((labelled.labels >= MIN_VIDEOS_PER_SIDE) & (n - labelled.labels >= MIN_VIDEOS_PER_SIDE))
    plain, plain_of_count = _intervals_of_labels(labelled, count, level)
    bounds = [
        np.where(is_corrected, most * np.clip(corrected, 0, 1), alone)
        for most, corrected, alone in (
            (1, shares - half, plain[0]),
            (1, shares + half, plain[1]),
            (count, shares - half_of_count, plain_of_count[0]),
            (count, shares + half_of_count, plain_of_count[1]),
        )
    ]
    low, high, count_low, count_high = bounds
    return ClassShares(
        np.where(is_corrected, np.clip(shares, 0, 1), rate),
        low,
        high,
        count_low,
        count_high,
        np.where(is_corrected, weights, 0),
        is_corrected,
        labelled.labels.astype(np.int64),
    )


def _intervals_of_labels(labelled: ScoreSums, others: int, level: float) -> tuple[Floats64, Floats64]:
    """The intervals of the shares and of the numbers of classes from their labels alone, [2, C] each.

    Those of classes that have, and lack, at least MIN_VIDEOS_PER_SIDE labelled videos are not computed; they are 0.
    """
    n, positives = labelled.videos, labelled.labels.astype(np.int64)
    bounds = np.zeros((4, len(positives)))
    for number in np.unique(positives).tolist():
        if min(number, n - number) < MIN_VIDEOS_PER_SIDE:
            of_count = interval_of_count(number, n, others, level)
            bounds[:, positives == number] = [[bound] for bound in (*wilson_interval(number / n, n, level), *of_count)]
    return bounds[:2], bounds[2:]


def interval_of_count(positives: int, videos: int, others: int, level: float = 0.95) -> Interval:
    """The interval of the number of `others` that show a class which `positives` of `videos` show.

    Both are random draws from the same kind of video. Given that t of all of them show the class, how many of these
    are among `videos` has a hypergeometric distribution, whatever the share of the class is. The interval has the
    numbers with which `positives` is in neither tail of (1 - level) / 2. It contains the truth at least as often as
    `level` says.

    Source: A. R. Thatcher, Relationships between Bayesian and Confidence Limits for Predictions, Journal of the Royal
    Statistical Society B 26 (1964).
    """
    if positives > videos - positives:  # the sum over one tail is then shorter for those that lack the class
        low, high = interval_of_count(videos - positives, videos, others, level)
        return Interval(others - high, others - low)
    tail = (1 - level) / 2
    low = _first_that(lambda number: 1 - _lower_tail(positives - 1, number + positives, videos, others) > tail, others)
    high = _first_that(lambda number: _lower_tail(positives, number + positives, videos, others) <= tail, others + 1)
    return Interval(low, high - 1)


def _first_that(holds: Callable[[int], bool], most: int) -> int:
    """The smallest number below `most` from which on `holds`; `most` if there is none."""
    return bisect.bisect_left(range(most), True, key=holds)


def _lower_tail(positives: int, total: int, videos: int, others: int) -> float:
    """P(X <= positives) of the number X of `videos` that show a class which `total` of `videos` + `others` show."""
    if positives >= min(total, videos):
        return 1.0
    least = max(0, total - others)
    ways = _log_choices(videos + others, total)
    logs = (_log_choices(videos, k) + _log_choices(others, total - k) - ways for k in range(least, positives + 1))
    return min(1.0, math.fsum(map(math.exp, logs)))


def _log_choices(number: int, chosen: int) -> float:
    """The logarithm of the number of ways to choose so many of a number of things."""
    return math.lgamma(number + 1) - math.lgamma(chosen + 1) - math.lgamma(number - chosen + 1)


def tuned_weights(labelled: ScoreSums, others: ScoreSums) -> Floats64:
    """float64 [C], the weight b (see the top of this file) with the least variance, from 0 to 1; 0 for equal scores."""
    n, count = labelled.videos, others.videos
    covariance = labelled.products / n - labelled.labels / n * labelled.sums / n
    total = n + count
    mean = (labelled.sums + others.sums) / total
    variance = np.maximum((labelled.squares + others.squares) - total * mean**2, 0) / max(total - 1, 1)
    divisor = (1 + n / count) * variance
    weights = np.divide(covariance, divisor, out=np.zeros(len(mean)), where=divisor > 1e-15)
    return np.clip(weights, 0, 1)


def _residual_variance(labelled: ScoreSums, weights: Floats64) -> Floats64:
    """The variance of Y - b f (see the top of this file) over the labelled videos, [C]; `weights` are the b.

    Y is 0 or 1, so its square is Y itself.
    """
    n = labelled.videos
    squares = labelled.labels - 2 * weights * labelled.products + weights**2 * labelled.squares
    mean = (labelled.labels - weights * labelled.sums) / n
    return np.asarray(np.maximum(squares / n - mean**2, 0))
