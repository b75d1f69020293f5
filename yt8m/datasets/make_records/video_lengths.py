"""Counts how long videos are, and finds the median and the largest number of frames of the training videos.

Lengths are counted as {number of frames, as a text: number of videos with so many}, which JSON can hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def count(lengths: dict[str, int], frames: NDArray[np.int64]) -> None:
    """Counts further videos; `frames` has the number of frames of each, and 0 if it is unknown."""
    for length, videos in zip(*np.unique(frames[frames > 0], return_counts=True), strict=True):
        lengths[str(length)] = lengths.get(str(length), 0) + int(videos)


def of_training(lengths_by_split: Mapping[str, Mapping[str, int]]) -> tuple[int, int] | None:
    """(median, largest) number of frames of a training video, the lower of two medians; None if none is known.

    If there is no split `train`, the videos of all splits count.
    """
    totals = Counter[str]()
    for lengths in [lengths_by_split["train"]] if lengths_by_split.get("train") else lengths_by_split.values():
        totals.update(lengths)
    if not totals:
        return None
    frames = np.array(sorted(map(int, totals)), np.int64)
    videos = np.cumsum([totals[str(length)] for length in frames.tolist()])
    return int(frames[np.searchsorted(videos, (videos[-1] + 1) // 2)]), int(frames[-1])
