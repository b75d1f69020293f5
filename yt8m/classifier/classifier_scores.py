"""Scores videos with the model of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from yt8m.classifier.given_videos import GivenVideos, paths_of, videos_of
from yt8m.classifier.run_folder import RunFolder
from yt8m.eval_util.arrays import Floats64
from yt8m.python_api.data_errors import DataError
from yt8m.python_api.labelled_arrays import with_labels
from yt8m.records.shards import SEGMENT_SIZE
from yt8m.records.span_files import FoundSpan
from yt8m.scoring import span_finder
from yt8m.scoring.film_spans import Joining
from yt8m.scoring.label_joining import RULE
from yt8m.scoring.scorer import Scorer
from yt8m.scoring.table_input import column_difference

if TYPE_CHECKING:
    from yt8m.classifier.classifier_training import FittedInput
    from yt8m.python_api.results import EvaluationReport


def scores(run: RunFolder, takes: FittedInput, X: Any, name: str) -> NDArray[np.float32]:
    """The scores of videos, float32 [N, C].

    Args:
      X: as for `Classifier.predict_proba`.
      name: of the class of the classifier, for messages.
    """
    paths = paths_of(X)
    if paths is not None:
        _refuse_paths(takes, name)
        from yt8m.classifier import video_files  # few have videos

        return video_files.scores(run.model, paths, takes.extractor_settings or {})
    videos = videos_of(X, tuple(takes.sizes))
    _refuse_other_features(videos, takes, name)
    return scores_of_videos(run.model._scorer, videos)


def report(run: RunFolder, takes: FittedInput, X: Any, name: str, labels: NDArray[np.bool_]) -> EvaluationReport:
    """The figures on videos with these labels, bool [N, C]; the other arguments are those of `scores`."""
    if paths_of(X) is not None:
        raise DataError(
            "evaluate takes no paths of videos: give their features, or make records by `yt8m extract`, which "
            "yt8m.evaluate takes."
        )
    videos = videos_of(X, tuple(takes.sizes))
    _refuse_other_features(videos, takes, name)
    if len(videos) != len(labels):
        raise DataError(f"X has {len(videos)} videos, but y has {len(labels)}: give the labels of each.")
    batches = with_labels([batch for batch, _ in videos.batches()], labels, range(labels.shape[1]))
    return run.model.evaluate(batches, intervals=True)


def spans(run: RunFolder, takes: FittedInput, X: Any, name: str, thresholds: Floats64) -> list[Sequence[FoundSpan]]:
    """The spans of each video; the other arguments are those of `scores`."""
    scorer = run.model._scorer
    joining = Joining(SEGMENT_SIZE, 1.0, thresholds, RULE)
    paths = paths_of(X)
    if paths is not None:
        _refuse_paths(takes, name)
        from yt8m.classifier import video_files  # few have videos

        return video_files.spans(run.model, paths, takes.extractor_settings or {}, joining)
    videos = videos_of(X, tuple(takes.sizes))
    if not videos.has_frames:
        raise DataError("X is of whole videos, which have no times: give for each video an array [frames, values].")
    _refuse_other_features(videos, takes, name)
    batches = (batch for batch, _ in videos.batches())
    return [video.spans for video in span_finder.in_data(scorer, joining, batches)]


def scores_of_videos(scorer: Scorer, videos: GivenVideos) -> NDArray[np.float32]:
    """The scores of videos, float32 [N, C]; those of a video do not depend on the other videos."""
    return np.concatenate([scorer.scores(scorer.takes.arranged(batch), rows)[1] for batch, rows in videos.batches()])


def _refuse_paths(takes: FittedInput, name: str) -> None:
    if takes.extractor_settings is None:
        raise DataError(f"X has paths of videos, but this {name} was trained on arrays: give arrays.")


def _refuse_other_features(videos: GivenVideos, takes: FittedInput, name: str) -> None:
    """Refuses videos that do not have the features of the training."""
    if takes.columns is not None and videos.columns is not None and takes.columns != videos.columns:
        raise DataError(column_difference(videos.columns, takes.columns))
    if videos.has_frames != takes.has_frames:
        kinds = ("whole videos, [videos, values]", "frames, [videos, frames, values]")
        raise DataError(f"X is of {kinds[videos.has_frames]}, but {name} was trained on {kinds[takes.has_frames]}.")
    sizes = videos.sizes()
    if sizes == takes.sizes:
        return
    if list(sizes) == list(takes.sizes) and len(sizes) == 1:
        size, expected_size = (next(iter(each.values())) for each in (sizes, takes.sizes))
        raise DataError(f"X has {size} features, but {name} is expecting {expected_size} features as input.")
    arrays = ", ".join(f"{feature!r}: array" for feature in takes.sizes)
    raise DataError(
        f"X has the features {dict(sizes)}, but {name} is expecting {dict(takes.sizes)} (names and numbers of values): "
        f"give {f'an array, or {{{arrays}}}' if len(takes.sizes) == 1 else f'{{{arrays}}}'}."
    )


def mean_average_precision(
    predictions: NDArray[np.float32], labels: NDArray[np.bool_], weights: NDArray[np.float64] | None
) -> float:
    """The mean over the classes with a label of the average precision, in which tied scores rank together.

    Args:
      predictions: float32 [N, C].
      labels: bool [N, C].
      weights: [N], how much each video counts; None for 1.
    """
    counts = np.ones(len(labels)) if weights is None else weights
    precisions = [
        _average_precision(predictions[:, index], labels[:, index], counts)
        for index in range(labels.shape[1])
        if (counts[labels[:, index]] > 0).any()
    ]
    return float(np.mean(precisions)) if precisions else 0.0


def _average_precision(scores: NDArray[np.float32], hits: NDArray[np.bool_], counts: NDArray[np.float64]) -> float:
    """sum of (R_n - R_n-1) P_n over the thresholds, of which each tied group of scores is one."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    hit_counts, all_counts = np.cumsum((counts * hits)[order])[ends], np.cumsum(counts[order])[ends]
    gained = np.diff(hit_counts, prepend=0.0)
    return float((gained * hit_counts / np.maximum(all_counts, 1e-300)).sum() / hit_counts[-1])
