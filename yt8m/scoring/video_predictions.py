"""Predictions of a trained model for video files: names and scores, a CSV file, or scores over time."""

from __future__ import annotations

import contextlib
import csv
import functools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import scoring, storage, terminal
from yt8m.records import span_rules
from yt8m.records.film_windows import FilmWindows, Part, best_scores, find_cuts, windows_for
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.thresholds import Tagger
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import timeline_page
from yt8m.reports.timeline_page import Timeline
from yt8m.scoring import Scorer, video_features
from yt8m.scoring.model_input import ModelInput
from yt8m.scoring.predict_config import PredictConfig, describe_classes, few_positives, show_classes, tagger_for
from yt8m.scoring.scorer import ScoredClasses, best_classes, tags
from yt8m.scoring.video_features import Features, VideoFeatures

_PARTS_AT_ONCE = 64  # parts of a video that the model scores in a step


class VideoScores(NamedTuple):
    """The scores of a video, or the reason why it has none.

    Attributes:
      scores: float32 [C]; empty if the video is bad.
      seconds: length of the scored part of the video, which has at most 100,000 frames.
      window_seconds: length of the windows of a film, of which `scores` has the best one for each class; 0 for a video
        that was scored as a whole.
      bad: why the video has no scores; empty if it has scores.
      over_time: the scores of each part of the video; None unless the caller of `predict` asks for them.
    """

    path: str
    scores: NDArray[np.float32]
    seconds: float = 0.0
    bad: str = ""
    notes: tuple[str, ...] = ()
    window_seconds: float = 0.0
    is_film: bool = False
    over_time: Timeline | None = None

    def way(self) -> str:
        """How a film was scored, for the line about it; empty for other videos."""
        if self.window_seconds:
            return f" in windows of {self.window_seconds:g} seconds"
        return " as a whole" if self.is_film else ""


def predict(
    scorer: Scorer, source: VideoFeatures, paths: Sequence[str], seconds: float = 0, tags_of: str = ""
) -> Iterator[VideoScores]:
    """Yields the prediction for each video.

    A film, which is longer than the videos of the training, is scored in windows; see `film_windows`. A video that is
    scored as a whole, but has more frames than `source.max_frames`, the largest number in a record of the training, is
    scored in parts of that number of frames, without overlap. Its scores are the means of those of the parts, weighted
    by their numbers of frames.

    Args:
      seconds: length of the parts in `VideoScores.over_time`; 0 if `over_time` is to be None.
    """
    film_windows = windows_for(scorer.takes.format, scorer.takes.folder, tags_of)
    for path, features in source.extract_features(paths):
        yield score_video(scorer, source, path, features, film_windows, seconds)


def score_video(
    scorer: Scorer,
    source: VideoFeatures,
    path: str,
    features: Features,
    film_windows: FilmWindows | None,
    seconds: float = 0,
) -> VideoScores:
    """The prediction for one video, from its features; see `predict`."""
    if features.bad:
        return VideoScores(path, np.zeros(0, np.float32), bad=features.bad)
    score = functools.partial(compute_windows, scorer.scores, scorer.takes, source, features.arrays)
    count = len(features.arrays[0])
    longest = scorer.takes.format.video_frames[1] if scorer.takes.format.video_frames else count
    window_seconds = 0.0
    if film_windows is not None and film_windows.are_for(count):
        window_seconds = film_windows.size / source.per_second
        scores = best_scores(score, film_windows.parts(count, find_cuts(features.arrays)))
    else:
        windows = divide_frames(count, source.max_frames)
        scores = np.average(score(windows), axis=0, weights=[last - first for first, last in windows])
    over_time = None
    if seconds:
        timeline_windows = _join_short_end(divide_frames(count, max(1, round(seconds * source.per_second))))
        starts = [first / source.per_second for first, _ in timeline_windows]
        over_time = Timeline(starts, count / source.per_second, score(timeline_windows))
    scored_seconds = min(features.seconds, count / source.per_second)
    return VideoScores(
        *(path, scores.astype(np.float32), scored_seconds),
        notes=features.notes,
        window_seconds=window_seconds,
        is_film=count > longest,
        over_time=over_time,
    )


