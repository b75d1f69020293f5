"""How the predictions of several models for one video become one.

Weights that make the GAP of a weighted mean largest, on videos whose labels are known.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.commands.ground_truth import VideoLabels
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.arrays import pack
from yt8m.eval_util.average_precision import global_average_precision
from yt8m.eval_util.top_k import top_k
from yt8m.records.prediction_files import PredictionRow

Floats = npt.NDArray[np.float32]


def aligned(rows: Sequence[PredictionRow], by_rank: bool, top_k: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """(classes int32 [U] ascending, scores float32 [U, N]) over the union of what N files list for a video.

    A class that a file does not list has 0 there. By rank, the first of a row has 1, the next 1 - 1 / top_k,
    and so on down to 0; equal scores are ranked by class.
    """
    classes = np.unique(np.concatenate([row.classes for row in rows]))
    scores = np.zeros((len(classes), len(rows)), np.float32)
    for column, row in enumerate(rows):
        values = _by_rank(row, top_k) if by_rank else row.scores
        scores[np.searchsorted(classes, row.classes), column] = values
    return classes, scores


def _by_rank(row: PredictionRow, top_k: int) -> Floats:
    values = np.empty(len(row.classes), np.float32)
    values[np.lexsort((row.classes, -row.scores))] = 1 - np.arange(len(values), dtype=np.float32) / top_k
    return np.maximum(values, 0)


def best(classes: npt.NDArray[np.int32], scores: npt.NDArray[np.floating], top_k: int) -> tuple[list[int], list[float]]:
    """The `top_k` best classes with their scores; equal scores by class."""
    order = np.lexsort((classes, -scores))[:top_k]
    return classes[order].tolist(), scores[order].tolist()


def normalised(weights: Sequence[float], count: int) -> npt.NDArray[np.float64]:
    """[count], adding up to 1; all alike where none are given."""
    given = np.array(weights if len(weights) else [1.0] * count, np.float64)
    return np.asarray(given / given.sum())


MOST = 100_000  # videos that are fitted on and judged by: 40 MB a file


class ScoredPairs(NamedTuple):
    """The listed classes of V videos in N files.

    Attributes:
      scores: float32 [V, U, N]; 0 past the classes of a video, and where a file does not list one.
      hits: bool [V, U].
      num_positives: labels of the videos, listed or not.
    """

    scores: npt.NDArray[np.float32]
    hits: npt.NDArray[np.bool_]
    num_positives: int

    def gap(self, weights: npt.NDArray[np.float64], k: int) -> float:
        """GAP of the mean by `weights` [N], of the k best classes of each video."""
        mean = self.scores @ weights.astype(np.float32)
        found = top_k(mean, k)
        hits = np.take_along_axis(self.hits, found.classes, axis=1)
        listed = found.scores > 0
        keys = pack(np.zeros(int(listed.sum()), np.int64), found.scores[listed], hits[listed])
        return global_average_precision(keys, self.num_positives)


def halves(
    videos: Iterable[list[PredictionRow]], truth: VideoLabels, by_rank: bool, k: int
) -> tuple[ScoredPairs, ScoredPairs]:
    """The first videos, up to MOST, in two halves by a sum over their ids: to fit on, and to judge by.

    Raises:
      RunError: a video has no labels in the records, or a half has none.
    """
    parts: tuple[list[_One], list[_One]] = ([], [])
    for number, rows in enumerate(videos):
        if number < MOST:
            parts[zlib.crc32(rows[0].video_id.encode()) & 1].append(_one(rows, truth, by_rank, k))
    found = [_stacked(part) for part in parts]
    if not all(part.num_positives for part in found):
        raise RunError("there are too few labelled videos to fit weights on one half and judge by the other.")
    return found[0], found[1]


_One = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_], int]


def _one(rows: Sequence[PredictionRow], truth: VideoLabels, by_rank: bool, k: int) -> _One:
    place = truth.rows.get(rows[0].video_id)
    if place is None:
        raise RunError(f"{rows[0].where}: video {rows[0].video_id!r} is not in the records to fit on.")
    labels = truth.labels[truth.splits[place] : truth.splits[place + 1]]
    classes, scores = aligned(rows, by_rank, k)
    return scores, np.isin(classes, labels), len(labels)


def _stacked(videos: Sequence[_One]) -> ScoredPairs:
    width = max((len(hits) for _, hits, _ in videos), default=1)
    files = videos[0][0].shape[1] if videos else 1
    scores = np.zeros((len(videos), width, files), np.float32)
    hits = np.zeros((len(videos), width), np.bool_)
    for at, (values, right, _) in enumerate(videos):
        scores[at, : len(right)], hits[at, : len(right)] = values, right
    return ScoredPairs(scores, hits, sum(count for _, _, count in videos))


def fit(pairs: ScoredPairs, k: int) -> npt.NDArray[np.float64]:
    """Weights [N], not negative, adding up to 1.

    SciPy's Nelder-Mead looks for the largest GAP from equal weights on: GAP has steps, so no gradient, and
    the files are few. Powers of 2 keep the weights above 0.

    Raises:
      UsageError: SciPy is not installed.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise UsageError("--fit_on needs SciPy: pip install 'yt8m[ensemble]', or give --weights.") from error
    files = pairs.scores.shape[2]
    simplex = np.vstack([np.zeros(files - 1), np.eye(files - 1)])
    found = minimize(
        lambda powers: -pairs.gap(_weights(powers), k),
        simplex[0],
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 0.01, "fatol": 1e-6, "maxfev": 60 * files},
    )
    return _weights(found.x)


def _weights(powers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    raw = np.exp2(np.append(np.clip(powers, -30, 30), 0.0))
    return np.asarray(raw / raw.sum())
