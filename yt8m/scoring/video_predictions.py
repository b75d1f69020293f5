"""Predictions of a trained model for video files: names and scores, a CSV file, or scores over time."""

from __future__ import annotations

import contextlib
import csv
import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import scoring, storage, terminal
from yt8m.reports import timeline_page
from yt8m.reports.timeline_page import Timeline
from yt8m.scoring import Scorer, video_features
from yt8m.scoring.predict_config import PredictConfig, show_classes, tagger_for
from yt8m.scoring.scorer import best_classes, tags
from yt8m.scoring.video_features import Part, VideoFeatures

_PARTS_AT_ONCE = 64  # parts of a video that the model scores in a step


class VideoScores(NamedTuple):
    """The scores of a video, or the reason why it has none.

    Attributes:
      path: the video.
      scores: float32 [C]; empty if the video is bad.
      seconds: length of the scored part of the video, which has at most 100,000 frames.
      bad: why the video has no scores; empty if it has scores.
      notes: texts that say what is unusual about the video.
      over_time: the scores of each part of the video; None unless the caller of `predict` asks for them.
    """

    path: str
    scores: NDArray[np.float32]
    seconds: float = 0.0
    bad: str = ""
    notes: tuple[str, ...] = ()
    over_time: Timeline | None = None


def predict(scorer: Scorer, source: VideoFeatures, paths: Sequence[str], seconds: float = 0) -> Iterator[VideoScores]:
    """Yields the prediction for each video.

    A video with more frames than `source.max_frames`, the largest number in a record of the training, is scored in
    windows of that number of frames, without overlap. The scores of the video are the means of the windows' scores,
    weighted by the numbers of frames in the windows.

    Args:
      scorer: the model.
      source: the extraction for this model.
      paths: the videos.
      seconds: length of the parts in `VideoScores.over_time`; 0 if `over_time` is to be None.

    Raises:
      UsageError, RunError: for the reasons of `Scorer.scores`, such as scores that are NaN.
    """
    for path, features in source.extract_features(paths):
        if features.bad:
            yield VideoScores(path, np.zeros(0, np.float32), bad=features.bad)
            continue
        score, count = functools.partial(_score_windows, scorer, source, features.arrays), len(features.arrays[0])
        windows = _divide_frames(count, source.max_frames)
        scores = np.average(score(windows), axis=0, weights=[last - first for first, last in windows])
        over_time = None
        if seconds:
            timeline_windows = _join_short_end(_divide_frames(count, max(1, round(seconds * source.per_second))))
            starts = [first / source.per_second for first, _ in timeline_windows]
            over_time = Timeline(starts, count / source.per_second, score(timeline_windows))
        scored_seconds = min(features.seconds, count / source.per_second)
        yield VideoScores(path, scores.astype(np.float32), scored_seconds, notes=features.notes, over_time=over_time)


def _divide_frames(count: int, size: int) -> list[Part]:
    """Divides `count` frames into parts of `size` frames; the last one may be shorter."""
    return [(first, min(first + size, count)) for first in range(0, count, size)]


def _join_short_end(windows: list[Part]) -> list[Part]:
    """Joins the last part to the one before it, if the last one has less than half as many frames as the others."""
    if len(windows) > 1 and 2 * (windows[-1][1] - windows[-1][0]) < windows[0][1]:
        return [*windows[:-2], (windows[-2][0], windows[-1][1])]
    return windows


def _score_windows(
    scorer: Scorer, source: VideoFeatures, arrays: Sequence[NDArray[np.float32]], windows: Sequence[Part]
) -> NDArray[np.float32]:
    """Scores parts of a video; returns float32 [parts, C].

    Args:
      scorer: the model.
      source: the extraction for this model.
      arrays: the features of the video, float32 [T, size] for each extractor.
      windows: the parts.
    """
    batches = (windows[first : first + _PARTS_AT_ONCE] for first in range(0, len(windows), _PARTS_AT_ONCE))
    return np.concatenate([scorer.scores(source.batch(scorer.takes, arrays, batch))[1] for batch in batches])


def run(config: PredictConfig, flags: Mapping[str, Any], paths: Sequence[str]) -> int:
    """Prints the classes of videos, or writes them to a CSV file; returns the exit status: 1 if a video is bad, else 0.

    With --timeline it also writes a page with the scores over time for each video.

    Args:
      config: the flags of `yt8m predict`.
      flags: {name: value} of settings of the extractors and of paths of their weights.
      paths: the video files.

    Raises:
      UsageError: the model does not fit, or its extractors cannot be used.
      RunError: weights cannot be fetched, or a file cannot be written.
    """
    status = 0
    with contextlib.ExitStack() as stack:
        scorer = stack.enter_context(
            scoring.open(config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats")
        )
        source = stack.enter_context(
            video_features.for_model(
                scorer.takes,
                flags,
                config.extractors,
                trust_code=config.trust_code,
                max_bad_packets=config.max_bad_packets,
            )
        )
        tagger = tagger_for(config, scorer)
        predictions = predict(scorer, source, paths, timeline_page.SECONDS if config.timeline else 0)
        lines = []
        for prediction in terminal.with_bar(predictions, "predicting") if config.csv else predictions:
            if prediction.bad:
                status = 1
                print(f"{prediction.path}: {prediction.bad}", file=sys.stderr)
                continue
            rows = (
                tags(prediction.scores, tagger)
                if config.tags and tagger
                else best_classes(prediction.scores, config.top_k)
            )
            length, names = f"{prediction.seconds:.1f}", scorer.shown_names
            lines += [(prediction.path, index, names.name(index), f"{score:.6f}", length) for index, score in rows]
            if not config.csv:
                notes = "".join(f"; {note}" for note in prediction.notes)
                print(f"{prediction.path}: {length} seconds scored{notes}")
                show_classes([(f"{score:.3f}", names.name(index), str(index)) for index, score in rows])
            if prediction.over_time is not None:
                path = timeline_page.path_for(prediction.path)
                tag_names = [names.name(index) for index, _ in tags(prediction.scores, tagger)] if tagger else []
                timeline_page.write(path, prediction.path, prediction.over_time, names, tag_names)
                print(f"the timeline is in {path}")
    if config.csv:
        _write_csv(config.csv, lines)
    return status


def _write_csv(path: str, lines: Sequence[tuple[Any, ...]]) -> None:
    with storage.write_atomic(path, "w") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "index", "name", "score", "seconds"), *lines])
    print(f"the scores are in {path}")
