"""What people have marked in a record with spans: which cells show which class, and whether they saw all of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.records import shards
from yt8m.records.shards import Record

Part = tuple[int, int]  # of the frames of a video: the index of the first frame, and that after the last one


class Cells(NamedTuple):
    """The grid of cells of records.

    Attributes:
      frames: number of frames of a cell.
      per_second: frames per second of the features.
    """

    frames: int
    per_second: float

    @property
    def seconds(self) -> float:
        """Length of a cell."""
        return self.frames / self.per_second

    def parts(self, count: int) -> list[Part]:
        """The cells of `count` frames; the last one may be shorter."""
        return [(first, min(first + self.frames, count)) for first in range(0, count, self.frames)]

    def windows(
        self, frames: NDArray[np.float32], rows: NDArray[np.integer], context: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The frames of some cells of a video, as a model gets them.

        Args:
          frames: float32 [T, D], those of the video.
          rows: int [R], the numbers of the cells.
          context: number of frames before and after each cell; the first and the last frame of the video stand in the
            places of those outside of it. Without context, a last cell that is shorter is padded with 0.

        Returns:
          float32 [R, frames + 2 context, D], and the number of frames of each, int32 [R].
        """
        size = self.frames + 2 * context
        numbers = np.asarray(rows)[:, np.newaxis] * self.frames - context + np.arange(size)
        counts = np.full(len(numbers), size) if context else (numbers < len(frames)).sum(axis=1)
        windows = frames[np.clip(numbers, 0, len(frames) - 1)] if len(frames) else np.zeros((0, size, frames.shape[1]))
        windows = windows * (np.arange(size) < counts[:, np.newaxis])[:, :, np.newaxis]
        return windows.astype(np.float32), counts.astype(np.int32)

    def shown(self, record: Record, count: int, num_classes: int) -> NDArray[np.bool_]:
        """Whether each cell of a record of `count` frames shows each class, bool [cells, C]."""
        starts, classes, scores = (np.array(record.values(name)) for name in shards.RATING_LISTS)
        shown = np.zeros((-(-count // self.frames), num_classes), bool)
        is_shown = (scores > 0.5) & (starts < count) if len(starts) else np.zeros(0, bool)
        shown[(starts[is_shown] // self.frames).astype(np.int64), classes[is_shown].astype(np.int64)] = True
        return shown

    def annotated(self, record: Record, count: int, num_classes: int) -> NDArray[np.bool_]:
        """Whether each class is rated in each cell of a record, bool [cells, C]."""
        starts, classes, _ = (np.array(record.values(name)) for name in shards.RATING_LISTS)
        rated = np.zeros((-(-count // self.frames), num_classes), bool)
        is_there = starts < count if len(starts) else np.zeros(0, bool)
        rated[(starts[is_there] // self.frames).astype(np.int64), classes[is_there].astype(np.int64)] = True
        for first, last in zip(*map(record.values, shards.ANNOTATED_LISTS), strict=False):
            rated[int(first) // self.frames : -(-int(last) // self.frames)] = True
        return rated


def is_annotated(record: Record, count: int) -> bool:
    """Whether people have looked at the whole video of a record of `count` frames."""
    starts, ends = map(record.values, shards.ANNOTATED_LISTS)
    return (starts, ends) == ([0], [count])
