"""The videos of a search, in memory: those that candidates are trained on, and those that they are compared on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.config.data_config import DataConfig
from yt8m.errors import RunError
from yt8m.records import groups, held_out, shards
from yt8m.records.opened_data import open_data
from yt8m.records.record_parser import NumpyBatch
from yt8m.training import numpy_records
from yt8m.video import fitted_transforms
from yt8m.video.fitted_transforms import Statistics

MOST_BYTES = 1 << 30  # of the videos in memory


@dataclass(frozen=True, eq=False)
class VideosInMemory:
    """Some videos.

    Attributes:
      features: float32 [N, D], or [N, T, D] with 0 past the end of a video: the joined features.
      num_frames: int32 [N].
      labels: bool [N, C].
      keys: uint64 [N], a hash of each id.
      groups: uint64 [N], a hash of the group of each video; without groups, its key.
    """

    features: NDArray[np.float32]
    num_frames: NDArray[np.int32]
    labels: NDArray[np.bool_]
    keys: NDArray[np.uint64]
    groups: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> VideosInMemory:
        """The videos in these rows."""
        others = (getattr(self, name)[rows] for name in ("num_frames", "labels", "keys", "groups"))
        return VideosInMemory(self.features[rows], *others)

    def has_groups(self) -> bool:
        """Whether it is known which videos belong together."""
        return bool((self.groups != self.keys).any())

    def without_labels(self) -> VideosInMemory:
        """The same videos with labels bool [N, 0]."""
        return replace(self, labels=self.labels[:, :0])

    def statistics(self, transform: str) -> Statistics:
        """What an input transform takes from the training data: these videos, or their frames."""
        fit = fitted_transforms.new_fit(transform)
        rows = self.features
        if rows.ndim == 3:
            rows = rows[np.arange(rows.shape[1]) < self.num_frames[:, np.newaxis]]
        fit.add(rows)
        return fit.statistics()


def read(data: DataConfig, pattern: str, most: int) -> tuple[VideosInMemory, int]:
    """Reads the videos of some files, or a sample of them that depends on their ids alone.

    Args:
      most: largest number of videos to keep; fewer are kept if these take too much memory.

    Returns:
      The videos, and how many there are in the files.
    """
    groups_of_data = groups.find(open_data(pattern, flag="train_data_pattern").files)
    sample, total = _Sample(most), 0
    for batch in numpy_records.read_batches(data, pattern):
        total += len(batch)
        sample.add(_joined(batch, data, groups_of_data))
    if not total:
        raise RunError(f"{pattern} holds no video: name other files.")
    return sample.videos(), total


class _Sample:
    """The videos with the smallest keys of those that are added, so many as fit."""

    def __init__(self, most: int) -> None:
        self._most, self._parts = most, list[VideosInMemory]()

    def add(self, videos: VideosInMemory) -> None:
        """Adds videos; when a quarter too many are kept, those with the largest keys are given up."""
        self._parts.append(videos)
        if sum(map(len, self._parts)) > 1.25 * self._fitting():
            self._thin()

    def videos(self) -> VideosInMemory:
        """The videos of the sample, in the order in which they were added."""
        self._thin()
        return stacked(self._parts)

    def _fitting(self) -> int:
        """How many videos may be kept: fewer if they have many or long frames."""
        values = max(math.prod(part.features.shape[1:]) for part in self._parts)
        return min(self._most, max(1, MOST_BYTES // (4 * values)))

    def _thin(self) -> None:
        keys = np.concatenate([part.keys for part in self._parts])
        fitting = self._fitting()
        if len(keys) > fitting:
            largest = np.partition(keys, fitting - 1)[fitting - 1]
            self._parts = [part.take(part.keys <= largest) for part in self._parts]


def divided(videos: VideosInMemory, rule: Sequence[int] = ()) -> tuple[VideosInMemory, VideosInMemory]:
    """Divides videos: (those to train on, those held out). Held out are whole groups, drawn by a hash.

    They are a tenth of the videos but at least 30, or as many more as the last group has, but at most half of them:
    larger groups are passed over.

    Args:
      rule: says which videos are held out, see `records.held_out`; empty for those with the smallest hashes.
    """
    if rule:
        is_held_out = held_out.are_held_out(videos.groups, rule)
        return videos.take(~is_held_out), videos.take(is_held_out)
    wanted, most = held_out.number_to_hold_out(len(videos)), len(videos) // 2
    _, places = np.unique(videos.groups, return_inverse=True)
    if places.max() == 0 and not videos.has_groups():  # all have the same id
        places = np.arange(len(videos))
    if places.max() == 0 and len(videos) > 1:
        raise RunError(
            f"all {len(videos)} videos are of one group ({groups.NAME}), so none can be held out to compare models on: "
            "make a split validate of other groups, or name such videos by --eval_data_pattern."
        )
    chosen, count = list[int](), 0
    for group, size in enumerate(np.bincount(places).tolist()):
        if count < wanted and count + size <= most:
            chosen.append(group)
            count += size
    is_held_out = np.isin(places, chosen)
    return videos.take(~is_held_out), videos.take(is_held_out)


class Fold(NamedTuple):
    """A division of videos into those to train on and those to compare on."""

    training: VideosInMemory
    held_out: VideosInMemory


def folds(first: Fold, count: int) -> list[Fold]:
    """Divides the videos of a fold in `count` ways, of which `first` is one, so that each is held out once.

    The training videos are divided into parts of whole groups, and no video of a group that is held out is trained on.
    """
    if count < 2:
        return [first]
    training = first.training
    everything, (names, places) = stacked([*first]), np.unique(training.groups, return_inverse=True)
    sizes = np.bincount(places)
    part_of_group = (np.cumsum(sizes) - sizes) * (count - 1) // len(training)
    divisions = [first]
    for part in np.unique(part_of_group).tolist():
        of_part = names[part_of_group == part]
        is_trained_on = ~np.isin(everything.groups, of_part)
        divisions.append(Fold(everything.take(is_trained_on), training.take(np.isin(training.groups, of_part))))
    return divisions


def _joined(batch: NumpyBatch, data: DataConfig, groups_of_data: groups.Groups) -> VideosInMemory:
    """The videos of a batch, with their features joined."""
    features = np.concatenate([batch.features[name] for name in data.feature_names], axis=-1)
    if data.nan_policy == "zero":
        features = np.where(np.abs(features) <= shards.LARGEST, features, 0)
    keys, of_videos = held_out.keys_of(batch.ids), held_out.groups_of(batch.ids, groups_of_data)
    return VideosInMemory(features.astype(np.float32), batch.num_frames, batch.labels, keys, of_videos)


def stacked(sets: Sequence[VideosInMemory]) -> VideosInMemory:
    """The videos of all sets; those of fewer frames are padded with 0."""
    longest = max((part.features.shape[1] for part in sets), default=0)
    features = [part.features for part in sets]
    if features[0].ndim == 3:
        features = [np.pad(f, ((0, 0), (0, longest - f.shape[1]), (0, 0))) for f in features]
    others = (
        np.concatenate([getattr(part, name) for part in sets]) for name in ("num_frames", "labels", "keys", "groups")
    )
    return VideosInMemory(np.concatenate(features), *others)
