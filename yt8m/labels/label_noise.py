"""The chance that a label is wrong, or that one is missing, from scores of models that have not seen the video.

A score is the log-odds that a model gives to a class. Four steps lead from scores to chances:

1. *Margin.* For each class, the scores of the videos with the label and of the others have means m1 and m0, and the
   others have the variance v. The margin of a score s is the logarithm of the likelihood ratio of two normal
   distributions with these means and this variance: (s - (m0 + m1) / 2) (m1 - m0) / v. The distance between the means
   is shrunk towards that of all classes, because rare classes have few scores.
2. *Curves.* Margins of all classes are pooled. A rising curve says how much more often a margin occurs with the label
   than without it. A second one, over margin plus the log-odds of the class, says how often such a video has the
   label.
3. *Rates.* A label that is wrong has the scores of videos without the label. So a tenth of the wrong labels of a class
   have scores below those of a tenth of the other videos. Below some score there are no right labels, and the ratio of
   both numbers is the share of wrong labels. Likewise the second curve cannot rise above 1 minus the share of missing
   labels. Both are estimated where the upper bound of the estimate is tightest, as in G. Blanchard, G. Lee and
   C. Scott, Semi-Supervised Novelty Detection, JMLR 11 (2010). If even this bound is a half or more, the scores say too
   little, and the share counts as 0.
4. *Calibration.* A curve through the middles of its steps ranks best, since it is flat nowhere. But between the middle
   of a wide step and its end it is nearer to the next step than it should be. So labels are ranked by these curves, and
   the chance at each rank is the mean chance by curves that keep their value over each step. Steps of the second curve
   that do not differ significantly are merged, because a few hundredths more or less at its flat top change the chance
   that a label is missing by several times as much.

The second curve and the chances of missing labels are those of the best classes of each video alone, since only these
are listed. A class with the same margin is less likely there if the video has many classes with better scores.

With w the share of wrong labels and r the likelihood ratio, the chance that a label is wrong is w / r. With a the share
of missing labels, b how often a video without the class has its label, and g how often a video with such a score has
the label, the class is there with the probability p = (g - b) / (1 - a - b), and the chance that a label is missing is
a p / (1 - g) (D. Angluin and P. Laird, Learning from Noisy Examples, Machine Learning 2 (1988), for the noise model).
The two shares are also estimated for each class, shrunk towards those of all.

The estimate assumes that each label is wrong with the same chance, whatever the video shows. So a video counts as often
as it has labels, wherever it stands for the videos with a wrong label. If the labelling confuses two classes that look
alike, their wrong labels get lower chances than they should.
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

BINS = 256  # of scores, per class
_LIMIT = 16.0  # scores beyond +-16 count as 16
_FEW_SCORES = 10.0  # labels of a class whose mean score counts as much as what all classes say
_FEW_LABELS = 100.0  # labels of a class whose share of errors counts as much as that of all classes
_POSITIONS = 10.0  # of a curve, per unit of the margin or the log-odds
_DEVIATIONS = 5.0  # of the bounds from which the shares of errors follow
_RANKS = 1000.0  # steps in which ranks within a class are pooled
_DIFFERENT = 4.0  # standard deviations between the steps of the second curve
_LARGEST_SHARE = 0.5  # of wrong or of missing labels
_LEAST_SHARE = 1e-4
_LEAST = 1e-9  # odds stay finite
_RESOLUTION = 2 * _LIMIT / BINS / 12**0.5  # standard deviation of the scores of one bin


def log_odds(scores: Floats32) -> Floats32:
    """The log-odds of probabilities, float32 of the same shape, between -16 and 16."""
    with np.errstate(divide="ignore"):
        odds = np.log(scores) - np.log1p(-scores)
    return np.asarray(np.clip(odds, -_LIMIT, _LIMIT))


@dataclass(eq=False)
class ScoreCounts:
    """How often each score occurs in each class, in bins: 8 bytes a bin, whatever the number of videos.

    Attributes:
      labelled: int64 [C, BINS], the videos with the label.
      others: int64 [C, BINS], the videos without it.
      other_labels: int64 [C, BINS], the labels of the videos without it.
    """

    labelled: Ints64
    others: Ints64
    other_labels: Ints64

    @classmethod
    def of_classes(cls, num_classes: int) -> Self:
        """Counts of no video yet."""
        return cls(*np.zeros((3, num_classes, BINS), np.int64))

    def add(self, scores: Floats32, labels: Bools) -> None:
        """Adds the log-odds [B, C] of some videos, with their labels [B, C]."""
        bins = _bins(np.arange(scores.shape[1], dtype=np.int32), scores)
        size, shape = self.others.size, self.others.shape
        every, labelled = np.bincount(bins.ravel(), minlength=size), np.bincount(bins[labels], minlength=size)
        num_labels = labels.sum(1)
        of_all = np.bincount(bins.ravel(), np.repeat(num_labels, labels.shape[1]), size)
        of_labelled = np.bincount(bins[labels], np.repeat(num_labels, num_labels), size)
        self.labelled += labelled.reshape(shape)
        self.others += (every - labelled).reshape(shape)
        self.other_labels += (of_all - of_labelled).astype(np.int64).reshape(shape)

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        pairs = ((getattr(self, name), getattr(other, name)) for name in SCORE_COUNTS)
        return ScoreCounts(*itertools.starmap(operator.add, pairs))


def _bins(classes: Ints32, scores: Floats32) -> Ints32:
    """The position of each (class, score) pair in counts [C, BINS], int32 of their shape."""
    bins = np.minimum((scores + np.float32(_LIMIT)) * np.float32(BINS / 2 / _LIMIT), BINS - 1).astype(np.int32)
    return np.asarray(bins + classes * BINS)


class PairCounts(NamedTuple):
    """How often each score occurs among some pairs of videos and classes.

    Attributes:
      labelled: int64 [C, BINS], the pairs with the label.
      others: int64 [C, BINS], the pairs without it.
    """

    labelled: Ints64
    others: Ints64

    @classmethod
    def of_pairs(cls, num_classes: int, classes: Ints32, scores: Floats32, labels: Bools) -> Self:
        """Counts the log-odds of pairs; classes, scores and labels have the same shape."""
        bins, size = _bins(classes, scores), num_classes * BINS
        counts = (np.bincount(bins[labels == is_label], minlength=size) for is_label in (True, False))
        return cls(*(each.reshape(num_classes, BINS) for each in counts))


SCORE_COUNTS = tuple(field.name for field in dataclasses.fields(ScoreCounts))
_SCORES = (np.arange(BINS) + 0.5) * (2 * _LIMIT / BINS) - _LIMIT  # in the middle of each bin


class Margins(NamedTuple):
    """How the scores of each class become margins. All arrays are float64 [C].

    Attributes:
      middle: the score whose margin is 0.
      slope: the margin of a score that is 1 above.
      prior: log-odds that a video has the label.
    """

    middle: Floats64
    slope: Floats64
    prior: Floats64

    def at(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The margins of some (class, score) pairs, float64 of their shape."""
        return np.asarray((scores - self.middle[classes]) * self.slope[classes])


