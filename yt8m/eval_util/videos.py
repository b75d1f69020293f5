"""A bounded sample of the evaluated videos: their best classes, which of these are labels, and all labels of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints32, Ints64, Keys, places_within
from yt8m.eval_util.top_k import Columns


@dataclass(frozen=True)
class Videos:
    """N videos with the K best classes of each.

    Attributes:
      keys: uint64 [N], a hash of each id, see `hashes`.
      scores: float32 [N, K], best first; -inf in the last columns if fewer than K classes of the video were ranked.
      classes: int32 [N, K], the class of each score.
      hits: bool [N, K], whether the video has that class.
      perr: float64 [N], precision at equal recall rate of each.
      num_labels: int64 [N], labels of each over all classes.
      labels: int32 [sum of num_labels], the labels of all videos, video after video, ascending within each.
      label_scores: float32 [sum of num_labels], the score of each of `labels`.
      losses: float64 [N], cross-entropy over all classes of each.
      num_frames: int32 [N], frames of each that were read; 1 at video level.
      ids: object [N] of bytes.
    """

    keys: Keys
    scores: Floats32
    classes: Ints32
    hits: Bools
    perr: Floats64
    num_labels: Ints64
    labels: Ints32
    label_scores: Floats32
    losses: Floats64
    num_frames: Ints32
    ids: npt.NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def ranked(self) -> Bools:
        """bool [N, K]: False for the columns that a video lacks because fewer than K of its classes were ranked."""
        return np.asarray(self.scores > -np.inf)

    def predictions(self) -> tuple[Floats64, Bools]:
        """(scores, whether they are right) of all ranked columns, video after video."""
        ranked = self.ranked
        return self.scores[ranked].astype(np.float64), self.hits[ranked]

    def columns(self, num_classes: int) -> Columns:
        """The videos as `Columns`, the input of the metrics."""
        counts = np.bincount(self.labels, minlength=num_classes).astype(np.int64)
        return Columns(self.scores, self.classes, self.hits, self.num_labels, counts)

    def owners(self) -> Ints64:
        """int64 [sum of num_labels], the video (0..N-1) of each of `labels`."""
        return np.repeat(np.arange(len(self)), self.num_labels)

    def take(self, rows: npt.NDArray[np.integer]) -> Videos:
        """A selection of the videos: those with the indexes `rows`, in that order."""
        starts = np.cumsum(self.num_labels) - self.num_labels
        counts = self.num_labels[rows]
        of_labels = np.repeat(starts[rows], counts) + places_within(counts)
        names = [field.name for field in fields(self)]
        return Videos(**{name: getattr(self, name)[of_labels if name in _OF_LABELS else rows] for name in names})


_OF_LABELS = ("labels", "label_scores")  # attributes with an entry for each label; the others have one for each video
# The types of the attributes that `VideoSample.add` takes from the reports as they are.
_TYPES = {"scores": "f4", "classes": "i4", "perr": "f8", "label_scores": "f4", "losses": "f8", "num_frames": "i4"}
MAX_VIDEOS = 50_000  # default of the largest number of videos in a sample; each takes about 350 bytes


class VideoSample:
    """The `most` videos whose ids have the smallest hashes; all videos if there are at most that many.

    The choice depends only on the ids (bottom-k sampling: E. Cohen and H. Kaplan, Summarizing Data using Bottom-k
    Sketches, PODC 2007). So two runs keep the same videos, whatever the order of the batches.

    Attributes:
      most: the largest number of videos that are kept.
    """

    def __init__(self, most: int = MAX_VIDEOS) -> None:
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
            `labels` bool [B, C]; `label_scores` float32, the score of each label, in the order of `labels`; `losses`
            and `num_frames` [B]; all as in `Videos`. A video with neither a ranked class nor labels was not judged
            and is left out.
        """
        labels = np.asarray(reports["labels"], np.bool_)
        batch = Videos(
            keys=hashes(reports["video_ids"].tolist()),
            hits=np.asarray(reports["hits"]) > 0,
            num_labels=np.count_nonzero(labels, axis=1).astype(np.int64),
            labels=np.nonzero(labels)[1].astype(np.int32),
            ids=np.asarray(reports["video_ids"], object),
            **{name: np.asarray(reports[name], dtype) for name, dtype in _TYPES.items()},
        )
        judged = np.flatnonzero(batch.ranked[:, 0] | (batch.num_labels > 0))
        self._parts.append(batch.take(judged))
        self.seen += len(judged)
        if sum(map(len, self._parts)) > 2 * self.most:
            self._shrink()

    def videos(self) -> Videos | None:
        """The sample, in the order of the hashes; None if nothing was added."""
        self._shrink()
        return self._parts[0] if self._parts else None

    def _shrink(self) -> None:
        """Joins the parts into one, which keeps only the `most` videos with the smallest hashes."""
        if self._parts:
            all_videos = Videos(
                **{f.name: np.concatenate([getattr(part, f.name) for part in self._parts]) for f in fields(Videos)}
            )
            self._parts = [all_videos.take(np.argsort(all_videos.keys, kind="stable")[: self.most])]


def hashes(video_ids: Iterable[bytes]) -> Keys:
    """The hashes of ids, uint64 [N]; an id has the same hash on every machine."""
    digests = b"".join(hashlib.blake2b(bytes(each), digest_size=8).digest() for each in video_ids)
    return np.frombuffer(digests, np.dtype("<u8")).astype(np.uint64)
