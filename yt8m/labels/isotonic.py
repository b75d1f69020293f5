"""Isotonic regression: the rising function that is nearest to some values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Floats64

_LEAST_VARIANCE = 1e-30  # keeps a divisor off 0: two steps that would merge to a share of 0 or 1 have no variance


class RisingCurve(NamedTuple):
    """A function that never falls: linear between neighbouring knots, and constant below the first and above the last.

    Attributes:
      knots: float64 [M], the positions of the knots, ascending.
      values: float64 [M], the values at the knots, non-decreasing.
    """

    knots: Floats64
    values: Floats64

    def __call__(self, positions: Floats64) -> Floats64:
        """The values at some positions, float64 of the same shape."""
        return np.asarray(np.interp(positions, self.knots, self.values))


class RisingSteps(NamedTuple):
    """A rising step function with M steps. All arrays are float64 [M].

    Attributes:
      values: the value of each step, ascending.
    """

    first: Floats64
    last: Floats64
    middle: Floats64
    values: Floats64
    weights: Floats64

    def through_middles(self) -> RisingCurve:
        """A curve that is linear between the middles of neighbouring steps, so it is flat only at both ends."""
        return RisingCurve(self.middle, self.values)

    def over_steps(self) -> RisingCurve:
        """A curve that is constant over each step, and linear between neighbouring steps."""
        return RisingCurve(np.stack([self.first, self.last], axis=1).ravel(), np.repeat(self.values, 2))

    def merge_similar(self, deviations: float) -> RisingSteps:
        """A copy in which neighbouring steps that do not differ significantly are merged.

        The value of a step is a share, measured in as many trials as its weight says. The two neighbours that differ by
        the fewest standard deviations become one step, until all neighbours differ by `deviations` at least. Without
        this, the steps would rise even where the true function is flat, from the lowest to the highest sample there.

        Source: M. J. Schell and B. Singh, The Reduced Monotonic Regression Method, Journal of the American Statistical
        Association 92 (1997).

        Args:
          deviations: number of standard deviations by which steps that stay apart differ at least.
        """
        steps = np.stack(self, axis=1)
        while len(steps) > 1:
            lower, upper = steps[:-1], steps[1:]
            merged = np.stack([lower[:, 0], upper[:, 1], *_weighted_means(lower, upper)], axis=1)
            variance = merged[:, 3] * (1 - merged[:, 3]) * (1 / lower[:, 4] + 1 / upper[:, 4])
            differences = (upper[:, 3] - lower[:, 3]) / np.sqrt(np.maximum(variance, _LEAST_VARIANCE))
            index = int(np.argmin(differences))
            if differences[index] >= deviations:
                break
            steps = np.concatenate([steps[:index], merged[index : index + 1], steps[index + 2 :]])
        return RisingSteps(*steps.T)


def _weighted_means(lower: Floats64, upper: Floats64) -> tuple[Floats64, Floats64, Floats64]:
    """The middles, values and weights of the steps that pairs of steps make when they are merged, [P] each.

    Args:
      lower, upper: [P, 5], the two steps of each pair, with the attributes of `RisingSteps` as columns.
    """
    weights = lower[:, 4] + upper[:, 4]
    middle, value = ((lower[:, n] * lower[:, 4] + upper[:, n] * upper[:, 4]) / weights for n in (2, 3))
    return middle, value, weights


def rising_steps(positions: Floats64, values: Floats64, weights: Floats64) -> RisingSteps:
    """Fits the rising step function with the least weighted squared distance to the values.

    Source of the algorithm (pool adjacent violators): M. Ayer et al., An Empirical Distribution Function for Sampling
    with Incomplete Information, Annals of Mathematical Statistics 26 (1955).

    Args:
      positions: [P], ascending, at least one.
      values: [P].
      weights: [P], positive.
    """
    steps: list[list[float]] = []  # first and last position, mean position, value and weight of each step
    for position, value, weight in np.stack([positions, values, weights], axis=1).tolist():
        steps.append([position, position, position, value, weight])
        while len(steps) > 1 and steps[-2][3] >= steps[-1][3]:
            (_, end, *last), (start, _, *before) = steps.pop(), steps.pop()
            total = before[2] + last[2]
            middle, mean = ((before[n] * before[2] + last[n] * last[2]) / total for n in (0, 1))
            steps.append([start, end, middle, mean, total])
    return RisingSteps(*np.array(steps).T)
