"""Finds copies of videos, and measures how much higher GAP is because training has seen copies of evaluated videos.

Exact copies are found by a digest of their features, near copies by the direction of their features.

Each video is a vector: its features, or the means over its frames, joined. All vectors are centred and divided by the
standard deviation of each value, and scaled to the length 1. The similarity of two videos is the product of these
vectors, between -1 and 1. Because the vectors are centred, what all videos have in common makes no two of them similar.

Up to `MOST_COMPARED_FULLY` videos, all pairs are compared. If there are more, one in 1000 videos is drawn at random as
a pivot. Two videos are compared only if they have a pivot in common among the `_PIVOTS` pivots that are nearest to
each. A pair with a similarity of 0.95 has a pivot in common almost always, but not with certainty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage, terminal
from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.arrays import Bools, Floats32, Ints64
from yt8m.eval_util.metrics import Gap
from yt8m.eval_util.resampling import Interval, interval, resample
from yt8m.eval_util.videos import MAX_VIDEOS, Videos, hashes
from yt8m.labels.findings import is_label
from yt8m.labels.folds import AuditedVideos, FoldScores, reading_arrays, write_arrays
from yt8m.records.prediction_files import write_table
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.row_file import RowFile
from yt8m.storage import copies
from yt8m.tables.words.spreadsheets import spreadsheet_text

HEADER = ("video", "other", "split", "other_split", "similarity")
MOST_COMPARED_FULLY = 50_000  # largest number of videos of which all pairs are compared
_BLOCK = 2048  # number of videos that are compared at once with as many others
# One in so many videos is a pivot; and the number of nearest pivots by which a video is compared with others.
_PER_PIVOT, _PIVOTS = 1000, 3
_MOST_PAIRS = 1_000_000  # the search ends once it has found more near copies than this
_TRAINING = "train"  # the beginning of the name of a split for training
_RESAMPLES = 200  # number of sets of videos that are drawn for the interval of GAP

Halves = NDArray[np.float16]


class VectorWriter:
    """Writes the vectors of videos into a file, batch by batch, 2 bytes a value; keeps a digest of each video."""

    def __init__(self, file: Any) -> None:
        self._file, self._digests, self.num_labels = file, list[bytes](), 0

    def add(self, batch: NumpyBatch) -> None:
        """Adds a batch of videos: writes their vectors, and computes their digests."""
        lengths = batch.num_frames.tolist()
        for row, length in enumerate(lengths):
            digest = hashlib.blake2b(digest_size=16)
            for values in batch.features.values():
                digest.update((values[row, :length] if values.ndim == 3 else values[row]).tobytes())
            self._digests.append(digest.digest())
        self.num_labels += int(batch.labels.sum())
        self._file.write(batch.joined_means().astype(np.float16).tobytes())

    def digests(self) -> NDArray[np.void]:
        """The digest of each video, 16 bytes [N]."""
        return np.frombuffer(b"".join(self._digests), "V16")


class VideoVectors:
    """The vectors of all videos, read block by block from a file."""

    def __init__(self, path: str, count: int) -> None:
        self._count, self._stack = count, ExitStack()  # closes the file when this object is garbage-collected
        local, self._size = copies.file_copy(path), storage.size(path) // (2 * max(1, count))
        self._rows = RowFile(self._stack.enter_context(storage.open_read(local)), path, 2 * self._size)
        self._mean, self._spread = self._moments()

    def __len__(self) -> int:
        return self._count

    def _moments(self) -> tuple[Floats32, Floats32]:
        """The mean and the standard deviation of each value of the vectors, [D] each; the latter is never 0."""
        total, squares = np.zeros((2, self._size))
        for start in range(0, len(self), _BLOCK):
            block = self._halves(slice(start, start + _BLOCK)).astype(np.float64)
            total, squares = total + block.sum(0), squares + (block**2).sum(0)
        mean = total / len(self)
        spread = np.sqrt(np.maximum(squares / len(self) - mean**2, 0))
        mean_spread = spread.mean() or 1.0
        return mean.astype(np.float32), np.maximum(spread, 1e-3 * mean_spread).astype(np.float32)

    def _halves(self, rows: Ints64 | slice) -> Halves:
        """The vectors of some videos as they are in the file, [n, D]."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self._count)
            read = self._rows.read_range(start, max(0, stop - start))
        else:
            read = self._rows.read_rows(rows)
        halves: Halves = read.view(np.float16)
        return halves

    def unit(self, rows: Ints64 | slice) -> Floats32:
        """The vectors of some videos, normalised and of length 1, float32 [n, D]; a vector of zeros stays as it is."""
        values = (self._halves(rows).astype(np.float32) - self._mean) / self._spread
        length = np.linalg.norm(values, axis=1, keepdims=True)
        return np.asarray(np.divide(values, length, out=np.zeros_like(values), where=length > 0), np.float32)


