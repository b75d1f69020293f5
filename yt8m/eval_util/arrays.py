"""Array types of this package, checks of arguments, and ranked entries packed into integers.

A ranked entry is one of the best classes of an example. It is one uint64 that holds, from the upper to the lower bits,
the class (31 bits), the score as an integer that is smaller for a better score (32 bits), and whether the class is a
label of the example, a hit (1 bit). Sorting entries is then one value sort without an index array, and an entry takes
8 bytes.
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
    """Converts `scores` to float32 [B, C], in which rows are ranked. NaN is kept; `refuse_nan` finds it."""
    matrix = np.asarray(scores, np.float32)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"{name} must be [examples, classes] with at least one class; the shape is {matrix.shape}")
    return matrix


def positive_mask(actuals: npt.ArrayLike, shape: tuple[int, ...], name: str = "actuals") -> Bools:
    """bool array: True for each entry of `actuals` above 0, that is, for each positive.

    Args:
      shape: the shape that `actuals` must have.
    """
    array = np.asarray(actuals)
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape of the predictions, {shape}; it is {array.shape}")
    return array if array.dtype == np.bool_ else np.asarray(array > 0)


def refuse_nan(scores: npt.NDArray[np.floating[Any]]) -> None:
    """Raises ValueError if a score is NaN: NaN has no rank."""
    if np.isnan(scores.max(initial=-np.inf)):  # the maximum is NaN if any score is NaN
        raise ValueError("predictions hold NaN, which has no rank: the model has diverged")


def require_positive_int(value: object, name: str, or_none: bool = False) -> None:
    """Raises ValueError unless `value` is an integer above 0 or, with `or_none`, None; the message has `name`."""
    if value is None and or_none:
        return
    if not isinstance(value, (int, np.integer)) or value <= 0:
        raise ValueError(f"{name} must be a positive integer; it is {value!r}")


def places_within(counts: Ints64) -> Ints64:
    """int64 [sum of counts]: 0, 1, ..., counts[row] - 1 for each row in turn: [2, 3] gives 0 1 0 1 2."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


_CLASS_SHIFT = 33  # an entry is shifted right by this to get its class; the bits below hold the score and the hit
_SCORE_AND_HIT = np.uint64((1 << _CLASS_SHIFT) - 1)  # mask of an entry without its class


def ranks_of_scores(scores: Floats32) -> npt.NDArray[np.uint32]:
    """Converts scores to uint32 of the same shape: smaller for better scores, and equal for equal scores.

    The bits of an IEEE 754 float, read as an integer, grow with its magnitude. If the bits of positive numbers
    are inverted and those of negative ones kept (their sign bit puts them last), the integer falls as the score rises.
    """
    bits = (scores + np.float32(0)).view(np.int32)  # adding 0 turns -0.0 into 0.0
    negative = bits >> 31  # all bits set, or none
    return np.asarray(bits ^ (~negative & 0x7FFF_FFFF)).view(np.uint32)


def scores_of_ranks(ranks: npt.NDArray[np.uint32]) -> Floats32:
    """The scores for which `ranks_of_scores` gave `ranks`. Inverting the same bits again restores the score."""
    bits = ranks.view(np.int32)
    return np.asarray(bits ^ (~(bits >> 31) & 0x7FFF_FFFF)).view(np.float32)


def pack_numbers(scores: Floats32, numbers: Ints64) -> Keys:
    """Packs scores and numbers into uint64 keys that sort by descending score, then by ascending number.

    Args:
      scores: float32 of any shape.
      numbers: int64 in 0..2**32-1, of the same shape or one that broadcasts to it.
    """
    return np.asarray(ranks_of_scores(scores).astype(np.uint64) << np.uint64(32) | numbers.astype(np.uint64))


def pack_entries(classes: npt.NDArray[np.integer], scores: Floats32, hits: Bools) -> Keys:
    """Packs entries into one uint64 each, whose ascending order is by class, then from the best score.

    Args:
      classes: integers of any shape, the class of each entry, in 0..2**31-1.
      scores: float32 of the same shape.
      hits: bool of the same shape, whether the class is a label of the example.
    """
    upper = classes.astype(np.uint64) << np.uint64(_CLASS_SHIFT)
    lower = ranks_of_scores(scores).astype(np.uint64) << np.uint64(1)
    return np.asarray(upper | lower | hits.astype(np.uint64), np.uint64)


def without_class(keys: Keys) -> Keys:
    """The same entries with class 0 in place of their classes, so that they sort by score alone."""
    return keys & _SCORE_AND_HIT


def with_class(keys: Keys, classes: Ints64) -> Keys:
    """The same entries with `classes` in place of their classes."""
    return without_class(keys) | (classes.astype(np.uint64) << np.uint64(_CLASS_SHIFT))


def class_of(keys: Keys) -> Ints64:
    """The class of each entry."""
    return (keys >> np.uint64(_CLASS_SHIFT)).view(np.int64)


def block_starts(keys: Keys) -> Ints64:
    """The indexes in sorted `keys` at which a block begins: neighbouring entries of one class with the same score."""
    blocks = keys >> np.uint64(1)
    is_start = np.ones(len(blocks), np.bool_)
    is_start[1:] = blocks[1:] != blocks[:-1]
    return np.flatnonzero(is_start)


def hit_of(keys: Keys) -> Bools:
    """Whether each entry is a hit: its class is a label of its example."""
    return (keys & np.uint64(1)).astype(np.bool_)


def score_of(keys: Keys) -> Floats32:
    """The score of each entry, as it was given to `pack_entries`."""
    return scores_of_ranks(((keys >> np.uint64(1)) & np.uint64(0xFFFF_FFFF)).astype(np.uint32))


# `Entries` joins every so many arrays into one, because a small array needs much memory besides its entries.
_PARTS_PER_CHUNK = 256


class Entries:
    """Collects packed entries, part by part. An entry takes about 8 bytes, even if the parts are small."""

    def __init__(self) -> None:
        self._chunks: list[Keys] = []
        self._recent: list[Keys] = []

    def append(self, keys: Keys) -> None:
        """Adds `keys`. The array is not copied, so it must not be written to afterwards."""
        self._recent.append(keys)
        if len(self._recent) >= _PARTS_PER_CHUNK:
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
