"""Random scores and labels, and the objects in which an evaluation keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.segments import RatedPairs
from yt8m.eval_util.videos import Videos, VideoSample


def drawn(seed: int, videos: int, classes: int, coarse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Draws (scores float32 [N, C], labels bool [N, C]); a label is likelier if its score is high.

    If `coarse`, scores have one decimal, so that many of them are equal.
    """
    draw = np.random.default_rng(seed)
    scores = draw.random((videos, classes)).astype(np.float32)
    labels = draw.random((videos, classes)) < scores**4
    return (np.round(scores, 1) if coarse else scores), labels


def batch(scores: np.ndarray, labels: np.ndarray, top_k: int, first: int = 0) -> dict[str, np.ndarray]:
    """The reports of a step of an evaluation, for videos with the ids v0, v1, ... from the number `first` on."""
    classes = np.argsort(-scores, axis=1, kind="stable")
    hits = np.take_along_axis(labels, classes, axis=1)
    perr = [row[:n].sum() / n if (n := int(row.sum())) else 0.0 for row in hits]
    return {
        "video_ids": np.array([b"v%d" % number for number in range(first, first + len(scores))]),
        "scores": np.take_along_axis(scores, classes, axis=1)[:, :top_k],
        "classes": classes[:, :top_k],
        "hits": hits[:, :top_k],
        "perr": np.array(perr),
        "labels": labels,
        "label_scores": scores[labels],
        "losses": -np.log(np.where(labels, scores, 1 - scores) + 1e-5).sum(1),
        "num_frames": np.arange(first, first + len(scores)) % 7 + 1,
    }


def kept_videos(scores: np.ndarray, labels: np.ndarray, top_k: int) -> Videos:
    """All the videos, as an evaluation keeps those of its sample."""
    sample = VideoSample()
    sample.add(batch(scores, labels, top_k))
    videos = sample.videos()
    assert videos is not None
    return videos


def corrected_ap(scores: np.ndarray, hits: np.ndarray) -> float:
    """AP of one class whose precisions leave out the label itself; a score of -inf is not ranked."""
    total, precisions = int(hits.sum()), []
    for row in np.flatnonzero(hits & (scores > -np.inf)):
        ahead = (scores > scores[row]) + 0.5 * (scores == scores[row])
        ahead[row] = 0
        if not ahead.any():
            precisions.append(1.0)
        elif right := ahead[hits].sum():
            odds = total / (total - 1)
            precisions.append(odds * right / (odds * right + ahead[~hits].sum()))
    return sum(precisions) / total


def add_rated(pairs: RatedPairs, scores: npt.ArrayLike, hits: npt.ArrayLike) -> None:
    """Adds scores [B, C] and hits [B, C] to the rated pairs; a score of -inf means that the pair is not rated."""
    values, positive = np.asarray(scores, np.float32), np.asarray(hits) > 0
    rows, classes = np.nonzero(~(values == -np.inf))
    pairs.accumulate(classes, values[rows, classes], positive[rows, classes])


def by_metrics(scores: np.ndarray, labels: np.ndarray, top_k: int) -> dict[str, Any]:
    """The metrics of scores [N, C] and labels [N, C], also under the names that the bootstrap gives them."""
    metrics = EvaluationMetrics(scores.shape[1], top_k)
    metrics.accumulate(scores, labels)
    figures = metrics.get()
    return figures | {"hit_at_one": figures["avg_hit_at_one"], "perr": figures["avg_perr"]}
