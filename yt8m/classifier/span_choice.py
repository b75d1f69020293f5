"""How the scores of a classifier in time become spans: chosen on whole videos, whose labels say nothing of times.

The score of a whole video is that of all its frames together, and a cell of five frames has more extreme ones. So each
class has a threshold for cells: the one with the best F1 where a video counts as found if its best cell reaches it. The
best cells are no measure of the others, so a span goes on to where the score falls below a part of the threshold. Of
films with planted spans, three draws, that gave an F1 of .86 to .94 at tIoU 0.5; the thresholds of whole videos .16 to
.20, because nine of ten spans that were found were not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from yt8m.classifier.run_folder import RunFolder
from yt8m.classifier.training_data import VideosAndLabels
from yt8m.config.programs import EvalConfig
from yt8m.eval_util.evaluation_metrics import EvaluationMetrics
from yt8m.eval_util.span_joining import JoinRule
from yt8m.scoring import film_spans
from yt8m.scoring.scorer import Scorer

RULE = JoinRule(hysteresis=0.7)
_MOST_VIDEOS = 1000


def choose(run: RunFolder, parts: Sequence[VideosAndLabels]) -> NDArray[np.float64]:
    """The thresholds for cells, float64 [C], which are also written into the run as `yt8m eval --spans` writes them.

    Args:
      parts: videos with frames; the first thousand of them all choose.
    """
    scorer = run.model._scorer
    joining = film_spans.default_joining(scorer)._replace(rule=RULE)
    metrics, left = EvaluationMetrics(scorer.num_classes, scorer.num_classes, metric_classes=()), _MOST_VIDEOS
    for part in parts:
        part = part.take(np.arange(min(left, len(part.labels))))
        left -= len(part.labels)
        for scores, labels in _best_cells(scorer, joining, part):
            metrics.accumulate(scores, labels)
    points = metrics.operating_points(EvalConfig.min_positives)
    others = {"chosen_on": {"records": "the labels of whole videos", "videos": _MOST_VIDEOS - left}}
    film_spans.write(run.path, joining._replace(thresholds=points.thresholds), scorer.step, others)
    return points.thresholds


def _best_cells(
    scorer: Scorer, joining: film_spans.Joining, data: VideosAndLabels
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
    """Yields for a batch of videos the best score of each class in a cell, float32 [B, C], and the labels."""
    first = 0
    for batch, _ in data.videos.batches() if len(data.labels) else ():
        best = [
            film_spans.score_cells(scorer, frames, joining).max(axis=0)
            for _, frames in film_spans.frames_of_batch(scorer, batch)
        ]
        yield np.stack(best), data.labels.matrix[first : first + len(best)]
        first += len(best)
