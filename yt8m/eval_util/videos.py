"""A bounded sample of the evaluated videos, and confidence intervals of metrics, by resampling these videos.

Each video is kept with its best classes, whether each of these is a label, and all of its labels. The intervals are
those of the bootstrap (resampling with replacement): B. Efron and R. Tibshirani, An Introduction to the Bootstrap
(1993), chapters 10 and 13.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import (
    Bools,
    Floats32,
    Floats64,
    Ints32,
    Ints64,
    Keys,
    block_starts,
    class_of,
    hit_of,
    places_within,
    without_class,
)
from yt8m.eval_util.average_precision import average_precisions
from yt8m.eval_util.metrics import Gap, MeanAveragePrecision, MeanMetric, ScoredBatch, metrics
from yt8m.eval_util.top_k import Columns


@dataclass(frozen=True)
class Videos:
    """N videos with the K best classes of each.

    Attributes:
      keys: uint64 [N], a hash of each id.
      scores: float32 [N, K], best first; -inf if fewer classes were ranked.
      classes: int32 [N, K].
      hits: bool [N, K], whether the video has that class.
      perr: float64 [N], precision at equal recall rate of each.
      num_labels: int64 [N], labels of each over all classes.
      labels: int32 [sum of num_labels], video after video, ascending within each.
    """

    keys: Keys
    scores: Floats32
    classes: Ints32
    hits: Bools
    perr: Floats64
    num_labels: Ints64
    labels: Ints32

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def ranked(self) -> Bools:
        """bool [N, K]: False for the columns that a video lacks because fewer than K of its classes were ranked."""
        return np.asarray(self.scores > -np.inf)

    def columns(self, num_classes: int) -> Columns:
        """The videos as `Columns`, the input of the metrics."""
        counts = np.bincount(self.labels, minlength=num_classes).astype(np.int64)
        return Columns(self.scores, self.classes, self.hits, self.num_labels, counts)

    def owners(self) -> Ints64:
        """int64, the video (0..N-1) of each of `labels`."""
        return np.repeat(np.arange(len(self)), self.num_labels)

    def take(self, rows: npt.NDArray[np.integer]) -> Videos:
        """The videos `rows`, in that order."""
        starts = np.cumsum(self.num_labels) - self.num_labels
        counts = self.num_labels[rows]
        labels = self.labels[np.repeat(starts[rows], counts) + places_within(counts)]
        whole = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "labels"}
        return Videos(**whole, labels=labels)


MOST = 50_000  # videos kept; each takes about 250 bytes


class VideoSample:
    """The `most` videos whose ids have the smallest hashes; all videos if there are at most that many.

    The choice depends only on the ids (bottom-k sampling: E. Cohen and H. Kaplan, Summarizing Data using Bottom-k
    Sketches, PODC 2007). So two runs keep the same videos, whatever the order of the batches, and the samples of
    several processes merge into the sample of all videos.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.clear()

    def clear(self) -> None:
        """Forgets all videos."""
        self._parts: list[Videos] = []
        self.seen = 0

    def add(self, reports: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Adds a batch of B videos.

        Args:
          reports: `video_ids` [B] bytes; `scores`, `classes` and `hits` [B, K], best first; `perr` [B];
            `labels` bool [B, C]. A video with neither a ranked class nor labels was not judged and is
            left out.
        """
        labels = np.asarray(reports["labels"], np.bool_)
        scores = np.asarray(reports["scores"], np.float32)
        batch = Videos(
            keys=hashes(reports["video_ids"].tolist()),
            scores=scores,
            classes=np.asarray(reports["classes"], np.int32),
            hits=np.asarray(reports["hits"]) > 0,
            perr=np.asarray(reports["perr"], np.float64),
            num_labels=np.count_nonzero(labels, axis=1).astype(np.int64),
            labels=np.nonzero(labels)[1].astype(np.int32),
        )
        judged = np.flatnonzero(batch.ranked[:, 0] | (batch.num_labels > 0))
        self._append(batch.take(judged), len(judged))

    def merge(self, other: VideoSample) -> None:
        """Adds the sample of `other`."""
        for part in other._parts:
            self._append(part, 0)
        self.seen += other.seen

    def videos(self) -> Videos | None:
        """The sample, in the order of the hashes; None if nothing was added."""
        self._shrink()
        return self._parts[0] if self._parts else None

    def _append(self, part: Videos, seen: int) -> None:
        self._parts.append(part)
        self.seen += seen
        if sum(map(len, self._parts)) > 2 * self.most:
            self._shrink()

    def _shrink(self) -> None:
        if self._parts:
            everything = Videos(
                **{f.name: np.concatenate([getattr(part, f.name) for part in self._parts]) for f in fields(Videos)}
            )
            self._parts = [everything.take(np.argsort(everything.keys, kind="stable")[: self.most])]


def hashes(video_ids: Iterable[bytes]) -> Keys:
    """The hashes of ids, uint64 [N]; an id has the same hash on every machine."""
    digests = b"".join(hashlib.blake2b(bytes(each), digest_size=8).digest() for each in video_ids)
    return np.frombuffer(digests, np.dtype("<u8")).astype(np.uint64)


class Interval(NamedTuple):
    """A lower and an upper bound."""

    low: float
    high: float


def resampled_figures(videos: Videos, num_classes: int, resamples: int, seed: int) -> dict[str, Floats64]:
    """GAP, mAP and the metrics that are means over examples, of sets as large as `videos`, drawn with replacement.

    The same seed and number of videos draw the same sets. So the metrics of two models on the same videos (in the
    same order) may be subtracted, set by set.

    Args:
      videos: the videos to draw from.
      num_classes: number of classes.
      resamples: number of sets.
      seed: seed of the draws.

    Returns:
      {key of the metric: float64 [resamples]}; each value is exactly what `EvaluationMetrics` gives for those videos.
    """
    draw, size = np.random.default_rng(seed), len(videos)
    resampler = _Resampler(videos, num_classes)
    rows = [resampler.figures(np.bincount(draw.integers(size, size=size), minlength=size)) for _ in range(resamples)]
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def interval(
    figure: float, resampled: Floats64, shrink: float = 1.0, level: float = 0.95, least: float = 0.0
) -> Interval:
    """The percentile interval: the middle `level` of the resamples, shifted so that their median is `figure`.

    The resamples are shifted because each lacks some of the rare classes. That makes its mAP higher than that of the
    videos themselves, so only the spread of the resamples is meaningful. Shifting and shrinking are done on the
    scale arcsin(sqrt(x)), which stabilises the variance of a share, and stop at the ends of that scale. So the
    interval never leaves the range of the figure, and it always contains the figure.

    Source of the scale: F. J. Anscombe, The transformation of Poisson, binomial and negative-binomial data,
    Biometrika 35 (1948).

    Args:
      figure: the value over all videos, from `least` to 1.
      resampled: [R], the values of the resamples; nan (not defined) is left out.
      shrink: factor by which the spread is multiplied. If the resampled videos are themselves a sample of all videos,
        give the square root of the sample's share.
      level: the share of the resamples between the bounds.
      least: lower end of the metric's range: 0, or -1 for a difference of two metrics.
    """
    known = resampled[np.isfinite(resampled)]
    if not len(known):
        return Interval(float("nan"), float("nan"))
    angles = _angles(known, least)
    spread = np.quantile(angles, [(1 - level) / 2, (1 + level) / 2]) - np.median(angles)
    moved = np.clip(_angles(np.float64(figure), least) + shrink * spread, 0, np.pi / 2)
    low, high = least + (1 - least) * np.sin(moved) ** 2
    return Interval(float(low), float(high))


def _angles(figures: Floats64 | np.float64, least: float) -> Floats64:
    """Maps values to angles, from 0 for `least` to pi/2 for 1; values outside, from rounding, are clipped."""
    return np.arcsin(np.sqrt(np.clip((figures - least) / (1 - least), 0, 1)))


class _Resampler:
    """Computes metrics of videos that may be repeated.

    Entries are sorted once, since repeating them keeps the order.
    """

    def __init__(self, videos: Videos, num_classes: int) -> None:
        columns = videos.columns(num_classes)
        self._videos, self._num_classes = videos, num_classes
        batch = ScoredBatch(columns, videos.perr)
        means = {metric.key: metric.of_examples(batch) for metric in metrics.all() if issubclass(metric, MeanMetric)}
        self._means = {key: np.asarray(values) for key, values in means.items() if values is not None}
        keys = columns.entries(columns.scores.shape[1])
        rows = np.repeat(np.arange(len(videos)), np.count_nonzero(columns.ranked, axis=1))
        self._by_class = _sorted(keys, rows)
        self._pooled = _sorted(without_class(keys), rows)

    def figures(self, counts: Ints64) -> dict[str, float]:
        """The metrics of the set that has video n `counts`[n] times."""
        videos, total = self._videos, counts.sum()
        weights = np.repeat(counts, videos.num_labels)
        label_counts = np.bincount(videos.labels, weights, minlength=self._num_classes).astype(np.float64)
        by_class = _precisions(*self._by_class, counts, label_counts)[label_counts > 0]
        pooled = _precisions(*self._pooled, counts, label_counts.sum(keepdims=True))
        return {key: float(counts @ values / total) for key, values in self._means.items()} | {
            Gap.key: float(pooled[0]),
            MeanAveragePrecision.key: float(by_class.mean()) if len(by_class) else float("nan"),
        }


def _sorted(keys: Keys, rows: Ints64) -> tuple[Keys, Ints64]:
    order = np.argsort(keys)
    return keys[order], rows[order]


def _precisions(keys: Keys, rows: Ints64, counts: Ints64, num_positives: Floats64) -> Floats64:
    repeated = np.repeat(keys, counts[rows])
    return average_precisions(class_of(repeated), block_starts(repeated), hit_of(repeated), num_positives)