def _margins(counts: ScoreCounts) -> Margins:
    labelled, others = counts.labelled.sum(1), counts.others.sum(1)
    mean_labelled, _ = _moments(counts.labelled)
    mean_others, variance = _moments(counts.others)
    usual = max(np.average(variance, weights=np.maximum(others, _LEAST)), _RESOLUTION**2)
    spread = np.sqrt((others * variance + usual) / (others + 1))
    distance = (mean_labelled - mean_others) / spread
    of_all = np.average(distance, weights=np.maximum(labelled, _LEAST))
    distance = (labelled * distance + _FEW_SCORES * of_all) / (labelled + _FEW_SCORES)
    distance = np.maximum(distance, 0.05)  # a class that the model does not know at all has margins near 0
    return Margins(mean_others + distance * spread / 2, distance / spread, np.log((labelled + 0.5) / (others + 0.5)))


def _moments(counts: Ints64) -> tuple[Floats64, Floats64]:
    """The mean score and the variance of each class, float64 [C]; 0 for a class without a video."""
    total = np.maximum(counts.sum(1), _LEAST)
    mean = counts @ _SCORES / total
    return mean, np.maximum(counts @ _SCORES**2 / total - mean**2, 0)


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """What the scores say about wrong and missing labels; `estimate` makes it.

    Attributes:
      wrong, missing: the share of the labels that are wrong, and of the true labels that are missing.
      class_wrong, class_missing: float64 [C], the same for each class.
      ratio, share: the curves that rank; see the module.
      chance_wrong, chance_missing: the chances at the log-odds by which labels are ranked.
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
        """The log-odds by which labels are ranked as wrong; rougher than the chances, but hardly ever equal."""
        return _shifted(self._wrong(self.margins.at(classes, scores)), self.wrong, self.class_wrong[classes])

    def missing_odds(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The log-odds by which classes of videos without the label are ranked as missing."""
        chances = self._missing(self.margins.at(classes, scores), self.margins.prior[classes])
        return _shifted(chances, self.missing, self.class_missing[classes])

    def _wrong(self, margins: Floats64) -> Floats64:
        return np.minimum(self.wrong * np.exp(-self.ratio(margins)), 1)

    def _missing(self, margins: Floats64, prior: Floats64) -> Floats64:
        share = 1 / (1 + np.exp(-self.share(margins + prior)))
        false_label = np.minimum(self.wrong * np.exp(prior), share)
        present = np.clip((share - false_label) / (1 - self.missing - false_label), 0, 1)
        return np.minimum(self.missing * present / (1 - share), 1)

    def with_class_rates(self, counts: PairCounts) -> LabelNoise:
        """The same with the share of errors of each class, which is shrunk towards that of all."""
        classes, scores = _grid(counts.labelled)
        margins = self.margins.at(classes, scores)
        wrong = (counts.labelled * self._wrong(margins)).sum(1)
        missing = (counts.others * self._missing(margins, self.margins.prior[classes])).sum(1)
        labels = counts.labelled.sum(1)
        class_wrong = (wrong + _FEW_LABELS * self.wrong) / (labels + _FEW_LABELS)
        class_missing = (missing + _FEW_LABELS * self.missing) / (labels - wrong + missing + _FEW_LABELS)
        return dataclasses.replace(self, class_wrong=class_wrong, class_missing=class_missing)

    def calibrated(self, counts: PairCounts, ratio: RisingCurve, share: RisingCurve) -> LabelNoise:
        """The same ranking with the chances that follow from other curves."""
        other, (classes, scores) = dataclasses.replace(self, ratio=ratio, share=share), _grid(counts.labelled)
        wrong = _mean_chances(self.wrong_odds(classes, scores), other.wrong_odds(classes, scores), counts.labelled)
        missing = _mean_chances(self.missing_odds(classes, scores), other.missing_odds(classes, scores), counts.others)
        return dataclasses.replace(self, chance_wrong=wrong, chance_missing=missing)


