"""The chance that a label is wrong, or that one is missing, from scores of models that have not seen the video.

A score is the log-odds that a model gives to a class. Two steps lead from scores to chances:

1. *Curves.* `class_curves` fits, for each class, how often a video has the label as a function of the score. From its
   curve a class gets the log-odds z that it is present in a video, a share a of missing labels and a share b of false
   ones. log(b / (1 - a)) - z are the log-odds that a label is wrong, and log(a / (1 - b)) + z those that one is missing
   (D. Angluin and P. Laird, Learning from Noisy Examples, Machine Learning 2 (1988), for the noise model). If classes
   do not differ, both rank as the scores themselves do.
2. *Rates.* The curves say only roughly how many errors there are. In any part of the labels, at most as many are wrong
   as there are labels, and among those with the most suspicious scores nearly all are. There the number of labels,
   divided by the number of wrong ones that the curves expect, is the factor by which b is corrected. The part is chosen
   where the upper bound of this factor is tightest, as in G. Blanchard, G. Lee and C. Scott, Semi-Supervised Novelty
   Detection, JMLR 11 (2010). Likewise a, from the pairs without a label. If even the bound of a share of errors is a
   half or more, the scores say too little, and the share counts as nearly 0.

All this assumes that each label of a class is wrong with the same chance, whatever else the video shows. So the wrong
labels are expected where the videos that do not show the class are, each counted as often as it has labels. If the
labelling confuses two classes that look alike, the models learn to expect the wrong labels, and hardly any seems wrong.
`confident_joint` does not assume it, but takes doubtful labels for wrong ones. So both shares are given. Where they are
of nearly the same size, each class has its own a; else all have nearly the same. Where that of the confident joint is
many times as large, nothing says which is right, and the chances of wrong and missing labels cannot be compared. The
chances that labels are wrong then add up to the geometric mean of both shares, in proportion to how much the curves
doubt each label. One list then ranks both kinds alike, by z; so it does if the two shares of missing labels, or those
of wrong ones, differ by more than _NEAR, since perhaps none is missing, or the curves see few of the wrong ones. If by
the curves hardly any label is wrong, both are ranked by their scores alone, whatever the class, wrong ones as if they
were _LESS_WRONG less probable (as log-odds), since labels are more often left out than false.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from absl import logging

from yt8m.eval_util.arrays import Floats32, Floats64, Ints64
from yt8m.labels.class_curves import MISSING, ClassCurves, fit_curves, sigmoid
from yt8m.labels.confident_joint import JointShares, joint_shares
from yt8m.labels.score_counts import BIN_SCORES, ScoreCounts

_POSITIONS = 10.0  # log-odds of errors are rounded to 1 / _POSITIONS where pairs are counted
_DEVIATIONS = 5.0  # number of standard deviations of the upper bounds from which the shares of errors follow
_LARGEST_SHARE = 0.5  # if the upper bound of a share of errors is not below this, the share is unknown
_LEAST_SHARE = 1e-4  # smallest estimate of a share of errors, and the one of an unknown share
_LEAST = 1e-9  # keeps divisors off 0
# If the confident joint gives a share of wrong labels that is larger by at most _AGREES, the two shares agree; if it is
# larger by more than _CONTRADICTS, nothing says which is right (see the top of this file).
_AGREES, _CONTRADICTS = 1.75, 7.0
_HARDLY_ANY = 30.0  # if the confident joint's share is so many times as large, the curves see hardly any wrong label
_LESS_WRONG = 1.0
# Only if the confident joint's shares are at most so many times as large does the list of both kinds follow the
# shares of the curves. If that of wrong labels is larger, as where classes that look alike are confused and others
# left out, the curves see the wrong labels of some classes alone, and the list begins with those. The share of
# missing labels is up to 13 % where classes are hard to tell apart, although none is missing
# (benchmarks/label_worlds.py, the kind `added`), and the joint then says at least 2.8 times as much.
_NEAR = 2.5
_LEAST_TOLD = 0.005  # if both shares are below this, it does not matter that they differ


class RankingBasis(enum.Enum):
    """By what wrong and missing labels are ranked in one list; see the top of this file."""

    RATES = enum.auto()  # the log-odds of the error: those of the curves, with the shares of errors
    CURVES = enum.auto()  # the log-odds that the class is present, whichever kind is the more frequent
    SCORES = enum.auto()  # the scores


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """The estimate of wrong and missing labels; `estimate` makes it. The top of this file describes its parts.

    Attributes:
      wrong: the share of the labels that are wrong.
      missing: the share of the true labels that are missing.
      joint: both shares by the confident joint.
      class_wrong, class_missing: float64 [C], the shares for each class.
      curves: the curves of the classes, with the shares a and b that the rates have corrected.
      is_comparable: whether the chances of wrong and missing labels can be compared.
      ranking: by what both kinds are ranked in one list.
      doubt: how many times as large as the doubts of the curves the chances of wrong labels are, if they cannot be
        compared.
    """

    wrong: float
    missing: float
    joint: JointShares
    class_wrong: Floats64
    class_missing: Floats64
    curves: ClassCurves
    is_comparable: bool
    ranking: RankingBasis
    doubt: float

    def wrong_odds(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The log-odds by which labels are ranked as wrong.

        Args:
          scores: the scores of the labels, of the same shape.
        """
        if self.ranking is RankingBasis.RATES:
            return _wrong_odds(self.curves, classes, scores)
        if self.ranking is RankingBasis.CURVES:
            return np.asarray(-self.curves.log_odds(classes, scores))
        return np.asarray(-_LESS_WRONG - scores, float)

    def missing_odds(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The log-odds by which labels are ranked as missing.

        Args:
          scores: the scores of these classes, of the same shape.
        """
        if self.ranking is RankingBasis.RATES:
            return _missing_odds(self.curves, classes, scores)
        return np.asarray(
            self.curves.log_odds(classes, scores) if self.ranking is RankingBasis.CURVES else scores, float
        )

    def wrong_chances(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The chances that labels are wrong; the arguments are those of `wrong_odds`."""
        if self.is_comparable:
            return sigmoid(_wrong_odds(self.curves, classes, scores))
        return np.minimum(self.doubt * (1 - self.curves.label_shares(classes, scores)), 1)

    def missing_chances(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The chances that labels are missing; the arguments are those of `missing_odds`."""
        return sigmoid(_missing_odds(self.curves, classes, scores))

    def contradictions(self) -> dict[str, tuple[float, float]]:
        """{kind of error: (its share, its share by the confident joint)}, where the two do not agree."""
        shares = {"wrong": (self.wrong, self.joint.wrong), "missing": (self.missing, self.joint.missing)}
        return {kind: pair for kind, pair in shares.items() if max(pair) > max(_AGREES * min(pair), _LEAST_TOLD)}


def _wrong_odds(curves: ClassCurves, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
    """log(b / (1 - a)) - z."""
    offsets = np.log(curves.false / (1 - curves.missing))
    return np.asarray(offsets[classes] - curves.log_odds(classes, scores))


def _missing_odds(curves: ClassCurves, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
    """log(a / (1 - b)) + z."""
    offsets = np.log(curves.missing / (1 - curves.false))
    return np.asarray(offsets[classes] + curves.log_odds(classes, scores))


def estimate(counts: ScoreCounts) -> LabelNoise:
    """Estimates how many labels are wrong and missing, and the chances of single labels, from the scores of videos."""
    fit = fit_curves(counts.labelled, counts.others)
    rates = _Rates.of_curves(counts, fit.curves)
    joint = joint_shares(fit.curves.label_shares(*_bin_grid(counts)), counts.labelled, counts.others)
    if rates.wrong.is_known and joint.wrong <= _AGREES * rates.wrong.share:
        fit.let_differ(MISSING)
        fit.run()
        rates = _Rates.of_curves(counts, fit.curves)
    for kind, rate in (("wrong", rates.wrong), ("missing", rates.missing)):
        if not rate.is_known:
            logging.warning(
                "the scores do not tell how many labels are %s, so hardly any is listed as %s: the videos are too few, "
                "or the models too bad; audit more videos, or train longer by --num_epochs",
                kind,
                kind,
            )
    return _noise(counts, fit.curves, rates, joint)


class _Rate(NamedTuple):
    """How many errors there are, beside the number that the curves expect; step 2 at the top of this file.

    Attributes:
      share: the share of errors.
    """

    factor: float
    share: float
    is_known: bool

    @classmethod
    def of_errors(cls, suspicion: Floats64, seen: Ints64, expected: Floats64, total: float) -> _Rate:
        """Estimates how many of the seen pairs are errors.

        Args:
          suspicion: [C, B], the log-odds by which the pairs of each bin are ranked as errors.
          seen: [C, B], number of pairs that may be errors.
          expected: [C, B], the number of errors among them that the curves expect.
        """
        pairs, errors = (np.cumsum(sums) for sums in _sums_by_position(-suspicion, seen, expected))
        bounds = _upper_bounds(pairs) / np.maximum(errors, _LEAST)
        index, expected_share = int(np.argmin(bounds)), max(float(expected.sum()), _LEAST) / max(total, _LEAST)
        if bounds[index] * expected_share >= _LARGEST_SHARE:
            return cls(_LEAST_SHARE / expected_share, _LEAST_SHARE, is_known=False)
        share = float((pairs[index] + 0.5) / max(errors[index], _LEAST)) * expected_share
        share = max(share, _LEAST_SHARE)
        return cls(share / expected_share, share, is_known=True)


class _Rates(NamedTuple):
    """The rates of both kinds of errors, and the numbers of wrong labels in the bins, [C, BINS], that follow."""

    wrong: _Rate
    missing: _Rate
    wrong_labels: Floats64

    @classmethod
    def of_curves(cls, counts: ScoreCounts, curves: ClassCurves) -> _Rates:
        """Estimates the rates from the scores and the curves that were fitted to them."""
        grid = _bin_grid(counts)
        present = sigmoid(curves.log_odds(*grid))
        wrong_labels = _expected_wrong_labels(counts, curves, present)
        labels = float(counts.labelled.sum())
        wrong = _Rate.of_errors(_wrong_odds(curves, *grid), counts.labelled, wrong_labels, labels)
        shown = (counts.labelled + counts.others) * present
        missing_labels = shown * curves.missing[:, np.newaxis]
        suspicion = _missing_odds(curves, *grid)
        missing = _Rate.of_errors(suspicion, counts.others, missing_labels, float(shown.sum()))
        return cls(wrong, missing, wrong_labels * wrong.factor)


def _noise(counts: ScoreCounts, curves: ClassCurves, rates: _Rates, joint: JointShares) -> LabelNoise:
    """The estimate that follows from the rates and the shares of the confident joint."""
    labels = counts.labelled.sum(1)
    doubts = float((counts.labelled * (1 - curves.label_shares(*_bin_grid(counts)))).sum())
    between = (joint.wrong * rates.wrong.share) ** 0.5
    corrected = curves._replace(
        false=np.clip(curves.false * rates.wrong.factor, _LEAST, _LARGEST_SHARE),
        missing=np.clip(curves.missing * rates.missing.factor, _LEAST, _LARGEST_SHARE),
    )
    is_comparable = rates.wrong.is_known and rates.missing.is_known and joint.wrong <= _CONTRADICTS * rates.wrong.share
    return LabelNoise(
        wrong=rates.wrong.share,
        missing=rates.missing.share,
        joint=joint,
        class_wrong=np.minimum(rates.wrong_labels.sum(1) / np.maximum(labels, 1), 1),
        class_missing=corrected.missing,
        curves=corrected,
        is_comparable=is_comparable,
        ranking=_ranking_basis(rates, joint, is_comparable),
        doubt=between * float(labels.sum()) / max(doubts, _LEAST),
    )


def _ranking_basis(rates: _Rates, joint: JointShares, is_comparable: bool) -> RankingBasis:
    """By what both kinds of errors are ranked in one list."""
    is_sure = joint.missing <= _NEAR * rates.missing.share or joint.wrong <= _AGREES * rates.wrong.share
    if is_comparable and is_sure and joint.wrong <= _NEAR * rates.wrong.share:
        return RankingBasis.RATES
    if rates.wrong.is_known and joint.wrong <= _HARDLY_ANY * rates.wrong.share:
        return RankingBasis.CURVES
    return RankingBasis.SCORES


def _expected_wrong_labels(counts: ScoreCounts, curves: ClassCurves, present: Floats64) -> Floats64:
    """The number of wrong labels in each bin that the curves expect, [C, BINS].

    They are a share of the videos that do not show the class. Among the videos without the label these are found by
    `present`, the chance that the class is present, [C, BINS]. Each counts as often as it has labels.
    """
    missing, false = curves.missing[:, np.newaxis], curves.false[:, np.newaxis]
    absent = (1 - false) * (1 - present)
    absent = absent / np.maximum(absent + missing * present, _LEAST)
    videos_per_label = counts.others.sum(1) / np.maximum(counts.other_labels.sum(1), 1)
    return np.asarray(counts.other_labels * absent * videos_per_label[:, np.newaxis] * false / (1 - false))


def _bin_grid(counts: ScoreCounts) -> tuple[Ints64, Floats64]:
    """The class and the middle score of each bin: [C, BINS] each."""
    shape = counts.labelled.shape
    return np.broadcast_to(np.arange(shape[0])[:, np.newaxis], shape), np.broadcast_to(BIN_SCORES, shape)


def _sums_by_position(positions: Floats64, *weights: Floats64 | Ints64) -> tuple[Floats64, ...]:
    """The sums of each of some weights at each position, rounded to 1 / _POSITIONS, in ascending order of positions."""
    _, members = np.unique(np.rint(positions.ravel() * _POSITIONS), return_inverse=True)
    return tuple(np.asarray(np.bincount(members, each.ravel()), float) for each in weights)


def _upper_bounds(counts: Floats64) -> Floats64:
    """Upper bounds of Poisson means, from observed counts: the upper ends of their score intervals.

    The interval has _DEVIATIONS standard deviations, so that the minimum of many bounds is still a bound.
    """
    return np.asarray(counts + _DEVIATIONS**2 / 2 + _DEVIATIONS * np.sqrt(counts + _DEVIATIONS**2 / 4))
