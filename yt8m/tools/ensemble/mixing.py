"""How the predictions of several models for one video become one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from yt8m.tools.prediction_lists import Row

Floats = npt.NDArray[np.float32]


def aligned(rows: Sequence[Row], by_rank: bool, top_k: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """(classes int32 [U] ascending, scores float32 [U, N]) over the union of what N files list for a video.

    A class that a file does not list has 0 there. By rank, the first of a row has 1, the next 1 - 1 / top_k,
    and so on down to 0; equal scores are ranked by class.
    """
    classes = np.unique(np.concatenate([row.classes for row in rows]))
    scores = np.zeros((len(classes), len(rows)), np.float32)
    for column, row in enumerate(rows):
        values = _by_rank(row, top_k) if by_rank else row.scores
        scores[np.searchsorted(classes, row.classes), column] = values
    return classes, scores


def _by_rank(row: Row, top_k: int) -> Floats:
    values = np.empty(len(row.classes), np.float32)
    values[np.lexsort((row.classes, -row.scores))] = 1 - np.arange(len(values), dtype=np.float32) / top_k
    return np.maximum(values, 0)


def best(
    classes: npt.NDArray[np.int32], scores: npt.NDArray[np.floating], top_k: int
) -> tuple[list[int], list[float]]:
    """The `top_k` best classes with their scores; equal scores by class."""
    order = np.lexsort((classes, -scores))[:top_k]
    return classes[order].tolist(), scores[order].tolist()


def normalised(weights: Sequence[float], count: int) -> npt.NDArray[np.float64]:
    """[count], adding up to 1; all alike where none are given."""
    given = np.array(weights if len(weights) else [1.0] * count, np.float64)
    return np.asarray(given / given.sum())
