"""Predictions as the challenges of 2017 and 2018 wanted them: `VideoId,LabelConfidencePairs`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

HEADER = ("VideoId", "LabelConfidencePairs")


class PredictionWriter:
    """Writes rows in the order they come; a consumer of inference reports.

    Args:
      file: text, opened for writing.
      top_k: pairs a row; at most as many as there are columns.
    """

    def __init__(self, file: IO[Any], top_k: int) -> None:
        self._rows = csv.writer(file, lineterminator="\n")
        self._top_k = top_k
        self.count = 0
        self._rows.writerow(HEADER)

    def __call__(self, reports: Mapping[str, np.ndarray]) -> None:
        """Adds one step: `video_ids` [B], `classes` and `scores` [B, k], best first."""
        classes, scores = reports["classes"], reports["scores"]
        for video_id, row_classes, row_scores in zip(
            reports["video_ids"].tolist(), classes.tolist(), scores.tolist(), strict=True
        ):
            self._rows.writerow((_text(video_id), self._pairs(row_classes, row_scores)))
        self.count += len(classes)

    def _pairs(self, classes: list[int], scores: list[float]) -> str:
        kept = zip(classes[: self._top_k], scores[: self._top_k], strict=True)
        return " ".join(["%i %g" % pair for pair in kept])  # noqa: UP031 - twice as fast as an f-string's :g


def _text(video_id: bytes) -> str:
    return video_id.decode("utf-8", "backslashreplace")