def _grid(counts: Ints64) -> tuple[Ints64, Floats64]:
    """The class and the score of each bin, [C, BINS]."""
    classes = np.arange(len(counts))[:, np.newaxis]
    return np.broadcast_to(classes, counts.shape), np.broadcast_to(_SCORES, counts.shape)


def _shifted(chances: Floats64, rate: float, rates: Floats64) -> Floats64:
    """The log-odds of chances of errors at the rate `rate`, turned into those at `rates`."""
    chances = np.clip(chances, _LEAST, 1 - _LEAST)
    return np.asarray(_logits(chances) + _logits(rates) - _logits(np.asarray(rate)))


def _logits(chances: Floats64) -> Floats64:
    return np.asarray(np.log(chances / (1 - chances)))


def _mean_chances(ranks: Floats64, odds: Floats64, weights: Ints64) -> RisingCurve:
    """The mean chance at each rank, from log-odds of chances; 0 if there is nothing to rank."""
    if not weights.any():
        return RisingCurve(np.zeros(1), np.zeros(1))
    steps, errors, every = _pooled(ranks, weights / (1 + np.exp(-odds)), weights)
    return rising_steps(steps, errors / every, every).over_steps()


def estimate(counts: ScoreCounts, listed: PairCounts) -> LabelNoise:
    """What the scores of all videos say about their labels.

    Args:
      counts: all videos and classes.
      listed: those among which missing labels are looked for: the best classes of each video.
    """
    margins, (classes, scores) = _margins(counts), _grid(counts.labelled)
    positions, of_wrong = margins.at(classes, scores), _scores_of_wrong(counts)
    positions_of_share = positions + margins.prior[classes]
    ratio, share = _steps(positions, counts.labelled, of_wrong), _steps(positions_of_share, *listed)
    wrong, missing = _wrong_share(counts.labelled, of_wrong), _missing_share(positions_of_share, *listed)
    class_wrong, class_missing = (np.full(len(counts.labelled), rate) for rate in (wrong, missing))
    curves = _in_log_odds(ratio).through_middles(), _in_log_odds(share).through_middles()
    noise = LabelNoise(wrong, missing, class_wrong, class_missing, margins, *curves, *curves)
    judged = PairCounts(counts.labelled, listed.others)
    flat = _in_log_odds(ratio).over_steps(), _in_log_odds(share.merged(_DIFFERENT)).over_steps()
    return noise.with_class_rates(judged).calibrated(judged, *flat)


