"""Normal scores of the values of training data, by which the input transform `normal_scores` replaces values.

The normal score of a value is the value of a standard normal distribution that has the same rank (van der Waerden
1952). So amounts, counts and durations, of which a few are a thousand times the usual one, become values that a model
of sums can use; and how a value is scaled no longer matters, as for trees.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError

KNOTS = 17  # quantiles of a value: its smallest, its largest, and others at equal distances of their normal scores
_MOST = 2.4  # normal score of the last but one: one of 120 values is above
_MOST_ROWS = 4096  # quantiles are those of at most so many vectors, evenly drawn


class NormalScores(NamedTuple):
    """What replaces each value of the joined features: between two knots, scores are interpolated.

    Both arrays are flat, so that weights stored in one byte each leave them as they are (`export.small_weights`).

    Attributes:
      knots: float32 [D * KNOTS], not falling for each value; the last ones are equal if it has few different ones.
      scores: float32 [D * KNOTS], the normal scores of the knots, with mean 0 and deviation 1 over the training data;
        0 for a value that is constant.
    """

    knots: NDArray[np.float32]
    scores: NDArray[np.float32]

    def constant_values(self) -> int:
        """How many of the values are constant."""
        return int((self.scores.reshape(-1, KNOTS) == 0).all(1).sum())


class DrawnRows:
    """Every n-th of the vectors that are added; n doubles whenever there are too many of them."""

    def __init__(self) -> None:
        self._rows, self._every, self._seen = list[NDArray[np.float32]](), 1, 0

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Adds vectors, float32 [N, D]."""
        self._rows.extend(row.copy() for row in vectors[-self._seen % self._every :: self._every])
        self._seen += len(vectors)
        while len(self._rows) > _MOST_ROWS:
            self._rows, self._every = self._rows[::2], self._every * 2

    def statistics(self) -> NormalScores:
        """The normal scores of the values of the drawn vectors."""
        if not self._rows:
            raise RunError("the data hold no video with features, so their values have no normal scores.")
        curves = [_of_value(np.sort(values)) for values in np.stack(self._rows, 1)]
        knots, scores = (np.concatenate(arrays).astype(np.float32) for arrays in zip(*curves, strict=True))
        return NormalScores(knots, scores)


def _of_value(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """(knots, scores), [KNOTS] each, of one value of all vectors, which are sorted: [N]."""
    size, normal = len(values), NormalDist()
    shares = [0, *(normal.cdf(score) for score in np.linspace(-_MOST, _MOST, KNOTS - 2)), 1]
    knots = np.unique(values[np.rint(np.array(shares) * (size - 1)).astype(int)])
    first, end = np.searchsorted(values, knots), np.searchsorted(values, knots, "right")
    ranks = (first + end) / (2 * size)  # equal values share the rank in their middle
    scores = np.array([normal.inv_cdf(rank) for rank in ranks])
    transformed = np.interp(values, knots, scores)
    deviation = transformed.std()
    scores = (scores - transformed.mean()) / deviation if deviation > 0 else np.zeros(len(knots))
    missing_knots = (0, KNOTS - len(knots))
    return np.pad(knots, missing_knots, "edge"), np.pad(scores, missing_knots, "edge")
