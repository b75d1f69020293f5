"""How often a video has a label, as a function of the score of the class: a curve with four parameters for each class.

A score s is the log-odds that a model gives to a class. If the class is present with the log-odds u s + v, the share a
of the videos that show it lacks the label, and the share b of the others has it, then a video has the label with the
chance

    P(s) = b + (1 - a - b) sigmoid(u s + v)

(the noise model of D. Angluin and P. Laird, Learning from Noisy Examples, Machine Learning 2, 1988). For scores that
are right about the labels, u = 1 and v = 0, so that classes are ranked by their scores alone.

The parameters of a class are drawn towards those of the other classes, all the more the fewer videos say otherwise and
the less classes differ (empirical Bayes: B. Efron and C. Morris, Data Analysis Using Stein's Estimator, Journal of the
American Statistical Association 70, 1975). Log a and log b (as log-odds), log u and v are normally distributed over
the classes. For each class the fit finds the most probable parameters by Fisher scoring; mean and deviation over the
classes follow from these and from the curvature there (Laplace's approximation). If classes do not differ, their
deviations become nearly 0 and all have one curve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Floats32, Floats64, Ints64
from yt8m.labels.score_counts import BIN_SCORES

_ROUNDS = 30
MISSING, FALSE, _SLOPE, _INTERCEPT = range(4)  # columns of the parameters
_START = np.array([-2.5, -5.0, 0.0, 0.0])
_START_DEVIATIONS = np.array([0.5, 0.5, 0.3, 0.5])
_LOWEST, _HIGHEST = np.array([-12.0, -12.0, -3.0, -60.0]), np.array([0.0, 0.0, 3.0, 60.0])
_COMMON = 0.02  # deviation of a parameter that is to be nearly the same for all classes
# The least deviation of the log-odds of a, if it differs. The estimate is too small, as u and v can stand in for a.
_DIFFERENT = 0.3
# Logarithm of how many times as probable the scores must become, for each class, for classes to have a b of their own.
_LEAST_EVIDENCE = 1.0
_LEAST_DEVIATION = 1e-3
_LARGEST_STEP = np.array([1.0, 1.0, 1.0, 5.0])
_FRACTIONS = (1.0, 0.3, 0.1, 0.03)  # of a step; the first that makes the parameters more probable is taken
_SETTLED = 1e-3  # the fit ends if no parameter changes by more
_LEAST = 1e-12  # keeps chances off 0 and 1


class ClassCurves(NamedTuple):
    """The curves of C classes; the top of this file explains the parameters. All arrays are float64 [C].

    Attributes:
      missing: a, the share of the videos that show the class but lack the label.
      false: b, the share of the videos that do not show the class but have the label.
      slope: u, by how much the log-odds of the class rise if the score rises by 1.
      intercept: v, the log-odds of the class at a score of 0.
    """

    missing: Floats64
    false: Floats64
    slope: Floats64
    intercept: Floats64

    def log_odds(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The log-odds that some classes are present, from their scores, float64 of the same shape."""
        return np.asarray(self.slope[classes] * scores + self.intercept[classes])

    def label_shares(self, classes: Ints64, scores: Floats32 | Floats64) -> Floats64:
        """The chances P that videos with these scores have the labels, of the same shape."""
        missing, false = self.missing[classes], self.false[classes]
        return np.asarray(false + (1 - missing - false) * sigmoid(self.log_odds(classes, scores)))


def sigmoid(log_odds: Floats64) -> Floats64:
    """The chances of some log-odds; those beyond 60 count as 60."""
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -60, 60))))


def fit_curves(labelled: Ints64, others: Ints64) -> CurveFit:
    """Begins a fit, and lets each class have its own b if that makes the scores much more probable.

    Args:
      labelled, others: [C, BINS], how many videos with and without the label have the scores of each bin.
    """
    fit, freer = CurveFit(labelled, others), CurveFit(labelled, others)
    freer.let_differ(FALSE)
    fit.run()
    freer.run()
    return freer if freer.evidence() - fit.evidence() > _LEAST_EVIDENCE * len(labelled) else fit


