"""Where the model fails: figures of parts of the videos and of the classes, each with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from yt8m.eval_util.arrays import Ints32, Ints64
from yt8m.eval_util.ranked_entries import THIRDS, thirds
from yt8m.eval_util.resampling import Interval, interval, means_of_rows
from yt8m.eval_util.videos import Videos
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports.loading import Run, certain_enough, interval_of_mean_ap, shrink_of

_FEWEST = 2  # parts of a table; a division that leaves one part says nothing
_LABELS = ((1, 1, "1"), (2, 2, "2"), (3, 3, "3"), (4, 5, "4 to 5"), (6, 9, "6 to 9"))
_MANY = "10 and more"


class Part(NamedTuple):
    """One part of the videos or of the classes.

    Attributes:
      name: what its members have in common.
      figure: the mean PERR of the videos, or the mean AP of the classes.
      bounds: the 95 % interval of `figure` on other videos (of a mean AP, on very many); None if the videos say too
        little for one.
      videos: number of videos; for a part of the classes, of those that have a label among them.
      classes: number of classes with a label; None for a part of the videos.
    """

    name: str
    figure: float
    bounds: Interval | None
    videos: int
    classes: int | None = None


class Division(NamedTuple):
    """A way to divide the videos or the classes: its title, the name of its figure, and its parts."""

    title: str
    figure: str
    parts: list[Part]


class ClassCounts(NamedTuple):
    """How many videos each class has, int64 [C], all 0 if it is not known; and what the counts are, in words."""

    counts: Ints64
    words: str = "training videos"


def divisions(run: Run, names: Vocabulary, counts: ClassCounts) -> list[Division]:
    """The divisions that the data allow; one is left out if it has a single part.

    Args:
      run: the run.
      names: its vocabulary, for the verticals.
      counts: how often each class occurs.
    """
    videos = run.samples.videos
    verticals = np.array(names.verticals, object)
    by_vertical = [(name, np.flatnonzero(verticals == name)) for name in dict.fromkeys(filter(None, names.verticals))]
    possible = [
        Division("vertical", "mean AP", list(_of_classes(run, by_vertical))),
        Division("frequency of the class", "mean AP", list(_of_classes(run, by_frequency(counts)))),
        Division("number of labels", "PERR", list(_of_videos(run, by_labels(videos.num_labels)))),
        Division("length of the video", "PERR", list(_of_videos(run, by_length(videos)))),
    ]
    possible[0].parts.sort(key=lambda part: -part.videos)
    return [division for division in possible if len(division.parts) >= _FEWEST]


def by_frequency(counts: ClassCounts) -> list[tuple[str, Ints64]]:
    """(name, classes) of the thirds of the classes; empty if it is not known how frequent they are."""
    named_thirds = zip(THIRDS, thirds(counts.counts), strict=False)
    return [
        (f"{name} ({counts.counts[part].min():,} to {counts.counts[part].max():,} {counts.words})", part)
        for name, part in named_thirds
        if len(part)
    ]


def by_labels(num_labels: Ints64) -> list[tuple[str, Ints64]]:
    """(name, rows) of videos with similar numbers of labels; those without a label have no PERR and are left out."""
    groups = [(name, np.flatnonzero((num_labels >= low) & (num_labels <= high))) for low, high, name in _LABELS]
    groups.append((_MANY, np.flatnonzero(num_labels > _LABELS[-1][1])))
    return [(name, rows) for name, rows in groups if len(rows)]


def by_length(videos: Videos) -> list[tuple[str, Ints64]]:
    """(name, rows) of four groups of the labelled videos, by number of frames; the groups are about equally large."""
    labelled = np.flatnonzero(videos.num_labels)
    if not len(labelled):
        return []
    frames = videos.num_frames[labelled]
    which = np.searchsorted(np.unique(np.quantile(frames, [0.25, 0.5, 0.75], method="lower")), frames)
    return [(_range_of(frames[which == part]), labelled[which == part]) for part in np.unique(which)]


def _range_of(counts: Ints32 | Ints64) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,} to {high:,} frames" if low < high else f"{low:,} frame{'s' if low > 1 else ''}"


def _of_videos(run: Run, groups: Sequence[tuple[str, Ints64]]) -> Iterator[Part]:
    """The mean PERR of the sampled videos of each part, from as many resamples as the classes have."""
    draw = np.random.default_rng(run.seed)
    for name, rows in groups:
        values = run.samples.videos.perr[rows]
        means = np.array([values[draw.integers(len(rows), size=len(rows))].mean() for _ in run.class_aps])
        figure = float(values.mean())
        yield Part(name, figure, certain_enough(interval(figure, means, shrink_of(run)), len(rows)), len(rows))


def _of_classes(run: Run, groups: Sequence[tuple[str, Ints64]]) -> Iterator[Part]:
    """The mean AP of the classes of each part, from the AP of each class in each resample."""
    videos = run.samples.videos
    aps, labels = np.full(run.samples.num_classes, np.nan), np.zeros(run.samples.num_classes, np.int64)
    for row in run.samples.figures["classes"]:
        aps[row["class"]], labels[row["class"]] = row["average_precision"], row["positives"]
    owners = videos.owners()
    for name, classes in groups:
        members = classes[classes < len(aps)]
        members = members[~np.isnan(aps[members])]
        if not len(members):
            continue
        having = len(np.unique(owners[np.isin(videos.labels, members)]))
        figure = float(aps[members].mean())
        resampled = means_of_rows(run.class_aps[:, members])
        bounds = interval_of_mean_ap(run, figure, resampled, run.excess[members], labels[members])
        yield Part(name, figure, bounds and certain_enough(bounds, having), having, len(members))
