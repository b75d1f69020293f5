"""What an evaluation keeps of single videos: their best classes, which of them are right, and all labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints32, Ints64, Keys
from yt8m.eval_util.columns import Columns


@dataclass(frozen=True)
class Videos:
    """N videos with the K best classes of each.

    Attributes:
      keys: uint64 [N], a hash of the id.
      scores: float32 [N, K], best first; -inf where fewer classes were ranked.
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
        """bool [N, K], where a column holds a class."""
        return np.asarray(self.scores > -np.inf)

    @property
    def hit_at_one(self) -> Bools:
        """bool [N], whether the best class of each is one of its labels."""
        return np.asarray(self.hits[:, 0] & self.ranked[:, 0])

    def columns(self, num_classes: int) -> Columns:
        """The same as the metrics take it."""
        counts = np.bincount(self.labels, minlength=num_classes).astype(np.int64)
        return Columns(self.scores, self.classes, self.hits, self.num_labels, counts)

    def owners(self) -> Ints64:
        """int64, the video (0..N-1) of each of `labels`."""
        return np.repeat(np.arange(len(self)), self.num_labels)

    def take(self, rows: npt.NDArray[np.integer]) -> Videos:
        """The videos `rows`, in that order."""
        starts = np.cumsum(self.num_labels) - self.num_labels
        counts = self.num_labels[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        labels = self.labels[np.repeat(starts[rows], counts) + within]
        whole = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "labels"}
        return Videos(**whole, labels=labels)


def joined(parts: Sequence[Videos]) -> Videos:
    """All videos of one or more parts, in order."""
    return Videos(
        **{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Videos)}
    )