class CopyPairs(NamedTuple):
    """Pairs of videos that are copies of each other. All arrays are [P].

    Attributes:
      first, second: int64, the indices of the two videos; `first` is the smaller one.
      similarity: float32, from -1 to 1; 1 for exact copies.
    """

    first: Ints64
    second: Ints64
    similarity: Floats32


def exact_copies(digests: NDArray[np.void]) -> CopyPairs:
    """Pairs each video that is an exact copy with the first video that has the same digest.

    Args:
      digests: 16 bytes [N], the digest of each video.

    Returns:
      The pairs, ascending by `second`.
    """
    _, firsts, groups = np.unique(digests, return_index=True, return_inverse=True)
    original = firsts[groups].astype(np.int64)
    second = np.flatnonzero(original != np.arange(len(original)))
    return CopyPairs(original[second], second, np.ones(len(second), np.float32))


def find_copies(vectors: VideoVectors, digests: NDArray[np.void], similarity: float) -> CopyPairs:
    """Finds all exact copies, and near copies with at least this similarity.

    Videos with the same digest are one group. In a group, each video is paired with the first one only. For near
    copies, only the first videos of the groups are compared; the top of this file says which pairs. The search for near
    copies ends early, with a warning, if it has found more than _MOST_PAIRS.

    Args:
      digests: 16 bytes [N], the digest of each video.

    Returns:
      The pairs, ascending by `first`, then `second`.
    """
    pairs = [np.stack(exact_copies(digests), axis=1, dtype=np.float64)]
    firsts = np.sort(np.unique(digests, return_index=True)[1]).astype(np.int64)
    blocks = _all_blocks(len(firsts)) if len(firsts) <= MOST_COMPARED_FULLY else _pivot_blocks(vectors, firsts)
    number = 0
    for rows, columns in terminal.with_bar(blocks, "comparing"):
        pairs.append(_find_similar(vectors, firsts[rows], firsts[columns], similarity))
        number += len(pairs[-1])
        if number > _MOST_PAIRS:
            logging.warning(
                "more than %d near copies were found: the search ends here, and further ones are not listed; raise "
                "--similarity to find fewer",
                _MOST_PAIRS,
            )
            break
    joined = np.concatenate(pairs)
    # A pair of videos with several pivots in common was found several times; it is kept once.
    first, second, similarities = joined[np.unique(joined[:, :2], axis=0, return_index=True)[1]].T
    return CopyPairs(first.astype(np.int64), second.astype(np.int64), similarities.astype(np.float32))


def _find_similar(vectors: VideoVectors, rows: Ints64, columns: Ints64, least: float) -> NDArray[np.float64]:
    """Compares the videos of two blocks.

    Returns:
      [P, 3], (first, second, similarity) of each pair of a video in `rows` and a video in `columns` with a larger
      index.
    """
    products = vectors.unit(rows) @ vectors.unit(columns).T
    in_rows, in_columns = np.nonzero(products >= least)
    is_later = rows[in_rows] < columns[in_columns]
    in_rows, in_columns = in_rows[is_later], in_columns[is_later]
    similarities = np.minimum(products[in_rows, in_columns], 1)
    return np.stack([rows[in_rows], columns[in_columns], similarities], axis=1, dtype=np.float64)


def _all_blocks(count: int) -> Iterator[tuple[Ints64, Ints64]]:
    """Pairs of blocks of the indices 0..count-1, so that each pair of indices is in one pair of blocks."""
    blocks = [np.arange(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK)]
    return ((rows, columns) for number, rows in enumerate(blocks) for columns in blocks[number:])


