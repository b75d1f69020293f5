"""The chance that a label is wrong, or that one is missing, from scores of models that have not seen the video.

A score is the log-odds that a model gives to a class. Four steps lead from scores to chances:

1. *Margin.* For each class, the scores of the videos with the label and of the others have means m1 and m0, and the
   others have the variance v. The margin of a score s is the logarithm of the likelihood ratio of two normal
   distributions with these means and this variance: (s - (m0 + m1) / 2) (m1 - m0) / v. The distance between the means
   is shrunk towards the mean distance of all classes, because rare classes have few scores.
2. *Curves.* Margins of all classes are pooled. A rising curve says how much more often a margin occurs with the label
   than without it. A second rising curve says how often a video has the label, as a function of the margin plus the
   log-odds of the class.
3. *Rates.* A video with a wrong label has the scores of a video without the label. So the score below which a tenth of
   the other videos of a class lie has a tenth of its wrong labels below it. If that score is so low that no right label
   is below it, then all labels below it are wrong ones. So the number of labels below a low score, divided by the
   number that there would be if all labels were wrong, is the share of wrong labels. Likewise the second curve cannot
   rise above 1 minus the share of missing labels. Both shares are estimated at the score at which the upper bound of
   the estimate is tightest, as in G. Blanchard, G. Lee and C. Scott, Semi-Supervised Novelty Detection, JMLR 11 (2010).
   If even this bound is a half or more, the scores say too little, and the share counts as nearly 0.
4. *Calibration.* The fitted curves are steps. A curve through the middles of the steps ranks best, since it is not
   flat. But between the middle of a wide step and its end it is nearer to the next step than it should be. So labels
   are ranked by these curves, and the chance at each rank is the mean chance by curves that keep their value over each
   step. Steps of the second curve that do not differ significantly are merged, because small errors at its flat top
   would change the chance that a label is missing by several times as much.

The second curve and the chances of missing labels are estimated from the best-scored classes of each video alone (as
many as `folds.BEST`), since only these are listed as missing labels. With the same margin, a class that is not among
them is present less often.

With w the share of wrong labels and r the likelihood ratio, the chance that a label is wrong is w / r. With a the share
of missing labels, b how often a video without the class has its label, and g how often a video with such a score has
the label, the class is there with the probability p = (g - b) / (1 - a - b), and the chance that a label is missing is
a p / (1 - g) (D. Angluin and P. Laird, Learning from Noisy Examples, Machine Learning 2 (1988), for the noise model).
The shares w and a are also estimated for each class, shrunk towards those of all classes.

The estimate assumes that each label is wrong with the same chance, whatever the video shows. So the scores of wrong
labels are estimated by those of all videos without the label, each counted as often as it has labels. If the labelling
confuses two classes that look alike, their wrong labels get lower chances than they should.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from absl import logging

from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints32, Ints64
from yt8m.labels.isotonic import RisingCurve, RisingSteps, rising_steps

BINS = 256  # number of bins of scores of each class
_LIMIT = 16.0  # scores above 16 count as 16, those below -16 as -16
# Estimates of single classes are shrunk towards that of all classes together. A class with so many labels has equal
# weight with it: _FEW_SCORES for the distance between mean scores, _FEW_LABELS for the shares of errors.
_FEW_SCORES = 10.0
_FEW_LABELS = 100.0
_POSITIONS = 10.0  # arguments of curves are rounded to 1 / _POSITIONS
_DEVIATIONS = 5.0  # number of standard deviations of the upper bounds from which the shares of errors follow
_RANKS = 1000.0  # number of steps in which ranks within a class are pooled
_DIFFERENT = 4.0  # steps of the second curve that differ by fewer standard deviations are merged
_LARGEST_SHARE = 0.5  # if the upper bound of a share of errors is not below this, the share is unknown
_LEAST_SHARE = 1e-4  # smallest estimate of a share of errors, and the one of an unknown share
_LEAST = 1e-9  # keeps chances off 0 and 1, so that their log-odds are finite, and divisors off 0
_RESOLUTION = 2 * _LIMIT / BINS / 12**0.5  # standard deviation of scores that are spread evenly over one bin


def log_odds(scores: Floats32) -> Floats32:
    """The log-odds of probabilities, float32 of the same shape, between -16 and 16."""
    with np.errstate(divide="ignore"):
        odds = np.log(scores) - np.log1p(-scores)
    return np.asarray(np.clip(odds, -_LIMIT, _LIMIT))


@dataclass(eq=False)
class ScoreCounts:
    """Counts how often each score occurs in each class. Scores are put into bins, so the size is fixed.

    Attributes:
      labelled: int64 [C, BINS], number of videos with the label.
      others: int64 [C, BINS], number of videos without the label.
      other_labels: int64 [C, BINS], number of labels (of other classes) that the videos without the label have.
    """

    labelled: Ints64
    others: Ints64
    other_labels: Ints64

    @classmethod
    def of_classes(cls, num_classes: int) -> Self:
        """Makes counts without any video."""
        return cls(*np.zeros((3, num_classes, BINS), np.int64))

    def add(self, scores: Floats32, labels: Bools) -> None:
        """Adds the log-odds [B, C] of some videos, with their labels [B, C]."""
        bins = _bin_indices(np.arange(scores.shape[1], dtype=np.int32), scores)
        size, shape = self.others.size, self.others.shape
        videos, labelled = np.bincount(bins.ravel(), minlength=size), np.bincount(bins[labels], minlength=size)
        num_labels = labels.sum(1)
        labels_of_videos = np.bincount(bins.ravel(), np.repeat(num_labels, labels.shape[1]), size)
        labels_of_labelled = np.bincount(bins[labels], np.repeat(num_labels, num_labels), size)
        self.labelled += labelled.reshape(shape)
        self.others += (videos - labelled).reshape(shape)
        self.other_labels += (labels_of_videos - labels_of_labelled).astype(np.int64).reshape(shape)

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        pairs = ((getattr(self, name), getattr(other, name)) for name in SCORE_COUNTS)
        return ScoreCounts(*itertools.starmap(operator.add, pairs))


def _bin_indices(classes: Ints32, scores: Floats32) -> Ints32:
    """The index of the bin of each (class, score) pair in flattened counts [C, BINS], int32 of their shape."""
    bins = np.minimum((scores + np.float32(_LIMIT)) * np.float32(BINS / 2 / _LIMIT), BINS - 1).astype(np.int32)
    return np.asarray(bins + classes * BINS)


class PairCounts(NamedTuple):
    """Counts how often each score occurs among some (video, class) pairs.

    Attributes:
      labelled: int64 [C, BINS], number of pairs whose class is a label of the video.
      others: int64 [C, BINS], number of the other pairs.
    """

    labelled: Ints64
    others: Ints64

    @classmethod
    def of_pairs(cls, num_classes: int, classes: Ints32, scores: Floats32, labels: Bools) -> Self:
        """Counts pairs.

        Args:
          num_classes: number of classes, C.
          classes: the class of each pair.
          scores: float32 of the same shape, the log-odds of each pair.
          labels: bool of the same shape, whether the class is a label of the video.
        """
        bins, size = _bin_indices(classes, scores), num_classes * BINS
        counts = (np.bincount(bins[labels == is_label], minlength=size) for is_label in (True, False))
        return cls(*(each.reshape(num_classes, BINS) for each in counts))


SCORE_COUNTS = tuple(field.name for field in dataclasses.fields(ScoreCounts))
_SCORES = (np.arange(BINS) + 0.5) * (2 * _LIMIT / BINS) - _LIMIT  # the score in the middle of each bin


class Margins(NamedTuple):
    """The linear functions that turn the scores of each class into margins. All arrays are float64 [C].

    Attributes:
      middle: the score whose margin is 0.
      slope: by how much the margin rises if the score rises by 1.
      prior: log-odds that a video has the label.
    """

    middle: Floats64
    slope: Floats64
    prior: Floats64

    def at(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The margins of some (class, score) pairs, float64 of the shape of `scores`."""
        return np.asarray((scores - self.middle[classes]) * self.slope[classes])


