"""The mean and the standard deviation of each value of the features of training data, computed in one pass.

The input transform `standardize` subtracts the mean and divides by the deviation. `vectors_of` gives the vectors from
which it, and other transforms, take their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError
from yt8m.records import shards
from yt8m.records.record_parser import NumpyBatch

# A value whose deviation is below this share of its mean is constant but for rounding.
_CONSTANT = 1e-6
# The deviation of a value counts like that of so many further vectors with the pooled deviation: with few vectors, a
# value that happens to vary little in them would otherwise be multiplied by a large number.
_PRIOR_VECTORS = 4


class InputStatistics(NamedTuple):
    """The mean and the standard deviation of each value of the joined features.

    Attributes:
      mean: float32 [D].
      deviation: float32 [D]; 0 for a value that is constant.
    """

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]

    def constant_values(self) -> int:
        """How many of the values are constant."""
        return int((self.deviation == 0).sum())


def vectors_of(
    batches: Iterable[NumpyBatch], names: Sequence[str], *, zeroes_unfit: bool = False
) -> Iterator[NDArray[np.float32]]:
    """Yields the joined features of the videos of each batch, or at frame level of their frames: float32 [N, D].

    Args:
      names: the names of the features, in the order in which they are joined.
      zeroes_unfit: whether a value that is NaN, infinite or too large counts as 0 (--nan_policy=zero).
    """
    for batch in batches:
        yield _vectors(batch, names, zeroes_unfit)


class Moments:
    """The number, mean and sum of squared deviations of vectors that are added in groups.

    Groups are merged by the formula of Chan, Golub and LeVeque (1983), which loses no digits if a mean is large.
    """

    def __init__(self) -> None:
        self.count, self._mean, self._squares = 0, np.zeros(1), np.zeros(1)

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Adds vectors, float32 [N, D]."""
        if not len(vectors):
            return
        mean = vectors.mean(0, dtype=np.float64)
        squares = np.square(vectors - mean).sum(0, dtype=np.float64)
        total = self.count + len(vectors)
        difference = mean - self._mean
        self._squares = self._squares + squares + np.square(difference) * (self.count * len(vectors) / total)
        self._mean = self._mean + difference * (len(vectors) / total)
        self.count = total

    def statistics(self) -> InputStatistics:
        """The mean and the deviation; with few vectors, the deviation is drawn towards the pooled one.

        The pooled deviation is the geometric mean over the values, so that it does not depend on those of the largest
        scale alone.
        """
        if not self.count:
            raise RunError("the data hold no video with features, so their values cannot be standardised.")
        deviation = np.sqrt(self._squares / self.count)
        varies = deviation > _CONSTANT * np.abs(self._mean)
        logs = np.log(deviation[varies])
        pooled = logs.mean() if len(logs) else 0.0
        deviation[varies] = np.exp((self.count * logs + _PRIOR_VECTORS * pooled) / (self.count + _PRIOR_VECTORS))
        return InputStatistics(self._mean.astype(np.float32), np.where(varies, deviation, 0).astype(np.float32))


def _vectors(batch: NumpyBatch, names: Sequence[str], zeroes_unfit: bool) -> NDArray[np.float32]:
    """float32 [N, D]: the joined features of each video, or of each frame that exists."""
    joined = np.concatenate([batch.features[name] for name in names], axis=-1)
    rows = np.arange(len(joined))
    if joined.ndim == 3:
        rows = np.repeat(rows, np.minimum(batch.num_frames, joined.shape[1]))
        joined = joined[np.arange(joined.shape[1]) < batch.num_frames[:, np.newaxis]]
    is_fit = np.abs(joined) <= shards.LARGEST
    if is_fit.all():
        return joined
    if not zeroes_unfit:
        row, place = np.argwhere(~is_fit)[0].tolist()
        raise RunError(
            f"{(~is_fit).sum()} of the values of the videos {batch.ids[0]} to {batch.ids[-1]} are {shards.UNFIT}, the "
            f"first in the video {batch.ids[rows[row]]}: value {place} of {', '.join(names)}. Expected none: fix the "
            "files (yt8m verify --deep names the records), or set the values to 0 by --nan_policy=zero."
        )
    return np.where(is_fit, joined, 0)
