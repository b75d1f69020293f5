"""`yt8m ensemble`: joins prediction files into one file, or several runs into one exported model.

This module joins files; `joined_runs` exports models. All files are read side by side, one video at a time, and the
scores of a video in all files are put into one array. The weights of the files can be fitted to maximise GAP on videos
with known labels.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
from absl import logging

from yt8m import storage, terminal
from yt8m.datasets import ground_truth
from yt8m.datasets.ground_truth import VideoLabels
from yt8m.errors import RunError, missing_extra
from yt8m.eval_util.arrays import Bools, Floats32, Floats64, Ints32, pack_entries
from yt8m.eval_util.average_precision import global_average_precision
from yt8m.eval_util.top_k import top_k
from yt8m.export.ensemble_config import EnsembleConfig
from yt8m.records import prediction_files
from yt8m.records.foreign_predictions import plain_copy
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.prediction_files import PredictionRow, TextLine


def run(config: EnsembleConfig) -> None:
    """Joins the prediction files or the runs; raises like `join_files` and `joined_runs.export`."""
    _warn_of_repeated("predictions", config.predictions)
    _warn_of_repeated("train_dir", config.train_dir)
    if config.predictions:
        join_files(config)
    else:
        from yt8m.export import joined_runs  # needs TensorFlow, and joining files does not

        joined_runs.export(config)


def _warn_of_repeated(flag: str, paths: Sequence[str]) -> None:
    links = storage.named_twice(paths)
    same = {path: path for path, count in Counter(paths).items() if count > 1}
    for path, first in {**same, **links}.items():
        logging.warning("--%s: %s is %s, which now counts twice; to mean that, use --weights", flag, path, first)


def join_files(config: EnsembleConfig) -> None:
    """Joins prediction files.

    With --data, fits the weights of the files and prints them; with --out, writes the weighted means of the scores.
    """
    data = open_data(config.fit_on or None, flag="data")
    num_classes = ground_truth.class_count(config.num_classes, data)
    weights = _fit_and_print(config, data, num_classes) if config.fit_on else np.array(config.normalised_weights())
    if config.out:
        count = _write_joined(config, weights, num_classes)
        print(f"{count} predictions are in {config.out}", file=sys.stderr)


def _fit_and_print(config: EnsembleConfig, data: OpenedData, num_classes: int) -> Floats64:
    """Fits the weights of the N files to one half of the videos; prints the weights, and their GAP on the other half.

    Returns:
      float64 [N], the weights as printed, scaled to add up to 1.
    """
    truth = ground_truth.video_labels(data, num_classes)
    videos = side_by_side(config.predictions, num_classes)
    fit_half, held_out = halves(videos, truth, config.mean == "rank", config.top_k)
    # The weights are rounded as they are printed. So a later command with the printed --weights gives the same file.
    words = [f"{max(weight, 0.0001):.4f}" for weight in fit_weights(fit_half, config.top_k)]
    numbers = [float(word) for word in words]
    weights = np.array([number / sum(numbers) for number in numbers])
    single_gaps = [held_out.gap(one_hot, config.top_k) for one_hot in np.eye(len(weights))]
    for path, gap in zip(config.predictions, single_gaps, strict=True):
        print(f"GAP of {path}: {gap:.5f}")
    equal = held_out.gap(np.full(len(weights), 1 / len(weights)), config.top_k)
    fitted = held_out.gap(weights, config.top_k)
    print(f"GAP with equal weights: {equal:.5f}")
    print(f"GAP with fitted weights: {fitted:.5f} (gain over equal weights {fitted - equal:+z.5f}, over the best")
    print(f"  single file {fitted - max(single_gaps):+z.5f}), on {len(held_out.hits)} videos that were not fitted on")
    print(f"--weights={','.join(words)}")
    gaps = dict(zip(config.predictions, single_gaps, strict=True))
    terminal.print_json({"gap": fitted, "gap_equal_weights": equal, "gaps": gaps, "weights": numbers})
    return weights


def _write_joined(config: EnsembleConfig, weights: Floats64, num_classes: int) -> int:
    """Writes the joined file `--out` with the `--top_k` best classes of each video; returns the number of videos."""
    count = 0
    with storage.write_atomic(config.out, "w") as file:
        file.write(prediction_files.HEADER_LINE)
        for rows in side_by_side(config.predictions, num_classes):
            classes, scores = aligned(rows, config.mean == "rank", config.top_k)
            mean = scores @ weights
            count += 1
            best = np.lexsort((classes, -mean))[: config.top_k]
            pairs = zip(classes[best].tolist(), mean[best].tolist(), strict=True)
            file.write(prediction_files.prediction_line(rows[0].video_id, pairs))
    return count


def aligned(rows: Sequence[PredictionRow], by_rank: bool, top_k: int) -> tuple[Ints32, Floats32]:
    """Puts the scores of one video in N files into one array.

    Args:
      by_rank: whether ranks replace the scores: the best class of a file gets 1, the next 1 - 1 / top_k, and so on down
        to 0; equal scores are ranked by class.
      top_k: the rank from which on a class gets 0; used if `by_rank`.

    Returns:
      (classes int32 [U] ascending, scores float32 [U, N]). The U classes are those that at least one file lists. A
      class that a file does not list has the score 0 in that file.
    """
    classes = np.unique(np.concatenate([row.classes for row in rows]))
    scores = np.zeros((len(classes), len(rows)), np.float32)
    for column, row in enumerate(rows):
        values = row.scores
        if by_rank:
            ranks = np.empty(len(values), np.float32)
            ranks[np.lexsort((row.classes, -values))] = np.arange(len(values))
            values = np.maximum(1 - ranks / top_k, 0)
        scores[np.searchsorted(classes, row.classes), column] = values
    return classes, scores


def side_by_side(paths: Sequence[str], num_classes: int) -> Iterator[list[PredictionRow]]:
    """Yields the rows of each video, one from each file, in the order of the first file.

    A file whose videos have the same order is read once, from start to end. If a file has another order, the offset of
    each row that is skipped is kept in memory, but not the row itself.
    """
    with contextlib.ExitStack() as stack:
        plain_paths = [(path, plain_copy(path, prediction_files.PREDICTION_COLUMNS)) for path in paths[1:]]
        others = [
            _PredictionLookup(path, stack.enter_context(storage.open_read(copy)), num_classes)
            for path, copy in plain_paths
        ]
        for row in prediction_files.read_predictions(paths[0], num_classes):
            yield [row, *(other.find(row) for other in others)]
        for other in others:
            other.refuse_rest(paths[0])


class _PredictionLookup:
    """A prediction file in which the row of a video is looked up."""

    def __init__(self, path: str, file: BinaryIO, num_classes: int) -> None:
        self._path, self._file, self._num_classes = path, file, num_classes
        self._skipped: dict[str, tuple[int, int]] = {}  # {id: (line number, byte offset)} of the rows skipped so far
        self._lines = self._read_lines()

    def find(self, first_row: PredictionRow) -> PredictionRow:
        """The row of the same video as `first_row`, which is a row of the first file."""
        if first_row.video_id in self._skipped:
            number, offset = self._skipped.pop(first_row.video_id)
            position = self._file.tell()
            self._file.seek(offset)
            line = prediction_files.checked_line(self._path, number, self._file.readline())
            self._file.seek(position)
            return prediction_files.parse_prediction(line, self._num_classes)
        for video_id, line, offset in self._lines:
            if video_id == first_row.video_id:
                return prediction_files.parse_prediction(line, self._num_classes)
            earlier, _ = self._skipped.setdefault(video_id, (line.number, offset))
            if earlier != line.number:
                line.refuse(f"video {video_id!r} has line {earlier} already; give each video one line.")
        raise RunError(
            f"{self._path} has no video {first_row.video_id!r}, which {first_row.where}, has; give predictions for "
            "the same files."
        )

    def refuse_rest(self, first_path: str) -> None:
        """Refuses rows that `find` has not returned."""
        skipped = ((video_id, number) for video_id, (number, _) in self._skipped.items())
        unread = ((video_id, line.number) for video_id, line, _ in self._lines)
        for video_id, number in itertools.chain(skipped, unread):
            self._file.seek(0)  # The line numbers of returned rows were not kept, so the file is read again.
            earlier = next(line.number for name, line, _ in self._read_lines() if name == video_id)
            if earlier < number:
                raise RunError(
                    f"{self._path}, line {number}: video {video_id!r} has line {earlier} already; give each video one "
                    "line."
                )
            raise RunError(
                f"{self._path}, line {number}: {first_path} has no video {video_id!r}; give predictions for the same "
                "files."
            )

    def _read_lines(self) -> Iterator[tuple[str, TextLine, int]]:
        """Yields (video id, line, byte offset) of each row, from the present position of the file.

        A caller that seeks in the file between two rows must restore the position.
        """
        number, offset = 0, 0
        while text := self._file.readline():
            number += 1
            line = prediction_files.checked_line(self._path, number, text)
            if line.text and not (number == 1 and line.text == prediction_files.PREDICTIONS_HEADER):
                yield prediction_files.split_line(line)[0], line, offset
            offset += len(text)


MOST_VIDEOS = 100_000  # largest number of videos to fit and test weights on; they take 40 MB per prediction file

# One video: the scores [U, N] of U classes in N files, whether each class is a label [U], and its number of labels.
_ScoredVideo = tuple[Floats32, Bools, int]


class ScoredPairs(NamedTuple):
    """The scores of V videos in N files, for the classes that at least one file lists for a video.

    Each video is padded to U classes, the largest number of classes that a video has.

    Attributes:
      scores: float32 [V, U, N]; 0 in the padding, and for a class that a file does not list.
      hits: bool [V, U], whether the class is a label of the video.
    """

    scores: Floats32
    hits: Bools
    num_positives: int

    @classmethod
    def stack(cls, videos: list[_ScoredVideo]) -> ScoredPairs:
        """Makes the arrays of these videos, which are padded to the largest number of classes of a video."""
        width = max((len(hits) for _, hits, _ in videos), default=1)
        scores = np.zeros((len(videos), width, videos[0][0].shape[1] if videos else 1), np.float32)
        hits = np.zeros((len(videos), width), np.bool_)
        for row, (video_scores, video_hits, _) in enumerate(videos):
            scores[row, : len(video_hits)], hits[row, : len(video_hits)] = video_scores, video_hits
        return cls(scores, hits, sum(count for _, _, count in videos))

    def gap(self, weights: Floats64, k: int) -> float:
        """GAP of the weighted mean of the scores. A class whose mean is 0 does not count as predicted.

        Args:
          weights: [N], the weights of the files, which add up to 1.
        """
        mean = self.scores @ weights.astype(np.float32)
        best = top_k(mean, k)
        hits = np.take_along_axis(self.hits, best.classes, axis=1)
        listed = best.scores > 0
        keys = pack_entries(np.zeros(int(listed.sum()), np.int64), best.scores[listed], hits[listed])
        return global_average_precision(keys, self.num_positives)


def halves(
    videos: Iterable[list[PredictionRow]], truth: VideoLabels, by_rank: bool, k: int
) -> tuple[ScoredPairs, ScoredPairs]:
    """Splits the first MOST_VIDEOS videos into two halves of about equal size, by a checksum of their ids."""
    videos_of_halves: tuple[list[_ScoredVideo], list[_ScoredVideo]] = ([], [])
    number = -1
    for number, rows in enumerate(videos):  # goes on to the end of the files, because reading them checks them
        if number >= MOST_VIDEOS:
            continue
        video_id = rows[0].video_id
        if video_id not in truth.rows:
            raise RunError(f"{rows[0].where}: video {video_id!r} is not in the records of --data.")
        row = truth.rows[video_id]
        labels = truth.labels[truth.splits[row] : truth.splits[row + 1]]
        classes, scores = aligned(rows, by_rank, k)
        videos_of_halves[zlib.crc32(video_id.encode()) & 1].append((scores, np.isin(classes, labels), len(labels)))
    fit_half, test_half = map(ScoredPairs.stack, videos_of_halves)
    if missing := len(truth.rows) - number - 1:
        logging.warning(
            f"the files have no line for {missing} of the {len(truth.rows)} videos of --data: these are left out, so "
            "GAP is that of the other videos."
        )
    if not (fit_half.num_positives and test_half.num_positives):
        raise RunError(
            "there are too few labelled videos to fit weights on one half and test them on the other; give more, or "
            "set --weights."
        )
    return fit_half, test_half


def fit_weights(pairs: ScoredPairs, k: int) -> Floats64:
    """Searches for the weights of the N files with the largest GAP.

    GAP is piecewise constant, so it has no useful gradient, but there are few weights. So SciPy's Nelder-Mead searches,
    beginning with equal weights. Each weight is a power of 2, and the search is over the exponents: so all weights stay
    above 0.

    Returns:
      float64 [N], above 0, adding up to 1.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise missing_extra("--data", "SciPy", "ensemble", ", or give --weights") from error
    files = pairs.scores.shape[2]
    simplex = np.vstack([np.zeros(files - 1), np.eye(files - 1)])

    def weights_of(powers: Floats64) -> Floats64:
        raw = np.exp2(np.append(np.clip(powers, -30, 30), 0.0))
        return np.asarray(raw / raw.sum())

    optimum = minimize(
        lambda powers: -pairs.gap(weights_of(powers), k),
        simplex[0],
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 0.01, "fatol": 1e-6, "maxfev": 60 * files},
    )
    return weights_of(optimum.x)
