"""`yt8m predict --spans=FILE`: the spans that a model finds in videos or records, as a table or for other programs."""

from __future__ import annotations

import csv
import functools
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import scoring, storage, terminal
from yt8m.errors import UsageError
from yt8m.records.opened_data import OpenedData
from yt8m.records.vocabulary import Vocabulary
from yt8m.scoring import film_spans, video_predictions
from yt8m.scoring.film_spans import FoundSpan, Joining, cells_of, joining_for, score_cells
from yt8m.scoring.predict_config import PredictConfig
from yt8m.scoring.scorer import Scorer
from yt8m.scoring.video_features import VideoFeatures


class VideoSpans(NamedTuple):
    """The spans of a video."""

    video: str
    seconds: float
    spans: Sequence[FoundSpan]


def write_for_records(config: PredictConfig, data: OpenedData) -> int:
    """Writes the spans of all videos in records; returns the exit status, 0."""
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats"
    ) as scorer:
        joining = joining_for(scorer, config.spans_from)
        _write(config, _of_records(scorer, data, joining), scorer.names_for(data))
    return 0


def _of_records(scorer: Scorer, data: OpenedData, joining: Joining) -> Iterator[VideoSpans]:
    for name, frames, _ in film_spans.frames_of_records(scorer, data):
        seconds = len(frames) / joining.per_second
        yield VideoSpans(name, seconds, joining.spans(score_cells(scorer, frames, joining.frames), seconds))


def write_for_videos(config: PredictConfig, flags: Mapping[str, Any], paths: Sequence[str]) -> int:
    """Writes the spans of video files; returns the exit status, 1 if a video is bad. `flags` as for `predict`."""
    bad: list[str] = []
    with video_predictions.opened(config, flags) as (scorer, source):
        joining = joining_for(scorer, config.spans_from)
        _write(config, _of_videos(scorer, source, paths, joining, bad), scorer.shown_names)
    return 1 if bad else 0


def _of_videos(
    scorer: Scorer, source: VideoFeatures, paths: Sequence[str], joining: Joining, bad: list[str]
) -> Iterator[VideoSpans]:
    """Yields the spans of each video; those that cannot be read are said, and added to `bad`."""
    for path, features in source.extract_features(paths):
        if features.bad:
            bad.append(path)
            print(f"{path}: {features.bad}", file=sys.stderr)
            continue
        count = len(features.arrays[0])
        score = functools.partial(
            video_predictions.compute_windows, scorer.scores, scorer.takes, source, features.arrays
        )
        seconds = count / source.per_second
        yield VideoSpans(path, seconds, joining.spans(score(cells_of(count, joining.frames)), seconds))


def _write(config: PredictConfig, videos: Iterator[VideoSpans], names: Vocabulary) -> None:
    """Writes the file of --spans, whole or not at all."""
    label_studio = functools.partial(_label_studio, frame_rate=config.frame_rate)
    writers: dict[str, Callable[[Sequence[VideoSpans], Vocabulary], str]]
    writers = {"csv": _csv, "label-studio": label_studio, "activitynet": _activitynet}
    counted = list(terminal.with_bar(videos, "predicting"))
    storage.write(config.spans, writers[config.spans_format](counted, names))
    print(f"{sum(len(video.spans) for video in counted)} spans of {len(counted)} videos are in {config.spans}")


def _csv(videos: Sequence[VideoSpans], names: Vocabulary) -> str:
    """A row for each span; a video without a span has a row of its own, as make-records reads it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("video", "start", "end", "class", "score"))
    for video in videos:
        for span in video.spans:
            times = f"{span.start:.3f}", f"{span.end:.3f}"
            writer.writerow((video.video, *times, names.name(span.number), f"{span.score:.6f}"))
        if not video.spans:
            writer.writerow((video.video, "", "", "", ""))
    return text.getvalue()


def _label_studio(videos: Sequence[VideoSpans], names: Vocabulary, frame_rate: float) -> str:
    """Tasks with pre-annotations of TimelineLabels, whose frames count from 1."""
    tasks = []
    for video in videos:
        results = [
            {
                "id": f"span{number}",
                "from_name": "timeline",
                "to_name": "video",
                "type": "timelinelabels",
                "score": round(span.score, 6),
                "value": {
                    "ranges": [
                        {"start": round(span.start * frame_rate) + 1, "end": math.ceil(span.end * frame_rate - 1e-6)}
                    ],
                    "timelinelabels": [names.name(span.number)],
                },
            }
            for number, span in enumerate(video.spans)
        ]
        score = float(np.mean([span.score for span in video.spans])) if video.spans else 0.0
        answer = {"score": round(score, 6), "result": results}
        tasks.append(dict(data={"video": video.video}, predictions=[answer]))
    return json.dumps(tasks, indent=1, ensure_ascii=False) + "\n"


def _activitynet(videos: Sequence[VideoSpans], names: Vocabulary) -> str:
    """The results that ActivityNet's evaluation reads."""
    results = {
        video.video: [
            {
                "label": names.name(span.number),
                "score": round(span.score, 6),
                "segment": [round(span.start, 3), round(span.end, 3)],
            }
            for span in video.spans
        ]
        for video in videos
    }
    content = {"version": "VERSION 1.3", "results": results, "external_data": {}}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def check(config: PredictConfig) -> None:
    """Refuses other outputs beside spans."""
    others = {"--out": config.csv, "--tags": config.tags, "--timeline": config.timeline, "--features": config.features}
    if flags := [flag for flag, value in others.items() if value]:
        raise UsageError(f"--spans writes a file of spans alone: leave out {' and '.join(flags)}.")
    if config.spans_format == "csv" and not config.spans.lower().endswith(".csv"):
        raise UsageError(f"--spans={config.spans}: expected a name that ends in .csv, or --spans_format.")
