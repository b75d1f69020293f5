"""Where the model fails: the PERR or mean AP of parts of the videos and of the classes, each with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from yt8m.errors import quantity
from yt8m.eval_util.arrays import Ints32, Ints64
from yt8m.eval_util.metrics import THIRDS, thirds
from yt8m.eval_util.resampling import Interval, interval, means_of_rows
from yt8m.eval_util.videos import Videos
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports.loading import Run, interval_if_certain, interval_of_mean_ap, shrink_of

_FEWEST_PARTS = 2  # a division into fewer parts is not shown, because a single part says nothing
# (least, largest) number of labels of the videos of a part, and its name; then the name for videos with more labels.
_LABEL_RANGES = ((1, 1, "1"), (2, 2, "2"), (3, 3, "3"), (4, 5, "4 to 5"), (6, 9, "6 to 9"))
_MORE_LABELS = "10 and more"


class Part(NamedTuple):
    """One part of the videos or of the classes.

    Attributes:
      bounds: the 95 % interval of a mean PERR on other videos, or of a mean AP on very many videos; None if there are
        too few videos or labels for one.
      classes: number of classes of the part that have a label; None for a part of the videos.
    """

    name: str
    figure: float
    bounds: Interval | None
    videos: int
    classes: int | None = None


class Division(NamedTuple):
    """One way to divide the videos or the classes: its title, the name of the metric of its parts, and the parts."""

    title: str
    figure: str
    parts: list[Part]


class ClassCounts(NamedTuple):
    """How often each class occurs.

    Attributes:
      counts: int64 [C], number of videos of each class; all 0 if it is not known.
    """

    counts: Ints64
    unit: str = "training videos"


def divisions(run: Run, names: Vocabulary, counts: ClassCounts) -> list[Division]:
    """The divisions by vertical, frequency, number of labels and length. Those with a single part are left out.

    A vertical is the coarse category of a class, such as Animals.
    """
    videos = run.samples.videos
    verticals = np.array(names.verticals, object)
    by_vertical = [(name, np.flatnonzero(verticals == name)) for name in dict.fromkeys(filter(None, names.verticals))]
    possible = [
        Division("vertical", "mean AP", list(_parts_of_classes(run, by_vertical))),
        Division("frequency of the class", "mean AP", list(_parts_of_classes(run, by_frequency(counts)))),
        Division("number of labels", "PERR", list(_parts_of_videos(run, by_labels(videos.num_labels)))),
        Division("length of the video", "PERR", list(_parts_of_videos(run, by_length(videos)))),
    ]
    possible[0].parts.sort(key=lambda part: -part.videos)
    return [division for division in possible if len(division.parts) >= _FEWEST_PARTS]


def by_frequency(counts: ClassCounts) -> list[tuple[str, Ints64]]:
    """(name, classes) of the most frequent third of the classes (head), the middle and the rarest third (tail).

    Each name includes the range of the counts. Empty if no count is known.
    """
    named_thirds = zip(THIRDS, thirds(counts.counts), strict=False)
    return [
        (f"{name} ({counts.counts[classes].min():,} to {counts.counts[classes].max():,} {counts.unit})", classes)
        for name, classes in named_thirds
        if len(classes)
    ]


def by_labels(num_labels: Ints64) -> list[tuple[str, Ints64]]:
    """(name, rows) of videos with similar numbers of labels; those without a label have no PERR and are left out."""
    groups = [(name, np.flatnonzero((num_labels >= low) & (num_labels <= high))) for low, high, name in _LABEL_RANGES]
    groups.append((_MORE_LABELS, np.flatnonzero(num_labels > _LABEL_RANGES[-1][1])))
    return [(name, rows) for name, rows in groups if len(rows)]


def by_length(videos: Videos) -> list[tuple[str, Ints64]]:
    """(name, rows) of up to four groups of the labelled videos, the quarters by number of frames, shortest first.

    Videos with equally many frames are in the same group, so groups may differ in size.
    """
    labelled = np.flatnonzero(videos.num_labels)
    if not len(labelled):
        return []
    frames = videos.num_frames[labelled]
    quarters = np.searchsorted(np.unique(np.quantile(frames, [0.25, 0.5, 0.75], method="lower")), frames)
    return [(_format_range(frames[quarters == part]), labelled[quarters == part]) for part in np.unique(quarters)]


def _format_range(counts: Ints32 | Ints64) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,} to {high:,} frames" if low < high else quantity(low, "frame", ",")


def _parts_of_videos(run: Run, groups: Sequence[tuple[str, Ints64]]) -> Iterator[Part]:
    """Yields a part for each (name, rows of the sampled videos).

    For its interval, the videos of each part are resampled by themselves, as often as `run.class_aps` has rows.
    """
    generator = np.random.default_rng(run.seed)
    for name, rows in groups:
        values = run.samples.videos.perr[rows]
        means = np.array([values[generator.integers(len(rows), size=len(rows))].mean() for _ in run.class_aps])
        figure = float(values.mean())
        bounds = interval_if_certain(interval(figure, means, shrink_of(run)), len(rows))
        yield Part(name, figure, bounds, len(rows))


def _parts_of_classes(run: Run, groups: Sequence[tuple[str, Ints64]]) -> Iterator[Part]:
    """Yields a part for each (name, classes); classes without a label, and parts of only such classes, are left out.

    The interval of a part comes from the AP of its classes on each set of resampled videos.
    """
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
        num_videos = len(np.unique(owners[np.isin(videos.labels, members)]))
        figure = float(aps[members].mean())
        resampled = means_of_rows(run.class_aps[:, members])
        bounds = interval_of_mean_ap(run, figure, resampled, run.excess[members], labels[members])
        yield Part(name, figure, bounds and interval_if_certain(bounds, num_videos), num_videos, len(members))
