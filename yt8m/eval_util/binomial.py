"""The tail of the binomial distribution, for many numbers of trials at once."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Floats64, Ints64

_NEGLIGIBLE = 1e-17  # a term of a sum that is smaller than this share of it changes no digit


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
    is_small = counts > totals * share  # the tail that lies beyond the mean is summed; the other is the rest
    ends = np.where(is_small, counts, totals - counts + 1)
    shares = np.where(is_small, share, 1 - share)
    sums = _far_tail(ends, totals, shares)
    tails = np.where(counts <= 0, 1.0, np.where(is_small, sums, 1 - sums))
    return tails.reshape(np.shape(hits))


def _far_tail(hits: Ints64, trials: Ints64, shares: Floats64) -> Floats64:
    """P(X >= hits) for hits above the mean, where each term of the sum is smaller than the one before."""
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
    ways = _log_factorials(trials) - _log_factorials(hits) - _log_factorials(trials - hits)
    return np.asarray(ways + hits * np.log(shares) + (trials - hits) * np.log1p(-shares))


def _log_factorials(numbers: Ints64) -> Floats64:
    return np.array([math.lgamma(number + 1) for number in numbers.tolist()], np.float64)


def trials_without_a_miss(share: float, tail: float) -> int:
    """The smallest number of trials that all hit with a probability of at most `tail`."""
    return math.ceil(math.log(tail) / math.log(share))
