"""The figures of candidates: full mAP, GAP and Hit@1, of all videos, of two halves, and of resamples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_TOP_K, _RESAMPLES = 20, 40
# The published mAP, which an evaluation and the log show, ranks a class only in videos among whose best scores it is.
FULL_MAP = "full mAP"
# Candidates are compared by mAP plus this share of GAP. mAP is what a user of rare classes sees; GAP also asks that the
# scores of different classes can be compared, which a strong penalty costs.
_WEIGHT_OF_GAP = 0.2
# Of cells, mAP says less: the cells of a class come from few spans, and a model that ranks them well within a class may
# have scores that no threshold divides.
WEIGHT_FOR_CELLS = 1.0
_SECONDS = 1.7e-8  # of one core, as measured in 2026, for each resample, video and class
_MOST_ERRORS = 2  # standard errors by which the figures of folds may exceed those of the videos that were kept apart


class TrialFigures(NamedTuple):
    """The figures of some videos."""

    map: float
    gap: float
    hit_at_one: float


class Ranked:
    """The scores of videos, sorted once, so that the figures of weighted videos are sums.

    Args:
      scores: float32 [N, C].
      labels: bool [N, C].
    """

    def __init__(self, scores: NDArray[np.float32], labels: NDArray[np.bool_]) -> None:
        self._labels = labels
        # One row a class, so that sums along it are quick: the videos from the best score down, and where labels are.
        self._order = np.argsort(-scores.T, axis=1, kind="stable").astype(np.int32)
        self._hits = np.flatnonzero(np.take_along_axis(labels.T, self._order, 1))
        self._classes = self._hits // max(len(labels), 1)
        top = np.argsort(-scores, axis=1, kind="stable")[:, : min(_TOP_K, scores.shape[1])]
        best = np.take_along_axis(scores, top, 1)
        order = np.argsort(-best.ravel(), kind="stable")
        self._entry_rows = order // best.shape[1]
        self._entry_hits = np.take_along_axis(labels, top, 1).ravel()[order]
        self._first = labels[np.arange(len(labels)), top[:, 0]]

    def figures(self, weights: NDArray[np.float64] | None = None) -> TrialFigures:
        """The figures of the videos, each counted as often as its weight [N] says; None: once."""
        counts = np.ones(len(self._labels)) if weights is None else weights
        return TrialFigures(self._map(counts), self._gap(counts), float(counts @ self._first / max(counts.sum(), 1)))

    def _map(self, counts: NDArray[np.float64]) -> float:
        """The mean AP of the classes that have a label among the videos that count."""
        weights, classes = counts[self._order], self._classes
        seen, hits = np.cumsum(weights, 1).ravel()[self._hits], weights.ravel()[self._hits]
        positives = np.bincount(classes, hits, len(weights))
        hits_so_far = np.cumsum(hits) - (np.cumsum(positives) - positives)[classes]
        sums, used = np.bincount(classes, hits_so_far / np.maximum(seen, 1) * hits, len(weights)), positives > 0
        return float((sums[used] / positives[used]).mean()) if used.any() else 0.0

    def _gap(self, counts: NDArray[np.float64]) -> float:
        """The average precision of the best scores of all videos together."""
        weights = counts[self._entry_rows]
        hits = weights * self._entry_hits
        positives = counts @ np.minimum(self._labels.sum(1), _TOP_K)
        return float((np.cumsum(hits) / np.maximum(np.cumsum(weights), 1) * hits).sum() / max(positives, 1))


def row_of(scores: NDArray[np.float32], labels: NDArray[np.bool_], keys: NDArray[np.uint64]) -> dict[str, Any]:
    """The figures of a trial for its row in the config: of all videos, with the standard error of mAP, and of halves.

    Args:
      scores: float32 [N, C].
      labels: bool [N, C].
      keys: uint64 [N], hashes of the ids, by which the videos are divided into halves.
    """
    ranked, generator = Ranked(scores, labels), np.random.default_rng(0)
    size, half = len(labels), _first_half(keys)
    draws = (np.bincount(generator.integers(size, size=size), minlength=size).astype(float) for _ in range(_RESAMPLES))
    resampled = np.array([ranked.figures(counts)[:2] for counts in draws])
    return {
        **_as_row(ranked.figures()),
        "map_error": float(resampled[:, 0].std()),
        "gap_error": float(resampled[:, 1].std()),
        "halves": [_as_row(ranked.figures(part)) for part in (half, 1 - half)],
        "chance": chance_of(labels, keys),
    }


def _first_half(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """[N], 1 for the videos of one half and 0 for those of the other."""
    return (np.argsort(np.argsort(keys, kind="stable")) % 2).astype(np.float64)


def chance_of(labels: NDArray[np.bool_], keys: NDArray[np.uint64]) -> float:
    """The mean of what random scores reach on the two halves of the videos."""
    half = _first_half(keys)
    return round(sum(chance_map(labels[half == side]) for side in (0, 1)) / 2, 6)


def chance_map(labels: NDArray[np.bool_]) -> float:
    """The mAP that random scores reach on average; of few videos it is well above the frequency of the classes.

    Of n videos in random order, m of which have the class, the expected AP is h + (1 - h) (m - 1) / (n - 1), where h is
    the mean of 1/1 .. 1/n: a hit at place k counts itself, and (k - 1) (m - 1) / (n - 1) of the others before it.
    """
    size, positives = len(labels), labels.sum(0)
    positives = positives[positives > 0]
    if not len(positives):
        return 0.0
    itself = float((1 / np.arange(1, size + 1)).mean())
    return float((itself + (1 - itself) * (positives - 1) / max(1, size - 1)).mean())


def seconds(videos: int, classes: int) -> float:
    """Seconds of one core that `row_of` takes, by a fixed table."""
    return _SECONDS * (_RESAMPLES + 3) * videos * classes


def rank_of(row: Any) -> float:
    """The number by which the figures of a row are compared."""
    return float(row["map"] + row.get("gap_weight", _WEIGHT_OF_GAP) * row["gap"])


def quoted(rows: Any) -> dict[str, float]:
    """The figures that may be quoted of the best of some trials, though it was chosen on the same videos.

    The best on one half of the videos is measured on the other half, and the means of both ways are quoted. The best of
    many on few videos is best in part by chance, so its own figures there would promise too much.
    """
    measured = []
    for chosen_on, measured_on in ((0, 1), (1, 0)):
        best = max(rows, key=lambda row: rank_of({**row, **row["halves"][chosen_on]}))
        measured.append(best["halves"][measured_on])
    best = max(rows, key=rank_of)
    means = {name: sum(half[name] for half in measured) / 2 for name in ("map", "gap", "hit_at_one")}
    return {**means, "map_error": best["map_error"], "gap_error": best["gap_error"], "chance": best.get("chance")}


def are_cut(rows: Any) -> bool:
    """Whether folds promise clearly more than the videos of `alone`, which somebody else had kept apart.

    Then the folds cut what belongs together, such as clips of one film, and a model that remembers them looks good.
    """
    excess = sum(row["map"] - row["alone"]["map"] for row in rows) / len(rows)
    return bool(excess > _MOST_ERRORS * sum(row["alone"]["map_error"] for row in rows) / len(rows))


def _as_row(figures: TrialFigures) -> dict[str, float]:
    return {name: round(value, 6) for name, value in figures._asdict().items()}
