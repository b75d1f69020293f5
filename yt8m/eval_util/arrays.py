"""Array types of this package, and the checks on what comes in."""

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
    """`scores` as float32 [B, C], the precision in which rows are ranked; NaN is looked for by the ranking.

    Raises:
      ValueError: it is no matrix, or has no class.
    """
    matrix = np.asarray(scores, np.float32)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(
            f"{name} must be [examples, classes] with a class at least; the shape is {matrix.shape}"
        )
    return matrix


def positive_mask(actuals: npt.ArrayLike, shape: tuple[int, ...], name: str = "actuals") -> Bools:
    """True where `actuals` is above 0: every such label is a positive.

    Raises:
      ValueError: the shape is not `shape`.
    """
    array = np.asarray(actuals)
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape of the predictions, {shape}; it is {array.shape}")
    return array if array.dtype == np.bool_ else np.asarray(array > 0)


def refuse_nan(scores: npt.NDArray[np.floating[Any]]) -> None:
    """Raises ValueError where a score is NaN: it has no rank."""
    if np.isnan(scores.max(initial=-np.inf)):  # the maximum passes NaN on
        raise ValueError("predictions hold NaN, which has no rank: the model has diverged")


def positive_int(value: object, name: str) -> None:
    """Raises ValueError unless `value` is an integer above 0."""
    if not isinstance(value, (int, np.integer)) or value <= 0:
        raise ValueError(f"{name} must be a positive integer; it is {value!r}")


def places_within(counts: Ints64) -> Ints64:
    """int64 [sum of counts]: 0, 1, ... anew for each row, of rows with `counts` entries side by side."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