def _pivot_blocks(vectors: VideoVectors, videos: Ints64) -> Iterator[tuple[Ints64, Ints64]]:
    """Pairs of blocks, as in `_all_blocks`, of the videos that have the same pivot among their nearest ones."""
    drawn = np.random.default_rng(0).choice(len(videos), max(1, len(videos) // _PER_PIVOT), replace=False)
    pivots = vectors.unit(videos[np.sort(drawn)]).T
    nearest = np.concatenate(
        [
            np.argpartition(-(vectors.unit(videos[start : start + _BLOCK]) @ pivots), _PIVOTS - 1, axis=1)[:, :_PIVOTS]
            for start in range(0, len(videos), _BLOCK)
        ]
    )
    order = np.argsort(nearest.ravel(), kind="stable")
    for members in np.split(order // _PIVOTS, np.flatnonzero(np.diff(nearest.ravel()[order])) + 1):
        for rows, columns in _all_blocks(len(members)):
            yield members[rows], members[columns]


def are_of_training(videos: AuditedVideos) -> Bools:
    """bool [N], whether each video is in a split for training."""
    return np.array([is_training_split(name) for name in videos.split_names], np.bool_)[videos.splits]


def is_training_split(name: str) -> bool:
    """Whether a split is for training: its name begins with `train`."""
    return name.startswith(_TRAINING)


def warn_without_training_split(names: Sequence[str]) -> None:
    """Logs a warning if no split is for training: then it is unknown which copies training has seen."""
    if not any(map(is_training_split, names)):
        logging.warning(
            "no split is for training (its name would begin with `%s`), so it is unknown which copies training has "
            "seen; the splits are %s. A split is named by the manifest of its shards, or else by their folder.",
            _TRAINING,
            ", ".join(names),
        )


def seen_in_training(pairs: CopyPairs, videos: AuditedVideos, digests: NDArray[np.void]) -> Bools:
    """Finds the videos of other splits that are copies of a video in the training split.

    Args:
      digests: 16 bytes [N], the digest of each video; an exact copy of a near copy counts too.

    Returns:
      bool [N], True for such a video.
    """
    is_training = are_of_training(videos)
    groups = np.unique(digests, return_inverse=True)[1]
    size = int(groups.max(initial=-1)) + 1
    has_training = np.zeros(size, np.bool_)
    has_training[groups[is_training]] = True
    seen = has_training.copy()
    for one_side, other_side in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
        seen[groups[one_side[has_training[groups[other_side]]]]] = True
    return np.asarray(seen[groups] & ~is_training)


def write_pairs(path: str, pairs: CopyPairs, digests: NDArray[np.void]) -> None:
    """Writes the pairs of copies and the digests of all videos into an NPZ file."""
    write_arrays(path, {**pairs._asdict(), "digests": digests.view(np.uint8)})


def read_pairs(path: str) -> tuple[CopyPairs, NDArray[np.void]]:
    """Reads the pairs and digests that `write_pairs` wrote."""
    with reading_arrays(path) as arrays:
        return CopyPairs(arrays["first"], arrays["second"], arrays["similarity"]), arrays["digests"].view("V16")


def write_copies(path: str, pairs: CopyPairs, videos: AuditedVideos) -> None:
    """Writes `copies.csv`: first the pairs of videos in different splits, then those within a split.

    Of both, the most similar pairs come first.
    """
    splits, others = videos.splits[pairs.first], videos.splits[pairs.second]
    order = np.lexsort((-pairs.similarity, splits == others))
    write_table(path, HEADER, _rows(pairs, videos, order.tolist()))


def _rows(pairs: CopyPairs, videos: AuditedVideos, order: Sequence[int]) -> Iterator[list[str]]:
    """The rows of the table, with the columns of `HEADER`: one for each index of a pair in `order`."""
    for index in order:
        both = int(pairs.first[index]), int(pairs.second[index])
        ids = [spreadsheet_text(videos.ids[video]) for video in both]
        splits = [videos.split_names[videos.splits[video]] for video in both]
        yield [*ids, *splits, f"{pairs.similarity[index]:.4f}"]


class LeakEffect(NamedTuple):
    """The GAP of evaluated videos, with and without those of which training has seen a copy.

    Attributes:
      gap, gap_without: the GAP of all evaluated videos, and of those without a seen copy.
      interval, interval_without: the 95 % intervals of the two.
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


def measure_effect(scores: FoldScores, ids: list[bytes], seen: Bools, num_classes: int) -> LeakEffect | None:
    """Measures the effect of copies on GAP.

    Args:
      seen: [N], whether training has seen a copy of the video.

    Returns:
      The effect; None if training has seen a copy of no video, or of all.
    """
    if not seen.any() or seen.all():
        return None
    videos = _videos(scores, ids)
    measured = [_gap(videos.take(rows), num_classes) for rows in (np.arange(len(videos)), np.flatnonzero(~seen))]
    (gap, bounds), (gap_without, bounds_without) = measured
    return LeakEffect(len(videos), int(seen.sum()), gap, gap_without, bounds, bounds_without)


def _gap(videos: Videos, num_classes: int) -> tuple[float, Interval]:
    """The GAP of videos and its 95 % interval, which is computed from MAX_VIDEOS of them if there are more."""
    columns = videos.columns(num_classes)
    metrics = EvaluationMetrics(num_classes, columns.scores.shape[1])
    metrics.accumulate_top_k(*columns, perr=videos.perr)
    gap, share = float(metrics.get()[Gap.key]), min(1.0, MAX_VIDEOS / len(videos))
    sample = videos.take(np.sort(np.argsort(videos.keys, kind="stable")[:MAX_VIDEOS]))
    resampled = resample(sample, num_classes, _RESAMPLES, seed=0).figures[Gap.key]
    return gap, interval(gap, resampled, shrink=float(np.sqrt(share)))


def _videos(scores: FoldScores, ids: list[bytes]) -> Videos:
    """Converts scores to `Videos`, from which metrics are computed; attributes that GAP does not use are 0 or 1."""
    size = len(scores.num_labels)
    return Videos(
        keys=hashes(ids),
        scores=scores.best_scores,
        classes=scores.best,
        hits=is_label(scores),
        perr=np.zeros(size),
        num_labels=scores.num_labels.astype(np.int64),
        labels=scores.labels,
        label_scores=scores.label_scores,
        losses=np.zeros(size),
        num_frames=np.ones(size, np.int32),
        ids=np.array(ids, object),
    )
