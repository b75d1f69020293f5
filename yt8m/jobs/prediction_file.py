"""Predictions as the challenges of 2017 and 2018 wanted them: `VideoId,LabelConfidencePairs`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from yt8m.errors import RunError

HEADER = "VideoId,LabelConfidencePairs\n"
_TO_QUOTE = re.compile(r'[,"\r\n]')


class PredictionWriter:
    """Writes rows in the order they come; a consumer of inference reports.

    Args:
      file: text, opened for writing.
      top_k: pairs a row; at most as many as there are columns.
    """

    def __init__(self, file: IO[Any], top_k: int) -> None:
        self._file, self._top_k = file, top_k
        self.count = 0
        self._file.write(HEADER)

    def __call__(self, reports: Mapping[str, np.ndarray]) -> None:
        """Adds one step: `video_ids` [B], `classes` and `scores` [B, k], best first.

        Raises:
          RunError: a score is NaN.
        """
        classes, scores = (reports[name][:, : self._top_k] for name in ("classes", "scores"))
        if np.isnan(scores).any():
            raise RunError("the model's predictions hold NaN: its training diverged; nothing was written.")
        # One format for a whole row: half the time of one for each pair.
        form = " ".join(["%i %g"] * classes.shape[1])
        numbers: list[float] = [0] * (2 * classes.shape[1])
        for video_id, row_classes, row_scores in zip(
            reports["video_ids"].tolist(), classes.tolist(), scores.tolist(), strict=True
        ):
            numbers[::2], numbers[1::2] = row_classes, row_scores
            self._file.write(f"{_field(video_id)},{form % tuple(numbers)}\n")
        self.count += len(classes)


def _field(video_id: bytes) -> str:
    """The id as a field of CSV."""
    text = video_id.decode("utf-8", "backslashreplace")
    return '"{}"'.format(text.replace('"', '""')) if _TO_QUOTE.search(text) else text
