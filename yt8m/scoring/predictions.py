"""Writes what a scorer says of batches into a prediction file."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from yt8m.eval_util.top_k import top_k
from yt8m.records import shards
from yt8m.records.prediction_files import PredictionWriter
from yt8m.scoring.model_input import Videos
from yt8m.scoring.scorer import Scorer


def write_predictions(writer: PredictionWriter, scorer: Scorer, batches: Iterable[Videos], rows: int = 0) -> None:
    """Writes a line for each video; `rows` and errors are those of `Scorer.scores`."""
    for videos in batches:
        ids, scores = scorer.scores(videos, rows)
        best, names = top_k(scores, writer.top_k), np.empty(len(ids), object)
        names[:] = [shards.id_bytes(video_id.encode()) for video_id in ids]
        writer({"video_ids": names, "classes": best.classes, "scores": best.scores})