class CurveFit:
    """Fits the curves of C classes. The shares a and b are nearly the same for all, until `let_differ` is called."""

    def __init__(self, labelled: Ints64, others: Ints64) -> None:
        """Begins a fit to how many videos with and without the label have the scores of each bin, [C, BINS] each."""
        used = (labelled + others).any(0)
        self._scores, self._labelled = BIN_SCORES[used], labelled[:, used].astype(np.float64)
        self._videos = self._labelled + others[:, used]
        self._parameters = np.tile(_START, (len(labelled), 1))  # log-odds of a and b, log u, and v of each class
        self._mean, self._deviations = _START.copy(), _START_DEVIATIONS.copy()
        self._common = {MISSING, FALSE}
        self._deviations[[*self._common]] = _COMMON

    def let_differ(self, share: int) -> None:
        """From now on, each class has its own share of missing or false labels; `share` is MISSING or FALSE."""
        self._common.discard(share)
        self._deviations[share] = _START_DEVIATIONS[share]

    def run(self) -> None:
        """Fits, beginning where the last run ended."""
        for _ in range(_ROUNDS):
            if self._improve() < _SETTLED:
                break

    @property
    def curves(self) -> ClassCurves:
        """The curves of the last run."""
        missing, false, slope, intercept = self._parameters.T
        return ClassCurves(sigmoid(missing), sigmoid(false), np.exp(slope), intercept)

    def evidence(self) -> float:
        """The logarithm of how probable the scores are, whatever the parameters of each class are, up to a constant."""
        _, information = self._slopes()
        _, curvature = np.linalg.slogdet(information + np.diag(1 / self._deviations**2))
        volume = curvature / 2 + np.log(self._deviations).sum()
        return float((self._log_posterior(self._parameters, self._mean) - volume).sum())

    def _improve(self) -> float:
        """Makes one round: a step of each class, one of all together, new deviations; returns the largest change."""
        before = self._parameters
        slopes, information = self._slopes()
        precision = 1 / self._deviations**2
        curvature = information + np.diag(precision)
        steps = np.linalg.solve(curvature, (slopes - (before - self._mean) * precision)[..., np.newaxis])[..., 0]
        self._step_each(_limited(steps))
        self._step_together()
        variances = np.diagonal(np.linalg.inv(curvature), axis1=1, axis2=2)
        self._mean = self._parameters.mean(0)
        spread = np.sqrt(((self._parameters - self._mean) ** 2 + variances).mean(0))
        self._deviations = np.maximum(spread, _LEAST_DEVIATION)
        self._deviations[MISSING] = max(self._deviations[MISSING], _DIFFERENT)
        self._deviations[[*self._common]] = _COMMON
        return float(np.abs(self._parameters - before).max())

    def _shares(self, parameters: Floats64) -> tuple[Floats64, Floats64]:
        """The chance that the class is present, and P, at each bin that has a video, [C, B] each."""
        missing, false = sigmoid(parameters[:, :2]).T[..., np.newaxis]
        slope, intercept = np.exp(parameters[:, _SLOPE, np.newaxis]), parameters[:, _INTERCEPT, np.newaxis]
        present = sigmoid(slope * self._scores + intercept)
        return present, np.clip(false + (1 - missing - false) * present, _LEAST, 1 - _LEAST)

    def _slopes(self) -> tuple[Floats64, Floats64]:
        """The derivative of the log-likelihood of each class, [C, 4], and Fisher's information, [C, 4, 4]."""
        present, shares = self._shares(self._parameters)
        missing, false = sigmoid(self._parameters[:, :2]).T[..., np.newaxis]
        rise = (1 - missing - false) * present * (1 - present)
        derivatives = np.stack(
            [
                -missing * (1 - missing) * present,
                false * (1 - false) * (1 - present),
                rise * np.exp(self._parameters[:, _SLOPE, np.newaxis]) * self._scores,
                rise,
            ],
            axis=1,
        )
        variances = shares * (1 - shares)
        errors = (self._labelled - self._videos * shares) / variances
        weighted = derivatives * (self._videos / variances)[:, np.newaxis]
        slopes = np.einsum("cpb,cb->cp", derivatives, errors)
        return slopes, np.asarray(weighted @ derivatives.transpose(0, 2, 1))

    def _log_posterior(self, parameters: Floats64, mean: Floats64) -> Floats64:
        """The logarithm of how probable the parameters of each class are, up to a constant, [C]."""
        _, shares = self._shares(parameters)
        likelihood = self._labelled * np.log(shares) + (self._videos - self._labelled) * np.log1p(-shares)
        return np.asarray(likelihood.sum(1) - (((parameters - mean) / self._deviations) ** 2).sum(1) / 2)

    def _step_each(self, steps: Floats64) -> None:
        """Takes a step of each class, or the largest fraction of it that makes its parameters more probable."""
        before = self._log_posterior(self._parameters, self._mean)
        waiting = np.ones(len(steps), np.bool_)
        for fraction in _FRACTIONS:
            moved = np.clip(self._parameters + fraction * steps, _LOWEST, _HIGHEST)
            better = waiting & (self._log_posterior(moved, self._mean) > before)
            self._parameters = np.where(better[:, np.newaxis], moved, self._parameters)
            waiting &= ~better
            if not waiting.any():
                break

    def _step_together(self) -> None:
        """Moves the parameters of all classes and their mean by one step, if that makes them more probable.

        A parameter whose deviation is small can hardly move in any other way.
        """
        slopes, information = self._slopes()
        step = np.linalg.solve(information.sum(0) + np.diag(np.full(4, _LEAST_DEVIATION)), slopes.sum(0))
        before = self._log_posterior(self._parameters, self._mean).sum()
        for fraction in _FRACTIONS:
            change = fraction * _limited(step)
            moved = np.clip(self._parameters + change, _LOWEST, _HIGHEST)
            if self._log_posterior(moved, self._mean + change).sum() > before:
                self._parameters, self._mean = moved, self._mean + change
                return


def _limited(steps: Floats64) -> Floats64:
    """Steps [..., 4] in the same directions, none longer than _LARGEST_STEP."""
    excess = np.abs(steps / _LARGEST_STEP).max(-1, keepdims=True)
    return np.asarray(steps / np.maximum(excess, 1))
