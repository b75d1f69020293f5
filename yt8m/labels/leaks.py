"""What copies that training has seen add to the GAP of other videos."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Bools
from yt8m.eval_util.metrics import Gap
from yt8m.eval_util.resampling import Interval, interval, resample
from yt8m.eval_util.videos import MOST, Videos, hashes
from yt8m.labels.fold_scores import FoldScores
from yt8m.labels.label_issues import are_labels

_RESAMPLES = 200


class LeakEffect(NamedTuple):
    """The GAP of some videos, with and without those whose copies training has seen.

    Attributes:
      videos: number of all these videos.
      copies: number of those whose copies training has seen.
      gap, gap_without: the GAP of all, and of the others.
      interval, interval_without: their 95 % intervals.
    """

    videos: int
    copies: int
    gap: float
    gap_without: float
    interval: Interval
    interval_without: Interval

    def __str__(self) -> str:
        low, high = self.interval_without
        return (
            f"GAP without the copies that training has seen: {self.gap_without:.3f} ({low:.3f} to {high:.3f}) instead "
            f"of {self.gap:.3f}; {self.copies} of {self.videos} videos are such copies"
        )


def effect_of(scores: FoldScores, ids: list[bytes], seen: Bools, num_classes: int) -> LeakEffect | None:
    """The effect of the copies on the GAP; None if there are none, or nothing else.

    Args:
      scores: the scores of N videos by a model that was trained on the training split.
      ids: the ids of these videos.
      seen: [N], whether training has seen a copy of the video.
      num_classes: number of classes.
    """
    if not seen.any() or seen.all():
        return None
    videos = _videos(scores, ids)
    measured = [_gap(videos.take(rows), num_classes) for rows in (np.arange(len(videos)), np.flatnonzero(~seen))]
    (gap, bounds), (gap_without, bounds_without) = measured
    return LeakEffect(len(videos), int(seen.sum()), gap, gap_without, bounds, bounds_without)


def _gap(videos: Videos, num_classes: int) -> tuple[float, Interval]:
    """The GAP of videos and its interval, which is computed from a sample if there are very many."""
    columns = videos.columns(num_classes)
    metrics = EvaluationMetrics(num_classes, columns.scores.shape[1])
    metrics.accumulate_top_k(*columns, perr=videos.perr)
    gap, share = float(metrics.get()[Gap.key]), min(1.0, MOST / len(videos))
    sample = videos.take(np.sort(np.argsort(videos.keys, kind="stable")[:MOST]))
    resampled = resample(sample, num_classes, _RESAMPLES, seed=0).figures[Gap.key]
    return gap, interval(gap, resampled, shrink=float(np.sqrt(share)))


def _videos(scores: FoldScores, ids: list[bytes]) -> Videos:
    size = len(scores.num_labels)
    return Videos(
        keys=hashes(ids),
        scores=scores.best_scores,
        classes=scores.best,
        hits=are_labels(scores),
        perr=np.zeros(size),
        num_labels=scores.num_labels.astype(np.int64),
        labels=scores.labels,
        label_scores=scores.label_scores,
        losses=np.zeros(size),
        num_frames=np.ones(size, np.int32),
        ids=np.array(ids, object),
    )