def _margins(counts: ScoreCounts) -> Margins:
    """The margins of each class, by step 1 at the top of this file.

    The variance of a class with few videos is shrunk towards that of all classes, too.
    """
    labelled, others = counts.labelled.sum(1), counts.others.sum(1)
    mean_labelled, _ = _moments(counts.labelled)
    mean_others, variance = _moments(counts.others)
    mean_variance = max(np.average(variance, weights=np.maximum(others, _LEAST)), _RESOLUTION**2)
    spread = np.sqrt((others * variance + mean_variance) / (others + 1))
    distance = (mean_labelled - mean_others) / spread
    mean_distance = np.average(distance, weights=np.maximum(labelled, _LEAST))
    distance = (labelled * distance + _FEW_SCORES * mean_distance) / (labelled + _FEW_SCORES)
    distance = np.maximum(distance, 0.05)  # if scores do not separate a class at all, its margins are all near 0
    return Margins(mean_others + distance * spread / 2, distance / spread, np.log((labelled + 0.5) / (others + 0.5)))


def _moments(counts: Ints64) -> tuple[Floats64, Floats64]:
    """The mean and the variance of the scores of each class, float64 [C], from counts [C, BINS]; 0 without videos."""
    total = np.maximum(counts.sum(1), _LEAST)
    mean = counts @ _SCORES / total
    return mean, np.maximum(counts @ _SCORES**2 / total - mean**2, 0)


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """The estimate of wrong and missing labels; `estimate` makes it. The top of this file describes its parts.

    Attributes:
      wrong: the share of the labels that are wrong.
      missing: the share of the true labels that are missing.
      class_wrong, class_missing: float64 [C], these shares for each class.
      margins: turns scores into margins.
      ratio: maps a margin to the logarithm of how much more often it occurs with the label than without it.
      share: maps a margin plus `Margins.prior` to the log-odds that the video has the label.
      chance_wrong, chance_missing: map the log-odds of `wrong_odds` and of `missing_odds` to calibrated chances.
    """

    wrong: float
    missing: float
    class_wrong: Floats64
    class_missing: Floats64
    margins: Margins
    ratio: RisingCurve
    share: RisingCurve
    chance_wrong: RisingCurve
    chance_missing: RisingCurve

    def wrong_odds(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The log-odds by which labels are ranked as wrong: less exact than calibrated chances, but hardly ever equal.

        Args:
          classes: the classes of the labels.
          scores: the scores of the labels, of the same shape.
        """
        return _shift_odds(self._chances_wrong(self.margins.at(classes, scores)), self.wrong, self.class_wrong[classes])

    def missing_odds(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The log-odds by which labels are ranked as missing.

        Args:
          classes: classes of videos that do not have them as labels.
          scores: the scores of these classes, of the same shape.
        """
        chances = self._chances_missing(self.margins.at(classes, scores), self.margins.prior[classes])
        return _shift_odds(chances, self.missing, self.class_missing[classes])

    def _chances_wrong(self, margins: Floats64) -> Floats64:
        """The chance w / r that a label with a margin is wrong, by the w of all classes: see the top of this file."""
        return np.minimum(self.wrong * np.exp(-self.ratio(margins)), 1)

    def _chances_missing(self, margins: Floats64, prior: Floats64) -> Floats64:
        """The chance a p / (1 - g) that a label is missing, by the a of all classes: see the top of this file.

        Args:
          margins: margins of classes of videos without the label.
          prior: log-odds that a video has the label, of the same shape.
        """
        share = 1 / (1 + np.exp(-self.share(margins + prior)))
        false_label = np.minimum(self.wrong * np.exp(prior), share)
        present = np.clip((share - false_label) / (1 - self.missing - false_label), 0, 1)
        return np.minimum(self.missing * present / (1 - share), 1)

    def with_class_rates(self, counts: PairCounts) -> LabelNoise:
        """A copy with the shares of errors of each class, which are shrunk towards those of all classes.

        Args:
          counts: the labels that may be wrong, and the other pairs that may be missing labels.
        """
        classes, scores = _bin_grid(counts.labelled)
        margins = self.margins.at(classes, scores)
        wrong = (counts.labelled * self._chances_wrong(margins)).sum(1)
        missing = (counts.others * self._chances_missing(margins, self.margins.prior[classes])).sum(1)
        labels = counts.labelled.sum(1)
        class_wrong = (wrong + _FEW_LABELS * self.wrong) / (labels + _FEW_LABELS)
        class_missing = (missing + _FEW_LABELS * self.missing) / (labels - wrong + missing + _FEW_LABELS)
        return dataclasses.replace(self, class_wrong=class_wrong, class_missing=class_missing)

    def calibrate(self, counts: PairCounts, ratio: RisingCurve, share: RisingCurve) -> LabelNoise:
        """A copy with calibrated chances, by step 4 at the top of this file.

        The ranking stays the same. The chance at each rank becomes the mean chance by other curves.

        Args:
          counts: the labels that may be wrong, and the other pairs that may be missing labels.
          ratio, share: the other curves, which keep their value over each step (`RisingSteps.over_steps`).
        """
        by_steps, (classes, scores) = dataclasses.replace(self, ratio=ratio, share=share), _bin_grid(counts.labelled)
        wrong_odds, missing_odds = self.wrong_odds(classes, scores), self.missing_odds(classes, scores)
        wrong = _mean_chances(wrong_odds, by_steps.wrong_odds(classes, scores), counts.labelled)
        missing = _mean_chances(missing_odds, by_steps.missing_odds(classes, scores), counts.others)
        return dataclasses.replace(self, chance_wrong=wrong, chance_missing=missing)


def _bin_grid(counts: Ints64) -> tuple[Ints64, Floats64]:
    """The class and the middle score of each bin of counts [C, BINS]: [C, BINS] each."""
    classes = np.arange(len(counts))[:, np.newaxis]
    return np.broadcast_to(classes, counts.shape), np.broadcast_to(_SCORES, counts.shape)


def _shift_odds(chances: Floats64, rate: float, rates: Floats64) -> Floats64:
    """The log-odds of chances of errors, as they would be at other rates of errors.

    Args:
      chances: estimated at the rate `rate`.
      rate: a share of errors.
      rates: for each chance, the share of errors that applies to it.
    """
    chances = np.clip(chances, _LEAST, 1 - _LEAST)
    return np.asarray(_logits(chances) + _logits(rates) - _logits(np.asarray(rate)))


def _logits(chances: Floats64) -> Floats64:
    """The log-odds of chances, which are neither 0 nor 1; unlike in `log_odds` they have no limits."""
    return np.asarray(np.log(chances / (1 - chances)))


def _mean_chances(ranks: Floats64, odds: Floats64, weights: Ints64) -> RisingCurve:
    """Fits the mean chance of an error as a rising function of the log-odds by which labels are ranked.

    Args:
      ranks: the log-odds by which the labels of each bin are ranked.
      odds: of the same shape, the log-odds of the chances to average.
      weights: of the same shape, number of (video, class) pairs in each bin. If all are 0, the chance is 0 everywhere.

    Returns:
      The curve from the ranking log-odds to a chance from 0 to 1.
    """
    if not weights.any():
        return RisingCurve(np.zeros(1), np.zeros(1))
    positions, errors, pairs = _sum_by_position(ranks, weights / (1 + np.exp(-odds)), weights)
    return rising_steps(positions, errors / pairs, pairs).over_steps()


def estimate(counts: ScoreCounts, listed: PairCounts) -> LabelNoise:
    """Estimates how many labels are wrong and missing, and the chances of single labels.

    Args:
      counts: the scores of all videos and classes.
      listed: the scores of the best classes of each video, among which missing labels are looked for.
    """
    margins, (classes, scores) = _margins(counts), _bin_grid(counts.labelled)
    positions, if_wrong = margins.at(classes, scores), _counts_if_all_wrong(counts)
    positions_of_share = positions + margins.prior[classes]
    ratio, share = _fit_shares(positions, counts.labelled, if_wrong), _fit_shares(positions_of_share, *listed)
    wrong, missing = _wrong_share(counts.labelled, if_wrong), _missing_share(positions_of_share, *listed)
    class_wrong, class_missing = (np.full(len(counts.labelled), rate) for rate in (wrong, missing))
    curves = _in_log_odds(ratio).through_middles(), _in_log_odds(share).through_middles()
    noise = LabelNoise(wrong, missing, class_wrong, class_missing, margins, *curves, *curves)
    judged = PairCounts(counts.labelled, listed.others)
    flat = _in_log_odds(ratio).over_steps(), _in_log_odds(share.merge_similar(_DIFFERENT)).over_steps()
    return noise.with_class_rates(judged).calibrate(judged, *flat)


def _sum_by_position(positions: Floats64, *weights: Floats64 | Ints64) -> tuple[Floats64, ...]:
    """Rounds positions to tenths, and sums up the weights at each rounded position.

    Args:
      positions: of any shape.
      weights: arrays of the same shape.

    Returns:
      The positions with a weight above 0, ascending; then, for each array, the sums of its weights there.
    """
    used = np.flatnonzero(sum(weights))
    tenths, members = np.unique(np.rint(positions.ravel()[used] * _POSITIONS), return_inverse=True)
    sums = (np.bincount(members, each.ravel()[used], len(tenths)).astype(np.float64) for each in weights)
    return np.asarray(tenths / _POSITIONS), *sums


def _fit_shares(positions: Floats64, labelled: Ints64, others: Floats64 | Ints64) -> RisingSteps:
    """Fits the share labelled / (labelled + others) as a rising function of the position.

    Args:
      positions: [C, BINS], the position of each bin.
      labelled, others: [C, BINS], numbers of pairs in each bin.
    """
    knots, yes, no = _sum_by_position(positions, labelled, others)
    return rising_steps(knots, yes / (yes + no), yes + no)


def _in_log_odds(steps: RisingSteps) -> RisingSteps:
    """Converts shares to log-odds. Shares of 0 and 1, whose log-odds are infinite, are first moved inwards."""
    least = 0.5 / (steps.weights.sum() + 1)
    return steps._replace(values=_logits(np.clip(steps.values, least, 1 - least)))


def _upper_bounds(counts: Floats64) -> Floats64:
    """Upper bounds of Poisson means, from observed counts: the upper ends of their score intervals.

    The interval has _DEVIATIONS standard deviations, so that the minimum of many bounds is still a bound.
    """
    return np.asarray(counts + _DEVIATIONS**2 / 2 + _DEVIATIONS * np.sqrt(counts + _DEVIATIONS**2 / 4))


def _counts_if_all_wrong(counts: ScoreCounts) -> Floats64:
    """How often each score would occur among the labelled videos if all labels were wrong, float64 [C, BINS]."""
    labels = counts.labelled.sum(1) / np.maximum(counts.other_labels.sum(1), 1)
    return np.asarray(counts.other_labels * labels[:, np.newaxis])


def _wrong_share(labelled: Ints64, if_wrong: Floats64) -> float:
    """The share of labels that are wrong; step 3 at the top of this file.

    It is the number of labels with low scores, divided by the number that there would be if all labels were wrong. A
    score is low if it is below a certain rank within its class. All ranks are tried; the one with the smallest upper
    bound of the share is used.

    Args:
      labelled: int64 [C, BINS], number of labels in each bin.
      if_wrong: float64 [C, BINS], the number if all labels were wrong.
    """
    ranks = if_wrong.cumsum(1) / np.maximum(if_wrong.sum(1), _LEAST)[:, np.newaxis]
    _, labels, wrong_labels = _sum_by_position(_RANKS / _POSITIONS * ranks, labelled, if_wrong)
    below, below_if_wrong = np.cumsum(labels), np.maximum(np.cumsum(wrong_labels), _LEAST)
    bounds = _upper_bounds(below) / below_if_wrong
    index = int(np.argmin(bounds))
    return _share_if_known("wrong", float(bounds[index]), float((below[index] + 0.5) / below_if_wrong[index]))


def _missing_share(positions: Floats64, labelled: Ints64, others: Ints64) -> float:
    """The share of true labels that are missing.

    Among the pairs above any position, the share of those without the label is at least the share of missing labels.
    The position at which the upper bound of the former share is least gives the estimate.

    Args:
      positions: [C, BINS], the position of each bin on the second curve.
      labelled, others: int64 [C, BINS], number of pairs with and without the label in each bin.
    """
    _, labels, no_labels = _sum_by_position(positions, labelled, others)
    labelled_above, others_above = np.cumsum(labels[::-1]), np.cumsum(no_labels[::-1])
    bounds = _upper_bounds(others_above) / (labelled_above + _upper_bounds(others_above))
    index = int(np.argmin(bounds))
    share = (others_above[index] + 0.5) / (labelled_above[index] + others_above[index] + 1)
    return _share_if_known("missing", float(bounds[index]), float(share))


def _share_if_known(kind: str, bound: float, share: float) -> float:
    """The estimated share of errors, or _LEAST_SHARE with a warning if its upper bound is too large to say anything.

    Args:
      kind: `wrong` or `missing`, for the warning.
      bound: the upper bound of the share.
      share: the estimate.
    """
    if bound < _LARGEST_SHARE:
        return max(share, _LEAST_SHARE)
    logging.warning(
        "the scores do not tell how many labels are %s, so hardly any is listed as %s: the videos are too few, or the "
        "models too bad; audit more videos, or train longer by --num_epochs",
        kind,
        kind,
    )
    return _LEAST_SHARE