def divide_frames(count: int, size: int) -> list[Part]:
    """Divides `count` frames into parts of `size` frames; the last one may be shorter."""
    return [(first, min(first + size, count)) for first in range(0, count, size)]


def _join_short_end(windows: list[Part]) -> list[Part]:
    """Joins the last part to the one before it, if the last one has less than half as many frames as the others."""
    if len(windows) > 1 and 2 * (windows[-1][1] - windows[-1][0]) < windows[0][1]:
        return [*windows[:-2], (windows[-2][0], windows[-1][1])]
    return windows


def compute_windows(
    compute: Callable[[NumpyBatch], tuple[Any, NDArray[np.float32]]],
    takes: ModelInput,
    source: VideoFeatures,
    arrays: Sequence[NDArray[np.float32]],
    windows: Sequence[Part],
) -> NDArray[np.float32]:
    """Scores parts of a video, a few at a time, or computes another vector of each; returns float32 [parts, size].

    Args:
      compute: a method of a scorer, such as `scores` or `hidden`.
      arrays: the features of the video, float32 [T, size] for each extractor.
    """
    batches = (windows[first : first + _PARTS_AT_ONCE] for first in range(0, len(windows), _PARTS_AT_ONCE))
    return np.concatenate([compute(source.batch(takes, arrays, batch))[1] for batch in batches])


@contextlib.contextmanager
def opened(config: PredictConfig, flags: Mapping[str, Any]) -> Iterator[tuple[Scorer, VideoFeatures]]:
    """Opens the model that a config names, and the extractors of its features; `flags` as for `run`."""
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats"
    ) as scorer:
        features = video_features.for_model(
            *(scorer.takes, flags, config.extractors),
            trust_code=config.trust_code,
            max_bad_packets=config.max_bad_packets,
        )
        with features as source:
            yield scorer, source


def run(config: PredictConfig, flags: Mapping[str, Any], ids: Mapping[str, str]) -> int:
    """Prints the classes of videos, or writes them to a CSV file; returns the exit status: 1 if a video is bad, else 0.

    With --timeline it also writes a page with the scores over time for each video.

    Args:
      config: the flags of `yt8m predict`.
      flags: {name: value} of settings of the extractors and of paths of their weights.
      ids: {path: id} of the videos.

    Raises:
      UsageError: the model does not fit, or its extractors cannot be used.
      RunError: weights cannot be fetched, or a file cannot be written.
    """
    status, lines, json_rows = 0, list[tuple[Any, ...]](), list[dict[str, Any]]()
    with opened(config, flags) as (scorer, source):
        tagger = tagger_for(config, scorer)
        shown = _Shown(config, scorer.shown_names, tagger, ids, _tagger_of_parts(config, scorer, tagger))
        part_seconds = timeline_page.SECONDS if config.timeline else 0
        predictions = predict(scorer, source, list(ids), part_seconds, config.tags_of)
        for prediction in terminal.with_bar(predictions, "predicting") if config.csv else predictions:
            if prediction.bad:
                status = 1
                print(f"{prediction.path}: {prediction.bad}", file=sys.stderr)
                json_rows.append({**shown.facts(prediction), "bad": prediction.bad})
                continue
            json_rows.append(shown.as_json(prediction))
            lines += shown.lines(prediction)
            if not config.csv:
                shown.print_classes(prediction)
            if prediction.over_time is not None:
                shown.write_timeline(prediction, prediction.over_time)
    terminal.print_json(json_rows)
    if config.csv:
        _write_csv(config.csv, lines)
        shown.print_few_positives({line[1] for line in lines})
    return status


