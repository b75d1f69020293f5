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


def rising_curve(places: Floats64, values: Floats64, weights: Floats64) -> RisingCurve:
    """The rising step function with the least weighted squared distance to the values; a knot stands for each step.

    Source of the algorithm (pool adjacent violators): M. Ayer et al., An Empirical Distribution Function for Sampling
    with Incomplete Information, Annals of Mathematical Statistics 26 (1955).

    Args:
      places: [P], ascending.
      values: [P].
      weights: [P], positive.

    Returns:
      A curve through the weighted mean place of each step.
    """
    steps: list[list[float]] = []  # place, value and weight of each step
    for step in np.stack([places, values, weights], axis=1).tolist():
        steps.append(step)
        while len(steps) > 1 and steps[-2][1] >= steps[-1][1]:
            last, before = steps.pop(), steps.pop()
            weight = before[2] + last[2]
            place, value = ((before[n] * before[2] + last[n] * last[2]) / weight for n in (0, 1))
            steps.append([place, value, weight])
    columns = np.array(steps).T
    return RisingCurve(columns[0], columns[1])
