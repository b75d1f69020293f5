"""Isotonic regression: the rising function that is nearest to some values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Floats64


class RisingCurve(NamedTuple):
    """A function that rises from knot to knot, is linear between two, and is constant outside.

    Attributes:
      knots: float64 [M], ascending.
      values: float64 [M], ascending.
    """

    knots: Floats64
    values: Floats64

    def __call__(self, places: Floats64) -> Floats64:
        """The values at some places, float64 of the same shape."""
        return np.asarray(np.interp(places, self.knots, self.values))


class RisingSteps(NamedTuple):
    """A rising step function. All arrays are float64 [M].

    Attributes:
      first, last: the first and the last place of each step.
      middle: the weighted mean of its places.
      values: ascending.
    """

    first: Floats64
    last: Floats64
    middle: Floats64
    values: Floats64

    def through_middles(self) -> RisingCurve:
        """A curve that is linear from the middle of a step to that of the next one, so that it is flat nowhere."""
        return RisingCurve(self.middle, self.values)

    def over_steps(self) -> RisingCurve:
        """A curve that keeps its value over each step, and is linear between two."""
        return RisingCurve(np.stack([self.first, self.last], axis=1).ravel(), np.repeat(self.values, 2))


def rising_steps(places: Floats64, values: Floats64, weights: Floats64) -> RisingSteps:
    """The rising step function with the least weighted squared distance to the values.

    Source of the algorithm (pool adjacent violators): M. Ayer et al., An Empirical Distribution Function for Sampling
    with Incomplete Information, Annals of Mathematical Statistics 26 (1955).

    Args:
      places: [P], ascending.
      values: [P].
      weights: [P], positive.
    """
    steps: list[list[float]] = []  # first and last place, mean place, value and weight of each step
    for place, value, weight in np.stack([places, values, weights], axis=1).tolist():
        steps.append([place, place, place, value, weight])
        while len(steps) > 1 and steps[-2][3] >= steps[-1][3]:
            (_, end, *last), (start, _, *before) = steps.pop(), steps.pop()
            total = before[2] + last[2]
            middle, mean = ((before[n] * before[2] + last[n] * last[2]) / total for n in (0, 1))
            steps.append([start, end, middle, mean, total])
    return RisingSteps(*np.array(steps).T[:4])
