"""Finds spans in videos of every form: records, batches, arrays by name, and video files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from yt8m.errors import RunError
from yt8m.records.batches import Records
from yt8m.records.opened_data import OpenedData, open_data
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.span_files import FoundSpan, VideoSpans
from yt8m.scoring.film_spans import Joining, frames_of_batch, frames_of_records, refuse_other_rate, score_cells
from yt8m.scoring.model_input import Data, batches_of, refuse_nan_in
from yt8m.scoring.scorer import Scorer
from yt8m.scoring.video_features import Features, VideoFeatures

COLUMNS = ("video", "start", "end", "class", "index", "score")  # of `as_rows`


def in_data(scorer: Scorer, joining: Joining, data: Data) -> Iterator[VideoSpans]:
    """Yields the spans of each video in records, batches or arrays."""
    if isinstance(data, str | os.PathLike):
        data = open_data(os.fspath(data))
    if isinstance(data, OpenedData):
        frames = ((name, values) for name, values, _ in frames_of_records(scorer, data, joining))
    else:
        if isinstance(data, Records):
            refuse_other_rate(data.data, joining)
        batches = data if isinstance(data, Records) else batches_of(scorer.takes.by_name(data))
        frames = (pair for batch in batches for pair in frames_of_batch(scorer, _checked(batch)))
    for name, values in frames:
        seconds = len(values) / joining.per_second
        spans = joining.spans(score_cells(scorer, values, joining), seconds)
        yield VideoSpans(name, seconds, spans, per_second=joining.per_second)


def _checked(batch: NumpyBatch) -> NumpyBatch:
    refuse_nan_in(batch)
    return batch


def in_videos(scorer: Scorer, joining: Joining, source: VideoFeatures, paths: Sequence[str]) -> Iterator[VideoSpans]:
    """Yields the spans of each video file; refuses one that cannot be decoded."""
    for path, features in source.extract_features(paths):
        if features.bad:
            raise RunError(f"{path}: {features.bad}.")
        yield of_features(scorer, joining, source, path, features)


def of_features(scorer: Scorer, joining: Joining, source: VideoFeatures, path: str, features: Features) -> VideoSpans:
    """The spans of a video file, from its features."""
    frames = source.joined(scorer.takes, features.arrays)
    seconds = len(frames) / source.per_second
    spans = joining.spans(score_cells(scorer, frames, joining), seconds)
    return VideoSpans(path, seconds, spans, per_second=source.per_second)


def as_rows(videos: Iterator[VideoSpans], name_of: Any) -> Iterator[dict[str, Any]]:
    """Yields a row for each span: video, start and end in seconds, class (its name), index, score."""
    for video in videos:
        for span in video.spans:
            yield {"video": video.video, **row_of(span, name_of)}


def row_of(span: FoundSpan, name_of: Any) -> dict[str, Any]:
    """A span as a row; `name_of` gives the name of the class with a number."""
    return {
        "start": span.start,
        "end": span.end,
        "class": name_of(span.number),
        "index": span.number,
        "score": span.score,
    }