def _pooled(positions: Floats64, *weights: Floats64 | Ints64) -> tuple[Floats64, ...]:
    """The positions that have a weight, in steps of a tenth, and the sums of the weights there."""
    used = np.flatnonzero(sum(weights))
    steps, members = np.unique(np.rint(positions.ravel()[used] * _POSITIONS), return_inverse=True)
    sums = (np.bincount(members, each.ravel()[used], len(steps)).astype(np.float64) for each in weights)
    return np.asarray(steps / _POSITIONS), *sums


def _steps(positions: Floats64, labelled: Ints64, others: Floats64 | Ints64) -> RisingSteps:
    """The share of labels at each position, rising."""
    knots, yes, no = _pooled(positions, labelled, others)
    return rising_steps(knots, yes / (yes + no), yes + no)


def _in_log_odds(steps: RisingSteps) -> RisingSteps:
    """Shares as log-odds, bounded by what so many videos can show."""
    least = 0.5 / (steps.weights.sum() + 1)
    return steps._replace(values=_logits(np.clip(steps.values, least, 1 - least)))


def _upper(counts: Floats64) -> Floats64:
    """The upper end of the score interval of a Poisson mean, wide enough for a minimum over all positions."""
    return np.asarray(counts + _DEVIATIONS**2 / 2 + _DEVIATIONS * np.sqrt(counts + _DEVIATIONS**2 / 4))


def _scores_of_wrong(counts: ScoreCounts) -> Floats64:
    """How often each score would occur if all labels were wrong, float64 [C, BINS]."""
    labels = counts.labelled.sum(1) / np.maximum(counts.other_labels.sum(1), 1)
    return np.asarray(counts.other_labels * labels[:, np.newaxis])


def _wrong_share(labelled: Ints64, of_wrong: Floats64) -> float:
    """The share of labels that is wrong: the least ratio of labels to wrong ones below a rank within the class."""
    ranks = of_wrong.cumsum(1) / np.maximum(of_wrong.sum(1), _LEAST)[:, np.newaxis]
    _, yes, no = _pooled(_RANKS / _POSITIONS * ranks, labelled, of_wrong)
    below, other = np.cumsum(yes), np.maximum(np.cumsum(no), _LEAST)
    bounds = _upper(below) / other
    index = int(np.argmin(bounds))
    return _share_if_known("wrong", float(bounds[index]), float((below[index] + 0.5) / other[index]))


def _missing_share(positions: Floats64, labelled: Ints64, others: Ints64) -> float:
    """The share of true labels that is missing.

    Above any position, the share of the videos that lack the label is at least this share. So the position at which the
    upper bound of that share is least gives the estimate.
    """
    _, yes, no = _pooled(positions, labelled, others)
    above, without = np.cumsum(yes[::-1]), np.cumsum(no[::-1])
    bounds = _upper(without) / (above + _upper(without))
    index = int(np.argmin(bounds))
    share = (without[index] + 0.5) / (above[index] + without[index] + 1)
    return _share_if_known("missing", float(bounds[index]), float(share))


def _share_if_known(kind: str, bound: float, share: float) -> float:
    """The share of errors; hardly any, with a warning, if its upper bound says nothing."""
    if bound < _LARGEST_SHARE:
        return max(share, _LEAST_SHARE)
    logging.warning("the scores do not tell how many labels are %s: the videos are too few, or the model too bad", kind)
    return _LEAST_SHARE
