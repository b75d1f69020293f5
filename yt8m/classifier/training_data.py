"""Writes the videos of a classifier as records: those to train on, and those that models are compared on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.classifier.given_videos import GivenVideos
from yt8m.python_api.data_errors import DataError
from yt8m.python_api.given_labels import GivenLabels
from yt8m.records import encoding, groups, manifest, vocabulary

_HELD_OUT, _LEAST_HELD_OUT = 0.1, 30  # share and least number of the videos that models are compared on
_VIDEOS_IN_SHARD = 4096


class VideosAndLabels(NamedTuple):
    """Videos with their labels.

    Attributes:
      groups: the name of the group of each video; None if each is a group of its own.
    """

    videos: GivenVideos
    labels: GivenLabels
    groups: NDArray[np.str_] | None = None

    def take(self, rows: NDArray[np.int64]) -> VideosAndLabels:
        """The videos in these rows."""
        groups = None if self.groups is None else self.groups[rows]
        return VideosAndLabels(self.videos.take(rows), self.labels.take(rows), groups)


def divided(data: VideosAndLabels, groups: Any, seed: int) -> tuple[VideosAndLabels, VideosAndLabels]:
    """Divides videos into (those to train on, those held out: a tenth, but at least 30, and at most half).

    Args:
      groups: [videos], videos of one group are not divided; None for no groups.
    """
    count = len(data.labels)
    if count < 2:
        raise DataError(f"X has one video (n_samples = {count}): at least two are needed, to train and to compare.")
    wanted = min(max(round(_HELD_OUT * count), _LEAST_HELD_OUT), count // 2)
    generator = np.random.default_rng(seed)
    if groups is None:
        held_out = _rows_to_hold_out(data.labels.matrix, generator.permutation(count), wanted)
    else:
        held_out = _groups_to_hold_out(groups, count, generator, wanted)
        data = data._replace(groups=np.asarray(groups).astype(str))
    others = np.setdiff1d(np.arange(count), held_out)
    return data.take(others), data.take(np.sort(held_out))


def _rows_to_hold_out(labels: NDArray[np.bool_], order: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """The first rows of an order, without those that have the last label of a class; others only if these are few."""
    unused, chosen, passed_over = labels.sum(0), list[int](), list[int]()
    for row in order.tolist():
        if len(chosen) == wanted:
            break
        if (unused[labels[row]] > 1).all():
            chosen.append(row)
            unused = unused - labels[row]
        else:
            passed_over.append(row)
    return np.array([*chosen, *passed_over][:wanted], np.int64)


def _groups_to_hold_out(groups: Any, count: int, generator: np.random.Generator, wanted: int) -> NDArray[np.int64]:
    """The rows of whole groups, taken in a random order until there are enough."""
    names, group_of_row = np.unique(np.asarray(groups).astype(str), return_inverse=True)
    if group_of_row.shape != (count,):
        raise DataError(
            f"groups has the shape {list(group_of_row.shape)}; expected one group for each of {count} videos."
        )
    if len(names) < 2:
        raise DataError("all videos are of one group: at least two groups are needed, to train and to compare.")
    sizes = np.bincount(group_of_row)
    order = generator.permutation(len(names))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1
    return np.flatnonzero(np.isin(group_of_row, order[: min(enough, len(names) - 1)]))


def write(
    folder: str, training: VideosAndLabels, held_out: VideosAndLabels, extractors: Sequence[Mapping[str, Any]]
) -> None:
    """Writes the splits `train` and `validate` with their manifests, the vocabulary and the groups."""
    names = training.labels.names
    storage.makedirs(folder)
    vocabulary.write(storage.join(folder, vocabulary.NAME), vocabulary.of_names(names))
    most_frames = int(max(part.videos.lengths().max() for part in (training, held_out)))
    for split, data in (("train", training), ("validate", held_out)):
        _write_split(storage.join(folder, split), split, data, extractors, most_frames)
    if training.groups is not None and held_out.groups is not None:
        ids = _ids("train", len(training.labels)) + _ids("validate", len(held_out.labels))
        names_of_groups = [*training.groups.tolist(), *held_out.groups.tolist()]
        digests = groups.digests([name.encode("utf-8", "surrogatepass") for name in names_of_groups])
        groups.Groups.from_digests(groups.digests(ids), digests).write(storage.join(folder, groups.NAME))


def _ids(split: str, count: int) -> list[bytes]:
    return [b"%s%07d" % (split.encode(), row) for row in range(count)]


def _write_split(
    folder: str, split: str, data: VideosAndLabels, extractors: Sequence[Mapping[str, Any]], most_frames: int
) -> None:
    storage.makedirs(folder)
    ids = _ids(split, len(data.labels))
    rows, classes = np.nonzero(data.labels.matrix)
    contexts, shards = encoding.Contexts(ids, rows, classes), {}
    for number, indices in enumerate(np.array_split(np.arange(len(ids)), math.ceil(len(ids) / _VIDEOS_IN_SHARD))):
        path = storage.join(folder, f"{split}{number:04}.tfrecord")
        shards[path] = _write_shard(path, contexts, indices, data.videos)
    described = data.videos.format(data.labels.matrix.sum(0).tolist(), one_class=data.labels.is_single)
    if data.videos.has_frames:
        described = described._replace(max_frames=most_frames)
    manifest.write(storage.join(folder, manifest.NAME), shards, described, extractors, split)


def _write_shard(
    path: str, contexts: encoding.Contexts, indices: NDArray[np.int64], videos: GivenVideos
) -> manifest.Shard:
    blocks = _frame_blocks(contexts, indices, videos) if videos.has_frames else _video_blocks(contexts, indices, videos)
    with storage.write_atomic(path) as file:
        writer = manifest.ShardWriter(file)
        for block in blocks:
            writer.add_framed(block)
    return writer.content()


def _video_blocks(
    contexts: encoding.Contexts, indices: NDArray[np.int64], videos: GivenVideos
) -> Iterator[NDArray[np.uint8]]:
    features = videos.features
    yield from encoding.VideoRecords(
        contexts, indices, lambda rows: {n: np.asarray(v)[rows] for n, v in features.items()}
    )


def _frame_blocks(
    contexts: encoding.Contexts, indices: NDArray[np.int64], videos: GivenVideos
) -> Iterator[NDArray[np.uint8]]:
    for index in indices.tolist():
        yield encoding.frame_records(contexts, index, {name: v[index] for name, v in videos.features.items()})
