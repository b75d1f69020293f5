"""Array types of this package, checks of arguments, and ranked entries packed into integers.

A ranked entry is one uint64: class (31 bits), score as a key that is smaller for a better score (32 bits), hit (1
bit). Sorting entries is then one value sort without an index array, and an entry takes 8 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats32 = npt.NDArray[np.float32]
Floats64 = npt.NDArray[np.float64]
Ints32 = npt.NDArray[np.int32]
Ints64 = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


def score_matrix(scores: npt.ArrayLike, name: str = "predictions") -> Floats32:
    """`scores` as float32 [B, C], the precision in which rows are ranked. NaN is refused later, by the ranking.

    Raises:
      ValueError: `scores` is not a matrix, or has no class.
    """
    matrix = np.asarray(scores, np.float32)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"{name} must be [examples, classes] with at least one class; the shape is {matrix.shape}")
    return matrix


def positive_mask(actuals: npt.ArrayLike, shape: tuple[int, ...], name: str = "actuals") -> Bools:
    """bool array: True for each entry of `actuals` above 0, that is, for each positive.

    Raises:
      ValueError: the shape is not `shape`.
    """
    array = np.asarray(actuals)
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape of the predictions, {shape}; it is {array.shape}")
    return array if array.dtype == np.bool_ else np.asarray(array > 0)


def refuse_nan(scores: npt.NDArray[np.floating[Any]]) -> None:
    """Raises ValueError if a score is NaN: NaN has no rank."""
    if np.isnan(scores.max(initial=-np.inf)):  # the maximum is NaN if any score is
        raise ValueError("predictions hold NaN, which has no rank: the model has diverged")


def require_positive_int(value: object, name: str, or_none: bool = False) -> None:
    """Raises ValueError unless `value` is an integer above 0, or None if that is allowed."""
    if value is None and or_none:
        return
    if not isinstance(value, (int, np.integer)) or value <= 0:
        raise ValueError(f"{name} must be a positive integer; it is {value!r}")


def places_within(counts: Ints64) -> Ints64:
    """int64 [sum of counts]: 0, 1, ..., counts[row] - 1 for each row in turn: [2, 3] gives 0 1 0 1 2."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


_CLASS_SHIFT = 33
_WITHIN_CLASS = np.uint64((1 << _CLASS_SHIFT) - 1)


def best_first(scores: Floats32) -> npt.NDArray[np.uint32]:
    """Integers whose ascending order is the descending order of `scores`; equal scores give equal integers.

    The bits of an IEEE 754 float, read as an integer, grow with its magnitude. If the bits of positive numbers
    are inverted and those of negative ones kept (their sign bit puts them last), the integer falls as the score rises.
    """
    bits = (scores + np.float32(0)).view(np.int32)  # adding 0 turns -0.0 into 0.0
    negative = bits >> 31  # all bits set, or none
    return np.asarray(bits ^ (~negative & 0x7FFF_FFFF)).view(np.uint32)


def scores_of_ranks(ranks: npt.NDArray[np.uint32]) -> Floats32:
    """The scores for which `best_first` gave `ranks`. The change of the bits is its own inverse."""
    bits = ranks.view(np.int32)
    return np.asarray(bits ^ (~(bits >> 31) & 0x7FFF_FFFF)).view(np.float32)


def numbered(scores: Floats32, numbers: Ints64) -> Keys:
    """Keys that sort by descending score and, among equal scores, by ascending number."""
    return np.asarray(best_first(scores).astype(np.uint64) << np.uint64(32) | numbers.astype(np.uint64))


def pack(classes: npt.NDArray[np.integer], scores: Floats32, hits: Bools) -> Keys:
    """One uint64 per entry; ascending order is by class, then from the best score. All arrays have one shape."""
    upper = classes.astype(np.uint64) << np.uint64(_CLASS_SHIFT)
    lower = best_first(scores).astype(np.uint64) << np.uint64(1)
    return np.asarray(upper | lower | hits.astype(np.uint64), np.uint64)


def without_class(keys: Keys) -> Keys:
    """The same entries as if they were of one class: ordered by score alone."""
    return keys & _WITHIN_CLASS


def with_class(keys: Keys, classes: Ints64) -> Keys:
    """The same entries with `classes` in place of their classes."""
    return without_class(keys) | (classes.astype(np.uint64) << np.uint64(_CLASS_SHIFT))


def class_of(keys: Keys) -> Ints64:
    """The class of each entry."""
    return (keys >> np.uint64(_CLASS_SHIFT)).view(np.int64)


def block_starts(keys: Keys) -> Ints64:
    """The indexes in sorted `keys` at which a class or a score begins."""
    blocks = keys >> np.uint64(1)
    first = np.ones(len(blocks), np.bool_)
    first[1:] = blocks[1:] != blocks[:-1]
    return np.flatnonzero(first)


def hit_of(keys: Keys) -> Bools:
    """Whether each entry is a positive."""
    return (keys & np.uint64(1)).astype(np.bool_)


def score_of(keys: Keys) -> Floats32:
    """The score of each entry, as it was given to `pack`."""
    return scores_of_ranks(((keys >> np.uint64(1)) & np.uint64(0xFFFF_FFFF)).astype(np.uint32))


_PARTS_IN_A_CHUNK = 256


class Entries:
    """Packed entries, to which parts are appended. They take 8 bytes each, even if the parts are small."""

    def __init__(self) -> None:
        self._chunks: list[Keys] = []
        self._recent: list[Keys] = []

    def append(self, keys: Keys) -> None:
        """Adds `keys`, which must not be written to afterwards."""
        self._recent.append(keys)
        if len(self._recent) >= _PARTS_IN_A_CHUNK:
            self._chunks.append(np.concatenate(self._recent))
            self._recent = []

    def extend(self, other: Entries) -> None:
        """Adds all present entries of `other`; the arrays are shared, not copied."""
        self._chunks += other._chunks
        for keys in list(other._recent):
            self.append(keys)

    def all(self) -> Keys:
        """All entries, in no particular order."""
        return np.concatenate([np.zeros(0, np.uint64), *self._chunks, *self._recent])
