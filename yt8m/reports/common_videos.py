"""Compares two runs that were evaluated on different videos: says so, and computes both on their common videos."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.eval_util.metrics import ScoredBatch, metrics
from yt8m.eval_util.ranked_entries import RankedEntries
from yt8m.eval_util.resampling import resample
from yt8m.eval_util.videos import Videos
from yt8m.reports.loading import Run


class CommonVideos(NamedTuple):
    """What two runs that were evaluated on different videos have in common.

    Attributes:
      first, other: both runs with only the common videos that have the same labels in both; None if there are none.
    """

    why: str
    first: Run | None
    other: Run | None


def find(first: Run, other: Run) -> CommonVideos:
    """The common videos of two runs that did not sample the same videos with the same labels."""
    samples, other_samples = first.samples, other.samples
    if samples.num_classes != other_samples.num_classes:
        why = f"not comparable: {samples.num_classes:,} classes and {other_samples.num_classes:,}"
        return CommonVideos(why, None, None)
    keys, rows, other_rows = np.intersect1d(samples.videos.keys, other_samples.videos.keys, return_indices=True)
    videos, other_videos = samples.videos.take(rows), other_samples.videos.take(other_rows)
    why = f"not comparable: {samples.seen:,} videos and {other_samples.seen:,}, {len(keys):,} of them common"
    if not len(keys):
        return CommonVideos(why, None, None)
    alike = [np.array_equal(*pair) for pair in zip(_labels(videos), _labels(other_videos), strict=True)]
    if changed := alike.count(False):
        why += f", {changed:,} of these with other labels"
    chosen = np.flatnonzero(alike)
    if not len(chosen):
        return CommonVideos(why, None, None)
    return CommonVideos(why, _of_videos(first, videos.take(chosen)), _of_videos(other, other_videos.take(chosen)))


def _labels(videos: Videos) -> list[np.ndarray[Any, Any]]:
    """The labels of each video."""
    return np.split(videos.labels, np.cumsum(videos.num_labels)[:-1])


def _of_videos(run: Run, videos: Videos) -> Run:
    """The run as if it had been evaluated on these of its videos, with the metrics that follow from a sample."""
    samples = run.samples
    figures = _figures(videos, samples)
    resamples = len(next(iter(run.resampled.values())))
    resampled = resample(videos, samples.num_classes, resamples, run.seed)
    common_samples = EvalSamples(
        {**samples.figures, **figures}, videos, samples.num_classes, len(videos), samples.points
    )
    shared = {key: values for key, values in resampled.figures.items() if key in run.resampled and key in figures}
    return run._replace(
        samples=common_samples, resampled=shared, class_aps=resampled.class_aps, excess=resampled.excess
    )


def _figures(videos: Videos, samples: EvalSamples) -> Mapping[str, float | None]:
    """{key: value on the videos} of the metrics that the run has; None if one is not defined, or cannot be computed."""
    columns = videos.columns(samples.num_classes)
    batch = ScoredBatch(columns, videos.perr, videos.losses)
    entries = columns.entries(columns.scores.shape[1])
    ranked = RankedEntries(entries, columns.label_counts, len(videos))
    values = {metric.key: metric.create(batch).compute(ranked) for metric in metrics.all() if not metric.is_detail}
    finite_values = {key: float(value) for key, value in values.items() if value is not None and np.isfinite(value)}
    return {each.key: finite_values.get(each.key) for each in samples.descriptions()}
