"""`yt8m predict --spans=FILE`: the spans that a model finds in videos or records, as a table or for other programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from yt8m import scoring, terminal
from yt8m.errors import UsageError
from yt8m.records.opened_data import OpenedData
from yt8m.records.span_files import SpanFile, VideoSpans
from yt8m.records.vocabulary import Vocabulary
from yt8m.scoring import array_predictions, span_finder, video_predictions
from yt8m.scoring.film_spans import Joining, joining_for
from yt8m.scoring.predict_config import PredictConfig
from yt8m.scoring.scorer import Scorer
from yt8m.scoring.video_features import VideoFeatures


def write_for_records(config: PredictConfig, data: OpenedData) -> int:
    """Writes the spans of all videos in records; returns the exit status, 0."""
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats"
    ) as scorer:
        joining = joining_for(scorer, config.spans_from)
        _write(config, span_finder.in_data(scorer, joining, data), scorer.names_for(data))
    return 0


def write_for_arrays(config: PredictConfig, path: str) -> int:
    """Writes the spans of the videos in a .npy or .npz file of frames, which count as those of the model; returns 0."""
    with scoring.open(
        config.train_dir, config.checkpoint, trust_code=config.trust_code, first_input="floats"
    ) as scorer:
        joining = joining_for(scorer, config.spans_from)
        logging.info("%s says no rate: its frames count as %g per second, as the model's", path, joining.per_second)
        batches = list(array_predictions.read(path, scorer))
        _write(config, span_finder.in_data(scorer, joining, batches), scorer.shown_names)
    return 0


def write_for_videos(config: PredictConfig, flags: Mapping[str, Any], ids: Mapping[str, str]) -> int:
    """Writes the spans of video files; returns the exit status, 1 if a video is bad. `flags` as for `predict`.

    Args:
      ids: {path: id} of the videos.
    """
    bad: list[str] = []
    with video_predictions.opened(config, flags) as (scorer, source):
        joining = joining_for(scorer, config.spans_from, source.per_second)
        _write(config, _of_videos(scorer, source, ids, joining, bad), scorer.shown_names)
    return 1 if bad else 0


def _of_videos(
    scorer: Scorer, source: VideoFeatures, ids: Mapping[str, str], joining: Joining, bad: list[str]
) -> Iterator[VideoSpans]:
    """Yields the spans of each video; those that cannot be read are said, and added to `bad`."""
    for path, features in source.extract_features(list(ids)):
        if features.bad:
            bad.append(path)
            print(f"{path}: {features.bad}", file=sys.stderr)
            continue
        yield span_finder.of_features(scorer, joining, source, ids[path], features)


def _write(config: PredictConfig, videos: Iterator[VideoSpans], names: Vocabulary) -> None:
    """Writes the file of --spans, whole or not at all."""
    _file_of(config).write(list(terminal.with_bar(videos, "predicting")), names)


def _file_of(config: PredictConfig) -> SpanFile:
    return SpanFile(config.spans, config.spans_format, config.frame_rate)


def check(config: PredictConfig) -> None:
    """Refuses other outputs beside spans."""
    others = {"--out": config.csv, "--tags": config.tags, "--timeline": config.timeline, "--features": config.features}
    others["--video_id"] = config.video_id
    others |= {"--count": config.count != PredictConfig.count, "--top_k": config.top_k != PredictConfig.top_k}
    if flags := [flag for flag, value in others.items() if value]:
        raise UsageError(f"--spans writes a file of spans alone: leave out {' and '.join(flags)}.")
    _file_of(config).check()