class _Shown(NamedTuple):
    """What is shown of videos.

    Attributes:
      tagger: the thresholds; None if no tags are shown.
      ids: {path: id} of the videos.
      tagger_of_parts: the thresholds for the parts of a timeline.
    """

    config: PredictConfig
    names: Vocabulary
    tagger: Tagger | None
    ids: Mapping[str, str]
    tagger_of_parts: Tagger | None

    def facts(self, prediction: VideoScores) -> dict[str, Any]:
        """What --json prints of every video, also of a bad one."""
        return {"id": self.ids[prediction.path], "path": prediction.path}

    def classes(self, prediction: VideoScores) -> ScoredClasses:
        """The tags of a video with --tags; else its best classes."""
        if self.config.tags and self.tagger:
            return tags(prediction.scores, self.tagger)
        return best_classes(prediction.scores, self.config.top_k)

    def lines(self, prediction: VideoScores) -> list[tuple[Any, ...]]:
        """The rows of a video in the CSV file."""
        path, length = prediction.path, f"{prediction.seconds:.1f}"
        return [
            (path, index, self.names.name(index), f"{score:.6f}", length, self.ids[path])
            for index, score in self.classes(prediction)
        ]

    def print_classes(self, prediction: VideoScores) -> None:
        """Prints how a video was scored, and its classes."""
        notes = "".join(f"; {note}" for note in prediction.notes)
        print(f"{self.ids[prediction.path]}: {prediction.seconds:.1f} seconds scored{prediction.way()}{notes}")
        scored, tagger = self.classes(prediction), self.tagger if self.config.tags else None
        rows = [(f"{score:.3f}", self.names.name(index), str(index)) for index, score in scored]
        show_classes(rows, [few_positives(tagger, index) for index, _ in scored])

    def as_json(self, prediction: VideoScores) -> dict[str, Any]:
        """What --json prints of a video."""
        classes = describe_classes(self.classes(prediction), self.names, self.tagger if self.config.tags else None)
        facts = {"seconds": prediction.seconds, "window_seconds": prediction.window_seconds, "notes": prediction.notes}
        return {**self.facts(prediction), **facts, "classes": classes}

    def write_timeline(self, prediction: VideoScores, over_time: Timeline) -> None:
        """Writes the page of --timeline."""
        path = timeline_page.path_for(prediction.path)
        shown: dict[str, int | None] = {}
        if self.tagger:
            for index, _ in tags(prediction.scores, self.tagger):
                shown[self.names.name(index)] = self.tagger.few_positives(index)
        timeline_page.write(path, prediction.path, over_time, self.names, shown, self.tagger_of_parts)
        print(f"the timeline is in {path}")

    def print_few_positives(self, classes: Collection[int]) -> None:
        """Prints which of these tags have a threshold that comes from few videos."""
        for index in sorted(classes) if self.config.tags else ():
            if note := few_positives(self.tagger, index):
                print(f"{self.names.name(index)}: {note}")


def _tagger_of_parts(config: PredictConfig, scorer: Scorer, tagger: Tagger | None) -> Tagger | None:
    """The thresholds for the parts of a timeline: those that join cells of this length to spans, if they were chosen.

    A part has more extreme scores than the whole video, so the thresholds of videos would mark too much.
    """
    text, path = scorer.span_rule() if config.timeline and not config.thresholds else ("", "")
    if not text or (tagger is not None and tagger.takes_best):
        return tagger
    rule = span_rules.parse(text, path)
    is_of_parts = rule.step in (0, scorer.step) and not rule.is_usual and len(rule.thresholds) == scorer.num_classes
    if not is_of_parts or rule.segment_size != timeline_page.SECONDS * rule.frames_per_second:
        return tagger
    return Tagger(np.array(rule.thresholds), rule.step)


def _write_csv(path: str, lines: Sequence[tuple[Any, ...]]) -> None:
    with storage.write_atomic(path, "w") as file:
        csv.writer(file, lineterminator="\n").writerows([("path", "index", "name", "score", "seconds", "id"), *lines])
    print(f"the scores are in {path}")
