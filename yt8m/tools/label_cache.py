"""Ratings as text, `videoid:start,class,score` a line, which suffices without the records."""

from __future__ import annotations

import numpy as np

from yt8m import storage
from yt8m.errors import RunError
from yt8m.record_reader import id_bytes
from yt8m.tools import segment_lists, text_lines
from yt8m.tools.ground_truth import Ratings


def write(path: str, found: Ratings) -> None:
    """Writes the cache, whole or not at all."""
    with storage.write_atomic(path) as file:
        for segment, number, score in zip(
            found.segments, found.classes.tolist(), found.scores.tolist(), strict=True
        ):
            file.write(b"%s,%d,%s\n" % (_marked(segment), number, str(score).encode()))


def read(path: str) -> Ratings:
    """Reads a cache, of this project or of the published evaluator.

    Raises:
      RunError: names the line that is none, or there is no line.
    """
    segments, classes, scores = [], [], []
    for line in text_lines.read(path):
        segment, number, score = _fields(line)
        segments.append(segment)
        classes.append(number)
        scores.append(score)
    if not segments:
        raise RunError(f"{path} holds no rating; delete it and give --eval_data_pattern to fill it again.")
    return Ratings(segments, np.array(classes, np.int64), np.array(scores, np.float64))


def _fields(line: text_lines.Line) -> tuple[bytes, int, float]:
    segment, number, score = ([*line.text.rsplit(b",", 2), b"", b""])[:3]
    video, _, start = segment.rpartition(b":")
    try:
        value = float(score)
    except ValueError:
        value = -1.0
    found = text_lines.number(number)
    if not (video and text_lines.number(start) >= 0 and found >= 0 and 0 <= value <= 1):
        line.refuse(f"{text_lines.shown(line.text)} is no rating; expected `video:start,class,score`.")
    return b"%s:%s" % (segment_lists.video_name(id_bytes(_bare(video))), start), found, value


def _bare(video: bytes) -> bytes:
    """The id without the b'' that the published evaluator writes around it under Python 3."""
    return video[2:-1] if video.startswith(b"b'") and video.endswith(b"'") else video


def _marked(segment: bytes) -> bytes:
    """`segment` with its `b` escaped if `_bare` would take a part of its id away."""
    video = segment.rpartition(b":")[0]
    return segment if _bare(video) == video else b"\\x62" + segment[1:]
