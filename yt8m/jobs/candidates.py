"""Candidate classes of videos, chosen by predictions for the whole videos.

A segment model sees five seconds and takes many classes for possible; a video-level model has seen all. As
the winners of 2019 did, the video's predictions say which classes, and the segments are ranked within them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from yt8m.errors import RunError
from yt8m.record_reader import id_text
from yt8m.tools import prediction_lists


class Candidates:
    """Which of the listed classes each video may have.

    Args:
      path: of the predictions, for complaints.
      rows: {video: its row of `allowed`}.
      allowed: uint8 [V, ceil(S / 8)], a bit a listed class: 125 bytes a video for 1000 classes.
      count: S.
    """

    def __init__(self, path: str, rows: dict[str, int], allowed: npt.NDArray[np.uint8], count: int) -> None:
        self._path, self._rows, self._allowed, self._count = path, rows, allowed, count

    @classmethod
    def read(cls, path: str, classes: Sequence[int], num_classes: int) -> Candidates:
        """From a prediction file (`VideoId,LabelConfidencePairs`).

        Args:
          path: of the file.
          classes: the listed ones, in the order of the scores' columns.
          num_classes: of the model.

        Raises:
          RunError: the file is damaged; names the line.
        """
        column = np.full(num_classes, len(classes))
        column[list(classes)] = np.arange(len(classes))
        rows: dict[str, int] = {}
        packed: list[bytes] = []
        for row in prediction_lists.read(path, num_classes):
            mask = np.zeros(len(classes) + 1, np.bool_)  # the last is for classes that are not listed
            mask[column[row.classes]] = True
            rows[row.video_id] = len(packed)
            packed.append(np.packbits(mask[:-1]).tobytes())
        allowed = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)
        return cls(path, rows, allowed, len(classes))

    def among(self, segments: Sequence[bytes], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """`scores` [B, S], -inf where the class is no candidate of the segment's video.

        Raises:
          RunError: a video has no predictions in the file.
        """
        rows = [self._row(segment.rpartition(b":")[0]) for segment in segments]
        allowed = np.unpackbits(self._allowed[rows], axis=1, count=self._count)
        return np.where(allowed > 0, scores, np.float32(-np.inf))

    def _row(self, video: bytes) -> int:
        row = self._rows.get(id_text(video))
        if row is None:
            raise RunError(
                f"{self._path} has no predictions for video {id_text(video)}; "
                "predict for the same files first, without --segment_labels."
            )
        return row
