"""Fits the weights of an ensemble of prediction files, to maximise GAP on videos with known labels."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.commands.ensemble.aligned_files import aligned
from yt8m.commands.ground_truth import VideoLabels
from yt8m.errors import RunError, missing_extra
from yt8m.eval_util.arrays import pack
from yt8m.eval_util.average_precision import global_average_precision
from yt8m.eval_util.top_k import top_k
from yt8m.records.prediction_files import PredictionRow

MOST_VIDEOS = 100_000  # largest number of videos for fitting and judging together; they take 40 MB per file

# One video: scores [U, N] of U classes in N files, hits [U], and its number of labels.
_Video = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], int]


class ScoredPairs(NamedTuple):
    """The classes that N files list for V videos, padded to U classes per video.

    Attributes:
      scores: float32 [V, U, N]; 0 in the padding, and for a class that a file does not list.
      hits: bool [V, U], whether the class is a label of the video.
      num_positives: number of labels of all videos, including labels that no file lists.
    """

    scores: npt.NDArray[np.float32]
    hits: npt.NDArray[np.bool_]
    num_positives: int

    @classmethod
    def stack(cls, videos: list[_Video]) -> ScoredPairs:
        """Pads the videos to the largest number of classes."""
        width = max((len(hits) for _, hits, _ in videos), default=1)
        scores = np.zeros((len(videos), width, videos[0][0].shape[1] if videos else 1), np.float32)
        hits = np.zeros((len(videos), width), np.bool_)
        for row, (values, right, _) in enumerate(videos):
            scores[row, : len(right)], hits[row, : len(right)] = values, right
        return cls(scores, hits, sum(count for _, _, count in videos))

    def gap(self, weights: npt.NDArray[np.float64], k: int) -> float:
        """GAP of the mean of the scores, weighted by `weights` [N], over the k best classes of each video."""
        mean = self.scores @ weights.astype(np.float32)
        found = top_k(mean, k)
        hits = np.take_along_axis(self.hits, found.classes, axis=1)
        listed = found.scores > 0
        keys = pack(np.zeros(int(listed.sum()), np.int64), found.scores[listed], hits[listed])
        return global_average_precision(keys, self.num_positives)


def halves(
    videos: Iterable[list[PredictionRow]], truth: VideoLabels, by_rank: bool, k: int
) -> tuple[ScoredPairs, ScoredPairs]:
    """Splits at most the first MOST_VIDEOS videos by a checksum of their ids: a half to fit on, a half to judge by.

    Raises:
      RunError: a video is not in the records, or a half has no labels.
    """
    parts: tuple[list[_Video], list[_Video]] = ([], [])
    for number, rows in enumerate(videos):  # read to the end, because reading checks the files
        if number >= MOST_VIDEOS:
            continue
        video_id = rows[0].video_id
        if video_id not in truth.rows:
            raise RunError(f"{rows[0].where}: video {video_id!r} is not in the records to fit on.")
        row = truth.rows[video_id]
        labels = truth.labels[truth.splits[row] : truth.splits[row + 1]]
        classes, scores = aligned(rows, by_rank, k)
        parts[zlib.crc32(video_id.encode()) & 1].append((scores, np.isin(classes, labels), len(labels)))
    to_fit, to_judge = map(ScoredPairs.stack, parts)
    if not (to_fit.num_positives and to_judge.num_positives):
        raise RunError("there are too few labelled videos to fit weights on one half and judge by the other.")
    return to_fit, to_judge


def fit(pairs: ScoredPairs, k: int) -> npt.NDArray[np.float64]:
    """The weights [N] with the largest GAP, not negative, adding up to 1.

    GAP is piecewise constant, so it has no useful gradient, and there are few files. So SciPy's Nelder-Mead is used,
    which starts with equal weights. It searches over the exponents of powers of 2, which keeps the weights above 0.

    Raises:
      UsageError: SciPy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise missing_extra("--fit_on", "SciPy", "ensemble", ", or give --weights") from error
    files = pairs.scores.shape[2]
    simplex = np.vstack([np.zeros(files - 1), np.eye(files - 1)])

    def weights_of(powers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        raw = np.exp2(np.append(np.clip(powers, -30, 30), 0.0))
        return np.asarray(raw / raw.sum())

    found = minimize(
        lambda powers: -pairs.gap(weights_of(powers), k),
        simplex[0],
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 0.01, "fatol": 1e-6, "maxfev": 60 * files},
    )
    return weights_of(found.x)
