"""Reads ground truth from records without TensorFlow: labels of videos and ratings of segments.

Ratings can be cached in a text file with lines `video:start,class,score`. An evaluation that finds this file does not
read the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from yt8m import storage
from yt8m.errors import RunError
from yt8m.eval_util.arrays import Floats64, Ints64
from yt8m.records import label_check, prediction_files, shards, vocabulary
from yt8m.records.deep_check import label_problems, rating_problems
from yt8m.records.opened_data import OpenedData
from yt8m.records.prediction_files import video_name
from yt8m.records.shards import Record, id_bytes, id_text

RATING_COLUMNS = ("segment", "class", "score")  # of a file of ratings; the published one has no header
_HEADER = ",".join(RATING_COLUMNS).encode()
_CLASS_LIMIT = 1 << 31  # a rated class must be below this; the number of classes is not known when ratings are read


class VideoLabels(NamedTuple):
    """The labels of V videos.

    Attributes:
      rows: {id: row number}; the ids are written as in prediction files.
      splits: int64 [V + 1]; the labels of row r are `labels[splits[r]:splits[r + 1]]`.
      labels: int64 [number of all labels], ascending in each row.
    """

    rows: dict[str, int]
    splits: Ints64
    labels: Ints64


class Ratings(NamedTuple):
    """R rated (segment, class) pairs.

    Attributes:
      segments: `video:start` of each pair: the id as `prediction_files.video_name` writes it, and the start of the
        segment in seconds.
      classes: int64 [R].
      scores: float64 [R], from 0 (the segment does not show the class) to 1 (it does).
    """

    segments: list[bytes]
    classes: Ints64
    scores: Floats64


def read_contexts(data: OpenedData) -> Iterator[tuple[str, Record]]:
    """Yields (location, record) for each record, without its frames.

    Each `location` is a text for messages with the path of the shard and the number of the record.
    """
    for path in data.files:
        for number, (_, record) in enumerate(shards.read_contexts(path)):
            location = f"{path}: record {number}"
            if not record.id():
                raise RunError(f"{location} has no id; expected a feature id or video_id.")
            yield location, record


def class_count(num_classes: int | None, data: OpenedData) -> int:
    """The number of classes: the value of --num_classes, or that of the records, or YouTube-8M's.

    Args:
      num_classes: the value of --num_classes; None if it is not given.
    """
    return data.num_classes(num_classes) or len(vocabulary.load())


def video_labels(data: OpenedData, num_classes: int) -> VideoLabels:
    """Reads the labels of all videos from video- or frame-level records."""
    rows: dict[str, int] = {}
    labels: list[Ints64] = []
    for location, record in read_contexts(data):
        name = id_text(record.id())
        if rows.setdefault(name, len(rows)) < len(labels):
            raise RunError(f"{location}: video {name} appears twice; name shards that have each video once.")
        labels.append(_sort_labels(record.values("labels"), num_classes, f"{location}: video {name}"))
    splits = np.cumsum([0, *map(len, labels)])
    if not splits[-1]:
        problem = label_check.describe_problem(data)
        raise RunError(
            f"{data.pattern} holds no label, so there is nothing to compare predictions with"
            f"{problem and f' ({problem})'}; name shards with labels by --data."
        )
    label_check.warn(data)
    return VideoLabels(rows, splits, np.concatenate(labels))


def _sort_labels(values: shards.Values, num_classes: int, location: str) -> Ints64:
    """The labels of a video in ascending order, each once, int64 [n]."""
    if any(not isinstance(value, int) for value in values):
        raise RunError(f"{location} has the labels {str(values)[:60]}; expected whole numbers, the classes.")
    classes = np.unique(np.array(values, np.int64))
    if len(classes) and not 0 <= classes[0] <= classes[-1] < num_classes:
        raise RunError(
            f"{location} has a label outside of 0..{num_classes - 1} ({classes[0]} to {classes[-1]}); "
            "check --num_classes."
        )
    return classes


def ratings(data: OpenedData) -> Ratings:
    """Reads the ratings from segment-level records."""
    segments: list[bytes] = []
    pairs: list[tuple[float, float]] = []
    for location, record in read_contexts(data):
        starts, classes, scores = map(record.values, shards.RATING_LISTS)
        for problem in (*rating_problems(record), *label_problems(record, _CLASS_LIMIT)):
            raise RunError(f"{location}: {problem}.")
        if record.annotated_segments(1):
            raise RunError(
                f"{location}: its segments come from spans, so only positive ones are stored, and a list of ranked "
                "segments cannot be compared with them; evaluate the model by `yt8m eval --segment_labels`."
            )
        name = video_name(record.id())
        segments += [b"%s:%d" % (name, int(start)) for start in starts]
        pairs += zip(classes, scores, strict=True)
    if not segments:
        raise RunError(f"{data.pattern} holds no rated segment; name the segment-level records of a rated split.")
    table = np.array(pairs, np.float64)
    return Ratings(segments, table[:, 0].astype(np.int64), table[:, 1])


def write_ratings(path: str, ratings: Ratings) -> None:
    """Writes ratings to the text file `path`, atomically: a line `video:start,class,score` for each."""
    with storage.write_atomic(path) as file:
        for segment, number, score in zip(
            ratings.segments, ratings.classes.tolist(), ratings.scores.tolist(), strict=True
        ):
            file.write(b"%s,%d,%s\n" % (_escape_bytes_literal(segment), number, str(score).encode()))


def read_ratings(path: str) -> Ratings:
    """Reads ratings from a text file that `write_ratings` or the published evaluator wrote."""
    lines = prediction_files.read_lines(path, RATING_COLUMNS)
    rows = [_parse_rating(line) for line in lines if line.number > 1 or line.text.lower() != _HEADER]
    if not rows:
        raise RunError(f"{path} holds no rating; delete it and give --eval_data_pattern to fill it again.")
    segments, classes, scores = map(list, zip(*rows, strict=True))
    return Ratings(segments, np.array(classes, np.int64), np.array(scores, np.float64))


def _parse_rating(line: prediction_files.TextLine) -> tuple[bytes, int, float]:
    """(`video:start`, class, score) in a line `video:start,class,score`; raises `RunError` if it is not such a line."""
    text = line.text.rstrip(b",; \t")  # empty columns and semicolons, as spreadsheets write them
    separator = next((mark for mark in (b",", b";", b"\t") if mark in text), b",")
    segment, number, score = ([*text.rsplit(separator, 2), b"", b""])[:3]
    video, _, start = segment.rpartition(b":")
    try:
        value = float(score)
    except ValueError:
        value = -1.0
    class_number = prediction_files.whole_number(number)
    if not (video and prediction_files.whole_number(start) >= 0 and class_number >= 0 and 0 <= value <= 1):
        line.refuse(f"{prediction_files.shown(line.text)} is not a rating; expected `video:start,class,score`.")
    return b"%s:%s" % (prediction_files.video_name(id_bytes(_without_bytes_literal(video))), start), class_number, value


def _without_bytes_literal(video: bytes) -> bytes:
    """The id without `b'...'`, which the published evaluator writes around the id under Python 3."""
    return video[2:-1] if video.startswith(b"b'") and video.endswith(b"'") else video


def _escape_bytes_literal(segment: bytes) -> bytes:
    """Escapes the first letter of an id like `b'x'`, so that `_without_bytes_literal` does not change the id."""
    video = segment.rpartition(b":")[0]
    return segment if _without_bytes_literal(video) == video else b"\\x62" + segment[1:]
