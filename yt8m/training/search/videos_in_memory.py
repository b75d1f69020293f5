"""The videos of a search, in memory: those that candidates are trained on, and those that they are compared on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yt8m.config.data_config import DataConfig
from yt8m.errors import RunError
from yt8m.records import input_statistics
from yt8m.records.input_statistics import InputStatistics
from yt8m.records.record_parser import NumpyBatch
from yt8m.training import numpy_records

_HELD_OUT, _LEAST_HELD_OUT = 0.1, 30  # share and least number of videos that are held out if no split validates
_MOST_BYTES = 1 << 30  # of the videos in memory


@dataclass(frozen=True, eq=False)
class VideosInMemory:
    """Some videos.

    Attributes:
      features: float32 [N, D], or [N, T, D] with 0 past the end of a video: the joined features.
      num_frames: int32 [N].
      labels: bool [N, C].
      keys: uint64 [N], a hash of each id.
    """

    features: NDArray[np.float32]
    num_frames: NDArray[np.int32]
    labels: NDArray[np.bool_]
    keys: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> VideosInMemory:
        """The videos in these rows."""
        return VideosInMemory(self.features[rows], self.num_frames[rows], self.labels[rows], self.keys[rows])

    def without_labels(self) -> VideosInMemory:
        """The same videos with labels bool [N, 0]."""
        return replace(self, labels=self.labels[:, :0])

    def statistics(self) -> InputStatistics:
        """The mean and the deviation of each value over the videos, or over their frames."""
        moments = input_statistics.Moments()
        rows = self.features
        if rows.ndim == 3:
            rows = rows[np.arange(rows.shape[1]) < self.num_frames[:, np.newaxis]]
        moments.add(rows)
        return moments.statistics()


def read(data: DataConfig, pattern: str, most: int, total: int) -> VideosInMemory:
    """Reads the videos of some files, or a sample of them that depends on their ids alone.

    Args:
      most: largest number of videos to keep; fewer are kept if these take too much memory.
      total: number of videos in the files, by which the share of the sample is set.
    """
    frames = data.max_frames if data.frame_features else 1
    most = min(most, max(1, _MOST_BYTES // (4 * frames * sum(data.feature_sizes))))
    share = 1.0 if total <= most else most / total
    groups = [_joined(batch, data, share) for batch in numpy_records.read_batches(data, pattern)]
    if not any(map(len, groups)):
        raise RunError(f"{pattern} holds no video: name other files.")
    return _stacked(groups)


def divided(videos: VideosInMemory) -> tuple[VideosInMemory, VideosInMemory]:
    """Divides videos by a hash of their ids: (those to train on, those held out, a tenth of them but at least 30)."""
    held_out = min(max(round(_HELD_OUT * len(videos)), _LEAST_HELD_OUT), len(videos) // 2)
    order = np.argsort(videos.keys, kind="stable")
    return videos.take(np.sort(order[held_out:])), videos.take(np.sort(order[:held_out]))


def joined(first: VideosInMemory, second: VideosInMemory) -> VideosInMemory:
    """The videos of both."""
    return _stacked([first, second])


def _joined(batch: NumpyBatch, data: DataConfig, share: float) -> VideosInMemory:
    """The videos of a batch whose keys are in the first `share` of all keys, with their features joined."""
    features = np.concatenate([batch.features[name] for name in data.feature_names], axis=-1)
    if data.nan_policy == "zero":
        features = np.where(np.abs(features) <= 1e16, features, 0)
    videos = VideosInMemory(features.astype(np.float32), batch.num_frames, batch.labels, _keys(batch.ids))
    return videos.take(videos.keys.astype(np.float64) < share * 2.0**64)


def _keys(ids: Iterable[str]) -> NDArray[np.uint64]:
    """A hash of each id that no other part of the project draws by, so that a sample is not the sample of another."""
    digests = [hashlib.blake2b(f"search:{video}".encode(), digest_size=8).digest() for video in ids]
    return np.frombuffer(b"".join(digests), np.uint64)


def _stacked(groups: list[VideosInMemory]) -> VideosInMemory:
    """The videos of all groups; those of fewer frames are padded with 0."""
    longest = max((part.features.shape[1] for part in groups), default=0)
    features = [part.features for part in groups]
    if features[0].ndim == 3:
        features = [np.pad(f, ((0, 0), (0, longest - f.shape[1]), (0, 0))) for f in features]
    others = (np.concatenate([getattr(part, name) for part in groups]) for name in ("num_frames", "labels", "keys"))
    return VideosInMemory(np.concatenate(features), *others)
