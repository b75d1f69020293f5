"""What users see of a video's scores: its best classes, its tags, and its line in a prediction file."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from yt8m.eval_util.top_k import top_k
from yt8m.records import shards
from yt8m.records.prediction_files import PredictionWriter
from yt8m.records.thresholds import AMONG, Tagger
from yt8m.scoring.model_input import Videos
from yt8m.scoring.scorer import Scorer

ScoredClasses = list[tuple[int, float]]  # (class, score), best first


def best_classes(scores: NDArray[np.float32], count: int) -> ScoredClasses:
    """The `count` best classes of a video with the scores [C]."""
    best = top_k(scores[np.newaxis], count)
    return list(zip(best.classes[0].tolist(), best.scores[0].tolist(), strict=True))


def tags(scores: NDArray[np.float32], tagger: Tagger) -> ScoredClasses:
    """The classes, among the 20 best of a video with the scores [C], whose scores reach their thresholds."""
    best = top_k(scores[np.newaxis], AMONG)
    are_tags = tagger.are_tags(best.classes[0], best.scores[0])
    return list(zip(best.classes[0][are_tags].tolist(), best.scores[0][are_tags].tolist(), strict=True))


def write_predictions(writer: PredictionWriter, scorer: Scorer, batches: Iterable[Videos], rows: int = 0) -> None:
    """Writes a line for each video; `rows` and errors are those of `Scorer.scores`."""
    for videos in batches:
        ids, scores = scorer.scores(videos, rows)
        best, names = top_k(scores, writer.top_k), np.empty(len(ids), object)
        names[:] = [shards.id_bytes(video_id.encode()) for video_id in ids]
        writer({"video_ids": names, "classes": best.classes, "scores": best.scores})
