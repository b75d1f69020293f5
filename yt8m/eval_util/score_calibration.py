"""Measures how well scores match frequencies, and turns scores into probabilities by Platt scaling.

The calibrated score of a score s is sigmoid(slope * logit(s) + intercept), with one slope and one intercept for all
classes (J. Platt, Probabilistic Outputs for Support Vector Machines, 1999; C. Guo, G. Pleiss, Y. Sun and K. Weinberger,
On Calibration of Modern Neural Networks, ICML 2017, section 4). A positive slope keeps the order of all scores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.eval_util.videos import Videos

BINS = 10  # number of bins of `Reliability`
# `logits` moves lower and higher scores to these: the smallest normal float32, and the largest float32 below 1.
_SMALLEST, _LARGEST = np.float64(np.finfo(np.float32).tiny), 1 - np.float64(np.finfo(np.float32).epsneg)
# Newton's method ends after this many steps, or once the gradient (a mean over predictions) is below the tolerance.
_MOST_STEPS, _TOLERANCE = 100, 1e-10


class Reliability(NamedTuple):
    """Predictions in BINS bins of equal width by score, from 0 to 1; empty bins are left out.

    Attributes:
      shares: share of the predictions in each bin that are correct.
      sizes: int64, number of predictions in each bin.
      error: expected calibration error, the mean of |share - score| over predictions (Naeini et al. 2015).
    """

    scores: Floats64
    shares: Floats64
    sizes: Ints64
    error: float


class PlattScaling(NamedTuple):
    """The scaling sigmoid(slope * logit(score) + intercept)."""

    slope: float
    intercept: float

    def apply(self, scores: npt.NDArray[np.floating[Any]]) -> Floats64:
        """The calibrated scores, of the shape of `scores`, which are from 0 to 1."""
        return _sigmoid(self.slope * logits(scores) + self.intercept)


class Calibration(NamedTuple):
    """A scaling that was fitted to videos, and the effect of such a scaling on videos that it was not fitted to.

    The values after scaling are cross-fitted: each half of the videos, divided by the hashes of their ids, is scaled
    with the scaling that was fitted to the other half.
    """

    scaling: PlattScaling
    videos: int
    predictions: int
    ece: float
    ece_scaled: float
    log_loss: float
    log_loss_scaled: float

    def line(self) -> str:
        """The effect of scaling on the calibration error, as a line for a terminal."""
        return (
            f"calibration: scores differ by {self.ece:.3f} on average from the shares of right predictions, and by "
            f"{self.ece_scaled:.3f} after scaling (logits times {self.scaling.slope:.4g} plus "
            f"{self.scaling.intercept:.4g}), measured on videos that it was not fitted to"
        )

    def as_json(self) -> dict[str, float]:
        """The calibration for report.json."""
        return {**self.scaling._asdict(), **{key: value for key, value in self._asdict().items() if key != "scaling"}}


def logits(scores: npt.NDArray[np.floating[Any]]) -> Floats64:
    """log(s / (1 - s)) of scores s from 0 to 1, clipped to _SMALLEST and _LARGEST, since 0 and 1 have no logit."""
    within = np.clip(scores.astype(np.float64), _SMALLEST, _LARGEST)
    return np.asarray(np.log(within) - np.log1p(-within))


def reliability(scores: Floats64, hits: Bools) -> Reliability:
    """Measures how well scores match frequencies.

    Args:
      scores: [N], of N predictions, from 0 to 1.
      hits: [N], whether each prediction is right.
    """
    bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], scores)
    sizes = np.bincount(bins, minlength=BINS)
    used = np.flatnonzero(sizes)
    means, shares = (np.bincount(bins, weights=values, minlength=BINS)[used] / sizes[used] for values in (scores, hits))
    error = float(np.abs(shares - means) @ sizes[used] / max(1, len(scores)))
    return Reliability(means, shares, sizes[used], error)


def fit(scores: npt.NDArray[np.floating[Any]], hits: Bools) -> PlattScaling | None:
    """Fits a scaling by maximum likelihood; None unless some predictions are right and some are wrong.

    As Platt does, the targets of the P right predictions (`hits`) are (P + 1) / (P + 2) and those of the N wrong ones
    1 / (N + 2), so that there is a solution even if all right predictions score higher than all wrong ones. Newton's
    method finds this solution; a step after which the likelihood would be lower is halved: H.-T. Lin, C.-J. Lin and R.
    Weng, A Note on Platt's Probabilistic Outputs, 2007.

    Args:
      scores: [N], of N predictions, from 0 to 1.
      hits: [N], whether each prediction is right.
    """
    right = int(np.count_nonzero(hits))
    wrong = len(hits) - right
    if not right or not wrong:
        return None
    targets = np.where(hits, (right + 1) / (right + 2), 1 / (wrong + 2))
    columns = np.stack([logits(scores), np.ones(len(scores))])
    weights = np.array([0.0, np.log((right + 1) / (wrong + 1))])
    loss = _cross_entropy(weights @ columns, targets)
    for _ in range(_MOST_STEPS):
        shares = _sigmoid(weights @ columns)
        gradient = columns @ (shares - targets) / len(targets)
        if np.abs(gradient).max() < _TOLERANCE:
            break
        curvature = (columns * (shares * (1 - shares))) @ columns.T / len(targets)
        step = np.linalg.solve(curvature + 1e-12 * np.eye(2), gradient)
        while (smaller := _cross_entropy((weights - step) @ columns, targets)) > loss and np.abs(
            step
        ).max() > _TOLERANCE:
            step /= 2
        weights, loss = weights - step, smaller
    return PlattScaling(*weights.tolist())


def calibrate(videos: Videos) -> Calibration | None:
    """Calibrates the scores of the K best classes of each video.

    Returns:
      The calibration; None if one of the two halves of the videos has no right or no wrong prediction.
    """
    scores, hits = videos.predictions()
    is_first = np.repeat(videos.keys % 2 == 0, np.count_nonzero(videos.ranked, axis=1))
    of_all, first, second = (fit(scores[part], hits[part]) for part in (slice(None), is_first, ~is_first))
    if of_all is None or first is None or second is None:
        return None
    scaled = np.where(is_first, second.apply(scores), first.apply(scores))
    errors = (reliability(values, hits).error for values in (scores, scaled))
    losses = (_cross_entropy(logits(values), hits.astype(np.float64)) for values in (scores, scaled))
    return Calibration(of_all, len(videos), len(scores), *errors, *losses)


def _sigmoid(values: Floats64) -> Floats64:
    return np.asarray(np.exp(-np.logaddexp(0, -values)))


def _cross_entropy(values: Floats64, targets: Floats64) -> float:
    """The mean cross-entropy of N logits with their N targets, from 0 to 1."""
    return float(np.mean(np.logaddexp(0, values) - targets * values))
